"""What `unstarve schema explain` describes. Made by write_model.py: do not edit."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple

from ._shown import ShownFinding, ShownRemedy, ShownReport

# An object as it was printed.
Json = Dict[str, Any]


@dataclass(frozen=True, repr=False)
class Report(ShownReport):
    """Everything `unstarve explain` has to say about a trace."""

    findings: Tuple[Finding, ...]
    """Worst first, at most 64. With selected tasks: those first in which they are the victim."""
    losses: Tuple[str, ...]
    """What the trace cannot say."""
    missing: Tuple[Missing, ...]
    """The same for programs."""
    more_findings: int
    """Findings beyond those, none of them worse."""
    schema: str
    """[`SCHEMA`]."""
    trace: TraceSummary
    """What was read."""
    verdict: Verdict
    """The answer in one sentence or two."""
    worst_waits: Tuple[WorstWait, ...]
    """The longest waits of the whole trace, longest first, at most ten."""
    evidence: Optional[Evidence] = None
    """What was read, where that was no recording but the text of logs and tools."""
    selected: Optional[Selected] = None
    """The selected part; absent if the report covers the whole recording."""

    @classmethod
    def from_json(cls, data: Json) -> "Report":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            findings=tuple(Finding.from_json(item) for item in data["findings"]),
            losses=tuple(data["losses"]),
            missing=tuple(Missing.from_json(item) for item in data["missing"]),
            more_findings=data["more_findings"],
            schema=data["schema"],
            trace=TraceSummary.from_json(data["trace"]),
            verdict=Verdict.from_json(data["verdict"]),
            worst_waits=tuple(WorstWait.from_json(item) for item in data["worst_waits"]),
            evidence=None if data.get("evidence") is None else Evidence.from_json(data["evidence"]),
            selected=None if data.get("selected") is None else Selected.from_json(data["selected"]),
        )


@dataclass(frozen=True)
class BroughtBy:
    """How to record what is missing."""

    what: str
    name: Optional[str] = None

    @classmethod
    def from_json(cls, data: Json) -> "BroughtBy":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            what=data["what"],
            name=data.get("name"),
        )


@dataclass(frozen=True)
class Change:
    """One setting of one thing, and its new value. It names things as a recording or a snapshot does. What exists on the host and its
    current value is determined when the change is applied."""

    target: Json
    """What is changed."""
    handlers: Optional[Tuple[str, ...]] = None
    """For an interrupt: the names of its handlers when it was recorded. After a reboot its number may belong to another interrupt."""
    to: Optional[Json] = None
    """The new value; absent for advice."""
    was: Optional[Json] = None
    """The old value, if it was recorded."""

    @classmethod
    def from_json(cls, data: Json) -> "Change":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            target=data["target"],
            handlers=None if data.get("handlers") is None else tuple(data["handlers"]),
            to=data.get("to"),
            was=data.get("was"),
        )


@dataclass(frozen=True)
class ClockPair:
    """One moment on both the trace clock and the wall clock."""

    realtime_ns: int
    """On the wall clock."""
    trace_ns: int
    """On the trace clock."""

    @classmethod
    def from_json(cls, data: Json) -> "ClockPair":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            realtime_ns=data["realtime_ns"],
            trace_ns=data["trace_ns"],
        )


@dataclass(frozen=True)
class Culprit:
    """An occupant and a rule."""

    cgroups: Tuple[str, ...]
    """Their cgroups, the first few, where the snapshot knows them."""
    comm: str
    """The task's name; for others `idle`, `irq 33 virtio0`, `softirq NET_RX`, `unknown`."""
    ns: int
    """How long."""
    policy: Optional[str]
    """`fair`, `rt`, `deadline`, `idle`; none for interrupts and unknown."""
    prio: Optional[int]
    """The kernel's priority."""
    rule: str
    """The rule's word."""
    tasks: int
    """How many threads there are; 0 if it is not a task."""
    tgids: Tuple[int, ...]
    """The processes of these threads, where the host snapshot knows them."""
    tids: Tuple[int, ...]
    """Its threads, the first 128; empty if it is not a task."""
    all_known: Optional[bool] = None
    """Whether the snapshot knows all of these threads: else `tgids` and `cgroups` are those of some."""
    kernel_thread: Optional[bool] = None
    """Whether they are kernel threads, where more than their names shows it: the snapshot, or who created them. Any program can take a
    kernel thread's name. Those of which nothing shows what they were, because they had ended, do not count beside kernel threads, and are
    not named: neither `comm` nor `tids` nor `tasks` has them."""
    scheduled: Optional[str] = None
    """The policy with its own scale, for people: `FIFO 80`, `RR 10`, `deadline`, `nice 5`; `RT 80` where the recording does not show which
    real-time policy. Absent for normal threads of nice 0."""

    @classmethod
    def from_json(cls, data: Json) -> "Culprit":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            cgroups=tuple(data["cgroups"]),
            comm=data["comm"],
            ns=data["ns"],
            policy=data["policy"],
            prio=data["prio"],
            rule=data["rule"],
            tasks=data["tasks"],
            tgids=tuple(data["tgids"]),
            tids=tuple(data["tids"]),
            all_known=data.get("all_known"),
            kernel_thread=data.get("kernel_thread"),
            scheduled=data.get("scheduled"),
        )


