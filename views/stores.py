"""Stores to ask questions of. Those in data/ are files: `fleet` (20 hosts, two hours), `hourly` (4 hosts, with rows by the hour beside
the merged ones, but not of every merged file) and `real` (three intervals of a machine). Others are made of them here."""
import datetime
import shutil
from pathlib import Path

import pyarrow
import pyarrow.compute
import pyarrow.parquet

DATA = Path(__file__).resolve().parent / "data"


def rows(store, table):
    """The merged rows of a table, as dicts: what sums of our own are made of."""
    files = sorted((Path(store) / f"merged/v1/table={table}").rglob("*.parquet"))
    return [row for file in files for row in pyarrow.parquet.ParquetFile(file).read().to_pylist()]


def write(store, table, made, date="2026-11-20", name="made"):
    """Writes rows in the types of the small fleet's; a column that no row has is not written."""
    like = next((DATA / f"fleet/merged/v1/table={table}").rglob("*.parquet"))
    schema = pyarrow.parquet.read_schema(like)
    # An early version had no ids of machines, nor has the small fleet all tables of today.
    if "machine_id" not in schema.names:
        schema = schema.append(pyarrow.field("machine_id", pyarrow.string()))
    schema = pyarrow.schema([field for field in schema if any(field.name in row for row in made)])
    place = Path(store) / f"merged/v1/table={table}/date={date}/hour=00"
    place.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(made, schema=schema), place / f"{name}.parquet")


def copied(name, to):
    shutil.copytree(DATA / name, to)
    return to


def days(to):
    """The small fleet with a day before: 30 hours earlier it had all rows that it has, but none of `/batch.slice`, a host more, and its
    episodes were storms of wakeups on 6.1, those of one host about a program. What was proved is beside it."""
    store = copied("fleet", to)
    earlier = lambda row: {**row, "ts": row["ts"] - datetime.timedelta(hours=30)}
    storms = [earlier({**row, "id": row["id"] + "-storm", "finding": "wake-storm", "kernel": "6.1.0-planted"}) for row in rows(store, "episodes")]
    gone = {table: [earlier({**row, "host": "host-gone"}) for row in rows(store, table) if row["host"] == "host-0000"] for table in ("blame_rollup", "wait_rollup", "hosts")}
    for table, of in gone.items():
        write(store, table, of, name="gone")
    write(store, "blame_rollup", [earlier(row) for row in rows(store, "blame_rollup") if row["occupant"] != "/batch.slice"])
    write(store, "episodes", [{**row, "victim_role": "other"} if row["host"] == "host-0003" else row for row in storms])
    proofs = store / "merged/v1/table=proofs"
    proofs.mkdir(parents=True)
    shutil.copy(DATA / "proofs/proofs.parquet", proofs)
    return store


def odd(to):
    """What columns may have, and seldom do: sums beyond 64 bits, hosts without a kernel, labels or rollups, moments from the future,
    episodes of which only roles are known, columns that an older version did not write."""
    store = Path(to)
    moment = datetime.datetime(2026, 11, 20, 0, 0, tzinfo=datetime.timezone.utc)
    most = 2**63 - 1
    # Kernels, labels, when, whether all columns are there.
    hosts = [("a", "6.1.0", None, 0, True), ("b", None, "x=1", 0, True), ("c", None, None, -2, True), ("old", None, None, -30, False),
             ("ahead", "6.1.0", None, 24 * 365 * 40, True), ("'; drop", "\\ \"x\"", "k=\u00e4,\u4e2d", 0, True)]  # fmt: skip
    for number, (host, kernel, labels, hours, is_whole) in enumerate(hosts):
        ts = moment + datetime.timedelta(hours=hours)
        more = {"kernel": kernel, "labels": labels, "boot_id": "b"} if is_whole else {}
        blame = [
            {"host": host, "ts": ts, "span_ns": most, "victim_role": role, "victim_kind": role, "occupant": occupant, "rule": rule, "ns": ns, **more}
            for role, occupant, rule, ns in [
                ("kworker", "real-time", "class", most), ("kworker", "real-time", "class", most - number), ("kworker", "/a.slice", "weight", most),
                ("direct-io", "real-time", "class", 1), ("/a.slice", "/a.slice", "throttled", 5), ("/a.slice", "idle", "idle", 7), ("/b.slice", "other", "fair", 0)]
        ]  # fmt: skip
        waits = [
            {"host": host, "ts": ts + datetime.timedelta(minutes=5 * turn), "span_ns": most, "victim_role": role, "victim_kind": role, "n": sum(counts),
             "sum_ns": most, "max_ns": longest, "buckets": counts, **more}
            for turn, (role, counts, longest) in enumerate(
                [("kworker", [0] * 80 + [7], 9), ("kworker", [3], 4), ("direct-io", [0] * 105 + [2], None), ("rcu", [], None), ("/a.slice", [1, 0, 2**62], 5)])
        ]  # fmt: skip
        write(store, "blame_rollup", blame, name=f"host-{number}")
        write(store, "wait_rollup", waits, name=f"host-{number}")
    # Watched, and nobody waited.
    write(store, "wait_rollup", [{"host": "idle", "ts": moment, "span_ns": 9, "victim_role": "unknown", "victim_kind": "unknown", "n": 0, "sum_ns": 0, "buckets": []}], name="idle")
    write(store, "hosts", [{"host": host, "ts": moment, "unstarve": "1"} for host in ("a", "never")])
    episode = {"ts": moment, "victims": 1}
    write(store, "episodes", [
        {**episode, "id": "roles", "host": "a", "victim_role": "kworker", "culprit_role": "real-time", "rule": "class", "ns": most, "finding": "f", "kernel": "6.1"},
        {**episode, "id": "both", "host": "a", "victim": "kworker/0:1", "victim_role": "kworker", "culprit_role": "real-time", "rule": "class", "ns": most, "finding": "f"},
        {**episode, "id": "none", "host": None, "ns": None},
    ])  # fmt: skip
    write(store, "settings", [{"host": f"h{number}", "ts": moment + datetime.timedelta(hours=turn), "path": "p", "value": "odd" if (number, turn) == (3, 1) else "usual"}
                              for number in range(5) for turn in range(2)])  # fmt: skip
    return store


