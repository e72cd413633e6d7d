"""What a guest's recording says, counted from `trace-cmd report` alone: the truth that logs are held to.

Of unstarve nothing is used here, so that its reader of logs and its reader of recordings are both judged by a third.

    bench/logs/recording.py trace.dat PATTERN    # the longest wait and sleep of a thread of that name, and the one that ran most
"""
import collections
import fnmatch
import re
import subprocess
import sys

LINE = re.compile(r"\s*.*-\d+\s+\[(\d+)\]\s+(\d+)\.(\d{9}): (\w+):\s+(.*)")
SWITCH = re.compile(
    r"prev_comm=(.*) prev_pid=(\d+) prev_prio=-?\d+ prev_state=(\w+) next_comm=(.*) next_pid=(\d+) next_prio=-?\d+"
)
FIELD = re.compile(r"\b(pid|target_cpu|dest_cpu|comm|newcomm|child_comm|child_pid)=(.*?)(?= \w+=|$)")
# Bits of `prev_state` as sched_switch reports it (include/linux/sched.h): what a task waits for; and D among them.
ASLEEP, UNINTERRUPTIBLE = 0xFF, 0x02

Thread = collections.namedtuple("Thread", "tid comm")
Span = collections.namedtuple("Span", "tid cpu start end")


class Recording:
    """Runs, waits and uninterruptible sleeps of all threads, in nanoseconds; the last name of each thread."""

    def __init__(self, path):
        self.runs, self.waits, self.sleeps = [], [], []
        self.comms = {}
        self._running, self._runnable, self._asleep = {}, {}, {}
        self._now = 0
        command = ["trace-cmd", "report", "-R", "-t", "-N", str(path)]
        text = subprocess.run(command, capture_output=True, check=True, text=True, errors="replace").stdout
        for line in text.splitlines():
            event = LINE.match(line)
            if event:
                cpu, seconds, rest, name, fields = event.groups()
                self._now = int(seconds) * 1_000_000_000 + int(rest)
                self._event(int(cpu), name, fields)
        for tid in list(self._runnable):
            self._waited(tid, None)
        for cpu in list(self._running):
            self._ran(cpu)
        for tid in list(self._asleep):
            self._slept(tid)

    def _event(self, cpu, name, fields):
        if name == "sched_switch":
            prev_comm, prev, state, next_comm, following = SWITCH.match(fields).groups()
            self._switch(cpu, int(prev), int(state, 0), int(following))
            self.comms[int(prev)], self.comms[int(following)] = prev_comm, next_comm
            return
        values = dict(FIELD.findall(fields))
        if name in ("sched_waking", "sched_wakeup", "sched_wakeup_new"):
            tid = int(values["pid"])
            self._slept(tid)
            on_a_cpu = any(running == tid for running, _ in self._running.values())
            if not on_a_cpu:
                _, since = self._runnable.get(tid, (None, self._now))
                self._runnable[tid] = (int(values["target_cpu"]), since)
        elif name == "sched_migrate_task" and int(values["pid"]) in self._runnable:
            tid = int(values["pid"])
            self._runnable[tid] = (int(values["dest_cpu"]), self._runnable[tid][1])
        elif name == "task_rename":
            self.comms[int(values["pid"])] = values["newcomm"]

    def _switch(self, cpu, prev, state, following):
        self._ran(cpu)
        if prev and not state & ASLEEP:
            self._runnable[prev] = (cpu, self._now)
        elif prev and state & UNINTERRUPTIBLE:
            self._asleep[prev] = self._now
        if following:
            self._slept(following)
            self._waited(following, cpu)
        self._running[cpu] = (following, self._now)

    def _ran(self, cpu):
        tid, since = self._running.pop(cpu, (None, 0))
        if tid is not None:
            self.runs.append(Span(tid, cpu, since, self._now))

    def _waited(self, tid, cpu):
        on, since = self._runnable.pop(tid, (None, None))
        if since is not None:
            self.waits.append(Span(tid, on if cpu is None else cpu, since, self._now))

    def _slept(self, tid):
        since = self._asleep.pop(tid, None)
        if since is not None:
            self.sleeps.append(Span(tid, None, since, self._now))

    def longest(self, spans, pattern):
        """The longest of these spans of a thread whose name fits; `None` if there is none."""
        fitting = [span for span in spans if fnmatch.fnmatch(self.comms.get(span.tid, ""), pattern)]
        return max(fitting, key=lambda span: span.end - span.start, default=None)

    def ran_most(self, pattern):
        """The thread whose name fits that ran most on one CPU: as one span of that length from its first run on."""
        ran = collections.defaultdict(list)
        for run in self.runs:
            if fnmatch.fnmatch(self.comms.get(run.tid, ""), pattern):
                ran[run.tid, run.cpu].append(run)
        spans = [
            Span(tid, cpu, runs[0].start, runs[0].start + sum(run.end - run.start for run in runs))
            for (tid, cpu), runs in ran.items()
        ]
        return max(spans, key=lambda span: span.end - span.start, default=None)

    def occupant(self, wait):
        """Who ran longest on the CPU of a wait while it lasted; thread 0 is the idle loop."""
        ran = collections.Counter()
        for run in self.runs:
            if run.cpu == wait.cpu and run.end > wait.start and run.start < wait.end:
                ran[run.tid] += min(run.end, wait.end) - max(run.start, wait.start)
        if not ran:
            return None
        [(tid, _)] = ran.most_common(1)
        return Thread(tid, self.comms[tid] if tid else "idle")

    def thread(self, span):
        return Thread(span.tid, self.comms[span.tid])


def seconds(span):
    return (span.end - span.start) / 1e9


if __name__ == "__main__":
    recording = Recording(sys.argv[1])
    wait, sleep = (recording.longest(spans, sys.argv[2]) for spans in (recording.waits, recording.sleeps))
    for kind, span in (("waited", wait), ("ran", recording.ran_most(sys.argv[2])), ("slept", sleep)):
        if span:
            beside = f"beside {recording.occupant(span)}" if kind == "waited" else ""
            print(f"{recording.thread(span)} {kind} {seconds(span):.3f} s, CPU {span.cpu} {beside}")
