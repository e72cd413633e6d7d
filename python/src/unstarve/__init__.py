"""Which threads the Linux scheduler starves, who starves them, by which rule and for how long.

    >>> import unstarve
    >>> unstarve.open("unstarve.dat").waits().to_pandas()
"""
from ._program import program
from ._recording import Recording, open
from ._table import Column, Table
from .comparison import Comparison
from .errors import LibraryMissing, ProgramMismatch, ProgramNotFound, RecordingError, TimeExceeded, UnstarveError
from .report import Finding, Report
from .timeline import TimelineLine

__all__ = [
    "Column",
    "Comparison",
    "Finding",
    "LibraryMissing",
    "ProgramMismatch",
    "ProgramNotFound",
    "Recording",
    "RecordingError",
    "Report",
    "Table",
    "TimeExceeded",
    "TimelineLine",
    "UnstarveError",
    "open",
    "program",
]
