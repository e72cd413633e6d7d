"""What Python adds up is what the program prints as JSON, to the nanosecond; for every stored recording, by every library."""
import gc
import pathlib
import tempfile
import unittest
from collections import Counter
from typing import Any, List

import unstarve
from unstarve import errors

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TRACES = ROOT / "testdata" / "traces"
STARVED = TRACES / "linux-5.10-net-rt.dat"
GOOD = TRACES / "linux-5.10-net-good.dat"
# Those that are small: each is read four times, by a program that is not optimised.
RECORDINGS = sorted(each for each in TRACES.iterdir() if each.suffix in (".dat", ".data", ".zst", ".txt", ".pftrace") and each.stat().st_size < 100_000)

try:
    import duckdb
    import pandas
    import polars
    import pyarrow
    import pyarrow.compute as compute
except ImportError as error:
    print(f"skipped: tables in Python: {error}; tools/setup.sh test installs what reads them")
    raise unittest.SkipTest(str(error)) from error


class Sums(unittest.TestCase):
    def test_every_recording(self) -> None:
        waits_of_all = 0
        for path in RECORDINGS:
            with self.subTest(path.name):
                recording = unstarve.open(path)
                waits, pieces, blame = recording.waits(), recording.pieces().to_arrow(), recording.blame().to_arrow()
                total = recording.trace.waits_total_ns
                self.assertEqual(len(waits), recording.trace.waits_count)
                for table, column in [(waits.to_arrow(), "wait_ns"), (pieces, "piece_ns"), (blame, "total_ns")]:
                    self.assertEqual(compute.sum(table[column]).as_py() or 0, total)
                of_pieces: Counter[int] = Counter()
                for wait, ns in zip(pieces["wait"].to_pylist(), pieces["piece_ns"].to_pylist()):
                    of_pieces[wait] += ns
                for wait, ns in zip(waits.to_arrow()["wait"].to_pylist(), waits.to_arrow()["wait_ns"].to_pylist()):
                    self.assertEqual(of_pieces[wait], ns)
                waits_of_all += len(waits)
        self.assertGreater(waits_of_all, 10_000)

    def test_every_library(self) -> None:
        recording = unstarve.open(STARVED)
        table, total = recording.waits(), recording.trace.waits_total_ns
        waits = table
        self.assertEqual(int(table.to_pandas()["wait_ns"].sum()), total)
        self.assertEqual(table.to_polars()["wait_ns"].sum(), total)
        self.assertEqual(polars.DataFrame(table)["wait_ns"].sum(), total)
        self.assertEqual(self.one(table.to_duckdb().aggregate("sum(wait_ns)::bigint").fetchall()), total)
        self.assertEqual(self.one(duckdb.sql("select sum(wait_ns)::bigint from waits").fetchall()), total)
        connection = duckdb.connect()
        self.assertEqual(self.one(table.to_duckdb(connection).aggregate("count(*)").fetchall()), recording.trace.waits_count)
        self.assertEqual(str(table.to_pandas().dtypes["queued_ns"]), "int64[pyarrow]")
        self.assertEqual(pyarrow.table(table).num_rows, len(table))

    def one(self, rows: Any) -> Any:
        ((value,),) = rows
        return value

    def test_findings_are_sums_of_pieces(self) -> None:
        finding = unstarve.open(STARVED).findings[0]
        self.assertEqual((finding.id, finding.severity, finding.victim.comm), ("rt-starvation", "critical", "ksoftirqd/1"))
        pieces = unstarve.open(STARVED).pieces(task=finding.victim.tids[0]).to_polars()
        self.assertEqual(pieces["piece_ns"].sum(), finding.waits.total_ns)
        by_culprit = pieces.filter((polars.col("occupant") == "wl") & (polars.col("rule") == "class"))["piece_ns"].sum()
        self.assertEqual(by_culprit, finding.culprits[0].ns)
        self.assertEqual(sum(culprit.ns for culprit in finding.blame), finding.waits.total_ns)

    def test_batches_are_the_table(self) -> None:
        recording = unstarve.open(STARVED)
        self.assertTrue(recording.batches("waits").read_all().equals(recording.waits().to_arrow()))
        reader = recording.batches("pieces")
        self.assertEqual(self.one(duckdb.sql("select sum(piece_ns)::bigint from reader").fetchall()), recording.trace.waits_total_ns)
        self.assertLess(max(batch.num_rows for batch in recording.batches()), 8193)

    def test_timeline_is_the_waits(self) -> None:
        recording = unstarve.open(STARVED)
        lines = list(recording.timeline())
        waited = sum(line.wait.ns for line in lines if line.wait)
        self.assertEqual(waited, recording.trace.waits_total_ns)
        self.assertTrue(all(sum(piece.ns for piece in line.wait.blame) == line.wait.ns for line in lines if line.wait))
        self.assertEqual({line.comm for line in recording.timeline(task="ksoftirqd/1")}, {"ksoftirqd/1"})

    def test_a_part(self) -> None:
        whole = unstarve.open(STARVED)
        worst = whole.findings[0].worst[0]
        one = whole.waits(task=worst.tid, start=worst.start_ns, end=worst.end_ns, cpu=[worst.cpu]).to_arrow().to_pylist()
        self.assertEqual([(each["start_ns"], each["end_ns"]) for each in one], [(worst.start_ns, worst.end_ns)])
        # What is said when it is opened holds for each table, unless that says something else.
        part = unstarve.open(STARVED, task="ksoftirqd/1")
        self.assertEqual({each["tid"] for each in part.waits().to_arrow().to_pylist()}, {18})
        self.assertIsNotNone(part.report.selected)
        self.assertLess(len(part.waits(start="+1s")), len(part.waits()))

    def test_columns_say_what_they_mean(self) -> None:
        columns = {column.name: column for column in unstarve.open(STARVED).blame().columns}
        self.assertEqual((columns["total_ns"].type, columns["total_ns"].unit, columns["total_ns"].meaning), ("int64", "ns", "how long, in all"))

    def test_no_copy(self) -> None:
        recording = unstarve.open(STARVED)
        gc.collect()
        before = pyarrow.total_allocated_bytes()
        table = recording.waits()
        self.assertGreater(table.nbytes, 1 << 20)
        frame = table.to_pandas()
        self.assertLess(pyarrow.total_allocated_bytes() - before, table.nbytes // 100)
        addresses = self.addresses(table.to_arrow()["wait_ns"])
        self.assertEqual(self.addresses(frame["wait_ns"].array.__arrow_array__()), addresses)
        self.assertEqual(self.addresses(table.to_polars()["wait_ns"].rechunk(in_place=False).to_arrow())[:0], [])
        self.assertEqual(self.addresses(pyarrow.chunked_array([chunk.to_arrow() for chunk in table.to_polars()["wait_ns"].get_chunks()])), addresses)

    def addresses(self, column: Any) -> List[int]:
        chunks = column.chunks if hasattr(column, "chunks") else [column]
        return [chunk.buffers()[1].address + 8 * chunk.offset for chunk in chunks]

    def test_nothing_is_left(self) -> None:
        with tempfile.TemporaryDirectory() as place:
            kept, tempfile.tempdir = tempfile.tempdir, place
            try:
                table = unstarve.open(STARVED).waits()
                self.assertEqual(list(pathlib.Path(place).iterdir()), [])
                self.assertGreater(compute.sum(table.to_arrow()["wait_ns"]).as_py(), 0)
                # A reader that stops early ends the program.
                lines = unstarve.open(STARVED).timeline()
                next(lines)
                lines.close()  # type: ignore[attr-defined]
                next(iter(unstarve.open(STARVED).batches()))
            finally:
                tempfile.tempdir = kept
        gc.collect()
        children = pathlib.Path("/proc/self/task").glob("*/children")
        self.assertEqual([each for file in children for each in file.read_text().split()], [])

    def test_compare(self) -> None:
        comparison = unstarve.open(GOOD).compare(unstarve.open(STARVED))
        self.assertEqual([(each.id, each.outcome) for each in comparison.findings][:1], [("rt-starvation", "appeared")])
        self.assertEqual(unstarve.open(GOOD).compare(str(STARVED)), comparison)
        self.assertIn("appeared", repr(comparison))

    def test_frames_outlive_the_recording(self) -> None:
        frame = unstarve.open(STARVED).waits().to_pandas()
        gc.collect()
        self.assertEqual(int(frame["wait_ns"].sum()), unstarve.open(STARVED).trace.waits_total_ns)
        self.assertIsInstance(frame, pandas.DataFrame)

    def test_unknown_tables(self) -> None:
        with self.assertRaises(ValueError):
            unstarve.open(STARVED).table("--output=/tmp/x")
        with self.assertRaisesRegex(errors.RecordingError, "no task called nobody"):
            unstarve.open(STARVED).waits(task="nobody")
        with self.assertRaisesRegex(errors.RecordingError, "no task called nobody"):
            list(unstarve.open(STARVED).batches(task="nobody"))
        with self.assertRaisesRegex(errors.RecordingError, "no task called nobody"):
            list(unstarve.open(STARVED).timeline(task="nobody"))


if __name__ == "__main__":
    unittest.main()
