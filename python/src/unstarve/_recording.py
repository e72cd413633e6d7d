"""A recording, explained."""
from __future__ import annotations

import io
import json
import os
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Optional, Tuple, Type, TypeVar, Union

from . import _program
from ._shown import Findings, cell, duration, findings_table, printable
from ._table import Table, batches
from .comparison import Comparison
from .errors import ProgramMismatch
from .report import Finding, Report, TraceSummary, Verdict
from .timeline import TimelineLine

if TYPE_CHECKING:
    import pyarrow

StrPath = Union[str, "os.PathLike[str]"]
# A moment: ns on the trace's clock, as in all fields and columns, or as the program takes it: `+1.2s`, `1200ms`, `812.5`.
Moment = Union[int, str]
# Seconds that the program may take.
TIMEOUT = 600.0
TABLES = ("waits", "pieces", "blame", "findings")
Shape = TypeVar("Shape", Report, Comparison)


class Selection:
    """Which part of a recording: the program's options for it."""

    def __init__(
        self, task: Union[str, int, None] = None, cpu: Union[str, int, Iterable[int], None] = None, start: Optional[Moment] = None, end: Optional[Moment] = None
    ) -> None:
        given = {"--task": None if task is None else str(task), "--cpu": cpus(cpu), "--from": moment(start), "--to": moment(end)}
        self.given: Dict[str, str] = {option: value for option, value in given.items() if value is not None}

    def within(self, other: Selection) -> Selection:
        """This, and what is not said here as in the other."""
        both = Selection()
        both.given = {**other.given, **self.given}
        return both

    def arguments(self) -> List[str]:
        # In one word, so that no value is taken for an option.
        return [f"{option}={value}" for option, value in self.given.items()]


def cpus(cpu: Union[str, int, Iterable[int], None]) -> Optional[str]:
    if cpu is None or isinstance(cpu, (str, int)):
        return None if cpu is None else str(cpu)
    return ",".join(str(int(each)) for each in cpu)


def moment(time: Optional[Moment]) -> Optional[str]:
    if time is None or isinstance(time, str):
        return time
    seconds, ns = divmod(int(time), 1_000_000_000)
    return f"{seconds}.{ns:09}"


def absolute(path: StrPath) -> str:
    """The same file whatever the working directory becomes, and never an option or standard input."""
    return os.path.abspath(os.fspath(path))


def decoded(shape: Type[Shape], schema: str, printed: bytes) -> Tuple[Shape, Dict[str, Any]]:
    """An answer as objects, and as it was printed."""
    try:
        data: Dict[str, Any] = json.loads(printed)
        if data["schema"] != schema:
            raise ProgramMismatch(f"{_program.program()}: prints {data['schema']}; this package reads {schema}")
        return shape.from_json(data), data
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProgramMismatch(f"{_program.program()}: prints what is no {schema}: {type(error).__name__} {error}") from error


