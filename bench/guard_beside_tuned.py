#!/usr/bin/env python3
"""`unstarve guard run` beside Debian's TuneD (its scheduler plugin), both doing the same.

    bench/guard_beside_tuned.py UNSTARVE UNSTARVE-LOAD [--seconds 20] [--rates 20,200,2000]

Both make every ksoftirqd, every kworker and every thread of a storm SCHED_BATCH: what both can set, and what harms nobody.
(TuneD sets no nice.) The truth comes from outside: each thread of the storm looks itself when it has the policy, and the
kernel threads' policies are read before, during and after. Needs root and the packages tuned and python3; TuneD's profile
and state are put back at the end.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from guard_births import cpu_seconds, end

ETC = pathlib.Path("/etc/tuned")
PROFILE = "unstarve-bench"
TUNED_CONF = """[main]
summary=The policy of a benchmark
[scheduler]
perf_process_fork=true
group.ksoftirqd=0:b:0:*:^\\[ksoftirqd/
group.kworker=0:b:0:*:^\\[kworker/
group.storm=0:b:0:*:unstarve-load births
"""
POLICY = """version = 1
[[rule]]
name = "ksoftirqd"
match = { kind = "ksoftirqd" }
set = { policy = "batch" }
[[rule]]
name = "kworker"
match = { kind = "kworker" }
set = { policy = "batch" }
[[rule]]
name = "storm"
match = { comm = "storm" }
set = { policy = "batch" }
"""


def kernel_threads():
    """The policy of each ksoftirqd and kworker that there is."""
    found = {}
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            stat = (path / "stat").read_text()
            name = stat[stat.index("(") + 1 : stat.rindex(")")]
            # Kernel threads are told by their flags (PF_KTHREAD), not by their names.
            fields = stat[stat.rindex(")") + 2 :].split()
            if int(fields[6]) & 0x200000 and name.startswith(("ksoftirqd/", "kworker/")):
                found[int(path.name), fields[19]] = os.sched_getscheduler(int(path.name))
        except (OSError, ValueError):
            pass
    return found


def batch(threads):
    return sum(policy == os.SCHED_BATCH for policy in threads.values())


def until(condition, limit):
    """Seconds until it holds, `None` if it never does."""
    began = time.monotonic()
    while time.monotonic() - began < limit:
        if condition():
            return time.monotonic() - began
        time.sleep(0.005)
    return None


class Guard:
    name = "unstarve guard"

    def __init__(self, arguments, room):
        (room / "policy.toml").write_text(POLICY)
        command = [arguments.unstarve, "guard", "run", "--policy", room / "policy.toml", "--state", room / "state"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def forget(self):
        pass


class Tuned:
    name = "TuneD"

    def __init__(self, _, room):
        self.kept = {}
        for name in ("active_profile", "profile_mode", "post_loaded_profile"):
            path = ETC / name
            self.kept[path] = path.read_bytes() if path.exists() else None
        (ETC / PROFILE).mkdir(exist_ok=True)
        (ETC / PROFILE / "tuned.conf").write_text(TUNED_CONF)
        command = ["tuned", "--no-dbus", "--no-socket", "--profile", PROFILE, "--log", room / "tuned.log"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def forget(self):
        shutil.rmtree(ETC / PROFILE, ignore_errors=True)
        # What it remembers of a run that was killed.
        shutil.rmtree("/run/tuned", ignore_errors=True)
        for path, content in self.kept.items():
            if content is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(content)


def restore(before):
    """Nobody's business but this script's: whatever is left changed is put back."""
    for (pid, start), policy in kernel_threads().items():
        old = before.get((pid, start), os.SCHED_OTHER)
        if policy != old:
            os.sched_setscheduler(pid, old, os.sched_param(0))


def left(before):
    """Kernel threads of before that are not as they were."""
    now = kernel_threads()
    return sum(now[key] != policy for key, policy in before.items() if key in now)


def storm(arguments, rate):
    command = [arguments.load, "births", "--lasts", str(arguments.seconds * 1000), "--rate", str(rate), "--lives", "1000"]
    done = subprocess.run(
        [*command, "--batch", "--watch"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=arguments.seconds + 60, check=True
    )
    return json.loads(done.stdout)


def ms(ns):
    return "-" if ns is None else f"{ns / 1e6:.2f} ms"


def measure(tool, arguments, room):
    before = kernel_threads()
    rows = []
    running = tool(arguments, room)
    try:
        ready = until(lambda: batch(kernel_threads()) == len(kernel_threads()), 30)
        reached = batch(kernel_threads())
        start = cpu_seconds(running.process.pid)
        time.sleep(arguments.idle)
        idle = (cpu_seconds(running.process.pid) - start) / arguments.idle
        for rate in map(int, arguments.rates.split(",")):
            start = cpu_seconds(running.process.pid)
            made = storm(arguments, rate)
            busy = (cpu_seconds(running.process.pid) - start) / arguments.seconds
            rows.append([tool.name, rate, made["made"], made["wrong"], ms(made["p50_ns"]), ms(made["p99_ns"]), ms(made["max_ns"]), f"{busy * 100:.1f} %"])
        time.sleep(2)
        missed = len(kernel_threads()) - batch(kernel_threads())
        end(running.process, 20)
        after_end = left(before)
        restore(before)
        running.forget()
        # Once more, killed.
        running = tool(arguments, room)
        until(lambda: batch(kernel_threads()) == len(kernel_threads()), 30)
        running.process.kill()
        running.process.wait()
        time.sleep(arguments.after_kill)
        after_kill = left(before)
    finally:
        if running.process.poll() is None:
            end(running.process)
        running.forget()
        restore(before)
    first = "-" if ready is None else f"{ready:.2f} s"
    facts = [tool.name, len(before), first, reached, missed, f"{idle * 100:.3f} %", after_end, after_kill]
    return rows, facts


def table(columns, rows):
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("unstarve")
    parser.add_argument("load")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--idle", type=int, default=20)
    parser.add_argument("--after-kill", type=int, default=5)
    parser.add_argument("--rates", default="20,200,2000")
    arguments = parser.parse_args()
    if os.geteuid():
        sys.exit("needs root")
    if not shutil.which("tuned"):
        sys.exit("needs TuneD: apt-get install tuned")
    storms, facts = [], []
    memory = next((path for path in ("/run", "/dev/shm") if os.path.ismount(path)), None)
    for tool in (Guard, Tuned):
        with tempfile.TemporaryDirectory(prefix="unstarve-bench-", dir=memory) as room:
            rows, fact = measure(tool, arguments, pathlib.Path(room))
            storms += rows
            facts.append(fact)
    table(["who", "births a second", "births", "missed", "median", "99th percentile", "longest", "CPU"], storms)
    print()
    table(["who", "kernel threads", "all set after", "set", "not set after the storms", "CPU when idle", "left after SIGTERM", "left after SIGKILL"], facts)
    print(f"\n{os.cpu_count()} CPUs, Linux {os.uname().release}, load average at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
