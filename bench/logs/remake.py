#!/usr/bin/env python3
"""Makes testdata/logs again: kernel logs, lists of threads and of run queues of guests that hang in a known way.

    bench/logs/remake.py UNSTARVE WORK_DIRECTORY [LOG…]

LOGs are names from cases.tsv, by default all. Results of guests stay in WORK_DIRECTORY and are used again. Each guest's own
recording (trace.dat) is stored beside its logs, and labels.tsv has from it who waited where and for whom. Where a guest brings
no result, the log and label that are there stay. Needs trace-cmd and zstd. Kernels named `…-wq` are built by kernel.sh; see
docs/evidence-logs.md.
"""
import csv
import json
import os
import pathlib
import shutil
import subprocess
import sys

from recording import Recording, seconds

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SCENARIOS = ROOT / "crates/lab/scenarios/logs"
LOGS = ROOT / "testdata/logs"
RECORDINGS = LOGS / "recordings"
LABELS = LOGS / "labels.tsv"
COLUMNS = ["file", "state", "victim", "cpu", "lasted_s", "culprit", "kernel", "recording"]
COLUMNS += ["recorded_victim", "recorded_cpu", "recorded_s", "recorded_culprit", "blocked", "blocked_s", "truth"]
# Larger logs are stored compressed.
PLAIN_BYTES = 48 << 10


def cases():
    with open(HERE / "cases.tsv", newline="") as file:
        rows = csv.DictReader((line for line in file if not line.startswith("#")), delimiter="\t")
        return [row for row in rows]


def scenarios_beside_modules(work, kernel):
    """A directory with the scenarios, built BPF programs and, as `modules`, the kernel's modules: some load one themselves."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    directory = work / f"scenarios-{kernel}"
    shutil.copytree(SCENARIOS, directory, dirs_exist_ok=True)
    for source in directory.glob("*.bpf.c"):
        subprocess.run(["clang", "-g", "-O2", "-target", "bpf", "-c", source, "-o", source.with_suffix(".o")], check=True)
    modules = directory / "modules"
    if not modules.is_symlink():
        modules.symlink_to(cache / "unstarve/lab/kernels" / kernel / "modules")
    return directory


def run(unstarve, work, case):
    """The directory with the results of the case's guest."""
    flags = case["flags"].split()
    name = "-".join([case["scenario"], case["kernel"], *flags]).replace("/", "_").replace("=", "_")
    out = work / name
    if not (out / "outcome.json").exists():
        scenario = scenarios_beside_modules(work, case["kernel"]) / f"{case['scenario']}.toml"
        command = [unstarve, "lab", "run", str(scenario), "--kernel", case["kernel"], "--out", str(out), *flags]
        with open(work / f"{name}.txt", "w") as said:
            subprocess.run(command, stdout=said, stderr=subprocess.STDOUT, check=False)
    return out


def part(text, name):
    """One part of what ticket.sh collects."""
    found, inside = [], False
    for line in text.splitlines(keepends=True):
        if line.startswith("=== "):
            inside = line[4:].strip() == name
        elif inside:
            found.append(line)
    return "".join(found)


