"""Without any library: what is found, what is shown, and what goes wrong."""
import html.parser
import os
import pathlib
import shutil
import sys
import tempfile
import unittest
from typing import List, Optional
from unittest import mock

import unstarve
from unstarve import _program, _shown
from unstarve.report import Report

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TRACES = ROOT / "testdata" / "traces"
STARVED = TRACES / "linux-5.10-net-rt.dat"


class Room(unittest.TestCase):
    """A directory of its own."""

    def setUp(self) -> None:
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.room = pathlib.Path(room.name)

    def pretender(self, script: str) -> "mock._patch_dict":
        """A program that UNSTARVE names and that is another one."""
        path = self.room / "pretender"
        path.write_text(f'#!/bin/sh\n[ "$1" != --version ] || {{ echo unstarve 0.1.0; exit; }}\n{script}\n')
        path.chmod(0o755)
        return mock.patch.dict(os.environ, {"UNSTARVE": str(path)})


class Found(Room):
    def test_findings(self) -> None:
        recording = unstarve.open(STARVED)
        self.assertEqual(recording.verdict.severity, "critical")
        self.assertEqual(recording.json["schema"], recording.report.schema)
        finding = recording.findings[0]
        self.assertIn("chrt", finding.remedies[0].apply)
        self.assertIsNone(finding.victim.work)
        self.assertEqual(len(recording.findings), len(recording.json["findings"]))
        self.assertIsInstance(recording.report, Report)

    def test_texts_of_a_ticket(self) -> None:
        log = next(path for path in sorted((ROOT / "testdata" / "logs").iterdir()) if path.suffix == ".log")
        evidence = unstarve.open(log).report.evidence
        assert evidence is not None
        self.assertEqual(len(evidence.sources), 1)
        with self.assertRaisesRegex(ValueError, "reads one recording"):
            unstarve.open(log, log).compare(log)

    def test_names_of_files(self) -> None:
        for name in [b"-o", b"--help", b"a\nb", b"caf\xe9", b"it's; $(true)"]:
            path = self.room / os.fsdecode(name)
            shutil.copy(STARVED, path)
            self.assertEqual(unstarve.open(path).verdict.severity, "critical")
        here = os.getcwd()
        self.addCleanup(os.chdir, here)
        os.chdir(self.room)
        recording = unstarve.open("-o")
        os.chdir(here)
        self.assertGreater(sum(1 for _ in recording.timeline()), 1000)

    def test_values_are_no_options(self) -> None:
        with self.assertRaises(unstarve.RecordingError):
            unstarve.open(STARVED, task="--help")


class ShownAs(Room):
    def test_in_a_terminal(self) -> None:
        shown = repr(unstarve.open(STARVED))
        self.assertIn("2.02 s of 3 CPUs, Linux 5.10.0-32-cloud-amd64, 11,985 waits, 576 ms in all", shown)
        self.assertIn("critical rt-starvation: ksoftirqd/1 is starved by wl", shown)
        self.assertLess(max(len(line) for line in shown.splitlines()), 400)
        self.assertEqual(repr(unstarve.open(STARVED).findings), repr(unstarve.open(STARVED).findings[0]))

    def test_in_a_notebook(self) -> None:
        recording = unstarve.open(STARVED)
        for shown in (recording, recording.report, recording.findings, recording.findings[0], recording.compare(STARVED)):
            self.assertEqual(unclosed(shown._repr_html_()), [])
        self.assertIn("critical", recording._repr_html_())

    def test_hostile_names(self) -> None:
        self.assertEqual(_shown.printable("a\x1b[2Jb\u202e\n"), "a\\x1b[2Jb\\u202e\\n")
        self.assertEqual(_shown.cell("<script>&\x1b"), "&lt;script&gt;&amp;\\x1b")
        path = self.room / "<img src=x onerror=alert(1)>\x1b[2J"
        shutil.copy(STARVED, path)
        recording = unstarve.open(path)
        self.assertNotIn("<img", recording._repr_html_())
        self.assertNotIn("\x1b", repr(recording) + recording._repr_html_())

    def test_durations(self) -> None:
        self.assertEqual([_shown.duration(ns) for ns in (0, 999, 1_500, 12_345_678, 1_480_000_000)], ["0 ns", "999 ns", "1.50 µs", "12.3 ms", "1.48 s"])