@dataclass(frozen=True)
class Evidence:
    """The texts of logs and tools, and what would say more."""

    next: Tuple[NextStep, ...]
    """Commands that show what the texts do not, most useful first."""
    sources: Tuple[EvidenceSource, ...]
    """What was read."""
    others: Optional[Tuple[OtherHost, ...]] = None
    """Other hosts of the same texts, worst first."""

    @classmethod
    def from_json(cls, data: Json) -> "Evidence":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            next=tuple(NextStep.from_json(item) for item in data["next"]),
            sources=tuple(EvidenceSource.from_json(item) for item in data["sources"]),
            others=None if data.get("others") is None else tuple(OtherHost.from_json(item) for item in data["others"]),
        )


@dataclass(frozen=True)
class EvidenceSource:
    """A text that was read."""

    kinds: Tuple[str, ...]
    """What was found in it: `kernel log`, `list of threads (ps)`."""
    lines: int
    """Its lines."""
    name: str
    """The file."""

    @classmethod
    def from_json(cls, data: Json) -> "EvidenceSource":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            kinds=tuple(data["kinds"]),
            lines=data["lines"],
            name=data["name"],
        )


@dataclass(frozen=True, repr=False)
class Finding(ShownFinding):
    """A cause with evidence, price, confidence and remedies."""

    blame: Tuple[Culprit, ...]
    """Everything that held the CPU during the victim's waits, longest first: adds up to `waits.total_ns` exactly."""
    confidence: float
    """0 to 1."""
    cpus: Tuple[int, ...]
    """CPUs on which it waited."""
    culprits: Tuple[Culprit, ...]
    """Who ran meanwhile, longest first."""
    evidence: Tuple[str, ...]
    """Facts that speak for it, in words."""
    headline: str
    """Its first half, without numbers: `ksoftirqd/1 is starved by wl (real-time)`."""
    id: str
    """One of the ids of the design: `rt-starvation`, …."""
    losses: Tuple[str, ...]
    """Losses that could overturn it."""
    missing: Tuple[Missing, ...]
    """The same for programs."""
    period_ns: Optional[int]
    """When the trouble recurs at a steady interval: the interval."""
    price: Tuple[PricePaid, ...]
    """Who paid for the waits, most first."""
    remedies: Tuple[Remedy, ...]
    """What to do, least invasive first."""
    sentence: str
    """One sentence for people: which thread is starved by which others, and for how long."""
    severity: str
    """How bad."""
    victim: Victim
    """Who waits."""
    waits: Waits
    """The victim's waits in numbers."""
    worst: Tuple[Instance, ...]
    """The worst instances, worst first."""
    doubt: Optional[str] = None
    """Why the confidence is low; absent from 75 % up."""
    lists_all: Optional[bool] = None
    """Whether `worst` has all of the victim's waits of which most was the culprits' doing."""
    selected_as: Optional[str] = None
    """What the selected tasks are in it; absent if all tasks are selected."""
    why: Optional[str] = None
    """The reason, where the rule by which the culprit had the CPU is not all of it."""

    @classmethod
    def from_json(cls, data: Json) -> "Finding":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            blame=tuple(Culprit.from_json(item) for item in data["blame"]),
            confidence=data["confidence"],
            cpus=tuple(data["cpus"]),
            culprits=tuple(Culprit.from_json(item) for item in data["culprits"]),
            evidence=tuple(data["evidence"]),
            headline=data["headline"],
            id=data["id"],
            losses=tuple(data["losses"]),
            missing=tuple(Missing.from_json(item) for item in data["missing"]),
            period_ns=data["period_ns"],
            price=tuple(PricePaid.from_json(item) for item in data["price"]),
            remedies=tuple(Remedy.from_json(item) for item in data["remedies"]),
            sentence=data["sentence"],
            severity=data["severity"],
            victim=Victim.from_json(data["victim"]),
            waits=Waits.from_json(data["waits"]),
            worst=tuple(Instance.from_json(item) for item in data["worst"]),
            doubt=data.get("doubt"),
            lists_all=data.get("lists_all"),
            selected_as=data.get("selected_as"),
            why=data.get("why"),
        )


