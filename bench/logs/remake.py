#!/usr/bin/env python3
"""Makes testdata/logs again: kernel logs, lists of threads and of run queues of guests that hang in a known way.

    bench/logs/remake.py UNSTARVE WORK_DIRECTORY [LOG…]

LOGs are names from cases.tsv, by default all. Results of guests stay in WORK_DIRECTORY and are used again. What each
guest's own recording (trace.dat) says about the victim becomes the last column of labels.tsv. Kernels named
`…-wq` are built by kernel.sh; see docs/evidence-logs.md.
"""
import csv
import fnmatch
import json
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SCENARIOS = ROOT / "crates/lab/scenarios/logs"
LOGS = ROOT / "testdata/logs"
LABELS = LOGS / "labels.tsv"
COLUMNS = ["file", "state", "victim", "cpu", "lasted_s", "culprit", "kernel", "truth"]
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


def recorded(unstarve, out, case):
    """The longest wait of the victim in the guest's recording, as text; the victim's name; its occupant's thread id."""
    if case["recorded"] == "-":
        return "", "-", "-"
    command = [unstarve, "explain", str(out / "trace.dat"), "--json", "--fail-on", "never", "--task", case["recorded"]]
    report = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    waits = [w for w in report["worst_waits"] if fnmatch.fnmatch(w["comm"], case["recorded"])]
    if not waits:
        return "", "-", "-"
    worst = max(waits, key=lambda wait: wait["end_ns"] - wait["start_ns"])
    blame = max(worst["blame"], key=lambda share: share["ns"])
    tid = ",".join(str(tid) for tid in blame["tids"])
    seconds = (worst["end_ns"] - worst["start_ns"]) / 1e9
    return (
        f"recording: {worst['comm']}[{worst['tid']}] waited {seconds:.2f} s on CPU {worst['cpu']}, "
        f"{blame['ns'] / 1e9:.2f} s of it for {blame['comm']}[{tid}]",
        worst["comm"],
        tid,
    )


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
    truth, comm, tid = recorded(unstarve, out, case)
    victim = case["victim"].replace("{comm}", comm)
    culprit = case["culprit"].replace("{tid}", tid)
    release = json.loads((out / "outcome.json").read_text())["kernel_release"]
    truth = "; ".join(said for said in (truth, case["scenario_truth"]) if said and said != "-")
    values = [store(case["log"], text), case["state"], victim, case["cpu"], case["lasted_s"], culprit, release]
    return dict(zip(COLUMNS, [*values, truth]))


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
        failed += label is None
        for name in (case["log"], f"{case['log']}.zst"):
            labels.pop(name, None)
        if label:
            labels[label["file"]] = label
        with open(LABELS, "w", newline="") as file:
            rows = csv.DictWriter(file, COLUMNS, delimiter="\t", lineterminator="\n")
            rows.writeheader()
            rows.writerows(labels[name] for name in sorted(labels))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
