#!/usr/bin/env python3
"""The views and what makes an engine ready for them, as one SQL text.

    shims.py duckdb|clickhouse|spark STORE      e.g. shims.py duckdb /srv/unstarve > unstarve.sql

The shim of an engine (duckdb.sql, clickhouse.sql, spark.sql) has the tables over the files of a store, and functions; the views are the
same for all, in the order of ORDER. Tables stand between two comments of each shim and are made from docs/tables.md: `UNSTARVE_WRITE=1
test_views.py` writes them anew.
"""
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Where shims say that the store is.
PLACE = "/srv/unstarve"
TABLES = ("blame_rollup", "wait_rollup", "hosts", "settings", "episodes", "proofs")
# `fleet compact` writes them by the hour, too.
FOLDED = {"blame_rollup": "blame_hourly", "wait_rollup": "wait_hourly"}
MARKS = ("-- Tables, made from docs/tables.md.\n", "-- End of the tables.\n")
CREATE = {
    "duckdb": "create or replace view {name} as\n{query};\n",
    "clickhouse": "create or replace view {name} as\n{query};\n",
    "spark": "create or replace temporary view {name} as\n{query};\n",
}


def columns():
    """What docs/tables.md says of each table: [(column, type)]."""
    found, table = {}, None
    for line in (HERE.parent / "docs/tables.md").read_text().splitlines():
        if heading := re.match(r"## `(\w+)`", line):
            table = found.setdefault(heading[1], [])
        elif table is not None and (row := re.match(r"\| `(\w+)` \| ([^|]*?) \|", line)):
            table.append((row[1], row[2]))
    # The hour of a row's file, from its path. A proof is of no hour.
    return {table: found[table] + ([] if table == "proofs" else [("date", "date?"), ("hour", "hour?")]) for table in TABLES}


def word(types, of):
    """The name of a column's type: {kind: name}."""
    of = of.rstrip("?")
    kind = "counts" if of.startswith("list") else "whole" if re.fullmatch(r"[ui]\d+", of) else of
    return types[kind]


def listed(items, indent):
    """As many on a line as fit."""
    lines = [""]
    for item in items:
        if lines[-1] and len(lines[-1]) + len(item) > 130:
            lines.append("")
        lines[-1] += f"{item}, "
    return f"\n{indent}".join(line.rstrip() for line in lines).rstrip(",")


def duckdb(table, of):
    types = {"text": "varchar", "timestamp": "timestamptz", "whole": "bigint", "counts": "bigint[]", "f64": "double", "date": "date", "hour": "varchar"}
    empty = listed([f'null::{word(types, kind)} as "{name}"' for name, kind in of], "    ")
    named = listed([f'"{name}"' for name, _ in of], "    ")

    def view(name):
        return (
            f"create or replace view {name} as select {named}\n"
            f"from (select {empty} where false\n"
            f"    union all by name select * from rows_of('{name}'));\n"
        )

    glob = f"{PLACE}/{{}}/v1/table={table}/**/*.parquet"
    whole = f"set variable {table}_files = (select coalesce(list(file), []) from glob('{glob.format('merged')}'));\n" + view(table)
    if hourly := FOLDED.get(table):
        whole += (
            f"set variable {hourly}_files = (with hourly as (from glob('{glob.format('hourly')}'))\n"
            f"    select coalesce(list(file), []) from (from hourly union all\n"
            f"        select file from glob('{glob.format('merged')}') where replace(file, '/merged/v1/', '/hourly/v1/') not in (from hourly)));\n"
        ) + view(hourly)
    return whole


def clickhouse(table, of):
    types = {"text": "String", "timestamp": "DateTime64(6, \\'UTC\\')", "whole": "Int64", "counts": "Array(Int64)", "f64": "Float64"}
    kinds = [(name, word(types, kind)) for name, kind in of if name != "hour" and kind != "date?"]
    # A list cannot be nullable there.
    structure = listed([f"`{name}` {kind}" if kind.startswith("Array") else f"`{name}` Nullable({kind})" for name, kind in kinds], "    ")
    # The engine's own columns for parts of a path are not there where no file is.
    hour = f",\n    toDate32OrNull(extract(_path, 'date=([^/]+)')) as date, toUInt8OrNull(extract(_path, 'hour=([^/]+)')) as hour"

    def rows(directory):
        files = f"file('{PLACE}/{directory}/v1/table={table}/**/*.parquet', Parquet,\n    '{structure}')"
        return f"select *{hour if ('hour', 'hour?') in of else ''}\nfrom {files}"

    whole = f"create or replace view {table} as {rows('merged')};\n"
    if hourly := FOLDED.get(table):
        whole += (
            f"create or replace view {hourly} as {rows('hourly')}\n"
            f"union all {rows('merged')}\n"
            f"where replaceOne(_path, '/merged/v1/', '/hourly/v1/') not in (\n"
            f"    select distinct _path from file('{PLACE}/hourly/v1/table={table}/**/*.parquet', Parquet, 'host String'));\n"
        )
    return whole


def spark(table, of):
    types = {"text": "string", "timestamp": "timestamp", "whole": "bigint", "counts": "array<bigint>", "f64": "double", "date": "date", "hour": "int"}
    named = listed([f"`{name}` {word(types, kind)}" for name, kind in of], "    ")
    whole = f"drop table if exists {table};\ncreate table {table} ({named})\n    using parquet location '{PLACE}/merged/v1/table={table}';\n"
    if hourly := FOLDED.get(table):
        whole += f"create or replace temporary view {hourly} as select * from {table};\n"
    return whole


MAKERS = {"duckdb": duckdb, "clickhouse": clickhouse, "spark": spark}


def made(engine):
    """The shim of an engine as it ought to be."""
    text = (HERE / f"{engine}.sql").read_text()
    # What adds up a list in DuckDB one by one takes three times as long.
    sums = listed([f"sum(buckets[{step}])" for step in range(1, 107)], "    ")
    text = re.sub(r"(macro hist_sum\(buckets\) as\n)[^;]*;", rf"\1    list_filter([{sums}], lambda n: n is not null);", text)
    before, rest = text.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    tables = "\n".join(MAKERS[engine](table, of) for table, of in columns().items())
    return before + MARKS[0] + tables + MARKS[1] + after


def views():
    """Views and their queries, in the order in which they are made."""
    names = (HERE / "ORDER").read_text().split()
    return {name: (HERE / f"{name}.sql").read_text().split("\n", 1)[1].rstrip() for name in names}


def whole(engine, store):
    """All statements for an engine."""
    shim = (HERE / f"{engine}.sql").read_text().replace(PLACE, str(store))
    return shim + "".join("\n" + CREATE[engine].format(name=name, query=query) for name, query in views().items())


def statements(text):
    """The statements of a text, which has no `;` but between them."""
    bare = re.sub(r"^\s*--.*$", "", text, flags=re.MULTILINE)
    return [statement.strip() for statement in bare.split(";") if statement.strip()]


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in MAKERS:
        sys.exit(__doc__)
    print(whole(*sys.argv[1:]), end="")
