"""What `unstarve schema compare` describes. Made by write_model.py: do not edit."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple

from ._shown import ShownComparison

# An object as it was printed.
Json = Dict[str, Any]


@dataclass(frozen=True, repr=False)
class Comparison(ShownComparison):
    """The comparison, and the latency of each side."""

    a: TraceSummary
    """The first recording."""
    b: TraceSummary
    """The second one."""
    changes: Tuple[Change, ...]
    """Rates that differ, what weighs most first; then those of which it is unclear."""
    compared: int
    """How many rates were set against each other; the intervals hold for all of them at once with 95 %."""
    findings: Tuple[FindingChange, ...]
    """Findings of either, those that changed first."""
    losses: Tuple[str, ...]
    """What the recordings cannot say."""
    schema: str
    """[`SCHEMA`]."""
    waits: Tuple[WaitChange, ...]
    """The waits of each role in numbers, those whose longest differs most first. What is rare has no rate: a stall once a second shows
    here."""
    gate: Optional[Gate] = None
    """The verdict, where one was asked for. The fields beside it compare the first recording of each side."""
    latency_a: Optional[Tuple[Latency, ...]] = None
    latency_b: Optional[Tuple[Latency, ...]] = None
    unjudged: Optional[Tuple[UnjudgedFinding, ...]] = None
    """Findings of one side of which nobody can say whether they are new or gone."""

    @classmethod
    def from_json(cls, data: Json) -> "Comparison":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            a=TraceSummary.from_json(data["a"]),
            b=TraceSummary.from_json(data["b"]),
            changes=tuple(Change.from_json(item) for item in data["changes"]),
            compared=data["compared"],
            findings=tuple(FindingChange.from_json(item) for item in data["findings"]),
            losses=tuple(data["losses"]),
            schema=data["schema"],
            waits=tuple(WaitChange.from_json(item) for item in data["waits"]),
            gate=None if data.get("gate") is None else Gate.from_json(data["gate"]),
            latency_a=None if data.get("latency_a") is None else tuple(Latency.from_json(item) for item in data["latency_a"]),
            latency_b=None if data.get("latency_b") is None else tuple(Latency.from_json(item) for item in data["latency_b"]),
            unjudged=None if data.get("unjudged") is None else tuple(UnjudgedFinding.from_json(item) for item in data["unjudged"]),
        )


@dataclass(frozen=True)
class Case:
    """A role's waits, or a finding."""

    basis: str
    """What was judged."""
    role: Role
    """Whose waits."""
    rule: str
    """`waits`, or the id of a finding: `rt-starvation`, …."""
    sentence: str
    """The case in a sentence."""
    verdict: str
    """What it comes to."""
    by: Optional[Tuple[str, ...]] = None
    """Who had the CPU meanwhile in the new recordings, most first, where a finding says it."""
    severity: Optional[str] = None
    """How bad the finding is in the new recordings."""
    waits: Optional[RateCase] = None
    """The rates; absent for findings."""

    @classmethod
    def from_json(cls, data: Json) -> "Case":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            basis=data["basis"],
            role=Role.from_json(data["role"]),
            rule=data["rule"],
            sentence=data["sentence"],
            verdict=data["verdict"],
            by=None if data.get("by") is None else tuple(data["by"]),
            severity=data.get("severity"),
            waits=None if data.get("waits") is None else RateCase.from_json(data["waits"]),
        )


@dataclass(frozen=True)
class Change:
    """A rate on both sides."""

    a: float
    """In A."""
    b: float
    """In B."""
    interval: Optional[Tuple[float, float]]
    """B − A, from and to; none where a recording is too short to tell."""
    metric: str
    """What."""
    role: Role
    """Whose."""
    unit: str
    """`ns/s`, `/s` or `ns`."""
    verdict: str
    """What it comes to."""
    rule: Optional[str] = None
    """For [`Metric::WaitedUnder`]: the rule."""

    @classmethod
    def from_json(cls, data: Json) -> "Change":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            a=data["a"],
            b=data["b"],
            interval=None if data["interval"] is None else tuple(data["interval"]),
            metric=data["metric"],
            role=Role.from_json(data["role"]),
            unit=data["unit"],
            verdict=data["verdict"],
            rule=data.get("rule"),
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
class Coincidence:
    """A wait that takes most of a spike."""

    culprit: str
    """What had the CPU longest during the longest of these waits."""
    ns: int
    """How much of the spike it waited."""
    rule: str
    """The rule."""
    tid: int
    """Its thread id."""
    usual_share: float
    """The part of the whole trace for which this task waited."""
    victim: str
    """The task that waited."""

    @classmethod
    def from_json(cls, data: Json) -> "Coincidence":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            culprit=data["culprit"],
            ns=data["ns"],
            rule=data["rule"],
            tid=data["tid"],
            usual_share=data["usual_share"],
            victim=data["victim"],
        )


