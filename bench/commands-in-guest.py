#!/usr/bin/env python3
"""Runs the commands that `explain` prints for a scenario's fault, and those that undo them, under `sh -eu` in a guest of the lab.

    bench/commands-in-guest.py UNSTARVE SCENARIO KERNEL

The fault runs in a guest and is explained. A second guest runs the same fault, and each command of the worst finding one after the
other: what the system's own tools show of its threads and files must change, and be as before after the undo. Threads that have
other numbers or ages in the second guest must be left alone, which is shown as such. Exit code 1 if anything was not restored.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

TOOLS = "sh chrt renice taskset tail sed cut awk grep cat tac rm ls pgrep sleep mkdir tr".split()
STATE_OF_THREAD = """chrt -p {0}; taskset -p {0}; tail -n 1 /proc/{0}/stat | sed 's/.*) //' | cut -d ' ' -f 17"""
FEATURES = "cat /sys/kernel/debug/sched/features /sys/kernel/debug/sched_features"


def shown(remedy):
    """Commands that show what the remedy changes."""
    parts = []
    for target in (change["target"] for change in remedy["changes"] if isinstance(change["target"], dict)):
        thread = target.get("thread") or target.get("group-weight-of") or target.get("threads", {}).get("process")
        if thread:
            parts.append(STATE_OF_THREAD.format(thread["tid"]))
        if "file" in target:
            parts.append(f"cat '{target['file']['path']}'")
        if "feature" in target:
            parts.append(FEATURES)
    return "; ".join(dict.fromkeys(parts)) or "true"


def threads(remedy):
    """The numbers of the threads that it changes."""
    targets = (change["target"] for change in remedy["changes"] if isinstance(change["target"], dict))
    return " ".join(str(target["thread"]["tid"]) for target in targets if "thread" in target)


def script(finding):
    """Each remedy's commands, with what is seen before, between and after."""
    quoted = lambda text: "'" + text.replace("'", "'\\''") + "'"
    lines = ["mkdir -p /run", "sleep 0.3"]
    for remedy in finding["remedies"]:
        if remedy["apply"]:
            lines += [
                # The script may have the number, and the age in ticks, of a thread of the first guest.
                f'case " {threads(remedy)} " in *" $$ "*) echo "{remedy["id"]}: names the number of this script, not tried" ;; *)',
                f"state() {{ {shown(remedy)}; }}",
                "before=$(state 2>&1)",
                f"sh -euc {quoted(remedy['apply'])}; apply=$?; between=$(state 2>&1)",
                f"sh -euc {quoted(remedy['undo'])}; undo=$?; after=$(state 2>&1)",
                'changed=changed; [ "$before" != "$between" ] || changed="left alone"',
                'restored=restored; [ "$before" = "$after" ] || restored="NOT RESTORED, $before; now $after"',
                f'echo "{remedy["id"]}: exit $apply and $undo, $changed, $restored"',
                ";; esac",
            ]
    return "\n".join(lines) + "\n"


def with_commands(text, name):
    """The scenario with the script as one more load, above the others."""
    tools = ", ".join(f'"{tool}"' for tool in TOOLS)
    text = re.sub(r"(?m)^tools = \[([^\]]*?),?\s*\]", lambda found: f"tools = [{found[1]}, {tools}]", text, count=1)
    text = text.replace(f'name = "{name}"', f'name = "{name}-commands"', 1)
    return text + (
        '\n[[load]]\nname = "commands"\nwhen = "fault"\npolicy = "fifo:50"\nargv = ["sh", "/opt/commands.sh"]\n'
        '\n[[file]]\npath = "/opt/commands.sh"\nfrom = "commands.sh"\n'
    )


def main():
    unstarve, name, kernel = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        first = json.loads(subprocess.run([unstarve, "lab", "run", name, "--kernel", kernel, "--json"], check=True,
                                          stdout=subprocess.PIPE).stdout)
        findings = [finding for finding in first["report"]["findings"] if finding["severity"] != "info"]
        if not findings:
            sys.exit(f"{name} on {kernel}: no finding")
        (directory / "commands.sh").write_text(script(findings[0]))
        text = subprocess.run([unstarve, "lab", "list", name], check=True, stdout=subprocess.PIPE, text=True).stdout
        (directory / "scenario.toml").write_text(with_commands(text, name))
        out = directory / "out"
        subprocess.run([unstarve, "lab", "run", directory / "scenario.toml", "--kernel", kernel, "--out", out], check=True,
                       stdout=subprocess.DEVNULL)
        said = (out / "commands.out").read_text()
        print(f"{findings[0]['id']}, {name} on {kernel}:\n{said}{(out / 'commands.err').read_text()}", end="")
        sys.exit(1 if "NOT RESTORED" in said or not said else 0)


main()
