#!/usr/bin/env python3
"""Runs the examples of the book.

    tools/book/examples.py PROGRAM            exit code 1 if an example does not do what the page says
    tools/book/examples.py PROGRAM --write    writes the shown output again

What runs, on all pages but those of decisions:

    ```console,exit=1,lines=12      The line after `$` is run in a directory with testdata/ and examples/, and has to exit with 1.
                                    At most 12 lines of its output are shown. `exact`: the shown output has to be equal.
    ```sh                           Runs nothing: each line that calls unstarve is parsed by it (`--help` is added), so that
                                    no page has an option that does not exist.

Indented blocks, and commands within a sentence, are read like `sh`.
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SECONDS = 120
FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.M | re.S)
INLINE = re.compile(r"`((?:sudo )?unstarve [a-z][^`\n]*)`")
# Words of a sentence that stand for others.
STANDS_FOR = re.compile(r"…|\[|\b(?:PART|NAME)\b")
INDENTED = re.compile(r"(?:^    .*\n)+", re.M)
# A second program, which need not be there.
NOT_PARSED = ("sql",)


def pages():
    docs = ROOT / "docs"
    return [ROOT / "README.md", *sorted(docs.glob("*.md")), *sorted(docs.glob("start/*.md")), *sorted(docs.glob("use/*.md"))]


def attributes(info):
    """`console,exit=1,exact` as {'exit': '1', 'exact': ''}; None if it is no such block."""
    name, *rest = info.split(",")
    return dict(part.partition("=")[::2] for part in rest) if name == "console" else None


def environment(program, place):
    """A directory in which examples find what they name, and `unstarve` is the program."""
    for name in ("testdata", "examples"):
        (place / name).symlink_to(ROOT / name)
    (place / "defaults.toml").write_text("version = 1\n")
    (place / ".bin").mkdir()
    (place / ".bin" / "unstarve").symlink_to(pathlib.Path(program).resolve())
    kept = {name: os.environ[name] for name in ("HOME",) if name in os.environ}
    return {**kept, "PATH": f"{place}/.bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "COLUMNS": "80"}


class Examples:
    def __init__(self, program):
        self.folder = tempfile.TemporaryDirectory(prefix="unstarve-book.")
        self.place = pathlib.Path(self.folder.name)
        self.environment = environment(program, self.place)
        self.problems, self.count, self.parsed = [], 0, set()

    def shell(self, command):
        return subprocess.run(["sh", "-c", command], cwd=self.place, env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS, text=True, errors="replace")

    def run(self, info, body, page):
        """The body of a console block as it is today."""
        wanted = attributes(info)
        first, _, shown = body.partition("\n")
        if not first.startswith("$ ") or "exit" not in wanted:
            self.problems.append(f"{page}: a console block begins with `$ command` and has `exit=N`: {first}")
            return body
        self.count += 1
        done = self.shell(first[2:])
        if done.returncode != int(wanted["exit"]):
            self.problems.append(f"{page}: exit code {done.returncode} instead of {wanted['exit']}: {first}\n{done.stdout[-2000:]}")
        # Many stored recordings have none; a page is not about that.
        lines = [line.rstrip() for line in done.stdout.splitlines() if not line.startswith("unstarve: note: no host snapshot")]
        most = int(wanted.get("lines", len(lines)))
        lines = lines[:most] + ["…"] * (len(lines) > most)
        now = "".join(f"{line}\n" for line in lines)
        if "exact" in wanted and shown != now:
            self.problems.append(f"{page}: the output of `{first[2:]}` is another (UNSTARVE_WRITE=1 writes it):\n{now}")
        return f"{first}\n{now}"

    def parse(self, line, page):
        """Whether the program takes the words of a line; a sentence may name an option without its value."""
        try:
            words = shlex.split(line, comments=True)
        except ValueError:  # of a command that has more lines
            return
        while words and (words[0] == "sudo" or re.fullmatch(r"[a-zA-Z_]+=.*", words[0])):
            words.pop(0)
        if words[:1] != ["unstarve"] or words[1:2] in [[word] for word in NOT_PARSED] or STANDS_FOR.search(line):
            return
        ends = [index for index, word in enumerate(words) if word in ("|", "||", "&&", ">", ";", "--", "<")]
        words = words[: min(ends, default=len(words))]
        if tuple(words) in self.parsed:
            return
        self.parsed.add(tuple(words))
        self.count += 1
        done = self.shell(shlex.join([*words, "--help"]))
        if done.returncode != 0 and "a value is required for" not in done.stdout:
            self.problems.append(f"{page}: the program refuses `{line.strip()}`:\n{done.stdout}")

    def page(self, path):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT)

        def block(found):
            info, body = found.groups()
            if attributes(info) is not None:
                return f"```{info}\n{self.run(info, body, name)}```"
            if info == "sh":
                for line in body.splitlines():
                    self.parse(line, name)
            return found.group()

        new = FENCE.sub(block, text)
        prose = FENCE.sub("", text)
        indented = [line for found in INDENTED.finditer(prose) for line in found.group().splitlines() if "unstarve" in line]
        for line in indented + INLINE.findall(INDENTED.sub("", prose)):
            self.parse(line, name)
        return text, new


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--write"]):
        sys.exit(__doc__)
    if not os.access(sys.argv[1], os.X_OK):
        sys.exit(f"{sys.argv[1]}: no program there")
    examples = Examples(sys.argv[1])
    for path in pages():
        text, new = examples.page(path)
        if sys.argv[2:] and new != text:
            path.write_text(new, encoding="utf-8")
    # What was written is equal now.
    problems = [problem for problem in examples.problems if not (sys.argv[2:] and "is another" in problem)]
    print(f"{examples.count} examples, {len(problems)} problems")
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
