#!/usr/bin/env python3
"""Starves programs on purpose, and asks the watch for each of them: is there a line, with the right culprit and rule, the victim, and a time that is
the victim's own?

    watch_injections.py UNSTARVE [--count 40] [--gap 8] [--config FILE] [--keep DIR]

Truth is what was planted, and the /proc/PID/schedstat of victim and culprit, read about every 20 ms: what the victim waited from the begin of its episode to
the end, and that the culprit ran then and not before or after. `--gap` is the time between two injections: 8 s on a quiet machine, 1 s for a
crowded one. Real-time loads take at most 80 % of a CPU, for 4 s. Needs root, cgroups with the cpu controller, the file systems' tools for nothing.
Prints a line for each injection and the score; exit code 1 if one is missed or wrong.
"""
import argparse
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LASTS = 4.0
# Of the victim's own schedstat while its episode lasted; and the part of the culprit's runs that may lie outside.
TOLERANCE = 0.05
SAMPLING_PERIOD_S = 0.02
# The kernel adds a wait to its sum at about the moment at which its episode ends, perhaps after a sample of that moment.
MARGIN_NS = 50_000_000
# Of who samples. In real time it would be one of those that it looks for.
SAMPLERS_NICE = -20
# A limit that has stopped its group for less than this part of the victim's waits is not their cause: the victim waited for others.
BY_LIMIT = 0.5
# The watch looks for new groups about once a second. What is waited in one before counts for the role `other`.
FOUND_WITHIN = 1.5
PR_SET_NAME = 15
# What is planted: (kind, real-time priority and share of the culprit, real-time priority of the victim).
KINDS = ("fifo-long", "fifo-short", "over-real-time", "burst", "quota", "equals", "nice-19", "little")
HEALTHY = ("equals", "nice-19", "little")
# (runs, of a period), seconds; real-time priority of culprit and victim.
HOGS = {
    "fifo-long": ((1.6, 2.0), 20, 0),
    "fifo-short": ((0.16, 0.2), 20, 0),
    "over-real-time": ((0.15, 0.2), 40, 5),
    # It becomes real-time itself, and runs on without a switch.
    "burst": ((1.2, 4.0), 20, 0),
    "quota": (None, 0, 0),
    "equals": ((4.0, 4.0), 0, 0),
    "nice-19": ((4.0, 4.0), 0, 0),
    # A tenth is where the table of verdicts begins to warn.
    "little": ((0.01, 0.2), 20, 0),
}


def groups():
    """Where cgroups with the cpu controller are, and the names of their files: (directory, version)."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, at, kind, options, *_ = line.split()
        if kind == "cgroup" and "cpu" in options.split(","):
            return Path(at), 1
        if kind == "cgroup2" and "cpu" in Path(at, "cgroup.controllers").read_text().split():
            return Path(at), 2
    sys.exit("no cgroup file system with the cpu controller is mounted")


class Group:
    """A top-level cgroup, so that its tasks are a role of their own."""

    def __init__(self, name):
        root, self.version = groups()
        self.path = root / name
        self.path.mkdir()

    def add(self, pid):
        (self.path / "cgroup.procs").write_text(str(pid))

    def limit(self, part):
        if self.version == 1:
            (self.path / "cpu.cfs_quota_us").write_text(str(int(part * 100_000)))
        else:
            (self.path / "cpu.max").write_text(f"{int(part * 100_000)} 100000")

    def stopped(self):
        """For how long its limit has stopped its tasks, ns: the kernel's own count."""
        counts = dict(line.split() for line in (self.path / "cpu.stat").read_text().splitlines())
        return int(counts.get("throttled_time") or 1000 * int(counts.get("throttled_usec", 0)))

    def remove(self):
        for _ in range(50):
            try:
                return self.path.rmdir()
            except OSError:
                time.sleep(0.02)


def call_it(name):
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def hog(name, cpu, times, priority):
    """Child: runs for a part of each period, in real time if it has a priority."""
    call_it(name)
    os.sched_setaffinity(0, {cpu})
    runs, period = times
    begin = time.monotonic()
    if priority:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    at = 0.0
    while at < LASTS:
        while time.monotonic() < begin + at + runs:
            pass
        at += period
        time.sleep(max(0.0, begin + min(at, LASTS) - time.monotonic()))


