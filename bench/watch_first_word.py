#!/usr/bin/env python3
"""How long after a wait has begun `unstarve watch` says so, beside busy loops and a real-time hog.

    bench/watch_first_word.py UNSTARVE [--loops N] [--rounds R] [--nice N]

Each round starts a watch with a store of its own, N busy loops (80) and, on the last CPU, a task that waits there; then a SCHED_FIFO task
takes 80 of each 100 ms of that CPU for six seconds. The first word on the episode that names real-time tasks as culprits is taken from the
watch's standard error, with the moment at which it came. Three times are printed, in ms:

  hog     from the first moment of the hog to the word: how long nobody knows that it starves others
  wait    from the beginning of the waits that the counters saw (`since_mono_ns`) to the word: what thresholds take is in it
  told    from the reading that saw it (`at_ns`) to the word: what saying it takes

Those between readings, 250 ms, are in `hog` and `wait`. Needs root, chrt and taskset. Exit code 1 if a round has no word.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HOG = """
import sys, time
print(time.monotonic_ns(), flush=True)
end = time.monotonic() + 6
while time.monotonic() < end:
    until = time.monotonic() + 0.08
    while time.monotonic() < until: pass
    time.sleep(0.02)
"""
LOOP = "end=$((SECONDS + 40)); while ((SECONDS < end)); do :; done"


class Words(threading.Thread):
    """Lines of a stream, each with the wall's and the monotonic clock when it came."""

    def __init__(self, stream):
        super().__init__(daemon=True)
        self.stream, self.lines = stream, []
        self.start()

    def run(self):
        # What reads must not be late itself.
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(60))
        for line in self.stream:
            self.lines.append((time.time_ns(), time.monotonic_ns(), line))


def first_word(words, seconds):
    """When the first word came, and the episode's id."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for wall, mono, line in list(words.lines):
            found = re.search(r"episode (\S+) has begun: .*\(class", line)
            if found:
                return wall, mono, found[1]
        time.sleep(0.05)
    return None


def begun(store, name):
    """The first line about an episode in the store's log."""
    for line in (store / "episodes.jsonl").read_text().splitlines():
        episode = json.loads(line)
        if episode["id"] == name and episode["stage"] == "begun":
            return episode
    raise LookupError(name)


def blame(socket):
    """What the watch counted of waits behind others."""
    command = ["curl", "-s", "--max-time", "20", "--unix-socket", socket, "http://localhost/metrics"]
    text = subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout
    return "\n  ".join(line for line in text.splitlines() if line.startswith("unstarve_blame_seconds_total"))


def one(options, directory, cpu):
    config, store = directory / "watch.toml", directory / "store"
    config.write_text(f'[listen]\naddress = "unix:{directory}/metrics"\n[sinks]\nlog = "stderr"\n[store]\ndirectory = "{store}"\n')
    command = [options.unstarve, "watch", "--config", config, "--state", directory / "state", "--for", "40s"]
    if options.nice:
        command = ["nice", "-n", str(options.nice), *command]
    watch = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    words = Words(watch.stderr)
    time.sleep(3)
    loops = [subprocess.Popen(["bash", "-c", LOOP]) for _ in range(options.loops)]
    loops.append(subprocess.Popen(["taskset", "-c", str(cpu), "bash", "-c", LOOP]))
    time.sleep(4)
    command = ["chrt", "--fifo", "50", "taskset", "-c", str(cpu), sys.executable, "-c", HOG]
    hog = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    started = int(hog.stdout.readline())
    try:
        word = first_word(words, 20)
        if not word:
            # Of a role that waits for many others, too, real-time tasks may be to blame for less than half.
            print("no word:", *[line for _, _, line in words.lines], blame(directory / "metrics"), sep="\n  ", file=sys.stderr)
            return None
        wall, mono, name = word
        end = time.monotonic() + 5
        while True:
            try:
                episode = begun(store, name)
                break
            except (LookupError, OSError):
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)
        seen = episode["trigger"]
        print(f"   {seen['kind']} of {seen['victim'].get('role')}", file=sys.stderr)
        return (mono - started) / 1e6, (mono - seen["since_mono_ns"]) / 1e6, (wall - episode["at_ns"]) / 1e6
    finally:
        for child in [hog, *loops]:
            child.kill()
        watch.terminate()
        for child in [hog, *loops, watch]:
            child.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("unstarve")
    parser.add_argument("--loops", type=int, default=80)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--nice", type=int, default=0, help="of the watch; its unit has -10")
    options = parser.parse_args()
    options.unstarve = str(pathlib.Path(options.unstarve).resolve())
    # This script must see the words when they come.
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(60))
    cpu = max(os.sched_getaffinity(0))
    found = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory(dir="/root") as directory:
            times = one(options, pathlib.Path(directory), cpu)
        if times:
            print("hog {:.0f}  wait {:.0f}  told {:.0f}".format(*times), flush=True)
            found.append(times)
    for index, name in enumerate(["hog", "wait", "told"] if found else []):
        values = [times[index] for times in found]
        print(f"{name}: median {statistics.median(values):.0f} ms, most {max(values):.0f} ms")
    sys.exit(0 if len(found) == options.rounds else 1)


main()
