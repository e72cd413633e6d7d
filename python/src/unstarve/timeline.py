"""What `unstarve schema timeline` describes. Made by write_model.py: do not edit."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple

# An object as it was printed.
Json = Dict[str, Any]


@dataclass(frozen=True)
class TimelineLine:
    """A line as JSON: a run of a task, and the wait before it. A run or a wait of which nothing was recorded is absent."""

    comm: str
    """The task's name."""
    cpu: int
    """Where."""
    end_ns: int
    """When the run ended, in ns on the trace's clock; the wait, where nothing of the run was recorded."""
    tid: int
    """Its id."""
    run_ns: Optional[int] = None
    """How long it ran."""
    wait: Optional[TimelineWait] = None
    """The wait before it."""

    @classmethod
    def from_json(cls, data: Json) -> "TimelineLine":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            comm=data["comm"],
            cpu=data["cpu"],
            end_ns=data["end_ns"],
            tid=data["tid"],
            run_ns=data.get("run_ns"),
            wait=None if data.get("wait") is None else TimelineWait.from_json(data["wait"]),
        )


@dataclass(frozen=True)
class TimelinePiece:
    """A part of a wait."""

    ns: int
    """How long."""
    occupant: str
    """`name[tid]`, `idle`, `softirq NET_RX`."""
    rule: str
    """The rule by which it had the CPU."""

    @classmethod
    def from_json(cls, data: Json) -> "TimelinePiece":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            ns=data["ns"],
            occupant=data["occupant"],
            rule=data["rule"],
        )


@dataclass(frozen=True)
class TimelineWait:
    """A wait for a CPU."""

    blame: Tuple[TimelinePiece, ...]
    """Who had the CPU meanwhile, in order: adds up to `ns`."""
    kind: str
    """What it came after: `wakeup`, `new`, `preemption`."""
    ns: int
    """How long."""

    @classmethod
    def from_json(cls, data: Json) -> "TimelineWait":
        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""
        return cls(
            blame=tuple(TimelinePiece.from_json(item) for item in data["blame"]),
            kind=data["kind"],
            ns=data["ns"],
        )
