#!/usr/bin/env python3
"""Kills the guard at random moments while its tasks have children, and looks whether anything stays changed.

    bench/guard_chaos.py UNSTARVE [--kill-points 1000] [--seed 1] [--limit SECONDS] [--without-bpffs] [--only WHAT]

Needs root. Five families of processes (ordinary, nice 5, SCHED_BATCH, SCHED_FIFO 1, pinned to a CPU) fork, fork and exec,
fork twice, and start threads all the while. Rules change them by `guard run`, `apply` and `verify`; `knobs` changes a setting.
At random moments guard, dead-man, both, an undo or a knobs command get SIGKILL, SIGSTOP or SIGTERM; now and then the state
directory, a small tmpfs, is removed or filled. Every few kills, and at the end, one `guard undo` and one `knobs undo` run
to their ends, and then every thread of every living descendant (found by a mark in its environment, whoever its parent is
by now) must have what its family has. Births never pause. Touches nothing else; ends whatever it starts.

The same for record, top and watch, alone and together with the process that removes their tracing instances: what is killed alone leaves
no instance, what is killed together none after the next start, and `record --salvage` leaves no hidden directory. And for `fix`, whose
undo must give a hog back what it had. With --without-bpffs nothing is mounted at /sys/fs/bpf: then orphans that are born after both guard
and dead-man were killed, or after apply, are not found (docs/guard-design.md, "Children"), so that is left out.
"""
import argparse
import collections
import ctypes
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

MARK = "UNSTARVE_CHAOS"
SETTING = "sched_cfs_bandwidth_slice_us"
SETTING_FILE = pathlib.Path("/proc/sys/kernel") / SETTING
CPUS = frozenset(os.sched_getaffinity(0))
LAST = max(CPUS)
POLICIES = {os.SCHED_OTHER: "other", os.SCHED_BATCH: "batch", os.SCHED_FIFO: "fifo", os.SCHED_RR: "rr"}

# Policy, real-time priority, nice, CPUs; no family has reset-on-fork.
FAMILIES = {
    "plain": (os.SCHED_OTHER, 0, 0, CPUS),
    "niced": (os.SCHED_OTHER, 0, 5, CPUS),
    "batch": (os.SCHED_BATCH, 0, 0, CPUS),
    "fifo": (os.SCHED_FIFO, 1, 0, CPUS),
    "pinned": (os.SCHED_OTHER, 0, 0, frozenset([LAST])),
}


def become(tid, attributes):
    policy, priority, nice, cpus = attributes
    os.sched_setaffinity(tid, cpus)
    os.sched_setscheduler(tid, policy, os.sched_param(priority))
    os.setpriority(os.PRIO_PROCESS, tid, nice)


def attributes(tid):
    """What a thread has now; the policy with its reset-on-fork bit."""
    policy = os.sched_getscheduler(tid)
    return policy, os.sched_getparam(tid).sched_priority, os.getpriority(os.PRIO_PROCESS, tid), frozenset(os.sched_getaffinity(tid))


# ---- the families -------------------------------------------------------------------------------------------------


def family(name, rate, seconds):
    """Has children until its time is over or its own parent has ended."""
    become(0, FAMILIES[name])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    dice = random.Random(f"{name}{os.getpid()}")
    parent, end = os.getppid(), time.monotonic() + seconds
    while time.monotonic() < end and os.getppid() == parent:
        time.sleep(dice.expovariate(rate))
        # Most are gone soon; some see many kills.
        lives = dice.choice([0.05, 0.3, 1, 3]) if dice.random() < 0.985 else 30
        kind = dice.choice([born, execs, orphan, orphan_with_session, orphan_execs, threads, chain])
        if os.fork() == 0:
            try:
                kind(lives)
            finally:
                os._exit(0)


def born(lives):
    time.sleep(lives)


def execs(lives):
    os.execvp("sleep", ["sleep", str(lives)])