@dataclass(frozen=True)
class Instance:
    """One occurrence."""

    cpu: int
    """Where."""
    end_ns: int
    """To."""
    start_ns: int
    """From, on the trace's clock."""
    culprit: Optional[int] = None
    """Who had most of it: the place among the finding's `culprits`."""
    start_utc: Optional[str] = None
    """From, in UTC, as RFC 3339, where the trace's `clock_pairs` tell."""
    tid: Optional[int] = None
    """Who waited."""

    @classmethod
    def from_json(cls, data: Json) -> "Instance":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            cpu=data["cpu"],
            end_ns=data["end_ns"],
            start_ns=data["start_ns"],
            culprit=data.get("culprit"),
            start_utc=data.get("start_utc"),
            tid=data.get("tid"),
        )


@dataclass(frozen=True)
class Missing:
    """Something that the trace cannot say: what is missing, what that may hide, and what would bring it."""

    count: int
    """How often; 1 for something that is either there or not."""
    hides: str
    """What it may hide or make wrong, for people."""
    text: str
    """The same in a line for people."""
    kind: str
    brought_by: Optional[BroughtBy] = None
    """What would bring it in another recording."""
    detail: Optional[str] = None
    """Where, and what to do about it, for people; may be empty."""
    event: Optional[str] = None

    @classmethod
    def from_json(cls, data: Json) -> "Missing":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            count=data["count"],
            hides=data["hides"],
            text=data["text"],
            kind=data["kind"],
            brought_by=None if data.get("brought_by") is None else BroughtBy.from_json(data["brought_by"]),
            detail=data.get("detail"),
            event=data.get("event"),
        )


@dataclass(frozen=True)
class NextStep:
    """A command that shows more."""

    command: str
    """The command."""
    why: str
    """What it is good for."""

    @classmethod
    def from_json(cls, data: Json) -> "NextStep":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            command=data["command"],
            why=data["why"],
        )


@dataclass(frozen=True)
class Open:
    """How long a wait lasted that had no end when the recording ended."""

    end: str
    """Whether it did: `proved`, `believed` (nothing contradicts), `doubted` (others would have had a turn), `refuted`."""
    holder: str
    """Who or what had the CPU at the last that is known of it."""
    possible_ns: int
    """To the recording's end, if the CPU stayed with the holder."""
    proved_ns: int
    """As far as the recording is proved to show its CPU."""
    rule: str
    """The rule by which the holder had it."""

    @classmethod
    def from_json(cls, data: Json) -> "Open":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            end=data["end"],
            holder=data["holder"],
            possible_ns=data["possible_ns"],
            proved_ns=data["proved_ns"],
            rule=data["rule"],
        )


