#!/usr/bin/env python3
"""What recording costs the recorded: unstarve record against perf sched record.

Runs `perf bench sched messaging` (hackbench), `perf bench sched pipe` (the fastest switching there is) and a thread that sleeps
for 50 us again and again, bare and under each recorder, in turn, several times. Three measures, as medians with their spread:

* time: the seconds that the benchmark itself reports. What a user feels; worth little on a busy machine.
* CPU: user and system seconds of the benchmark's processes, without the recorder's, from a wrapper around them. Most of
  it is the benchmark's own work, the rest what tracing adds to its switches. Other load disturbs it far less.
* all: the same with the recorder's own, from its start to its end: snapshots, moving pages, putting the file together.

Interleaved, so that a change of the machine's mood hits all alike. Needs root and perf.

    sudo bench/record_cost.py path/to/unstarve [ROUNDS]
"""
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile

SLEEPS = """
import time
began = time.monotonic()
for _ in range(20000): time.sleep(5e-5)
print("Total time:", time.monotonic() - began)
"""
LOADS = {
    "messaging": ["perf", "bench", "sched", "messaging", "-g", "4", "-l", "400"],
    "pipe": ["perf", "bench", "sched", "pipe", "-T", "-l", "200000"],
    # A timer for each switch: what --predictable records besides.
    "sleeps": [sys.executable, "-c", SLEEPS],
}
LIMIT = 120  # seconds for one run
WRAPPER = "--as-wrapper"


def recorders(unstarve, place):
    return {
        "bare": [],
        "unstarve": [unstarve, "record", "-o", os.path.join(place, "u.dat"), "--"],
        "predictable": [unstarve, "record", "--predictable", "-o", os.path.join(place, "q.dat"), "--"],
        "perf": ["perf", "sched", "record", "-o", os.path.join(place, "p.data"), "--"],
    }


def wrapper(command):
    """Runs the load and prints the CPU time of its processes."""
    load = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    _, status, usage = os.wait4(load.pid, 0)
    print(f"CPU seconds: {usage.ru_utime + usage.ru_stime}", flush=True)
    sys.exit(os.waitstatus_to_exitcode(status))


def children_cpu():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(recorder, load):
    """The three measures, and everything that was printed."""
    before = children_cpu()
    command = recorder + [sys.executable, os.path.abspath(__file__), WRAPPER] + load
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT)
    text = done.stdout + done.stderr
    time = re.search(r"Total time:\s*([0-9.]+)", text)
    cpu = re.search(r"CPU seconds: ([0-9.]+)", text)
    if done.returncode or not time or not cpu:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{text}")
    return {"time": float(time[1]), "CPU": float(cpu[1]), "all": children_cpu() - before}, text


def show(measure, values):
    """Medians and spreads, and the cost of one recorder as a part of the other's."""
    bare = statistics.median(values["bare"])
    for name, runs in values.items():
        median = statistics.median(runs)
        low, high = min(runs), max(runs)
        print(f"  {measure:4} {name:11} {median:7.3f} s  {100 * (median / bare - 1):+6.1f} %  ({low:.3f} to {high:.3f})")
    ours = statistics.median(values["unstarve"]) - bare
    theirs = statistics.median(values["perf"]) - bare
    if theirs > 0:
        print(f"  {measure:4} unstarve costs {ours / theirs:.2f} of what perf sched record costs")


def main():
    if sys.argv[1] == WRAPPER:
        wrapper(sys.argv[2:])
    unstarve = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    with tempfile.TemporaryDirectory() as place:
        for name, load in LOADS.items():
            runs = {measure: {} for measure in ("time", "CPU", "all")}
            lossy = 0
            for _ in range(rounds):
                for who, recorder in recorders(unstarve, place).items():
                    measured, text = run(recorder, load)
                    for measure, seconds in measured.items():
                        runs[measure].setdefault(who, []).append(seconds)
                    lossy += who == "unstarve" and "none lost" not in text
            print(f"{name}: {rounds} rounds, load average {os.getloadavg()[0]:.1f}, {lossy} of our recordings lost events")
            for measure, values in runs.items():
                show(measure, values)


if __name__ == "__main__":
    main()
