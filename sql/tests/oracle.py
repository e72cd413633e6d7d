#!/usr/bin/env python3
"""What DuckDB answers to a question about a view, as CSV without names.

    oracle.py PLACE VIEW DEFINITION QUESTION

DuckDB reads the same files and knows nothing of DataFusion. Its timestamps with nanoseconds take no part in calculations with intervals,
so they are cut to microseconds.
"""
import csv
import glob
import sys

import duckdb

TABLES = {
    "hosts": "host varchar, ts timestamptz",
    "wait_rollup": "",
    "blame_rollup": "",
    "settings": "host varchar, kernel varchar, path varchar, value varchar, ts timestamptz",
    "episodes": "ts timestamptz, host varchar, finding varchar, victim varchar, culprit varchar, rule varchar, ns ubigint, "
    "remedy varchar, trace_uri varchar, id varchar",
}

place, view, definition, question = sys.argv[1:]
duck = duckdb.connect()
duck.execute("set timezone='UTC'")
duck.execute("create macro share(part, whole) as case when whole > 0 then part::double / whole end")
for table, columns in TABLES.items():
    files = f"{place}/table={table}/**/*.parquet"
    if glob.glob(files, recursive=True):
        read = f"read_parquet('{files}', hive_partitioning = false, union_by_name = true)"
        duck.execute(f"create view {table} as select * replace (ts::timestamp_ns::timestamptz as ts) from {read}")
    else:
        duck.execute(f"create table {table} ({columns})")
duck.execute(f"create view {view} as {definition}")
csv.writer(sys.stdout, lineterminator="\n").writerows(duck.execute(question).fetchall())