def victim(name, cpu, priority, nice):
    """Child: wants the CPU for all of the time."""
    call_it(name)
    os.sched_setaffinity(0, {cpu})
    os.nice(nice)
    if priority:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    end = time.monotonic() + LASTS + 0.5
    while time.monotonic() < end:
        if priority:
            # In real time it leaves room for others.
            until = time.monotonic() + 0.002
            while time.monotonic() < until:
                pass
            time.sleep(0.018)


def child(work, *arguments):
    pid = os.fork()
    if pid:
        return pid
    try:
        work(*arguments)
    finally:
        os._exit(0)


def sample(children):
    """What the victim waited and the culprit ran, by the kernel, at many times until they have ended: (ns since 1970, waited, ran)."""
    samples, latest = [], {}
    os.setpriority(os.PRIO_PROCESS, 0, SAMPLERS_NICE)
    left = list(children)
    while left:
        for pid in left:
            # It has its sums until somebody waits for it.
            latest[pid] = [int(number) for number in Path(f"/proc/{pid}/schedstat").read_text().split()[:2]]
        hogs = [latest[pid][0] for pid in children[1:]]
        samples.append((time.time_ns(), latest[children[0]][1], sum(hogs)))
        left = [pid for pid in left if os.waitpid(pid, os.WNOHANG) == (0, 0)]
        time.sleep(SAMPLING_PERIOD_S)
    return samples


def grown(samples, begin, end, which):
    """What a sum grew by between two times. The kernel adds a wait when it ends."""
    before = max((sample for sample in samples if sample[0] <= begin), default=samples[0])
    after = min((sample for sample in samples if sample[0] >= end), default=samples[-1])
    return after[which] - before[which]


def inject(number, kind, cpu):
    """Plants one, and says what was planted and for how long its victim waited."""
    times, priority, victims_priority = HOGS[kind]
    culprit, sufferer = f"hog{number:02}", f"vic{number:02}"
    group = Group(f"inject{number:02}")
    # A group of version 1 has no time for real-time tasks unless it is given some.
    name = None if victims_priority else f"/inject{number:02}"
    time.sleep(FOUND_WITHIN)
    children = []
    try:
        children.append(child(victim, sufferer, cpu, victims_priority, 19 if kind == "nice-19" else 0))
        if name:
            group.add(children[0])
        if kind == "quota":
            group.limit(0.2)
        else:
            time.sleep(0.2)
            children.append(child(hog, culprit, cpu, times, priority))
        samples = sample(children)
        children = []
        stopped = group.stopped()
    finally:
        for pid in children:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        group.remove()
    waited = samples[-1][1] - samples[0][1]
    return {"number": number, "kind": kind, "group": name, "culprit": culprit, "victim": sufferer, "waited": waited, "stopped": stopped, "samples": samples}


def parties(episode):
    """Whom an episode names as victims, and whom as culprits."""
    seen = episode.get("trigger") or {}
    victims = [episode.get("victim"), seen.get("victim"), *(other["victim"] for other in episode.get("victims", []))]
    culprits = [episode.get("culprit"), seen.get("culprit")]
    return [party for party in victims if party], [party for party in culprits if party]