def orphan(lives):
    if os.fork() == 0:
        time.sleep(lives)


def orphan_with_session(lives):
    os.setsid()
    if os.fork() == 0:
        time.sleep(lives)


def orphan_execs(lives):
    os.setsid()
    if os.fork() == 0:
        execs(lives)


def threads(lives):
    for _ in range(3):
        threading.Thread(target=time.sleep, args=(lives,)).start()
        time.sleep(0.03)
    time.sleep(lives)


def chain(lives):
    for _ in range(4):
        time.sleep(0.02)
        if os.fork() != 0:
            break
    time.sleep(lives)


# ---- what fix is tried on ----


HOG = (os.SCHED_FIFO, 5, 0, frozenset([LAST]))


def busy(role):
    """Three seconds of load: 70 of 100 ms real-time, or all the time ordinary. The hog then sleeps until it is killed."""
    become(0, HOG if role == "hog" else (os.SCHED_OTHER, 0, 0, frozenset([LAST])))
    # Its own end, if nobody is there to end it.
    parent, end = os.getppid(), time.monotonic() + 3
    while time.monotonic() < end:
        until = time.monotonic() + 0.07
        while time.monotonic() < until:
            pass
        if role == "hog":
            time.sleep(0.03)
    while role == "hog" and os.getppid() == parent:
        time.sleep(0.5)


# ---- what is there ------------------------------------------------------------------------------------------------


def descendants(mark):
    """Process ids of all that carry the mark, with their family."""
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            environment = pathlib.Path(entry.path, "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for variable in environment:
            if variable.startswith(mark):
                yield int(entry.name), variable[len(mark):].decode()


TRACEFS = pathlib.Path("/sys/kernel/tracing")


def instances(pid):
    """Tracing instances of a process, by their names."""
    try:
        names = os.listdir(TRACEFS / "instances")
    except OSError:
        return []
    return [name for name in names if name == f"unstarve-{pid}" or name.startswith(f"unstarve-{pid}-")]


def enabled(pid):
    """Those that have events enabled."""
    def is_on(name):
        try:
            return (TRACEFS / "instances" / name / "events/enable").read_text().strip() != "0"
        except OSError:
            return False

    return [name for name in instances(pid) if is_on(name)]


def children(pid):
    """Of all threads of a process."""
    found = []
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(child) for child in path.read_text().split()]
        except OSError:
            pass
    return found


