"""What can go wrong. Every exception of this package is an `UnstarveError`."""
from __future__ import annotations

from typing import Sequence, Tuple


class UnstarveError(Exception):
    """Something that unstarve could not do; the text says what, where and what to do."""


class ProgramNotFound(UnstarveError):
    """There is no program `unstarve` that can be started."""


class ProgramMismatch(UnstarveError):
    """The program is too old for this package, or prints what this package does not know."""


class RecordingError(UnstarveError):
    """The program could not do it: the text is the program's own message."""

    def __init__(self, message: str, command: Sequence[str], returncode: int) -> None:
        super().__init__(message)
        self.command: Tuple[str, ...] = tuple(command)
        """What was run."""
        self.returncode = returncode
        """Its exit code; negative if a signal ended it."""


class TimeExceeded(UnstarveError, TimeoutError):
    """The program took longer than `timeout`, and was ended."""


class LibraryMissing(UnstarveError, ImportError):
    """Tables need a library of Python that is not installed."""
