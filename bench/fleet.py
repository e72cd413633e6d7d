#!/usr/bin/env python3
"""What many hosts cost: merging their files, their size, every view cold and warm.

    fleet.py UNSTARVE GENERATOR [--hosts 1000] [--hours 24] [--rows 250] [--directory DIR [--steps make,merge,ask]] [--questions a,b]

The rows are those of a real host, multiplied, with faults planted (crates/tables/examples/fleet/), in files of each host and hour, which `fleet compact` merges. Each question is a process of its own that opens the directory anew. Cold: the files are no longer in the page cache
(posix_fadvise). Memory is the most that a process had in it (ru_maxrss). With --rows, an interval of a host has so many rows of blame_rollup; else as many as the real host's.
With --steps, only these parts, in a directory that the parts before were given,
so that each can have the machine for itself for a few minutes.
"""
import argparse
import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REAL = ROOT / "views/data/real/merged/v1"
WARM = 3
# What bench/results/fleet.md sets out to reach.
GOALS = {"cold": 5.0, "warm": 2.0, "memory": 1 << 30, "ingest": 500_000, "bytes": 8.0}
STEPS = ("make", "merge", "ask")
# Views of single rows (`watched`, `marked_hourly` and `starved_hourly`, too): nobody asks for those of all hosts, which are a table of tens of millions of rows as text.
OF_A_HOST = {
    "starved": "select host, victim_role, occupant, rule, ns, kernel from starved where host = 'host-0003' order by 1, ts, 2, 3, 4, 5",
    "watched": "select * from watched where host = 'host-0003'",
    "marked_hourly": "select * from marked_hourly where host = 'host-0003'",
    "starved_hourly": "select * from starved_hourly where host = 'host-0003'",
    "starved_kernel_threads": "select host, victim_role, occupant, rule, ns from starved_kernel_threads where host = 'host-0003' order by 1, ts, 2, 3, 4, 5",
}


def run(command, **options):
    """Seconds, the most memory, and what was said."""
    seconds, _, memory, text = measure(command, **options)
    return seconds, memory, text


class Failed(Exception):
    """A command was not done."""


def measure(command, **options):
    """Seconds, those of processors, the most memory, and what was said."""
    begin = time.monotonic()
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen([str(word) for word in command], stdout=out, stdin=options.pop("stdin", subprocess.DEVNULL), **options)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - begin
        out.seek(0)
        text = out.read().decode()
    if child.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))}: exit code {child.returncode}: {text[:2000]}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, text


def keep(rows):
    """Rows to look at, in a file of a name that nobody can foresee."""
    with tempfile.NamedTemporaryFile(prefix="fleet-", suffix=".csv", delete=False) as file:
        file.write(rows)
    return file.name


def forget(directory):
    """Takes files out of the page cache."""
    for path in glob.glob(f"{directory}/**/*", recursive=True):
        if os.path.isfile(path):
            handle = os.open(path, os.O_RDONLY)
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)


def make(arguments, directory):
    """Makes the files of all hosts."""
    begin = time.monotonic()
    more = [f"rows={arguments.rows}"] if arguments.rows else []
    run([arguments.generator, REAL, os.path.join(directory, "hosts"), arguments.hosts, arguments.hours, *more, "apart"])
    made = time.monotonic() - begin
    files = sum(len(found) for _, _, found in os.walk(directory))
    print(f"made {files:,} files of hosts in {made:.0f} s", flush=True)


def merge(arguments, directory):
    """Merges them; then they are removed, as they are an hour later."""
    seconds, processor, memory, text = measure([arguments.unstarve, "fleet", "compact", directory, "--json"])
    done = json.loads(text)
    rows = done["rows"]
    problems = done["problems"]
    if problems:
        sys.exit(f"not everything was merged: {problems[:3]}")
    run([arguments.unstarve, "fleet", "compact", directory, "--grace", "0s"])
    say("ingest", rows / seconds, f"merged {rows:,} rows of {done['inputs']:,} files, {done['input_bytes'] / 1e6:,.0f} MB, into {done['outputs']:,} in {seconds:.1f} s, {rows / seconds:,.0f} rows/s, at most {memory >> 20} MiB", more=True)
    print(f"      that took {processor:.1f} s of processor time, {rows / processor:,.0f} rows for each of them, {processor / done['inputs'] * 1e3:.2f} ms a file")