def comm(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return None


def stat(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace").rsplit(")", 1)[1].split()
    except OSError:
        return None


def changed(mark):
    """Threads that have not what their family has, and how many were looked at."""
    wrong, seen = [], 0
    for pid, name in descendants(mark):
        try:
            tids = [int(tid) for tid in os.listdir(f"/proc/{pid}/task")]
        except OSError:
            continue
        for tid in tids:
            try:
                now = attributes(tid)
            except OSError:
                continue
            fields = stat(tid)
            if fields is None or fields[0] in "ZX":
                continue
            seen += 1
            if now != FAMILIES[name]:
                wrong.append((tid, pid, name, now, fields[1], fields[19]))
    return wrong, seen


# ---- chaos --------------------------------------------------------------------------------------------------------


class Chaos:
    def __init__(self, unstarve, seed, room, without_bpffs):
        self.unstarve = unstarve
        self.dice = random.Random(seed)
        self.room = room
        self.small = room / "small"
        self.state = self.small / "state"
        self.audit = room / "audit"
        self.journal = room / "knobs.journal"
        self.mark = f"{MARK}={os.getpid()}:"
        self.families = []
        self.counts = collections.Counter()
        self.kills = 0
        self.left = 0
        self.last = None
        self.in_place_at_kill = 0
        self.checks = 0
        self.looked_at = 0
        self.since = []
        self.without_bpffs = without_bpffs
        self.hog = None
        self.recording = room / "fix.dat"
        self.fix_state = room / "fix"
        self.setting = SETTING_FILE.read_text() if SETTING_FILE.exists() else None

    def start_families(self, rate, seconds):
        for name in FAMILIES:
            environment = dict(os.environ, **{MARK: f"{os.getpid()}:{name}"})
            command = [sys.executable, __file__, "family", name, str(rate), str(seconds), self.tag()]
            self.families.append(subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL))
        time.sleep(1)

    def tag(self):
        return f"chaos-{os.getpid()}"

    def end_families(self):
        for process in self.families:
            process.kill()
        for process in self.families:
            process.wait()
        for _ in range(20):
            alive = list(descendants(self.mark.encode()))
            for pid, _ in alive:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            if not alive:
                break
            time.sleep(0.05)

    def policy(self):
        """A random policy for some families: whole families by their command line, or the parent alone."""
        dice, rules = self.dice, []
        for name in dice.sample(list(FAMILIES), dice.randint(1, len(FAMILIES))):
            settings = []
            if name == "plain" and dice.random() < 0.3:
                # For the others, what is born with reset-on-fork is not what it would have been.
                settings += ['policy = "fifo"', "rt-priority = 2", "reset-on-fork = true"]
            elif dice.random() < 0.5:
                kind = dice.choice(["batch", "fifo", "rr"] if name != "fifo" else ["fifo", "rr"])
                settings += [f'policy = "{kind}"'] + (["rt-priority = 3"] if kind != "batch" else [])
            if dice.random() < 0.7 or not settings:
                settings.append(f"nice = {dice.choice([-9, -4, -1])}")
            if dice.random() < 0.5:
                settings.append(f'affinity = "{min(CPUS)}"')
            which = dice.choice([f"*family {name} *{self.tag()}", f"*family {name} *{self.tag()}", f"sleep *"])
            match = f'cmdline = "{which}"' if which != "sleep *" else f'cmdline = "*family {name} *", parent = "pid:{os.getpid()}"'
            rules.append(f'[[rule]]\nname = "{name}"\nmatch = {{ {match} }}\nset = {{ {", ".join(settings)} }}\n')
        path = self.room / "policy.toml"
        path.write_text("version = 1\n[limits]\ndead-man = 2\nrt-budget = 95\n" + "".join(rules))
        return path

    def run(self, *arguments, wait=None):
        with open(self.room / "out", "ab") as out:
            command = [self.unstarve, *map(str, arguments)]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=out)
        self.last = process
        if wait:
            try:
                process.wait(wait)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        return process

    def guard(self, verb, *more):
        return self.run("guard", verb, "--state", self.state, "--audit", self.audit, *more)

    def hit(self, pid, number, what):
        """One kill point, if the process is there."""
        in_place = self.in_place()
        try:
            os.kill(pid, number)
        except OSError:
            return False
        self.in_place_at_kill += in_place
        self.kills += 1
        self.counts[what] += 1
        self.since.append(what)
        return True

    def in_place(self):
        """Whether the families' first processes, or the setting, are changed now."""
        first = zip(self.families, FAMILIES.values())
        return any(attributes(process.pid) != wanted for process, wanted in first) or (
            self.setting is not None and SETTING_FILE.read_text() != self.setting)

    def hit_child(self, process, number, what):
        # One that has ended before is not a kill point.
        return process.poll() is None and self.hit(process.pid, number, what)

    @staticmethod
    def dead_man_of(pid):
        try:
            children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            return None
        return int(children[0]) if children else None

    def pause(self, longest):
        time.sleep(self.dice.random() * longest)

    def disturb(self, remembered=False):
        """
        Something happens to the state directory, sometimes. It is removed only where somebody is left who remembers: without
        journal, guard and dead-man nobody knows what was changed.
        """
        case = self.dice.random()
        if case < 0.08 and remembered:
            shutil.rmtree(self.state, ignore_errors=True)
            self.counts["state directory removed"] += 1
        elif case < 0.16:
            self.fill()
            self.counts["state directory filled"] += 1

    def fill(self):
        try:
            with open(self.small / "full", "wb", buffering=0) as file:
                while True:
                    file.write(b"\0" * 4096)
        except OSError:
            pass

    def around_guard(self):
        guard = self.guard("run", "--policy", self.policy())
        self.pause(0.9)
        dead_man = self.dead_man_of(guard.pid)
        case = self.dice.random()
        self.disturb(remembered=dead_man is not None and case < 0.45)
        if case < 0.30 or dead_man is None:
            self.hit_child(guard, signal.SIGKILL, "guard SIGKILL")
        elif case < 0.45:
            self.hit_child(guard, signal.SIGTERM, "guard SIGTERM")
            if self.dice.random() < 0.6:
                self.pause(0.12)
                # Its dead-man remembers.
                self.hit_child(guard, signal.SIGKILL, "guard SIGKILL while it takes back")
        elif case < 0.52:
            self.hit_child(guard, signal.SIGSTOP, "guard SIGSTOP")
            # Its dead-man must end it.
            self.settle(guard, 6)
        elif case < 0.64:
            self.hit(dead_man, signal.SIGKILL, "dead-man SIGKILL")
            self.pause(0.6)
            self.hit_child(guard, self.after_its_dead_man(), "guard after its dead-man")
        elif case < 0.70:
            self.hit(dead_man, signal.SIGSTOP, "dead-man SIGSTOP")
            # It is replaced after 2 s; before that the guard alone knows, and then the undo has to wake it.
            self.pause(3.5)
            self.hit_child(guard, self.after_its_dead_man(), "guard after its stopped dead-man")
        elif case < 0.85 and not self.without_bpffs:
            first, second = self.dice.sample([(guard.pid, "guard"), (dead_man, "dead-man")], 2)
            self.hit(first[0], signal.SIGKILL, f"both SIGKILL, {first[1]} first")
            self.hit(second[0], signal.SIGKILL, f"both SIGKILL, {second[1]} second")
        else:
            self.hit_child(guard, signal.SIGKILL, "guard SIGKILL")
            if self.without_bpffs:
                return self.settle(guard, 8)
            self.pause(0.05)
            self.hit(dead_man, signal.SIGKILL, "dead-man SIGKILL while it takes back")
        self.settle(guard, 8)

    def after_its_dead_man(self):
        return signal.SIGTERM if self.without_bpffs else self.dice.choice([signal.SIGKILL, signal.SIGTERM])

    def around_verify(self):
        verify = self.guard("verify", "--for", "1", "--policy", self.policy())
        self.pause(3.6)
        dead_man = self.dead_man_of(verify.pid)
        self.disturb()
        case = self.dice.random()
        if case < 0.2 and dead_man and not self.without_bpffs:
            self.hit(verify.pid, signal.SIGKILL, "verify SIGKILL")
            self.hit(dead_man, signal.SIGKILL, "verify's dead-man SIGKILL")
        elif case < 0.6:
            self.hit_child(verify, signal.SIGKILL, "verify SIGKILL")
        else:
            self.hit_child(verify, signal.SIGTERM, "verify SIGTERM")
        self.settle(verify, 10)

    def around_apply(self):
        if self.without_bpffs:
            return
        apply = self.guard("apply", "--once", "--policy", self.policy())
        self.pause(0.25)
        self.disturb()
        self.hit_child(apply, signal.SIGKILL, "apply SIGKILL")
        self.settle(apply, 5)

    def around_undo(self):
        undo = self.guard("undo")
        self.pause(0.2)
        self.hit_child(undo, signal.SIGKILL, "undo SIGKILL")
        self.settle(undo, 8)

    def around_knobs(self):
        if self.setting is None:
            return
        if self.dice.random() < 0.6:
            knobs = self.run("knobs", "set", SETTING, self.dice.randint(4000, 4900), "--journal", self.journal)
            what = "knobs set SIGKILL"
        else:
            knobs = self.run("knobs", "undo", "--journal", self.journal)
            what = "knobs undo SIGKILL"
        self.pause(0.012)
        self.hit_child(knobs, signal.SIGKILL, what)
        self.settle(knobs, 5)

    # ---- tracing instances ----

    def around_record(self):
        directory = self.room / "recordings"
        directory.mkdir(exist_ok=True)
        record = self.run("record", "--for", "20s", "-o", directory / "t.dat")
        self.around_instance(record, "record", 0.7 if self.dice.random() < 0.8 else 3)
        subprocess.run([self.unstarve, "record", "--salvage", directory], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        hidden = [name for name in os.listdir(directory) if name.startswith(".")]
        self.count_left(hidden, f"hidden directories after --salvage: {hidden}")
        shutil.rmtree(directory, ignore_errors=True)

    def around_top(self):
        engine = self.dice.choice([["--engine", "tracefs"], []])
        self.around_instance(self.run("top", "--json", "--for", "20s", *engine), "top", 1.0)

    def around_watch(self):
        config = self.room / "watch.toml"
        store = self.room / "store"
        config.write_text(f'[store]\ndirectory = "{store}"\n[listen]\naddress = "off"\n[sinks]\nlog = "off"\n')
        watch = self.run("watch", "--for", "20s", "--config", config, "--state", self.room / "watch")
        self.around_instance(watch, "watch", 2.5)
        shutil.rmtree(store, ignore_errors=True)

    def around_instance(self, process, what, longest):
        """Kills it, in one case of three with what would remove its instances; then none may be there, or after the next start."""
        self.pause(longest)
        removers = [pid for pid in children(process.pid) if comm(pid) == "unstarve-remove"]
        together = removers and self.dice.random() < 0.33
        if together:
            for pid in removers:
                self.hit(pid, signal.SIGKILL, f"{what}'s remover SIGKILL")
        self.hit_child(process, signal.SIGKILL, f"{what} SIGKILL")
        self.settle(process, 8)
        end = time.monotonic() + 15
        while not together and enabled(process.pid) and time.monotonic() < end:
            time.sleep(0.01)
        if not together:
            left = enabled(process.pid)
            self.count_left(left, f"{what}: instances with events enabled: {left}")
        if together or self.dice.random() < 0.2:
            subprocess.run([self.unstarve, "doctor"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
            left = instances(process.pid)
            self.count_left(left, f"{what}: instances after the next start: {left}")

    def count_left(self, left, text):
        self.checks += 1
        if left:
            self.left += len(left)
            print(f"after {self.kills} kill points: {text}", flush=True)

    # ---- fix ----

    def start_hog(self):
        """A real-time hog for three seconds, an ordinary program on its CPU, and a recording of both; then the hog sleeps."""
        command = [sys.executable, __file__, "hog"]
        self.hog = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        victim = subprocess.Popen([sys.executable, __file__, "victim"], stdin=subprocess.DEVNULL)
        time.sleep(0.3)
        subprocess.run([self.unstarve, "record", "--for", "2s", "-o", self.recording], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        victim.wait(20)
        planned = self.fix("--json")
        if planned.returncode != 0:
            print(f"skipped: fix: {planned.stderr.strip()[:200]} {planned.stdout.strip()[:200]}", flush=True)
            self.hog.kill()
            self.hog.wait()
            self.hog = None

    def fix_command(self, *more):
        return ["fix", self.recording, "--finding", "rt-starvation", "--remedy", "intruder-to-fair", *more, "--state", self.fix_state]

    def fix(self, *more):
        return subprocess.run([self.unstarve, *map(str, self.fix_command(*more))], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)

    def around_fix(self):
        if self.hog is None:
            return
        verify = ["--verify", "1s"] if self.dice.random() < 0.4 else []
        fix = self.run(*self.fix_command("--apply", *verify))
        self.pause(3 if verify else 0.4)
        self.hit_child(fix, signal.SIGKILL, "fix --verify SIGKILL" if verify else "fix SIGKILL")
        self.settle(fix, 8)
        for _ in range(40):
            undo = subprocess.run([self.unstarve, "fix", "--undo", "--all", "--state", self.fix_state], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
            if undo.returncode == 0:
                break
            # The dead-man of a trial may be at work.
            time.sleep(0.25)
        now = attributes(self.hog.pid)
        self.count_left([now] if now != HOG else [], f"fix: {now} and not {HOG}: {undo.stderr.strip()}")
        become(self.hog.pid, HOG)

    def settle(self, process, limit):
        """Waits for the end of something that was told to end, and then sees to it."""
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            self.counts["had to be killed at last"] += 1
            process.kill()
            process.wait()

    def round(self, only):
        kinds = {"record": self.around_record, "top": self.around_top, "watch": self.around_watch, "fix": self.around_fix}
        if only == "instances":
            only = self.dice.choice(["record", "top", "watch"])
        if only is None and self.dice.random() < 0.3:
            only = self.dice.choice(list(kinds))
        if only in kinds:
            return kinds[only]()
        case = self.dice.random()
        if case < 0.50:
            self.around_guard()
        elif case < 0.56:
            self.around_verify()
        elif case < 0.74:
            self.around_apply()
        elif case < 0.86:
            self.around_undo()
        else:
            self.around_knobs()
        if self.dice.random() < 0.7:
            self.make_room()

    def make_room(self):
        (self.small / "full").unlink(missing_ok=True)

    def complete(self, *arguments):
        """Runs to its end; other guards of this machine may be in the way for a while."""
        for _ in range(120):
            done = subprocess.run([self.unstarve, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
            if "another guard is at work" not in done.stderr:
                return done
            self.counts["undo found the lock taken"] += 1
            time.sleep(0.5)
        return done

    def check(self):
        """One undo each, and everything must be as if nothing had been."""
        # A third of the time the state directory is still full then.
        if self.dice.random() < 0.67:
            self.make_room()
        undo = self.complete("guard", "undo", "--state", self.state, "--audit", self.audit)
        knobs = self.complete("knobs", "undo", "--all", "--journal", self.journal) if self.setting else None
        wrong, seen = changed(self.mark.encode())
        time.sleep(0.15)
        again, more = changed(self.mark.encode())
        self.checks += 1
        self.looked_at += seen + more
        wrong = {entry[0]: entry for entry in wrong + again}
        setting = SETTING_FILE.read_text() if self.setting else None
        # A directory that was removed, and that nobody holds any more, has nothing to take back.
        failed = undo.returncode and "no journal in" not in undo.stderr
        if wrong or failed or setting != self.setting:
            self.left += len(wrong) + (setting != self.setting)
            print(f"after {self.kills} kill points ({', '.join(self.since)}):", flush=True)
            print(f"  guard undo: {undo.returncode} {undo.stderr.strip()}")
            if setting != self.setting:
                print(f"  {SETTING}: {setting}, was {self.setting}; knobs undo: {knobs.stderr.strip()}")
                SETTING_FILE.write_text(self.setting)
            for tid, pid, name, now, parent, start in wrong.values():
                policy = POLICIES.get(now[0] & 0xFF, now[0]) + (" with reset-on-fork" if now[0] & 0x40000000 else "")
                print(f"  {tid} of {pid} ({name}), parent {parent}, start {start}: {policy} {now[1]}, nice {now[2]}, CPUs {sorted(now[3])}")
                for line in self.audit_of(tid):
                    print(f"      {line}")
                try:
                    become(tid, FAMILIES[name])
                except OSError:
                    pass
            sys.stdout.flush()
        self.since = []

    def audit_of(self, tid):
        try:
            return [line.strip() for line in open(self.audit, errors="replace") if f'"tid":{tid},' in line or f"task {tid}" in line][-6:]
        except OSError:
            return []


def chaos(arguments):
    memory = next(path for path in ("/run", "/dev/shm") if os.path.ismount(path) or path == "/dev/shm")
    # This process waits for nobody whom it makes real-time: families are, but sleep nearly all the time.
    room = pathlib.Path(tempfile.mkdtemp(prefix="unstarve-chaos-", dir=memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    it = Chaos(os.path.abspath(arguments.unstarve), arguments.seed, room, arguments.without_bpffs)
    it.small.mkdir()
    # As on every host with systemd.
    mounts_bpf = os.path.isdir("/sys/fs/bpf") and not os.path.ismount("/sys/fs/bpf") and not arguments.without_bpffs
    if arguments.without_bpffs and os.path.ismount("/sys/fs/bpf"):
        sys.exit("a file system is mounted at /sys/fs/bpf, so --without-bpffs cannot be tried here")
    mounts_tracefs = not TRACEFS.joinpath("instances").is_dir()
    if mounts_tracefs:
        mounts_tracefs = subprocess.run(["mount", "-t", "tracefs", "none", TRACEFS]).returncode == 0
    if mounts_bpf:
        mounts_bpf = subprocess.run(["mount", "-t", "bpf", "-o", "mode=700", "bpf", "/sys/fs/bpf"]).returncode == 0
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=755", "none", it.small], check=True)
    began = time.monotonic()
    try:
        it.start_families(arguments.rate, arguments.limit + 60)
        if arguments.only in (None, "fix"):
            it.start_hog()
        due = arguments.at_least or arguments.kill_points
        while it.kills < arguments.kill_points and time.monotonic() - began < arguments.limit:
            it.round(arguments.only)
            if len(it.since) >= it.dice.randint(2, 8):
                it.check()
        it.make_room()
        it.check()
        seconds = time.monotonic() - began
    finally:
        if it.last and it.last.poll() is None:
            it.last.terminate()
            it.settle(it.last, 10)
        it.end_families()
        if it.hog:
            it.hog.kill()
            it.hog.wait()
        subprocess.run([it.unstarve, "guard", "undo", "--state", it.state], stdin=subprocess.DEVNULL, capture_output=True)
        subprocess.run(["umount", it.small], check=False)
        if mounts_bpf:
            subprocess.run(["umount", "/sys/fs/bpf"], check=False)
        if mounts_tracefs:
            subprocess.run(["umount", TRACEFS], check=False)
        if arguments.keep:
            print(f"kept: {room}")
        else:
            shutil.rmtree(room, ignore_errors=True)
    for what, count in sorted(it.counts.items()):
        print(f"{count:6}  {what}")
    result = {"kill_points": it.kills, "changes_in_place_at_kill": it.in_place_at_kill, "seconds": round(seconds), "checks": it.checks, "threads_looked_at": it.looked_at, "left_changed": it.left}
    print(json.dumps(result))
    return 1 if it.left or it.kills < due else 0


def main():
    if sys.argv[1:2] == ["family"]:
        family(sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
        return 0
    if sys.argv[1:] in (["hog"], ["victim"]):
        busy(sys.argv[1])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("unstarve")
    parser.add_argument("--kill-points", type=int, default=1000)
    parser.add_argument("--at-least", type=int, help="kill points within the limit that are no failure [default: all]")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=12, help="births a second in each family")
    parser.add_argument("--limit", type=float, default=3600, help="seconds; fewer kill points by then are a failure")
    parser.add_argument("--without-bpffs", action="store_true", help="mount nothing at /sys/fs/bpf")
    parser.add_argument("--only", choices=["guard", "instances", "record", "top", "watch", "fix"], help="nothing but this")
    parser.add_argument("--keep", action="store_true", help="keep audit and messages")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("needs root")
    # A reaper would be the parent of orphans; here that is PID 1 as in most services.
    ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)
    return chaos(arguments)


if __name__ == "__main__":
    sys.exit(main())
