#!/usr/bin/env python3
"""What DuckDB answers to questions about views.

    oracle.py PLACE < QUESTIONS

QUESTIONS is JSON, a list of [view, definition, question]; a question that is null is none, and others use its view. So is the answer, a list of CSV texts without names. DuckDB reads the same files
and knows nothing of DataFusion. Its timestamps with nanoseconds take no part in calculations with intervals, so they are cut to
microseconds. Histograms are added up and asked here, by what docs/tables.md says of them: `wait_quantiles` is not DuckDB's.
"""
import csv
import glob
import io
import json
import re
import sys

import duckdb

TABLES = {
    "hosts": "host varchar, ts timestamptz",
    "wait_rollup": "",
    "blame_rollup": "",
    "settings": "host varchar, kernel varchar, path varchar, value varchar, ts timestamptz",
    "episodes": "ts timestamptz, host varchar, finding varchar, victim varchar, culprit varchar, culprit_role varchar, rule varchar, ns ubigint, "
    "remedy varchar, trace_uri varchar, id varchar, kernel varchar",
    "proofs": "remedy varchar, finding varchar, victim varchar, scenario varchar, kernel varchar, answer varchar, metric varchar, effect double, low double, high double",
}
# Without a moment.
TIMELESS = {"proofs"}


def quantile(counts, part):
    """ns below which a part of the waits is, spread within a step as its bounds are."""
    bound = lambda step: 2.0 ** (-20 + min(step, 104) / 4) * 1e9
    rank = part * sum(counts)
    for step, count in enumerate(counts):
        if count and count >= rank:
            inside = rank / count
            lower = bound(step - 1) if step else 0
            return bound(0) * inside if not step else lower * (bound(step) / lower) ** inside
        rank -= count
    return None


def wait_quantiles(duck):
    sums = {}
    steps = "select host, victim_role, unnest(buckets) as n, generate_subscripts(buckets, 1) - 1 as step from wait_rollup"
    for host, role, step, count in duck.execute(f"select host, victim_role, step, sum(n) from ({steps}) group by all").fetchall():
        sums.setdefault((host, role), [0] * 106)[step] += count
    rows = [(*key, sum(whole), *(quantile(whole, part) for part in (0.5, 0.99, 0.999))) for key, whole in sums.items() if sum(whole)]
    duck.execute("create table wait_quantiles (host varchar, victim_role varchar, n ubigint, p50_ns double, p99_ns double, p999_ns double)")
    duck.executemany("insert into wait_quantiles values (?, ?, ?, ?, ?, ?)", rows)


place = sys.argv[1]
duck = duckdb.connect()
duck.execute("set timezone='UTC'")
duck.execute("create macro share(part, whole) as case when whole > 0 then part::double / whole end")
for table, columns in TABLES.items():
    files = f"{place}/table={table}/**/*.parquet"
    if glob.glob(files, recursive=True):
        read = f"read_parquet('{files}', hive_partitioning = false, union_by_name = true)"
        columns = "*" if table in TIMELESS else "* replace (ts::timestamp_ns::timestamptz as ts)"
        duck.execute(f"create view {table} as select {columns} from {read}")
    else:
        duck.execute(f"create table {table} ({columns})")
# The same rows, which are folded or not as `compact` left them: DuckDB folds none.
for hourly, table in (("wait_hourly", "wait_rollup"), ("blame_hourly", "blame_rollup")):
    duck.execute(f"create view {hourly} as select * from {table}")
answers = []
questions = json.load(sys.stdin)
views = {view: definition for view, definition, _ in questions if view != "wait_quantiles"}
# It takes longer than all the others.
if any("wait_quantiles" in (question or "") for _, _, question in questions):
    wait_quantiles(duck)
while views:
    # Those that are made of others come after them.
    made = [view for view, definition in views.items() if not any(re.search(rf"\b{other}\b", definition) for other in views)]
    assert made, f"views that are made of each other: {list(views)}"
    for view in made:
        duck.execute(f"create view {view} as {views.pop(view)}")
for view, _, question in questions:
    if question is None:
        continue
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(duck.execute(question).fetchall())
    answers.append(text.getvalue())
json.dump(answers, sys.stdout)