@dataclass(frozen=True)
class OtherHost:
    """What the texts prove of another host."""

    host: str
    """The host; empty where no text names it."""
    verdict: Verdict
    """The answer."""

    @classmethod
    def from_json(cls, data: Json) -> "OtherHost":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            host=data["host"],
            verdict=Verdict.from_json(data["verdict"]),
        )


@dataclass(frozen=True)
class Predicted:
    """What a change would do, with ranges; or why that is not known."""

    metrics: Tuple[PredictedMetric, ...]
    """To the victim, the most telling metric first; empty if refused."""
    newly_starved: Tuple[str, ...]
    """Who would become starved, or be starved for far longer than now."""
    others: Tuple[PredictedOther, ...]
    """To others."""
    refused: Tuple[str, ...]
    """Why nothing is predicted, as sentences."""
    verdict: str
    """In one word."""

    @classmethod
    def from_json(cls, data: Json) -> "Predicted":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            metrics=tuple(PredictedMetric.from_json(item) for item in data["metrics"]),
            newly_starved=tuple(data["newly_starved"]),
            others=tuple(PredictedOther.from_json(item) for item in data["others"]),
            refused=tuple(data["refused"]),
            verdict=data["verdict"],
        )


@dataclass(frozen=True)
class PredictedMetric:
    """A metric of the victim, before and after."""

    high: float
    """nor more."""
    low: float
    """It is hardly less,"""
    metric: str
    """`wait-per-item`, `wait-per-cpu`, `longest`, `p99`, `cpu-per-item`, `switches-per-item`."""
    name: str
    """The same for people."""
    predicted: float
    """As predicted."""
    recorded: float
    """As recorded."""
    unit: str
    """`ns`, or `1` for a number of times."""
    came: Optional[float] = None
    """As it came where the change was tried, if that is known."""

    @classmethod
    def from_json(cls, data: Json) -> "PredictedMetric":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            high=data["high"],
            low=data["low"],
            metric=data["metric"],
            name=data["name"],
            predicted=data["predicted"],
            recorded=data["recorded"],
            unit=data["unit"],
            came=data.get("came"),
        )


@dataclass(frozen=True)
class PredictedOther:
    """Somebody else whose waits change."""

    comm: str
    """The name of its threads."""
    longest_after_ns: int
    """After."""
    longest_before_ns: int
    """Their longest wait before."""
    ran_after_ns: int
    """After."""
    ran_before_ns: int
    """Their CPU time before."""
    threads: int
    """How many threads."""
    waited_after_ns: int
    """After."""
    waited_before_ns: int
    """Their waits before, summed."""

    @classmethod
    def from_json(cls, data: Json) -> "PredictedOther":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            comm=data["comm"],
            longest_after_ns=data["longest_after_ns"],
            longest_before_ns=data["longest_before_ns"],
            ran_after_ns=data["ran_after_ns"],
            ran_before_ns=data["ran_before_ns"],
            threads=data["threads"],
            waited_after_ns=data["waited_after_ns"],
            waited_before_ns=data["waited_before_ns"],
        )


@dataclass(frozen=True)
class PricePaid:
    """Who paid."""

    cgroups: Tuple[str, ...]
    """Their cgroups, the first few, where the snapshot knows them."""
    comm: str
    """The task's name."""
    ns: int
    """What it lost: asleep until the victim woke it, or itself waiting behind the same culprits."""
    tasks: int
    """How many threads there are."""
    tgids: Tuple[int, ...]
    """The processes of these threads, where the host snapshot knows them."""
    tids: Tuple[int, ...]
    """Its threads, the first 128."""
    waited_ns: int
    """The part of `ns` in which it waited for a CPU itself."""
    through_device_ns: Optional[int] = None
    """The part of `ns` that it slept for a request to a block device, which was issued or served late."""

    @classmethod
    def from_json(cls, data: Json) -> "PricePaid":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            cgroups=tuple(data["cgroups"]),
            comm=data["comm"],
            ns=data["ns"],
            tasks=data["tasks"],
            tgids=tuple(data["tgids"]),
            tids=tuple(data["tids"]),
            waited_ns=data["waited_ns"],
            through_device_ns=data.get("through_device_ns"),
        )