def late(to):
    """Machines whose tables are there for a part of the time, and machines of one name. Three hours of four intervals: of each machine, by hour,
    how many intervals of waits, how many of them anybody waited in, and how many of blame have come."""
    store = Path(to)
    begin, second = datetime.datetime(2026, 11, 20, 0, 0, tzinfo=datetime.timezone.utc), 10**9
    machines = [
        ("whole", "w1", [(4, 4, 4), (4, 4, 4), (4, 4, 4)]),
        # No blame of an hour, of a part of one; no waits of an hour, of a part of one.
        ("no-blame", "b1", [(4, 4, 4), (4, 4, 0), (4, 4, 4)]),
        ("some-blame", "b2", [(4, 4, 4), (4, 4, 3), (4, 4, 4)]),
        ("no-waits", "n1", [(4, 4, 4), (0, 0, 4), (4, 4, 4)]),
        ("some-waits", "n2", [(4, 4, 4), (1, 1, 4), (4, 4, 4)]),
        # Nobody waited, nobody is blamed; or only in some intervals.
        ("quiet", "q1", [(4, 0, 0), (4, 0, 0), (4, 0, 0)]),
        ("seldom", "q2", [(4, 0, 0), (4, 1, 1), (4, 0, 0)]),
        # Never any blame, never any waits.
        ("never-blame", "x1", [(4, 4, 0)] * 3),
        ("never-waits", "x2", [(0, 0, 4)] * 3),
        # Two machines of one name, at the same times.
        ("twin", "t1", [(4, 4, 4)] * 3),
        ("twin", "t2", [(4, 4, 4), (4, 4, 0), (4, 4, 4)]),
        # Rows of a version without ids: of one machine, and of one of two.
        ("upgraded", None, [(4, 4, 4), (0, 0, 0), (0, 0, 0)]),
        ("upgraded", "u1", [(0, 0, 0), (4, 4, 4), (4, 4, 4)]),
        ("either", None, [(4, 4, 4), (0, 0, 0), (0, 0, 0)]),
        ("either", "e1", [(0, 0, 0), (4, 4, 4), (0, 0, 0)]),
        ("either", "e2", [(0, 0, 0), (0, 0, 0), (4, 4, 4)]),
    ]
    for number, (host, machine_id, hours) in enumerate(machines):
        blame, waits = [], []
        for hour, (watched, waited, blamed) in enumerate(hours):
            for turn in range(4):
                ns = (number + 1) * second // 10
                row = {"host": host, "machine_id": machine_id, "boot_id": "b", "ts": begin + datetime.timedelta(hours=hour, minutes=15 * turn), "span_ns": 900 * second,
                       "victim_role": "kworker", "victim_kind": "kworker", "kernel": "6.1" if hour else "6.12", "labels": f"hour={hour % 2}"}  # fmt: skip
                if turn < blamed:
                    blame += [{**row, "occupant": "real-time", "rule": "class", "ns": ns - 7}, {**row, "occupant": "idle", "rule": "idle", "ns": 7}]
                if turn < watched and turn < waited:
                    # In one interval a wait longer than the last step, beside intervals with shorter ones.
                    is_long = host in ("twin", "whole") and machine_id != "t1" and (hour, turn) == (1, 2)
                    waits.append({**row, "n": 2, "sum_ns": ns, "max_ns": None if is_long else ns, "buckets": [0] * 105 + [2] if is_long else [0] * 60 + [2]})
                elif turn < watched:
                    waits.append({**row, "victim_role": "unknown", "victim_kind": "unknown", "n": 0, "sum_ns": 0, "max_ns": None, "buckets": []})
        for table, made in (("blame_rollup", blame), ("wait_rollup", waits)):
            if made:
                write(store, table, made, name=f"machine-{number}")
        write(store, "episodes", [{"id": f"e{number}", "host": host, "machine_id": machine_id, "ts": begin, "victims": 1, "ns": number, "victim_role": "kworker", "finding": "f", "kernel": "6.1"}], name=f"machine-{number}")
        write(store, "settings", [{"host": host, "machine_id": machine_id, "ts": begin, "path": "p", "value": "odd" if machine_id == "t2" else "usual", "kernel": "6.1"}], name=f"machine-{number}")
    return store


def without(store, table, to):
    """The same with no file of a table."""
    shutil.copytree(store, to)
    for tree in ("merged", "hourly"):
        shutil.rmtree(Path(to) / f"{tree}/v1/table={table}", ignore_errors=True)
    return Path(to)