def judge(planted, episodes):
    """What is wrong with the lines about it; empty if nothing is."""
    name = planted["group"]
    is_victim = lambda party: party.get("comm") == planted["victim"] or name and name in (party.get("role"), party.get("cgroup"))
    about = [episode for episode in episodes if any(map(is_victim, parties(episode)[0]))]
    by_culprit = [episode for episode in episodes if any(party.get("comm") == planted["culprit"] for party in parties(episode)[1])]
    if planted["kind"] in HEALTHY:
        # Another one's real-time task may have kept the victim waiting.
        return "a false episode" if by_culprit else ""
    if planted["kind"] == "quota":
        if planted["stopped"] < BY_LIMIT * planted["waited"]:
            return "" if about else "no line"
        right = [episode for episode in about if episode.get("rule") == "throttled"]
        return "" if right else ("no line" if not about else "another rule")
    if not by_culprit:
        return "no line" if not about else "another culprit"
    # Among real-time tasks the priority decides.
    rule = "priority" if planted["kind"] == "over-real-time" else "class"
    if not any(rule in (episode.get("rule"), (episode.get("trigger") or {}).get("rule")) for episode in by_culprit):
        return "another rule"
    named = [episode for episode in by_culprit if episode in about]
    if not named:
        return "the victim is not named"
    # Its role has no other task: what the counters saw of it is what it waited.
    own = [episode for episode in named if name and (episode.get("trigger") or {}).get("victim", {}).get("role") == name]
    own = [episode for episode in own if episode.get("waited_ns")]
    if own:
        longest = max(own, key=lambda episode: episode["waited_ns"])
        end, said = longest["ended_at_ns"], longest["waited_ns"] / 1e6
        begin, end = end - longest["duration_ns"] - MARGIN_NS, end + MARGIN_NS
        samples = planted["samples"]
        waited = grown(samples, begin, end, 1) / 1e6
        if abs(said - waited) > TOLERANCE * waited:
            return f"waited {said:.0f} ms by its line, {waited:.0f} ms by its own schedstat in that time"
        ran, of_all = grown(samples, begin, end, 2) / 1e6, (samples[-1][2] - samples[0][2]) / 1e6
        if ran < (1 - TOLERANCE) * of_all:
            return f"its line lasts while the culprit ran {ran:.0f} of {of_all:.0f} ms"
    return ""


def episodes_of(unstarve, store):
    """The last word on each."""
    text = subprocess.run([unstarve, "watch", "episodes", "--json", "--store", store], check=True, capture_output=True, text=True).stdout
    words = [json.loads(line) for line in text.splitlines()]
    return list({word["id"]: word for word in words}.values())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("unstarve")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--gap", type=float, default=8.0)
    parser.add_argument("--config", help="of the watch, but for its store")
    parser.add_argument("--keep", help="the directory, which stays")
    arguments = parser.parse_args()
    place = arguments.keep or tempfile.mkdtemp(prefix="unstarve-inject-")
    os.makedirs(place, mode=0o700, exist_ok=True)
    store = f"{place}/store"
    config = Path(arguments.config).read_text() if arguments.config else 'version = 1\n[listen]\naddress = "off"\n'
    Path(place, "watch.toml").write_text(f'{config}\n[store]\ndirectory = "{store}"\n')
    state = f"{place}/state"
    os.makedirs(state, mode=0o755, exist_ok=True)
    log = open(f"{place}/watch.log", "w")
    watch = subprocess.Popen([arguments.unstarve, "watch", "--config", f"{place}/watch.toml", "--state", state], stdout=log, stderr=log)
    try:
        time.sleep(5)
        if watch.poll() is not None:
            sys.exit(f"the watch has ended: {Path(place, 'watch.log').read_text()[-2000:]}")
        running, planted = [], []
        cpus = sorted(os.sched_getaffinity(0))
        for number in range(arguments.count):
            read, write = os.pipe()
            def report():
                with os.fdopen(write, "w") as file:
                    json.dump(inject(number, KINDS[number % len(KINDS)], cpus[number % len(cpus)]), file)

            pid = child(report)
            os.close(write)
            running.append((pid, read))
            time.sleep(arguments.gap if arguments.gap >= 1 else 1)
        for pid, read in running:
            with os.fdopen(read) as file:
                planted.append(json.load(file))
            os.waitpid(pid, 0)
        # The last ones are over after `calm`.
        time.sleep(14)
    finally:
        watch.send_signal(signal.SIGTERM)
        watch.wait(60)
    found = episodes_of(arguments.unstarve, store)
    wrong = 0
    for one in planted:
        said = judge(one, found)
        wrong += bool(said)
        print(f"{one['number']:>3}  {one['kind']:<15} waited {one['waited'] / 1e6:>7.0f} ms  {said or 'right'}")
    print(f"{len(planted) - wrong} of {len(planted)} right, {len(found)} episodes, load {os.getloadavg()[0]:.1f}")
    if not arguments.keep:
        shutil.rmtree(place)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