@dataclass(frozen=True)
class Proved:
    """What was proved of a remedy, beside it in a report."""

    answer: str
    """What it came to."""
    effect: Optional[float]
    """What it was above that without the remedy, as a part of it."""
    high: Optional[float]
    """The upper one."""
    kernel: str
    """The kernel's series: `6.1`."""
    low: Optional[float]
    """The 95 % interval's lower bound."""
    metric: str
    """The metric."""
    scenario: str
    """The lab's scenario."""
    seeds: int
    """Pairs of runs."""
    this_series: bool
    """Whether the recorded kernel is of that series."""
    victim: Optional[str]
    """The kind of the victim, which is this finding's."""
    note: Optional[str] = None
    """What else is to be known of the proof: what could not be taken back, for instance."""

    @classmethod
    def from_json(cls, data: Json) -> "Proved":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            answer=data["answer"],
            effect=data["effect"],
            high=data["high"],
            kernel=data["kernel"],
            low=data["low"],
            metric=data["metric"],
            scenario=data["scenario"],
            seeds=data["seeds"],
            this_series=data["this_series"],
            victim=data["victim"],
            note=data.get("note"),
        )


@dataclass(frozen=True, repr=False)
class Remedy(ShownRemedy):
    """What to do."""

    apply: str
    """The exact command, empty if there is none."""
    id: str
    """A stable id: `raise-worker`."""
    risk: str
    """What can go wrong."""
    text: str
    """What and why, one or two sentences."""
    undo: str
    """The command that takes it back."""
    valid_on: str
    """The kernels and conditions it is valid on."""
    changes: Optional[Tuple[Change, ...]] = None
    """The same as `apply`, one setting of one thing each; [`Target::Advice`](unstarve_change::Target::Advice) where only a person can do
    it."""
    predicted: Optional[Predicted] = None
    """What it would do to everybody in this recording, by a replay; absent where that was not asked, or takes too long."""
    proved: Optional[Tuple[Proved, ...]] = None
    """What it was proved to do on real kernels of this series, or where nothing was, of others."""

    @classmethod
    def from_json(cls, data: Json) -> "Remedy":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            apply=data["apply"],
            id=data["id"],
            risk=data["risk"],
            text=data["text"],
            undo=data["undo"],
            valid_on=data["valid_on"],
            changes=None if data.get("changes") is None else tuple(Change.from_json(item) for item in data["changes"]),
            predicted=None if data.get("predicted") is None else Predicted.from_json(data["predicted"]),
            proved=None if data.get("proved") is None else tuple(Proved.from_json(item) for item in data["proved"]),
        )


@dataclass(frozen=True)
class Selected:
    """The selected part that a report covers."""

    text: str
    """All of it, for people: `nfsd, CPU 0, +0.100 s to +0.850 s`."""
    elsewhere: Optional[str] = None
    """The worst that the recording shows, if it is not in the selected part: its severity and what happens."""
    tasks: Optional[Tuple[str, ...]] = None
    """The selected tasks, for people; none if all are."""

    @classmethod
    def from_json(cls, data: Json) -> "Selected":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            text=data["text"],
            elsewhere=data.get("elsewhere"),
            tasks=None if data.get("tasks") is None else tuple(data["tasks"]),
        )


@dataclass(frozen=True)
class Thread:
    """A thread as recorded."""

    comm: str
    """Its name, safe to print: terminal control characters and bytes that are not UTF-8 are escaped. Tasks choose their names themselves,
    so it never becomes part of a command."""
    tid: int
    """Thread id."""
    comm_bytes: Optional[Tuple[int, ...]] = None
    """The name as the kernel has it, if `comm` differs from that."""
    kernel_thread: Optional[bool] = None
    """Whether it is a kernel thread, if more than its name shows it. Like all fields only a claim of a recording: it is compared with the
    thread before anything is changed."""
    reset_on_fork: Optional[bool] = None
    """Whether its children start as ordinary tasks (SCHED_RESET_ON_FORK): chrt(1) clears that flag unless it is named."""
    start: Optional[int] = None
    """Creation time in ticks since boot: with `tid` it identifies one thread even if the id is reused."""
    user: Optional[int] = None
    """The real user of a program."""

    @classmethod
    def from_json(cls, data: Json) -> "Thread":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            comm=data["comm"],
            tid=data["tid"],
            comm_bytes=None if data.get("comm_bytes") is None else tuple(data["comm_bytes"]),
            kernel_thread=data.get("kernel_thread"),
            reset_on_fork=data.get("reset_on_fork"),
            start=data.get("start"),
            user=data.get("user"),
        )