@dataclass(frozen=True)
class FindingChange:
    """A finding on both sides."""

    a: Optional[str]
    """How bad it was in A; none if it was not there."""
    b: Optional[str]
    """How bad it is in B."""
    id: str
    """`rt-starvation`, …."""
    outcome: str
    """What became of it."""
    sentence: str
    """The finding's sentence, B's where it has one."""
    victim: Role
    """Whose waits."""

    @classmethod
    def from_json(cls, data: Json) -> "FindingChange":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            a=data["a"],
            b=data["b"],
            id=data["id"],
            outcome=data["outcome"],
            sentence=data["sentence"],
            victim=Role.from_json(data["victim"]),
        )


@dataclass(frozen=True)
class Gate:
    """The verdict, and what it rests on. Fields are only ever added."""

    base: Tuple[str, ...]
    """The recordings of the base."""
    cases: Tuple[Case, ...]
    """What was judged, the worst first."""
    margin: float
    """Waits so many times as long matter."""
    new: Tuple[str, ...]
    """The recordings that were judged."""
    not_everywhere: int
    """Roles that are not in every recording, and count in the sum of all tasks alone."""
    obstacles: Tuple[Obstacle, ...]
    """What keeps the recordings from deciding."""
    sentence: str
    """The verdict in a sentence."""
    too_small: int
    """Roles whose waits are too short on both sides to matter."""
    verdict: str
    """Of all cases together."""
    advice: Optional[str] = None
    """What to record for a verdict; absent if there is one."""

    @classmethod
    def from_json(cls, data: Json) -> "Gate":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            base=tuple(data["base"]),
            cases=tuple(Case.from_json(item) for item in data["cases"]),
            margin=data["margin"],
            new=tuple(data["new"]),
            not_everywhere=data["not_everywhere"],
            obstacles=tuple(Obstacle.from_json(item) for item in data["obstacles"]),
            sentence=data["sentence"],
            too_small=data["too_small"],
            verdict=data["verdict"],
            advice=data.get("advice"),
        )


@dataclass(frozen=True)
class Latency:
    """An application's latencies compared with a trace."""

    aligned: Optional[str]
    """How its times were aligned with the trace, in words; `None` if it has no times."""
    file: str
    """The file."""
    format: str
    """Its format."""
    spikes: Tuple[Spike, ...]
    """The worst spikes within the recording, by time."""
    spikes_found: int
    """The number of spikes within the recording."""
    spikes_outside: int
    """How many more are at least half outside the recording, so that no wait could explain them."""
    stats: Stats
    """The distribution of all its latencies."""
    threshold_ns: Optional[int]
    """Latencies from here on are spikes; `None` if the log does not say enough."""

    @classmethod
    def from_json(cls, data: Json) -> "Latency":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            aligned=data["aligned"],
            file=data["file"],
            format=data["format"],
            spikes=tuple(Spike.from_json(item) for item in data["spikes"]),
            spikes_found=data["spikes_found"],
            spikes_outside=data["spikes_outside"],
            stats=Stats.from_json(data["stats"]),
            threshold_ns=data["threshold_ns"],
        )


@dataclass(frozen=True)
class Obstacle:
    """Something that keeps the recordings from deciding."""

    advice: str
    """What to record instead."""
    kind: str
    """What sort."""
    text: str
    """In a sentence, without its full stop."""

    @classmethod
    def from_json(cls, data: Json) -> "Obstacle":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            advice=data["advice"],
            kind=data["kind"],
            text=data["text"],
        )


