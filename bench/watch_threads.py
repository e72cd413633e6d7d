#!/usr/bin/env python3
"""Runs `unstarve watch` on a machine with very many threads: it has to count, and to stay small.

    bench/watch_threads.py UNSTARVE [THREADS]        60,000 if not said

The threads sleep, in processes of 2,000. Half of them are there when the watch starts, the others come while it counts. Prints how long
it took to count for the first time, and then, without and with all threads: the watch's CPU time in ten seconds, its resident set, and
what it could not follow. Exit code 1 if it followed fewer or has grown by more than 16 MiB, 77 if there is no room for the threads.
Needs root. `kernel.pid_max` is raised for as long as it runs.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

EACH = 2000
PID_MAX = pathlib.Path("/proc/sys/kernel/pid_max")


def sleepers():
    """A process of so many threads, which ends with its standard input."""
    threading.stack_size(64 << 10)
    end = threading.Event()
    for _ in range(EACH - 1):
        threading.Thread(target=end.wait, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()
    os._exit(0)


def start(count):
    """So many threads, in processes."""
    processes = []
    for _ in range(count // EACH):
        process = subprocess.Popen(
            [sys.executable, __file__, "--sleepers"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        processes.append(process)
        if process.stdout.readline() != "ready\n":
            end(processes)
            sys.exit(77)
    return processes


def end(processes):
    for process in processes:
        process.stdin.close()
    for process in processes:
        process.wait()


class Watch:
    def __init__(self, unstarve, place):
        config = place / "watch.toml"
        config.write_text(f'[store]\ndirectory = "{place}/store"\n[listen]\naddress = "off"\n[sinks]\nlog = "off"\n')
        self.unstarve, self.state = unstarve, place / "state"
        begun = time.monotonic()
        command = [unstarve, "watch", "--config", config, "--state", self.state]
        self.process = subprocess.Popen(command, stderr=(place / "err").open("w"))
        while self.status() is None or self.status()["at"] is None:
            if self.process.poll() is not None:
                sys.exit((place / "err").read_text())
            time.sleep(0.02)
        self.took = time.monotonic() - begun

    def status(self):
        asked = subprocess.run(
            [self.unstarve, "watch", "status", "--json", "--state", self.state], capture_output=True, text=True
        )
        return json.loads(asked.stdout) if asked.returncode == 0 else None

    def cpu(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident(self):
        lines = pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024

    def line(self, what):
        before = self.cpu()
        time.sleep(10)
        status = self.status()
        threads = int(pathlib.Path("/proc/loadavg").read_text().split()[3].split("/")[1])
        print(
            f"{what}: {threads} threads on the machine, {self.cpu() - before:.2f} s of CPU in 10 s, {self.resident():.1f} MiB resident, "
            f"{status['lost']['untracked_tasks']} not followed, engine {status['engine']}",
            flush=True,
        )
        return self.resident(), status["lost"]["untracked_tasks"]


def main(unstarve, count):
    old = PID_MAX.read_text()
    processes, watch = [], None
    try:
        PID_MAX.write_text(str(max(int(old), 2 * count + 65536)))
        with tempfile.TemporaryDirectory(dir="/root") as place:
            processes += start(count // 2)
            watch = Watch(unstarve, pathlib.Path(place))
            print(f"counts after {watch.took:.2f} s")
            small, _ = watch.line("half")
            processes += start(count - count // 2)
            large, untracked = watch.line("all")
            watch.process.terminate()
            watch.process.wait()
    finally:
        if watch is not None and watch.process.poll() is None:
            watch.process.kill()
            watch.process.wait()
        end(processes)
        PID_MAX.write_text(old)
    return 1 if untracked or large > small + 16 else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--sleepers"]:
        sleepers()
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(os.path.realpath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 60_000))
