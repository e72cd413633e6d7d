#!/usr/bin/env python3
"""Records scenarios whose truth is known, and scores what `unstarve explain` says of the recordings.

    truth.py record UNSTARVE DIR [--kernel 6.1 …] [--jobs 2] [--scenario …]   boots guests; keeps what is there already
    truth.py host UNSTARVE DIR [--scenario …]                                 real programs on this machine; needs root
    truth.py felt DIR                                                         what the programs felt, with the fault and without
    truth.py score UNSTARVE DIR… [--markdown | --count]                       explains each recording and judges it

A recording is `SCENARIO.KERNEL.fault.dat.zst` or `….none.dat.zst`; beside it lies `….felt`, what the load printed. The truth
is in truth.json (see bench/results/truth.md for its fields). Nothing that `explain` says is shown before `score`.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TWINS = {"fault": "default", "none": "none"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record")
    record.add_argument("unstarve", type=Path)
    record.add_argument("directory", type=Path)
    record.add_argument("--scenario", nargs="+", default=[])
    record.add_argument("--kernel", nargs="+", default=["6.1", "6.12"])
    record.add_argument("--jobs", type=int, default=2)
    host = commands.add_parser("host")
    host.add_argument("unstarve", type=Path)
    host.add_argument("directory", type=Path)
    host.add_argument("--scenario", nargs="+", default=[])
    felt = commands.add_parser("felt")
    felt.add_argument("directory", type=Path)
    felt.add_argument("--markdown", action="store_true", help="a table for bench/results/truth.md")
    score = commands.add_parser("score")
    score.add_argument("unstarve", type=Path)
    score.add_argument("directory", type=Path, nargs="+")
    score.add_argument("--markdown", action="store_true", help="a table for bench/results/truth.md")
    score.add_argument("--count", action="store_true", help="right and wrong only, no words of the findings")
    arguments = parser.parse_args()
    sys.exit(globals()["command_" + arguments.command](arguments))


def mix(directory):
    """The load program, built once."""
    program = directory / "bin" / "mix"
    if not program.exists() or program.stat().st_mtime < (HERE / "mix.c").stat().st_mtime:
        program.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["gcc", "-O1", "-static", "-o", program, HERE / "mix.c", "-lpthread"], check=True)
    return program


def command_record(arguments):
    names = arguments.scenario or sorted(path.stem for path in (HERE / "scenarios").glob("*.toml"))
    arguments.directory.mkdir(parents=True, exist_ok=True)
    path = f"{mix(arguments.directory).parent.resolve()}:{os.environ['PATH']}:/usr/sbin:/sbin"
    wanted = [(name, kernel, twin) for name in names for kernel in arguments.kernel for twin in TWINS]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        done = pool.map(lambda one: guest(arguments, path, *one), wanted)
        return 0 if all(done) else 1


def guest(arguments, path, name, kernel, twin):
    """One guest; what it explains is thrown away unread."""
    base = arguments.directory / f"{name}.{kernel}.{twin}"
    if base.with_name(base.name + ".dat.zst").exists():
        return True
    with tempfile.TemporaryDirectory(dir=arguments.directory) as scratch:
        out = Path(scratch) / "out"
        command = [arguments.unstarve.resolve(), "lab", "run", HERE / "scenarios" / f"{name}.toml", "--kernel", kernel]
        command += ["--fault", TWINS[twin], "--out", out, "--json"]
        ran = subprocess.run(command, env={**os.environ, "PATH": path}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if not (out / "trace.dat").exists():
            print(f"{base.name}: {ran.stderr.decode(errors='replace').strip()[-500:]}", flush=True)
            return False
        keep(base, out / "trace.dat", [file.read_text() for file in sorted(out.glob("*.out"))])
    return True


def keep(base, trace, felt):
    base.with_name(base.name + ".felt").write_text("".join(felt))
    part = base.with_name(base.name + ".part")
    subprocess.run(["zstd", "-q", "-f", "-10", trace, "-o", part], check=True)
    part.rename(base.with_name(base.name + ".dat.zst"))
    print(base.name, "recorded", flush=True)


def command_host(arguments):
    import host

    arguments.directory.mkdir(parents=True, exist_ok=True)
    os.environ["MIX"] = str(mix(arguments.directory).resolve())
    return host.record(arguments.unstarve.resolve(), arguments.directory, arguments.scenario, keep)


def command_felt(arguments):
    labels = json.loads((HERE / "truth.json").read_text())
    for fault in sorted(arguments.directory.glob("*.fault.felt")):
        name = fault.name.removesuffix(".fault.felt")
        none = fault.with_name(name + ".none.felt")
        texts = [twin.read_text() if twin.exists() else "not recorded\n" for twin in (fault, none)]
        if arguments.markdown:
            label = truth_of(fault.with_name(name + ".fault.dat.zst"), labels) or {}
            row = [measured(text, label.get("felt", "")) for text in texts]
            if any(row):
                print(f"| `{name}` | {'quiet' if label.get('quiet') else 'fault'} | {row[0]} | {row[1]} |")
            continue
        print(name)
        for twin, text in zip(TWINS, texts):
            print("".join(f"    {twin:6} {line}\n" for line in text.replace("\r", "\n").splitlines()), end="")
    return 0


def measured(text, name):
    """What the load that matters said, in short."""
    for pattern, words in ((r"Requests/sec: +([\d.]+)", "{} requests/s"), (r"tps = ([\d.]+)", "{} transactions/s")):
        if found := re.search(pattern, text):
            return words.format(round(float(found[1])))
    if rates := re.findall(r"overall: ([\d.]+)\)", text):
        return f"{round(float(rates[-2 if len(rates) > 1 else -1]))} requests/s"
    if not name:
        return ""
    if found := re.search(rf"^{name} n=(\d+) mean_us=\d+ p50_us=\d+ p99_us=(\d+) max_us=(\d+)", text, re.M):
        return f"{found[1]} times, p99 {int(found[2]) / 1000:.1f} ms, at most {int(found[3]) / 1000:.1f} ms"
    units = [int(one) for one in re.findall(rf"^{name} units=(\d+)", text, re.M)]
    waits = [int(one) for one in re.findall(rf"^{name} units=\d+ waited_us=(\d+)", text, re.M)]
    wait = f", waited {sum(waits) / len(waits) / 1000:.0f} ms" if waits else ""
    return f"{sum(units) // len(units)} units each{wait}" if units else text.strip().splitlines()[-1] if text.strip() else ""


def truth_of(recording, labels):
    """The label of SCENARIO.KERNEL.TWIN, else of SCENARIO.TWIN; healthy twins are quiet."""
    name, twin = recording.name.removesuffix(".dat.zst").rsplit(".", 1)
    scenario = name.split(".")[0]
    for key in (f"{name}.{twin}", f"{scenario}.{twin}"):
        if key in labels:
            return labels[key]
    return {"quiet": True} if twin == "none" else None


def command_score(arguments):
    labels = json.loads((HERE / "truth.json").read_text())
    rows = []
    for directory in arguments.directory:
        for recording in sorted(directory.glob("*.dat.zst")):
            label = truth_of(recording, labels)
            if label is not None:
                rows.append((recording.name.removesuffix(".dat.zst"), label, *judged(arguments.unstarve, recording, label)))
    if not rows:
        print(f"no recordings in {arguments.directory}: record them first", file=sys.stderr)
        return 2
    print_rows(rows, arguments)
    return 0 if all(not mistakes for _, _, mistakes, _ in rows) else 1


def print_rows(rows, arguments):
    right = sum(not mistakes for _, _, mistakes, _ in rows)
    if arguments.markdown:
        print("| recording | truth | judged | what was said first |\n|---|---|---|---|")
    for name, label, mistakes, said in rows:
        verdict = "; ".join(mistakes) if mistakes else "right"
        if arguments.markdown:
            print(f"| `{name}` | {in_words(label)} | {'**' + verdict + '**' if mistakes else verdict} | {said} |")
        elif arguments.count:
            print("wrong" if mistakes else "right", name)
        else:
            print(f"{'right' if not mistakes else 'WRONG':6}{name:34}{verdict if mistakes else ''}\n{'':6}{said}")
    quiet = [mistakes for _, label, mistakes, _ in rows if label.get("quiet")]
    print(f"{right} of {len(rows)} right; with something wrong: {right - sum(not m for m in quiet)} of {len(rows) - len(quiet)}; "
          f"healthy: {sum(not m for m in quiet)} of {len(quiet)}")


def in_words(label):
    if label.get("quiet"):
        return "quiet"
    one = label if "top" in label else label["all"][0]
    words = f"{'/'.join(one.get('top') or [one['id']])}: {one.get('victim', '').replace('|', '/')}"
    words += f" behind {one['culprit']}" if one.get("culprit") else ""
    return words + (f", {label['payer'].replace('|', '/')} pays" if label.get("payer") else "")


def judged(unstarve, recording, label):
    """What is wrong with what `explain` says, and its first loud finding in short."""
    try:
        ran = subprocess.run([unstarve, "explain", "--json", recording], capture_output=True, text=True, timeout=300)
        report = json.loads(ran.stdout)
    except (ValueError, subprocess.TimeoutExpired):
        return ["no answer"], "-"
    loud = [finding for finding in report["findings"] if finding["severity"] in ("warning", "critical")]
    return mistakes_in(label, loud, report["findings"]), in_short(loud[0]) if loud else "nothing loud"


def mistakes_in(label, loud, findings):
    mistakes = []
    if label.get("quiet") and loud:
        mistakes.append("false alarm")
    if "top" in label and (loud or not label.get("or_quiet")):
        mistakes += mistakes_of_top(label, loud)
    if "not_victim" in label and any(re.search(label["not_victim"], victim(finding)) for finding in loud):
        mistakes.append(f"{label['not_victim']} is a victim")
    mistakes += [f"no {one['id']}" for one in label.get("all", []) if not any(fits(f, one, [one["id"]]) for f in loud)]
    if len(findings) > label.get("max_findings", len(findings)):
        mistakes.append(f"{len(findings)} findings")
    return mistakes


def mistakes_of_top(label, loud):
    if not loud:
        return ["silent"]
    top = loud[0]
    if top["id"] not in label["top"]:
        return ["another finding" + (" first" if any(fits(f, label, label["top"]) for f in loud) else "")]
    if not re.search(label.get("victim", ""), victim(top)):
        return ["another victim" + (" first" if any(fits(f, label, label["top"]) for f in loud) else "")]
    if not fits(top, label, label["top"]):
        return ["another culprit"]
    if "payer" in label and not any(re.search(label["payer"], price["comm"]) for price in top.get("price", [])):
        return ["the payer is missing"]
    return []


def victim(finding):
    return f"{finding['victim']['kind']} {finding['victim']['comm']}"


def fits(finding, label, ids):
    culprits = [culprit["comm"] for culprit in finding["culprits"]] or [""]
    wanted = label.get("culprit", "")
    return finding["id"] in ids and re.search(label.get("victim", ""), victim(finding)) and any(wanted in one for one in culprits)


def in_short(finding):
    culprits = ", ".join(f"`{culprit['comm']}`" for culprit in finding["culprits"][:2])
    return f"{finding['id']} of `{finding['victim']['comm']}`" + (f" by {culprits}" if culprits else "")


if __name__ == "__main__":
    if not shutil.which("zstd"):
        sys.exit("zstd is missing: apt install zstd")
    main()
