#!/usr/bin/env python3
"""How often a gate in CI calls noise worse, and how often it misses what is planted: real loads on this machine.

Records runs of a pool of threads for three seconds each, in turn without and with a real-time task that has CPU 0 for 60 of each 100 ms, then
judges each run by the runs before it that had nothing planted. A healthy run with a finding of its own (another program of this machine starved
the pool) is listed and left out of both. Needs root, and what is recorded once can be judged again.

    sudo bench/gate_trial.py record UNSTARVE UNSTARVE_LOAD DIRECTORY [RUNS]
    bench/gate_trial.py judge UNSTARVE DIRECTORY BASES [OPTIONS OF compare ...]
"""
import collections
import json
import pathlib
import subprocess
import sys

POOL = "pool --lasts 3000 --threads 64 --burst 16 --every-us 4000 --work-us 150"
HOG = "hog --lasts 3000 --period 100 --busy 60"
LIMIT = 60  # seconds for one run
ALARMS = ("warning", "critical")
# What the pool does to itself in a healthy run, too.
OWN = ("wake-storm",)


def record(unstarve, load, directory, runs=25):
    directory = pathlib.Path(directory)
    directory.mkdir(exist_ok=True)
    planted = f"chrt -f 10 taskset -c 0 {load} {HOG} & {load} {POOL}; wait"
    for run in range(1, int(runs) + 1):
        for kind, command in (("healthy", f"{load} {POOL}"), ("planted", planted)):
            file = directory / f"{kind}.{run:02}.dat"
            subprocess.run([unstarve, "record", "-o", file, "--", "bash", "-c", command], check=True, timeout=LIMIT,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def starved(unstarve, file):
    said = subprocess.run([unstarve, "explain", "--json", file], capture_output=True, text=True, timeout=LIMIT).stdout
    return [finding["headline"] for finding in json.loads(said)["findings"]
            if finding["severity"] in ALARMS and finding["id"] not in OWN]


def judge(unstarve, directory, bases, *options):
    healthy = sorted(pathlib.Path(directory).glob("healthy.*.dat"))
    clean = []
    for file in healthy:
        found = starved(unstarve, file)
        print(f"left out: {file.name}: {found[0]}") if found else clean.append(file)
    for kind in ("healthy", "planted"):
        verdicts = collections.Counter()
        for index, file in enumerate(clean):
            new = file.with_name(file.name.replace("healthy", kind))
            # The runs before it, around the circle.
            base = [clean[(index - before) % len(clean)] for before in range(1, int(bases) + 1)]
            call = [unstarve, "compare", new, "--json", *options] + [word for one in base for word in ("--base", one)]
            done = subprocess.run(call, capture_output=True, text=True, timeout=LIMIT)
            verdicts[json.loads(done.stdout)["gate"]["verdict"] if done.returncode != 2 else done.stderr] += 1
        print(f"{kind}, {bases} of the base, {' '.join(options)}: {dict(verdicts)}")


if len(sys.argv) < 4 or sys.argv[1] not in ("record", "judge"):
    sys.exit(__doc__)
{"record": record, "judge": judge}[sys.argv[1]](*sys.argv[2:])
