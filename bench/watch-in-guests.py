#!/usr/bin/env python3
"""Runs the engine of `unstarve watch` in guests of the lab, beside a scenario's fault, and compares what it counted with `explain`.

    bench/watch-in-guests.py UNSTARVE EXAMPLES [--kernel K ...] [--seconds S] [SCENARIO ...]

EXAMPLES is where cargo has built those of unstarve-watch (`cargo build -p unstarve-watch --examples --features bpf`). A SCENARIO is one
of the lab's or a file. Each guest runs the example `readings` as one more load while the scenario is recorded, from before its loads begin. Between the first and the last
reading within the recording the difference of all waits is compared with the waits of `explain`'s timeline: from when tasks are on a
queue, as the engine counts, and, in brackets, from the beginning of their wakeups, as `explain` reports. Each reading's blame has to be its
waits to the nanosecond. One line of a Markdown table for each guest; exit code 1 if a sum is not whole or not within 1 %.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import guests

CLOSE = 0.01
# When the engine begins, from the beginning of the recording, and when the loads do: beside them its programs may not be loaded in time.
ENGINE_MS, LOADS_MS = 100, 4000
LINE = re.compile(r"^at .*?, (\d+) ns: waited (\d+) ns, blamed (\d+) ns$", re.M)
LOST = re.compile(r"untracked_tasks: (\d+).*?missing_switches: (\d+), disbelieved: (\d+)")


def with_engine(text, name, readings):
    """The scenario with the engine as one more load; real-time, or its readings wait with the victims.

    It begins after the recording: of two that look at the same event, the later one sees it later by what the earlier one takes,
    and the trace should have the times as they are without the engine.
    """
    engine = "\n".join([
        "", "[[load]]", 'name = "engine"', 'policy = "fifo:90"', f"start_ms = {ENGINE_MS}", 'argv = ["readings", "0.1", "1000"]', "",
    ])
    text = guests.loads_later(guests.renamed(text, name, "watch"), LOADS_MS)
    return guests.with_tools(text, [readings]) + engine


def span(unstarve, trace):
    """From when to when the recording lasts."""
    found = subprocess.run([unstarve, "explain", trace, "--json", "--fail-on", "never"], check=True, stdout=subprocess.PIPE)
    found = json.loads(found.stdout)["trace"]
    return found["start_ns"], found["end_ns"]


def queued(program, trace, start, end):
    """All waits between two moments, in ns, without and with wakeups."""
    found = subprocess.run([program, trace, str(start), str(end)], check=True, stdout=subprocess.PIPE, text=True)
    return map(int, re.findall(r"(\d+) ns", found.stdout))


def one(options, name, kernel, directory):
    name, text = guests.scenario(options.unstarve, name)
    run = guests.Run(options.unstarve, kernel, seconds=options.seconds)
    out, ran = run.boot(with_engine(text, name, options.examples / "readings"), directory)
    said = (out / "engine.out").read_text() if (out / "engine.out").exists() else ""
    readings = [tuple(map(int, found)) for found in LINE.findall(said)]
    if not readings:
        errors = (out / "engine.err").read_text() if (out / "engine.err").exists() else ran.stdout
        return f"| {name} | {kernel} | | | | no reading: {errors.strip().splitlines()[-1:] or ran.returncode} |", False
    whole = all(waited == blamed for _, waited, blamed in readings)
    trace = out / "trace.dat"
    first, last = span(options.unstarve, trace)
    within = [reading for reading in readings if first <= reading[0] <= last]
    if len(within) < 2:
        return f"| {name} | {kernel} | | | | {len(within)} readings within the recording |", False
    (start, before, _), (end, after, _) = within[0], within[-1]
    theirs, with_wakeups = queued(options.examples / "queued", trace, start, end)
    ours = after - before
    distance = ours / theirs - 1 if theirs else 0
    lost = LOST.findall(said)[-1]
    good = whole and abs(distance) < CLOSE
    return (f"| {name} | {kernel} | {(end - start) / 1e6:.0f} ms | {ours / 1e6:.3f} ms | {theirs / 1e6:.3f} ms "
            f"({100 * distance:+.2f} %; {with_wakeups / 1e6:.3f} ms) | {'equal' if whole else 'NOT EQUAL'}; {lost[0]} untracked, {lost[1]} switches missing |"), good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("unstarve")
    parser.add_argument("examples", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("scenarios", nargs="*", default=None)
    parser.add_argument("--kernel", action="append")
    parser.add_argument("--seconds")
    options = parser.parse_intermixed_args()
    names = options.scenarios or guests.listed(options.unstarve)
    print("| scenario | kernel | interval | counted | by `explain` | blame and waits |\n|---|---|---|---|---|---|", flush=True)
    every = True
    for name in names:
        for kernel in options.kernel or guests.KERNELS:
            with tempfile.TemporaryDirectory() as directory:
                line, good = one(options, name, kernel, pathlib.Path(directory))
            print(line, flush=True)
            every &= good
    sys.exit(0 if every else 1)


main()
