"""Finds the program and runs it: never by a shell, always with a limit of time, and apart from this process.

What a damaged or hostile recording does to a reader it does to another process: here it is an exception.
"""
from __future__ import annotations

import functools
import io
import os
import re
import select
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from types import TracebackType
from typing import IO, Iterator, List, Optional, Sequence, Tuple, Type

from .errors import ProgramMismatch, ProgramNotFound, RecordingError, TimeExceeded

# Names the program to use, before all others.
VARIABLE = "UNSTARVE"
# The first version that has all options which are used here.
OLDEST: Tuple[int, int, int] = (0, 1, 0)
# Most of what the program says on standard error that is kept.
MAX_MESSAGE_BYTES = 1 << 16
# Remarks are beside the answer; all else on standard error is why there is none.
REMARK = "unstarve: note: "
NAME = "unstarve: "


def program() -> str:
    """The path of the program: `UNSTARVE`, else `unstarve` of PATH, else the one that came with this package.

    Raises:
        ProgramNotFound: there is none.
        ProgramMismatch: it is older than this package.
    """
    named = os.environ.get(VARIABLE)
    if named:
        found: Optional[str] = shutil.which(named)
        if found is None:
            raise ProgramNotFound(f"{VARIABLE}={named}: no program that can be started")
    else:
        # An entry that is not absolute is the working directory, which may be anybody's.
        path = os.pathsep.join(entry for entry in os.environ.get("PATH", "").split(os.pathsep) if os.path.isabs(entry))
        found = shutil.which("unstarve", path=path) or next(bundled(), None)
    if found is None:
        raise ProgramNotFound(
            f"no program unstarve: there is none in PATH, and this package came without one for this machine; install it, or set {VARIABLE} to its path"
        )
    check_version(os.path.abspath(found))
    return os.path.abspath(found)


def bundled() -> Iterator[str]:
    """Where pip puts the programs of a package: of the environment, of the user, beside the package (`pip install --target`)."""
    user = "posix_user"
    places = [sysconfig.get_path("scripts")]
    if user in sysconfig.get_scheme_names():
        places.append(sysconfig.get_path("scripts", user))
    places.append(str(Path(__file__).resolve().parent.parent / "bin"))
    for place in places:
        found = shutil.which("unstarve", path=place)
        if found:
            yield found


@functools.lru_cache(maxsize=16)
def check_version(path: str) -> Tuple[int, int, int]:
    """The program's version; once for each path."""
    try:
        done = subprocess.run([path, "--version"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProgramNotFound(f"{path}: cannot be started: {error}") from error
    said = done.stdout[:200].decode("utf-8", "backslashreplace")
    version = re.match(r"unstarve (\d+)\.(\d+)\.(\d+)", said)
    if version is None:
        raise ProgramMismatch(f"{path}: is not unstarve: `--version` says {said.strip()!r}")
    major, minor, patch = (int(number) for number in version.groups())
    if (major, minor, patch) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ProgramMismatch(f"{path}: is unstarve {major}.{minor}.{patch}; this package needs {oldest} or later ({VARIABLE} names another one)")
    return major, minor, patch


def failed(command: Sequence[str], returncode: int, said: bytes) -> RecordingError:
    """Why a run of the program gave no answer."""
    lines = said.decode("utf-8", "backslashreplace").splitlines()
    lines = [line[len(NAME) :] if line.startswith(NAME) else line for line in lines if line and not line.startswith(REMARK)]
    if returncode < 0:
        lines.append(f"unstarve was ended by signal {-returncode}")
    return RecordingError("\n".join(lines) or f"unstarve exited with {returncode}, without a message", command, returncode)


def run(arguments: Sequence[str], timeout: Optional[float], good: Sequence[int] = (0,)) -> bytes:
    """What the program prints.

    Args:
        timeout: seconds after which it is ended; `None` is no limit.
        good: exit codes with which there is an answer.
    """
    command = [program(), *arguments]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout)
    except subprocess.TimeoutExpired as error:
        raise TimeExceeded(f"`unstarve {arguments[0]}` took longer than {timeout:g} s, and was ended") from error
    except OSError as error:
        raise ProgramNotFound(f"{command[0]}: cannot be started: {error}") from error
    if done.returncode not in good:
        raise failed(command, done.returncode, done.stderr[:MAX_MESSAGE_BYTES])
    return done.stdout


class Output(io.RawIOBase):
    """What a program prints while it runs. The program waits for its reader, so that nothing piles up; `close` ends it."""

    def __init__(self, arguments: Sequence[str], timeout: Optional[float]) -> None:
        """`timeout`: seconds that any one read may take; `None` is no limit."""
        super().__init__()
        self.command: List[str] = [program(), *arguments]
        self.timeout = timeout
        self.said: IO[bytes] = tempfile.TemporaryFile()
        try:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.said, bufsize=0)
        except OSError as error:
            self.said.close()
            raise ProgramNotFound(f"{self.command[0]}: cannot be started: {error}") from error
        assert self.process.stdout is not None
        self.pipe = self.process.stdout
        self.ready = select.poll()
        self.ready.register(self.pipe.fileno(), select.POLLIN)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        limit = None if self.timeout is None else self.timeout * 1000
        if not self.ready.poll(limit):
            self.process.kill()
            raise TimeExceeded(f"`unstarve {self.command[1]}` printed nothing for {self.timeout:g} s, and was ended")
        return os.readv(self.pipe.fileno(), [buffer])

    def check(self) -> None:
        """Waits for the program's end.

        Raises:
            RecordingError: it could not do it; what was read until then is not all.
        """
        try:
            code = self.process.wait(self.timeout)
        except subprocess.TimeoutExpired as error:
            raise TimeExceeded(f"`unstarve {self.command[1]}` took longer than {self.timeout:g} s to end, and was ended") from error
        if code != 0:
            self.said.seek(0)
            raise failed(self.command, code, self.said.read(MAX_MESSAGE_BYTES))

    def close(self) -> None:
        if not self.closed:
            super().close()
            self.process.kill()
            self.process.wait()
            self.pipe.close()
            self.said.close()

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()