class Recording:
    """A recording and what is found in it. `open` makes it."""

    def __init__(self, paths: Tuple[StrPath, ...], selection: Selection, timeout: Optional[float]) -> None:
        self.paths: Tuple[str, ...] = tuple(absolute(path) for path in paths)
        """Its files, by absolute paths."""
        self._names = ", ".join(printable(os.fspath(path)) for path in paths)
        self.timeout = timeout
        """Seconds that the program may take for any one answer."""
        self._selection = selection
        printed = _program.run(["explain", "--json", "--fail-on=never", *selection.arguments(), "--", *self.paths], timeout)
        report, data = decoded(Report, "unstarve.explain/1", printed)
        self.report: Report = report
        """All that the program says."""
        self.json: Dict[str, Any] = data
        """The same as it was printed: fields of a newer program, too."""

    @property
    def findings(self) -> Findings[Finding]:
        """Who is starved by whom, worst first."""
        return Findings(self.report.findings)

    @property
    def verdict(self) -> Verdict:
        """The answer in a sentence or two."""
        return self.report.verdict

    @property
    def trace(self) -> TraceSummary:
        """What was read: kernel, host, times, sums."""
        return self.report.trace

    @property
    def losses(self) -> Tuple[str, ...]:
        """What the recording cannot say."""
        return self.report.losses

    def waits(
        self, task: Union[str, int, None] = None, cpu: Union[str, int, Iterable[int], None] = None, start: Optional[Moment] = None, end: Optional[Moment] = None
    ) -> Table:
        """A row for each wait: `wait_ns` adds up to `trace.waits_total_ns`. Columns: docs/tables.md.

        Args:
            task: id or name; `*` stands for anything.
            cpu: a CPU, several, or `"0,2-3"`.
            start: where it begins: ns on the trace's clock, or text as `"+1.2s"`.
            end: where it ends.
        """
        return self.table("waits", task, cpu, start, end)

    def pieces(
        self, task: Union[str, int, None] = None, cpu: Union[str, int, Iterable[int], None] = None, start: Optional[Moment] = None, end: Optional[Moment] = None
    ) -> Table:
        """A row for each wait, occupant and rule: `piece_ns` of a wait adds up to its `wait_ns`."""
        return self.table("pieces", task, cpu, start, end)

    def blame(
        self, task: Union[str, int, None] = None, cpu: Union[str, int, Iterable[int], None] = None, start: Optional[Moment] = None, end: Optional[Moment] = None
    ) -> Table:
        """Sums: a row for each victim, occupant and rule."""
        return self.table("blame", task, cpu, start, end)

    def table(
        self,
        name: str,
        task: Union[str, int, None] = None,
        cpu: Union[str, int, Iterable[int], None] = None,
        start: Optional[Moment] = None,
        end: Optional[Moment] = None,
    ) -> Table:
        """The table of that name: `waits`, `pieces`, `blame` or `findings`."""
        return Table.mapped(self._export(name, Selection(task, cpu, start, end)), self.timeout)

    def batches(
        self,
        name: str = "waits",
        task: Union[str, int, None] = None,
        cpu: Union[str, int, Iterable[int], None] = None,
        start: Optional[Moment] = None,
        end: Optional[Moment] = None,
    ) -> pyarrow.RecordBatchReader:
        """The same rows, 8192 at a time as the program finds them: nothing is kept, in memory or on disk. DuckDB and polars read it."""
        return batches(self._export(name, Selection(task, cpu, start, end)), self.timeout)

    def timeline(
        self, task: Union[str, int, None] = None, cpu: Union[str, int, Iterable[int], None] = None, start: Optional[Moment] = None, end: Optional[Moment] = None
    ) -> Iterator[TimelineLine]:
        """Every run with the wait before it, in order, as the program finds them. An error of the program is raised at the end."""
        selection = Selection(task, cpu, start, end).within(self._selection)
        with _program.Output(["timeline", "--json", *selection.arguments(), "--", self._only_path("timeline")], self.timeout) as output:
            # It closes what it reads when nothing has it any more.
            lines = io.BufferedReader(output, 1 << 16)
            for line in lines:
                try:
                    yield TimelineLine.from_json(json.loads(line))
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    output.check()
                    raise ProgramMismatch(f"{output.command[0]}: prints what is no line of a timeline: {type(error).__name__} {error}") from error
            output.check()

    def compare(self, other: Union[Recording, StrPath]) -> Comparison:
        """What is different in another recording: this one is before (A), the other one after (B)."""
        path = other._only_path("compare") if isinstance(other, Recording) else absolute(other)
        arguments = ["compare", "--json", *self._selection.arguments(), "--", self._only_path("compare"), path]
        # 1 says that there is a difference.
        comparison, _ = decoded(Comparison, "unstarve.compare/1", _program.run(arguments, self.timeout, good=(0, 1)))
        return comparison

    def _export(self, table: str, selection: Selection) -> List[str]:
        if table not in TABLES:
            raise ValueError(f"{table!r}: no table of a recording; there are {', '.join(TABLES)}")
        return ["export", f"--table={table}", *selection.within(self._selection).arguments(), self._only_path("export")]

    def _only_path(self, command: str) -> str:
        if len(self.paths) != 1:
            raise ValueError(f"{command} reads one recording, and these are {len(self.paths)} files")
        return self.paths[0]

    def __repr__(self) -> str:
        lines = [f"<Recording {self._names}: {printable(self.facts())}>", printable(self.verdict.text)]
        return "\n".join(lines + [f"  {finding!r}" for finding in self.report.findings])

    def facts(self) -> str:
        trace = self.trace
        kernel = f", Linux {trace.kernel}" if trace.kernel else ""
        return f"{duration(trace.end_ns - trace.start_ns)} of {trace.cpus} CPU{'s' * (trace.cpus != 1)}{kernel}, {trace.waits_count:,} waits, {duration(trace.waits_total_ns)} in all"

    def _repr_html_(self) -> str:
        losses = "".join(f"<li>{cell(loss)}</li>" for loss in self.losses)
        missing = f"<details><summary>what it cannot say</summary><ul>{losses}</ul></details>" if losses else ""
        return f"<p><b>{cell(self._names)}</b>: {cell(self.facts())}</p><p>{cell(self.verdict.text)}</p>{findings_table(self.report.findings)}{missing}"


def open(
    path: StrPath,
    *more: StrPath,
    task: Union[str, int, None] = None,
    cpu: Union[str, int, Iterable[int], None] = None,
    start: Optional[Moment] = None,
    end: Optional[Moment] = None,
    timeout: Optional[float] = TIMEOUT,
) -> Recording:
    """Reads a recording of any format, or the texts of a ticket (`open("dmesg.txt", "ps.txt")`), and explains it.

    Args:
        task, cpu, start, end: the part that is explained, as in `Recording.waits`.
        timeout: seconds that the program may take for any one answer; `None` is no limit.

    Raises:
        RecordingError: it cannot be read; the text is the program's own message.
        ProgramNotFound, ProgramMismatch: there is no program that can be used.
        TimeExceeded: it took longer.
    """
    return Recording((path, *more), Selection(task, cpu, start, end), timeout)
