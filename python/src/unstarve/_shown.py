"""How answers are shown: a line each in a terminal, a table in a notebook.

Names come from recordings, and so from anybody: no control character reaches a terminal, and no markup a page.
"""
from __future__ import annotations

import html
from typing import Any, Iterable, List, Sequence, Tuple, TypeVar

COLOURS = {"critical": "#b3261e", "warning": "#8a5a00", "info": "#3d5a80"}
UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))
Item = TypeVar("Item")


def printable(text: str) -> str:
    """The text with every character escaped that could do something to a terminal, or change the order of what is read."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)


def duration(ns: int) -> str:
    """For people: three digits and a unit."""
    for size, unit in UNITS:
        if ns >= size:
            number = ns / size
            return f"{number:.{2 if number < 10 else 1 if number < 100 else 0}f} {unit}"
    return f"{ns} ns"


def cell(text: object) -> str:
    return html.escape(printable(str(text)))


def rows(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already."""
    names = "".join(f"<th style='text-align:left'>{cell(name)}</th>" for name in head)
    lines = "".join("<tr>" + "".join(f"<td style='text-align:left;vertical-align:top'>{each}</td>" for each in row) + "</tr>" for row in body)
    return f"<table><thead><tr>{names}</tr></thead><tbody>{lines}</tbody></table>"


def severity(word: str) -> str:
    return f"<b style='color:{COLOURS.get(word, 'inherit')}'>{cell(word)}</b>"


class Shown:
    """Is shown in one line."""

    def line(self) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {printable(self.line())}>"


class ShownRemedy(Shown):
    id: str
    text: str

    def line(self) -> str:
        return f"{self.id}: {self.text}"


class ShownFinding(Shown):
    id: str
    severity: str
    sentence: str

    def line(self) -> str:
        return f"{self.severity} {self.id}: {self.sentence}"

    def _repr_html_(self) -> str:
        return findings_table([self])


class ShownReport(Shown):
    verdict: Any
    findings: Any

    def line(self) -> str:
        return f"{self.verdict.severity or 'nothing wrong'}: {self.verdict.text}"

    def _repr_html_(self) -> str:
        return f"<p>{cell(self.verdict.text)}</p>{findings_table(self.findings)}"


class ShownComparison(Shown):
    changes: Any
    findings: Any

    def line(self) -> str:
        outcomes = ", ".join(f"{each.id} of {each.victim.name} {each.outcome}" for each in self.findings)
        return f"{len(self.changes)} changes; findings: {outcomes or 'none'}"

    def _repr_html_(self) -> str:
        body = [[cell(each.outcome), cell(each.id), cell(each.a or ""), cell(each.b or ""), cell(each.sentence)] for each in self.findings]
        return rows(["finding", "id", "before", "after", "what"], body)


class Listed(Tuple[Item, ...]):
    """A tuple whose items are shown a line each."""

    def __repr__(self) -> str:
        return "\n".join(repr(each) for each in self) or f"<{type(self).__name__}: none>"


class Findings(Listed[Item]):
    """Findings, worst first."""

    def _repr_html_(self) -> str:
        return findings_table(self)


def findings_table(findings: Iterable[Any]) -> str:
    body: List[List[str]] = []
    for finding in findings:
        remedy = finding.remedies[0].text if finding.remedies else ""
        # The sentence has the numbers: those of all the victim's waits, beside them, would be others.
        rule = finding.culprits[0].rule if finding.culprits else ""
        body.append([severity(finding.severity), cell(finding.sentence), cell(rule), cell(f"{finding.confidence:.0%}"), cell(remedy)])
    return rows(["", "what", "rule", "confidence", "first remedy"], body) if body else "<p>no findings</p>"
