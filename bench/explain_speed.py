#!/usr/bin/env python3
"""How fast `unstarve explain` is, and how much memory it takes, beside the tools that read the same files.

Records `perf bench sched messaging` (hackbench) once with `perf sched record` and once, in two lengths, with
`unstarve record`; then times whole processes, from start to exit, output thrown away, in turn so that a change of the
machine's mood hits all alike. Medians; ratios are within one run of this script, so they travel better than seconds do.

    sudo bench/explain_speed.py path/to/unstarve [MILLIONS [ROUNDS]]

MILLIONS of events in the shorter trace.dat (2), the longer one has five times as many. Needs root, perf and trace-cmd.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

LIMIT = 900  # seconds for any one process


def measure(command):
    """Wall seconds, CPU seconds and peak memory in MiB of one process."""
    start = time.monotonic()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    watchdog = threading.Timer(LIMIT, child.kill)
    watchdog.start()
    # Blocks, for polling would add its own interval to processes of some tens of milliseconds.
    _, status, used = os.wait4(child.pid, 0)
    wall = time.monotonic() - start
    watchdog.cancel()
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in (0, 1):
        sys.exit(f"{command}: exit code {child.returncode}")
    return wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def in_turn(commands, rounds):
    """Each command's medians; the first round warms the page cache and is thrown away."""
    results = {name: [] for name in commands}
    for turn in range(rounds + 1):
        for name, command in commands.items():
            result = measure(command)
            if turn:
                results[name].append(result)
    return {name: [statistics.median(column) for column in zip(*rows)] for name, rows in results.items()}


def run(command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode:
        sys.exit(f"{command}: {done.stderr}")
    return done.stdout


def load(loops):
    return ["perf", "bench", "sched", "messaging", "-g", "4", "-l", str(loops)]


def events(unstarve, file):
    report = run([unstarve, "explain", "--json", "--fail-on", "never", file])
    return json.loads(report)["trace"]["events"]


def row(name, count, result, against):
    wall, cpu, memory = result
    ratio = f"{wall / against:.1f}× as fast" if against else ""
    print(f"| {name} | {count / 1e6:.2f} M | {wall:.2f} s | {count / wall / 1e6:.2f} M/s | {cpu:.2f} s | {memory:.0f} MiB | {ratio} |")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    unstarve = os.path.abspath(sys.argv[1])
    millions = float(sys.argv[2]) if len(sys.argv) > 2 else 2
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    explain = [unstarve, "explain", "--fail-on", "never"]
    with tempfile.TemporaryDirectory(prefix="unstarve-bench-") as place:
        own, longer, perf = (os.path.join(place, name) for name in ("own.dat", "longer.dat", "perf.data"))
        run([unstarve, "record", "-o", own, "--"] + load(100))
        # The load's length for so many events.
        loops = max(1, int(100 * millions * 1e6 / events(unstarve, own)))
        run([unstarve, "record", "-o", own, "--"] + load(loops))
        run(["perf", "sched", "record", "-q", "-o", perf, "--"] + load(loops))
        print("| what | events | time | rate | CPU | peak memory | explain is |")
        print("|---|---|---|---|---|---|---|")
        results = in_turn({"explain": explain + [perf], "timehist": ["perf", "sched", "timehist", "-s", "-i", perf]}, rounds)
        count = events(unstarve, perf)
        row("unstarve explain, perf.data", count, results["explain"], None)
        row("perf sched timehist -s", count, results["timehist"], results["explain"][0])
        results = in_turn({"explain": explain + [own], "report": ["trace-cmd", "report", own]}, rounds)
        count = events(unstarve, own)
        row("unstarve explain, trace.dat", count, results["explain"], None)
        row("trace-cmd report", count, results["report"], results["explain"][0])
        os.remove(perf)
        run([unstarve, "record", "-o", longer, "--"] + load(loops * 5))
        row("unstarve explain, trace.dat five times as long", events(unstarve, longer), in_turn({"": explain + [longer]}, 1)[""], None)


main()
