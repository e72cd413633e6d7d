#!/usr/bin/env python3
"""From birth to applied: a storm of threads under `unstarve guard run`, and its idle cost.

    bench/guard_births.py UNSTARVE UNSTARVE-LOAD [--seconds 60] [--rate 2000]

Needs root. Touches only the threads of its own load (nice -3) and ends whatever it starts. The truth is what each thread
says of itself at its end; the latency is the guard's own histogram, from the kernel's time of the birth to the return
of the last system call for that thread.
"""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

POLICY = """version = 1
[[rule]]
name = "storm"
match = { comm = "storm" }
set = { nice = -3, reset-on-fork = true }
"""

def cpu_seconds(pid):
    """User and system time of a process and its reaped children."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def storm(load, seconds, rate, nice):
    command = [load, "births", "--lasts", str(seconds * 1000), "--rate", str(rate), "--lives", "150", "--nice", str(nice)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds + 30, check=True)
    return json.loads(done.stdout)


def end(process, limit=10):
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(limit)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def guard(arguments, room, source):
    state = room / f"state-{source}"
    policy = room / "policy.toml"
    policy.write_text(POLICY)
    command = [arguments.unstarve, "guard", "run", "--policy", policy, "--state", state, "--source", source]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        limit = time.monotonic() + 10
        while not (state / "guard.status").exists():
            if process.poll() is not None or time.monotonic() > limit:
                sys.exit(f"the guard does not start with --source {source}")
            time.sleep(0.05)
        before = cpu_seconds(process.pid)
        time.sleep(arguments.idle)
        idle = (cpu_seconds(process.pid) - before) / arguments.idle
        before = cpu_seconds(process.pid)
        made = storm(arguments.load, arguments.seconds, arguments.rate, -3)
        busy = (cpu_seconds(process.pid) - before) / arguments.seconds
        time.sleep(2.2)
        status = json.loads((state / "guard.status").read_text())
    finally:
        end(process)
    return {
        "who": f"guard, {status['source']}",
        "births": made["made"],
        "missed": made["wrong"],
        "lost": status["counts"]["events_lost"],
        "p50": f"{status['birth_p50_ns'] / 1e6:.3f} ms",
        "p99": f"{status['birth_p99_ns'] / 1e6:.3f} ms",
        "longest": f"{status['birth_max_ns'] / 1e6:.1f} ms",
        "idle": f"{idle * 100:.3f} %",
        "storm": f"{busy * 100:.1f} %",
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("unstarve")
    parser.add_argument("load")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--idle", type=int, default=30)
    parser.add_argument("--rate", type=int, default=2000)
    parser.add_argument("--sources", default="ebpf,netlink")
    arguments = parser.parse_args()
    if os.geteuid():
        sys.exit("needs root")
    memory = next((path for path in ("/run", "/dev/shm") if os.path.ismount(path)), None)
    rows = []
    with tempfile.TemporaryDirectory(prefix="unstarve-bench-", dir=memory) as room:
        for source in arguments.sources.split(","):
            rows.append(guard(arguments, pathlib.Path(room), source))
    columns = list(rows[0])
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(str(row[column]) for column in columns) + " |")
    load = os.getloadavg()[0]
    print(f"\n{os.cpu_count()} CPUs, Linux {os.uname().release}, load average at the end {load:.1f}")


if __name__ == "__main__":
    main()