@dataclass(frozen=True)
class TraceSummary:
    """The trace in numbers."""

    clock: Optional[str]
    """The trace's clock (`mono`, `local`), where known."""
    clock_pairs: Tuple[ClockPair, ...]
    """The trace's clock and CLOCK_REALTIME at the same moment, at the beginning and at the end; fewer or none where the recording does not
    have them."""
    cpus: int
    """CPUs."""
    end_ns: int
    """Last event."""
    end_utc: Optional[str]
    """The last event."""
    events: int
    """Events read."""
    format: str
    """`trace.dat v7`."""
    host: Optional[str]
    """The name of the recorded machine, where known."""
    kernel: Optional[str]
    """The kernel, where known."""
    lost: int
    """Events known to be lost."""
    recorder_ns: Optional[int]
    """CPU time of the recorder and of others that only watch, in ns, where they are in the trace. They are no victims, culprits or payers
    of findings."""
    snapshot: bool
    """Whether a host snapshot came with the trace."""
    start_ns: int
    """First event, ns on the trace's clock."""
    start_utc: Optional[str]
    """The first event in UTC, as RFC 3339, where `clock_pairs` tell."""
    waits_count: int
    """How many waits there were."""
    waits_total_ns: int
    """All waits of all tasks, in ns."""
    waits_unknown_ns: int
    """Of `waits_total_ns`, the time in which nobody knows who had the CPU."""
    invisible: Optional[str] = None
    """Waits of a kind that the trace cannot show at all; absent where it shows all."""
    rates_hold: Optional[bool] = None
    """Whether that is about a reason alone: all waits are recorded, but not why one of them was so long. Rates of such a trace hold."""
    too_little: Optional[str] = None
    """Why the trace cannot tell that nobody is starved; absent where it can."""
    uncounted_limit: Optional[str] = None
    """A cgroup with a CPU limit whose tasks waited, of which the recording does not say how often the limit stopped them; absent where
    there is none."""

    @classmethod
    def from_json(cls, data: Json) -> "TraceSummary":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            clock=data["clock"],
            clock_pairs=tuple(ClockPair.from_json(item) for item in data["clock_pairs"]),
            cpus=data["cpus"],
            end_ns=data["end_ns"],
            end_utc=data["end_utc"],
            events=data["events"],
            format=data["format"],
            host=data["host"],
            kernel=data["kernel"],
            lost=data["lost"],
            recorder_ns=data["recorder_ns"],
            snapshot=data["snapshot"],
            start_ns=data["start_ns"],
            start_utc=data["start_utc"],
            waits_count=data["waits_count"],
            waits_total_ns=data["waits_total_ns"],
            waits_unknown_ns=data["waits_unknown_ns"],
            invisible=data.get("invisible"),
            rates_hold=data.get("rates_hold"),
            too_little=data.get("too_little"),
            uncounted_limit=data.get("uncounted_limit"),
        )


@dataclass(frozen=True)
class Verdict:
    """What a reader in a hurry came for."""

    severity: Optional[str]
    """How bad the worst is; nothing if nothing is wrong."""
    text: str
    """The answer, for people."""

    @classmethod
    def from_json(cls, data: Json) -> "Verdict":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            severity=data["severity"],
            text=data["text"],
        )


