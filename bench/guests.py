"""Scenarios of the lab with something more in them, and their guests: what the benches of the watch have in common."""
import dataclasses
import pathlib
import re
import subprocess

KERNELS = ["5.10", "6.1", "6.12", "7"]


def listed(unstarve):
    """The names of the scenarios that come with unstarve."""
    said = subprocess.run([unstarve, "lab", "list"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [line.split()[0] for line in said.splitlines() if re.match(r"[a-z]", line)]


def scenario(unstarve, name):
    """The name and the text of a scenario: one that comes with unstarve, or a file."""
    if name.endswith(".toml"):
        return pathlib.Path(name).stem, pathlib.Path(name).read_text()
    said = subprocess.run([unstarve, "lab", "list", name], check=True, stdout=subprocess.PIPE, text=True)
    return name, said.stdout


def renamed(text, name, ending):
    """The scenario under a name of its own: its results lie beside those of the other."""
    return text.replace(f'name = "{name}"', f'name = "{name}-{ending}"', 1)


def with_tools(text, tools):
    """The scenario with these programs of the host, too; nothing is twice in its list."""
    found = re.search(r"(?m)^tools = \[([^\]]*)\]", text)
    there = re.findall(r'"([^"]*)"', found[1]) if found else []
    line = "tools = [{}]".format(", ".join(f'"{tool}"' for tool in dict.fromkeys([*there, *map(str, tools)])))
    if found:
        return text[:found.start()] + line + text[found.end():]
    return re.sub(r"(?m)^(title = .*)$", lambda title: f"{title[1]}\n{line}", text, count=1)


def loads_later(text, by_ms):
    """The scenario with all its loads this much later."""
    def later(block):
        at = re.search(r"(?m)^start_ms = (-?\d+)", block[0])
        if not at:
            return block[0].replace("[[load]]\n", f"[[load]]\nstart_ms = {by_ms}\n", 1)
        return block[0][:at.start(1)] + str(by_ms + int(at[1])) + block[0][at.end(1):]
    return re.sub(r"(?ms)^\[\[load\]\]\n.*?(?=^\[|\Z)", later, text)


def without_main(text):
    """The scenario with no main load: another one is to be."""
    return re.sub(r"(?m)^main = true\n", "", text)


@dataclasses.dataclass
class Run:
    """What is run in one guest."""
    unstarve: str
    kernel: str
    twin: str = "default"
    seconds: str | None = None
    init: str | None = None
    limit: int = 300

    def boot(self, text, directory):
        """Runs a scenario; gives the directory of its results and what was printed, or failed."""
        file, out = directory / "scenario.toml", directory / "out"
        file.write_text(text)
        command = [self.unstarve, "lab", "run", file, "--kernel", self.kernel, "--fault", self.twin, "--out", out]
        command += ["--limit", str(self.limit), "--stall", str(self.limit)]
        if self.seconds:
            command += ["--seconds", str(self.seconds)]
        if self.init:
            command += ["--init", self.init]
        return out, subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