def unclosed(page: str) -> List[str]:
    """Elements that are not closed, or closed without being open."""
    problems: List[str] = []
    stack: List[str] = []

    class Reader(html.parser.HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            stack.append(tag)

        def handle_endtag(self, tag: str) -> None:
            if not stack or stack.pop() != tag:
                problems.append(tag)

    Reader().feed(page)
    return problems + stack


class Trouble(Room):
    def test_no_such_file(self) -> None:
        with self.assertRaisesRegex(unstarve.RecordingError, r"cannot read /nowhere/x.dat: No such file") as raised:
            unstarve.open("/nowhere/x.dat")
        self.assertEqual(raised.exception.returncode, 2)
        self.assertIn("explain", raised.exception.command)

    def test_damaged(self) -> None:
        whole = STARVED.read_bytes()
        path = self.room / "x.dat"
        for damaged in [b"", b"\0" * 4096, whole[:100_000], whole[:-1000], whole[:5000] + bytes(5000) + whole[10_000:], whole[::-1]]:
            path.write_bytes(damaged)
            try:
                unstarve.open(path)
            except unstarve.RecordingError as error:
                self.assertIn("x.dat", str(error))

    def test_a_crash_is_an_exception(self) -> None:
        with self.pretender("kill -SEGV $$"), self.assertRaisesRegex(unstarve.RecordingError, "signal 11") as raised:
            unstarve.open(STARVED)
        self.assertEqual(raised.exception.returncode, -11)

    def test_a_limit_of_time(self) -> None:
        with self.pretender("exec sleep 60"):
            with self.assertRaisesRegex(unstarve.TimeExceeded, "took longer than 0.3 s"):
                unstarve.open(STARVED, timeout=0.3)
            recording = object.__new__(unstarve.Recording)
            recording.paths, recording.timeout, recording._selection = (str(STARVED),), 0.3, unstarve._recording.Selection()
            with self.assertRaisesRegex(TimeoutError, "printed nothing for 0.3 s"):
                next(recording.timeline())

    def test_other_answers(self) -> None:
        for printed in ["", "{", "[]", "null", '{"schema": "unstarve.explain/1"}', '{"schema": "unstarve.explain/2"}', "\x00"]:
            with self.pretender(f"cat <<'E'\n{printed}\nE"), self.assertRaises(unstarve.ProgramMismatch):
                unstarve.open(STARVED)

    def test_remarks_are_no_message(self) -> None:
        with self.pretender("echo 'unstarve: note: no host snapshot' >&2; echo 'unstarve: x: is damaged' >&2; exit 2"):
            with self.assertRaises(unstarve.RecordingError) as raised:
                unstarve.open(STARVED)
        self.assertEqual(str(raised.exception), "x: is damaged")

    def test_which_program(self) -> None:
        def found(variable: Optional[str], path: str) -> str:
            environment = {"PATH": path, **({"UNSTARVE": variable} if variable else {})}
            with mock.patch.dict(os.environ, environment), mock.patch.object(_program, "check_version"):
                if not variable:
                    os.environ.pop("UNSTARVE", None)
                return unstarve.program()

        real = self.room / "unstarve"
        real.write_text("#!/bin/sh\n")
        real.chmod(0o755)
        self.assertEqual(found("/bin/true", str(self.room)), "/bin/true")
        self.assertEqual(found(None, str(self.room)), str(real))
        with self.assertRaisesRegex(unstarve.ProgramNotFound, "UNSTARVE=/nowhere/unstarve"):
            found("/nowhere/unstarve", str(self.room))
        with mock.patch.object(_program, "bundled", lambda: iter(["/opt/bundled/unstarve"])):
            self.assertEqual(found(None, "/nowhere"), "/opt/bundled/unstarve")
        with mock.patch.object(_program, "bundled", lambda: iter([])), self.assertRaisesRegex(unstarve.ProgramNotFound, "install it"):
            found(None, "/nowhere")

    def test_versions(self) -> None:
        for says, expected in [("unstarve 0.0.9", "is unstarve 0.0.9; this package needs 0.1.0"), ("GNU coreutils 9", "is not unstarve"), ("", "is not unstarve")]:
            path = self.room / f"old-{len(says)}"
            path.write_text(f"#!/bin/sh\necho {says}\n")
            path.chmod(0o755)
            with mock.patch.dict(os.environ, {"UNSTARVE": str(path)}), self.assertRaisesRegex(unstarve.ProgramMismatch, expected):
                unstarve.open(STARVED)

    def test_without_pyarrow(self) -> None:
        recording = unstarve.open(STARVED)
        with mock.patch.dict(sys.modules, {"pyarrow": None, "pyarrow.ipc": None}):
            with self.assertRaisesRegex(unstarve.LibraryMissing, r"pip install 'unstarve\[arrow\]'"):
                recording.waits()
            with self.assertRaises(ImportError):
                recording.batches()


if __name__ == "__main__":
    unittest.main()