@dataclass(frozen=True)
class Victim:
    """Whose wait."""

    cgroups: Tuple[str, ...]
    """Their cgroups, the first few, where the snapshot knows them."""
    comm: str
    """Its name."""
    kind: str
    """`kworker`, `ksoftirqd`, `nfsd`, `rcu`, … or `task`; `cgroup` where none of its tasks is known."""
    policy: Optional[str]
    """`fair`, `rt`, `deadline`."""
    prio: Optional[int]
    """The kernel's priority."""
    tasks: int
    """How many threads there are."""
    tgids: Tuple[int, ...]
    """The processes of these threads, where the host snapshot knows them."""
    tids: Tuple[int, ...]
    """Its threads, the first 128."""
    work: Optional[Work]
    """What the worker works on."""
    all_known: Optional[bool] = None
    """Whether the snapshot knows all of these threads: else `tgids` and `cgroups` are those of some."""
    kernel_thread: Optional[bool] = None
    """Whether they are kernel threads, where more than their names shows it: the snapshot, or who created them. Any program can take a
    kernel thread's name. Those of which nothing shows what they were, because they had ended, do not count beside kernel threads, and are
    not named: neither `comm` nor `tids` nor `tasks` has them."""
    scheduled: Optional[str] = None
    """The policy with its own scale, for people: `FIFO 80`, `RR 10`, `deadline`, `nice 5`; `RT 80` where the recording does not show which
    real-time policy. Absent for normal threads of nice 0."""

    @classmethod
    def from_json(cls, data: Json) -> "Victim":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            cgroups=tuple(data["cgroups"]),
            comm=data["comm"],
            kind=data["kind"],
            policy=data["policy"],
            prio=data["prio"],
            tasks=data["tasks"],
            tgids=tuple(data["tgids"]),
            tids=tuple(data["tids"]),
            work=None if data["work"] is None else Work.from_json(data["work"]),
            all_known=data.get("all_known"),
            kernel_thread=data.get("kernel_thread"),
            scheduled=data.get("scheduled"),
        )


@dataclass(frozen=True)
class Waits:
    """Waits in numbers."""

    count: int
    """How many."""
    max_ns: int
    """The longest."""
    owed_ns: int
    """Owed time: ideal equal-share service minus service received."""
    p99_ns: int
    """99 % were at most this long (3 significant figures)."""
    total_ns: int
    """Together."""

    @classmethod
    def from_json(cls, data: Json) -> "Waits":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            count=data["count"],
            max_ns=data["max_ns"],
            owed_ns=data["owed_ns"],
            p99_ns=data["p99_ns"],
            total_ns=data["total_ns"],
        )


@dataclass(frozen=True)
class Work:
    """A worker's identity."""

    function: str
    """The work function."""
    workqueue: Optional[str]
    """The workqueue, where known."""

    @classmethod
    def from_json(cls, data: Json) -> "Work":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            function=data["function"],
            workqueue=data["workqueue"],
        )


@dataclass(frozen=True)
class WorstWait:
    """One of the longest waits of the trace."""

    blame: Tuple[Culprit, ...]
    """Who ran meanwhile, longest first: adds up exactly."""
    cgroup: Optional[str]
    """Its cgroup, where the snapshot knows it."""
    comm: str
    """Who waited."""
    cpu: int
    """Where."""
    end_ns: int
    """To."""
    start_ns: int
    """From, on the trace's clock."""
    tgid: Optional[int]
    """Its process, where the host snapshot knows it."""
    tid: int
    """Its id."""
    kernel_thread: Optional[bool] = None
    """Whether it is a kernel thread, where more than its name shows it."""
    open: Optional[Open] = None
    """Where it still lasted when the recording ended: how long it did."""
    start_utc: Optional[str] = None
    """From, in UTC, as RFC 3339, where the trace's `clock_pairs` tell."""

    @classmethod
    def from_json(cls, data: Json) -> "WorstWait":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            blame=tuple(Culprit.from_json(item) for item in data["blame"]),
            cgroup=data["cgroup"],
            comm=data["comm"],
            cpu=data["cpu"],
            end_ns=data["end_ns"],
            start_ns=data["start_ns"],
            tgid=data["tgid"],
            tid=data["tid"],
            kernel_thread=data.get("kernel_thread"),
            open=None if data.get("open") is None else Open.from_json(data["open"]),
            start_utc=data.get("start_utc"),
        )