def say(goal, value, text, more=False):
    reached = value >= GOALS[goal] if more else value <= GOALS[goal]
    print(f"{'  ok' if reached else 'MISS'}  {text} (goal: {'at least' if more else 'at most'} {GOALS[goal]:,.0f})", flush=True)
    return reached


def sizes(arguments, directory):
    _, _, text = run([arguments.unstarve, "fleet", "status", directory, "--json"])
    tables = json.loads(text)["tables"]
    for name, table in sorted(tables.items()):
        if table["rows"]:
            print(f"      {name}: {table['rows']:,} rows in {table['files']} files, {table['bytes'] / 1e6:,.1f} MB, {table['bytes'] / table['rows']:.2f} B a row; by the hour {table.get('hourly_rows', 0):,} rows, {table.get('hourly_bytes', 0) / 1e6:,.1f} MB")
    blame = tables["blame_rollup"]
    each = (blame["bytes"] + blame.get("hourly_bytes", 0)) / blame["rows"]
    say("bytes", each, f"{each:.2f} B for a row of blame_rollup, its share of rows by the hour included")


def main():
    parser = argparse.ArgumentParser()
    for name in ("unstarve", "generator"):
        parser.add_argument(name)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--rows", type=int, help="rows of blame_rollup in an interval of a host")
    parser.add_argument("--directory", help="kept, and used again if it is there")
    parser.add_argument("--questions", help="only these views, apart by commas")
    parser.add_argument("--steps", type=lambda text: text.split(","), default=list(STEPS), help="of " + ",".join(STEPS))
    arguments = parser.parse_args()
    if set(arguments.steps) - set(STEPS) or (len(arguments.steps) < len(STEPS) and not arguments.directory):
        parser.error("--steps: of " + ",".join(STEPS) + ", with --directory")
    place = arguments.directory or tempfile.mkdtemp(prefix="unstarve-fleet-")
    directory = f"{place}/tables"
    try:
        model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
        load = os.getloadavg()[0]
        print(f"{', '.join(arguments.steps)}: {arguments.hosts} hosts, {arguments.hours} hours; {os.cpu_count()} CPUs ({model}), load {load:.1f} at the begin")
        if "make" in arguments.steps and not os.path.exists(directory):
            make(arguments, directory)
        if "merge" in arguments.steps:
            merge(arguments, directory)
            sizes(arguments, directory)
        if "ask" in arguments.steps:
            ask_all(arguments, directory)
    except Failed as why:
        sys.exit(str(why))
    finally:
        if not arguments.directory:
            shutil.rmtree(place)


def only(arguments, questions):
    """Those that are asked for."""
    return {view: questions[view] for view in arguments.questions.split(",")} if arguments.questions else questions


def ask_all(arguments, directory):
    views = (ROOT / "views/ORDER").read_text().split()
    questions = only(arguments, {**{view: f"select * from {view}" for view in views}, **OF_A_HOST})
    print(f"      {'view':<22}{'cold':>8}{'warm':>8}{'memory':>10}  rows")
    missed, colds, warms, most = [], [], [], 0
    for view, question in questions.items():
        command = [arguments.unstarve, "sql", "--format", "csv", question, directory]
        forget(directory)
        times = []
        try:
            cold, memory, answer = run(command)
            for _ in range(WARM):
                seconds, used, again = run(command)
                times.append(seconds)
                memory = max(memory, used)
                if again != answer:
                    raise Failed("another answer at the second time")
        except Failed as why:
            print(f"MISS  {view}: {why}", flush=True)
            missed.append(view)
            continue
        warm = statistics.median(times)
        rows = answer.split("\n", 1)[1]
        bad = cold > GOALS["cold"] or warm > GOALS["warm"] or memory > GOALS["memory"]
        print(f"{'MISS' if bad else '  ok'}  {view:<22}{cold:>7.2f}s{warm:>7.2f}s{memory >> 20:>6} MiB  {rows.count(chr(10))}", flush=True)
        colds.append(cold)
        warms.append(warm)
        most = max(most, memory)
        missed += [view] if bad else []
    if not colds:
        raise Failed("no question was answered")
    say("cold", max(colds), f"slowest question cold: {max(colds):.2f} s")
    say("warm", max(warms), f"slowest question warm: {max(warms):.2f} s, median of {WARM}")
    say("memory", most, f"most memory: {most >> 20} MiB")
    print(f"{len(questions)} questions; over a goal: {', '.join(missed) or 'none'}")


main()