def recorded(out, case):
    """What the guest's recording says of the case's thread: columns of labels.tsv, and names for {…} in cases.tsv."""
    recording = Recording(out / "trace.dat")
    *blocked, pattern = case["recorded"].split()
    running = case["state"] == "running"
    span = recording.ran_most(pattern) if running else recording.longest(recording.waits, pattern)
    if span is None:
        raise LookupError(f"no thread of the recording is {pattern}")
    thread = recording.thread(span)
    beside = thread if running else recording.occupant(span)
    columns = {
        "recorded_victim": "-" if running else f"{thread.tid}/{thread.comm}",
        "recorded_cpu": str(span.cpu),
        "recorded_s": f"{seconds(span):.3f}",
        "recorded_culprit": f"{beside.tid}/{beside.comm}",
        "blocked": "-",
        "blocked_s": "-",
    }
    names = {"victim": thread.comm, "cpu": span.cpu, "culprit": columns["recorded_culprit"]}
    if blocked:
        sleep = recording.longest(recording.sleeps, blocked[0])
        if sleep is None:
            raise LookupError(f"no {blocked[0]} of the recording sleeps")
        sleeper = recording.thread(sleep)
        columns |= {"blocked": f"{sleeper.tid}/{sleeper.comm}", "blocked_s": f"{seconds(sleep):.3f}"}
        names["victim"] = sleeper.comm
    lasted = columns["blocked_s"] if blocked else columns["recorded_s"]
    if case["lasted_s"] != "-" and float(case["lasted_s"]) > float(lasted):
        raise LookupError(f"the log proves {case['lasted_s']} s, the recording {lasted} s")
    return columns, names


def store_recording(out, case):
    """Its name below testdata/logs/recordings. All logs of a guest have the same."""
    name = ".".join([case["scenario"], case["kernel"], *case["flags"].replace("--", "").split(), "dat.zst"])
    RECORDINGS.mkdir(exist_ok=True)
    trim = [sys.executable, ROOT / "tools/trim_trace.py", out / "trace.dat", RECORDINGS / name]
    subprocess.run(trim, check=True, stdout=subprocess.DEVNULL)
    return name


def store(name, text):
    for old in (LOGS / name, LOGS / f"{name}.zst"):
        old.unlink(missing_ok=True)
    path = LOGS / name
    path.write_text(text)
    if len(text) > PLAIN_BYTES:
        subprocess.run(["zstd", "-q", "-19", "--rm", str(path)], check=True)
        return f"{name}.zst"
    return name


def make(unstarve, work, case):
    """Stores the case's log; its label, or `None` where the guest did not bring it."""
    out = run(unstarve, work, case)
    texts = []
    for directory in [out] + [run(unstarve, work, {**case, "scenario": other}) for other in case["then"].split()]:
        source = directory / "ticket.out"
        if not source.exists():
            print(f"{case['log']}: no result in {directory}, see {directory}.txt", file=sys.stderr)
            return None
        texts.append(part(source.read_text(errors="replace"), case["part"]))
    text = "".join(texts)
    if case["needs"] not in text:
        print(f"{case['log']}: the guest's log does not say `{case['needs']}`", file=sys.stderr)
        return None
    try:
        columns, names = recorded(out, case)
    except LookupError as missing:
        print(f"{case['log']}: {missing}", file=sys.stderr)
        return None
    columns |= {column: case[column].format(**names) for column in ("victim", "cpu", "culprit")}
    columns |= {column: case[column] for column in ("state", "lasted_s")}
    columns["truth"] = case["scenario_truth"].format(**names)
    columns["kernel"] = json.loads((out / "outcome.json").read_text())["kernel_release"]
    return {"file": store(case["log"], text), "recording": store_recording(out, case), **columns}


def main():
    unstarve, work, *wanted = sys.argv[1:]
    work = pathlib.Path(work).resolve()
    work.mkdir(parents=True, exist_ok=True)
    LOGS.mkdir(exist_ok=True)
    labels = {}
    if LABELS.exists():
        with open(LABELS, newline="") as file:
            labels = {row["file"]: row for row in csv.DictReader(file, delimiter="\t")}
    failed = 0
    for case in cases():
        if wanted and case["log"] not in wanted:
            continue
        label = make(unstarve, work, case)
        if label is None:
            failed += 1
            continue
        for name in (case["log"], f"{case['log']}.zst"):
            labels.pop(name, None)
        labels[label["file"]] = label
        with open(LABELS, "w", newline="") as file:
            rows = csv.DictWriter(file, COLUMNS, restval="-", delimiter="\t", lineterminator="\n")
            rows.writeheader()
            rows.writerows(labels[name] for name in sorted(labels))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
