#!/usr/bin/env python3
"""What recording costs the recorded: unstarve record against perf sched record.

Runs `perf bench sched messaging` and `perf bench sched pipe` bare, under each recorder, in turn, several times, and
prints medians of the time they report, with their spread. Interleaved, so that a change of the machine's mood hits all
alike. Needs root, perf and a quiet machine.

    sudo bench/record_cost.py path/to/unstarve [ROUNDS]
"""
import os
import re
import statistics
import subprocess
import sys
import tempfile

LOADS = {
    "messaging": ["perf", "bench", "sched", "messaging", "-g", "4", "-l", "400"],
    "pipe": ["perf", "bench", "sched", "pipe", "-T", "-l", "100000"],
}
LIMIT = 120  # seconds for one run


def recorders(unstarve, place):
    return {
        "bare": [],
        "unstarve": [unstarve, "record", "-o", os.path.join(place, "u.dat"), "--"],
        "perf": ["perf", "sched", "record", "-o", os.path.join(place, "p.data"), "--"],
    }


def run(command):
    """The seconds that the benchmark itself reports, and everything that was printed."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT)
    text = done.stdout + done.stderr
    found = re.search(r"Total time:\s*([0-9.]+)", text)
    if done.returncode or not found:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{text}")
    return float(found[1]), text


def spread(values):
    return (max(values) - min(values)) / statistics.median(values)


def main():
    unstarve = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    with tempfile.TemporaryDirectory() as place:
        for load, command in LOADS.items():
            times = {}
            lost = 0
            for _ in range(rounds):
                for name, recorder in recorders(unstarve, place).items():
                    seconds, text = run(recorder + command)
                    times.setdefault(name, []).append(seconds)
                    if name == "unstarve" and "none lost" not in text:
                        lost += 1
            bare = statistics.median(times["bare"])
            print(f"{load}: {rounds} rounds, {lost} recordings with lost events")
            for name, values in times.items():
                median = statistics.median(values)
                cost = 100 * (median / bare - 1)
                print(f"  {name:9} {median:7.3f} s  {cost:+6.1f} %  spread {100 * spread(values):.0f} %")
            ours = statistics.median(times["unstarve"]) - bare
            theirs = statistics.median(times["perf"]) - bare
            if theirs > 0:
                print(f"  unstarve costs {ours / theirs:.2f} of what perf sched record costs")


if __name__ == "__main__":
    main()