@dataclass(frozen=True)
class RateCase:
    """How much a role waits on both sides."""

    base_ns_per_s: Tuple[float, ...]
    """Waited in a second, in each recording of the base."""
    between: Optional[Tuple[float, float]]
    """Where that factor is: at 95 % not below the first, at 95 % not above the second."""
    factor: Optional[float]
    """New by base, on a scale on which 10 ms of each second are added to both; none with a recording that is too short."""
    new_ns_per_s: Tuple[float, ...]
    """The same in each new recording."""

    @classmethod
    def from_json(cls, data: Json) -> "RateCase":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            base_ns_per_s=tuple(data["base_ns_per_s"]),
            between=None if data["between"] is None else tuple(data["between"]),
            factor=data["factor"],
            new_ns_per_s=tuple(data["new_ns_per_s"]),
        )


@dataclass(frozen=True)
class Role:
    """What two recordings have in common where ids differ: a kind of thread and its name without numbers that only count."""

    kind: str
    """`kworker`, `ksoftirqd`, …; `task` for everything that is no kernel thread by its name."""
    name: str
    """`kworker/*:*`, `nfsd`, `worker-*`."""

    @classmethod
    def from_json(cls, data: Json) -> "Role":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            kind=data["kind"],
            name=data["name"],
        )


@dataclass(frozen=True)
class Spike:
    """A latency that stands out."""

    end_ns: int
    """Its end."""
    latency_ns: int
    """Its length. Less than the time between beginning and end if the log's times are coarser than its latencies."""
    start_ns: int
    """Its beginning, on the trace clock."""
    wait: Optional[Coincidence]
    """The wait that explains it; `None` if no wait does."""

    @classmethod
    def from_json(cls, data: Json) -> "Spike":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            end_ns=data["end_ns"],
            latency_ns=data["latency_ns"],
            start_ns=data["start_ns"],
            wait=None if data["wait"] is None else Coincidence.from_json(data["wait"]),
        )


@dataclass(frozen=True)
class Stats:
    """A distribution of latencies."""

    count: int
    """The number of latencies."""
    max_ns: int
    """The longest."""
    p50_ns: Optional[int]
    """Median."""
    p99_ns: Optional[int]
    """99th percentile."""

    @classmethod
    def from_json(cls, data: Json) -> "Stats":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            count=data["count"],
            max_ns=data["max_ns"],
            p50_ns=data["p50_ns"],
            p99_ns=data["p99_ns"],
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
class UnjudgedFinding:
    """A finding of one side, where the other could not have shown it, or its own is in doubt."""

    a: Optional[str]
    """How bad it is in A; none if it is in B alone."""
    b: Optional[str]
    """How bad it is in B; none if it is in A alone."""
    because: str
    """Why it is called neither new nor gone: `B: it has no sched_switch events`."""
    id: str
    """`rt-starvation`, …."""
    sentence: str
    """The finding's sentence."""
    victim: Role
    """Whose waits."""

    @classmethod
    def from_json(cls, data: Json) -> "UnjudgedFinding":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            a=data["a"],
            b=data["b"],
            because=data["because"],
            id=data["id"],
            sentence=data["sentence"],
            victim=Role.from_json(data["victim"]),
        )


@dataclass(frozen=True)
class WaitChange:
    """The waits of a role on both sides."""

    a: Optional[Waits]
    """In A; none if it never waited."""
    b: Optional[Waits]
    """In B."""
    role: Role
    """Whose."""

    @classmethod
    def from_json(cls, data: Json) -> "WaitChange":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            a=None if data["a"] is None else Waits.from_json(data["a"]),
            b=None if data["b"] is None else Waits.from_json(data["b"]),
            role=Role.from_json(data["role"]),
        )


@dataclass(frozen=True)
class Waits:
    """The waits of a role in numbers."""

    count: int
    """How many."""
    max_ns: int
    """The longest."""
    p50_ns: int
    """Half of them were no longer."""
    p99_ns: int
    """99 of 100 were no longer."""

    @classmethod
    def from_json(cls, data: Json) -> "Waits":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            count=data["count"],
            max_ns=data["max_ns"],
            p50_ns=data["p50_ns"],
            p99_ns=data["p99_ns"],
        )
