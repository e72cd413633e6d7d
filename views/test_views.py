#!/usr/bin/env python3
"""Asks all views of DuckDB, ClickHouse (chdb) and Spark, and compares the rows with each other and with sums of our own.

    test_views.py [STORE…]      of STORES below; UNSTARVE_WRITE=1 writes the tables of the shims anew, from docs/tables.md;
                                UNSTARVE_ENGINES=duckdb,clickhouse asks only these

Names what differs and exits with 1. An engine that is not there is `skipped: …`; tools/setup.sh engines installs them.
"""
import math
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

os.environ["TZ"] = "UTC"
time.tzset()
sys.path[:0] = [str(Path(__file__).resolve().parent)]
import engines  # noqa: E402

sys.path[1:1] = [str(engines.CACHE)]
import shims  # noqa: E402

try:
    import pyarrow  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}; tools/setup.sh engines installs what the views are tested with")
    sys.exit(0)
import stores  # noqa: E402
import sums  # noqa: E402

# Views that others are made of: no question, but engines are compared.
PARTS = {"marked_hourly", "starved_hourly", "kernel_thread_waits", "table_rows"}
# How each store is made; in `days` every view has rows.
STORES = {"real": lambda to: stores.copied("real", to), "fleet": lambda to: stores.copied("fleet", to), "hourly": lambda to: stores.copied("hourly", to),
          "days": stores.days, "odd": stores.odd, "late": stores.late}  # fmt: skip
# What is asked by itself: `days` has all rows of `fleet`. Spark takes a second for a view of any store, so it is asked less.
ASKED, ASKED_OF_SPARK = ("real", "hourly", "days", "odd", "late"), ("days", "odd", "late")
PAGE = shims.HERE.parent / "docs/engines.md"
problems = []


def problem(text):
    problems.append(text)
    print(f"FAILED  {text}", flush=True)


def same(one, other):
    if isinstance(one, float) or isinstance(other, float):
        return one is not None and other is not None and math.isclose(one, other, rel_tol=1e-7)
    return one == other


def unordered(rows):
    """Floats may differ in the last digits, so that they do not decide about the order."""
    return sorted(rows, key=lambda row: repr([cell for cell in row if not isinstance(cell, float)]))


def difference(found, expected):
    """The first difference of rows, or none."""
    if len(found) != len(expected):
        return f"{len(found)} rows, not {len(expected)}"
    for one, other in zip(found, expected):
        if len(one) != len(other) or not all(map(same, one, other)):
            return f"\n    {one}\n    {other}"
    return None


def compare(what, engine, found, expected, has_order=False):
    differs = difference(*(of if has_order else unordered(of) for of in (found, expected)))
    if differs:
        problem(f"{what}: {engine.name} differs from the row below: {differs}")


def answers(engine, question, what):
    try:
        return engine.ask(question)
    except Exception as error:
        problem(f"{what}: {engine.name}: {str(error)[:500]}")
        return None


def opened(engine, store):
    try:
        engine.open(store)
        return True
    except Exception as error:
        problem(f"{store.name}: {engine.name}: {str(error)[:500]}")
        return False


def check_shims():
    for engine in shims.MAKERS:
        file, made = shims.HERE / f"{engine}.sql", shims.made(engine)
        if file.read_text() != made:
            if os.environ.get("UNSTARVE_WRITE"):
                file.write_text(made)
                print(f"written: {file.name}")
            else:
                problem(f"{file.name}: its tables are not those of docs/tables.md; UNSTARVE_WRITE=1 writes them")
    files = {file.stem for file in shims.HERE.glob("*.sql")} - set(shims.MAKERS)
    if files != set(shims.views()):
        problem(f"ORDER: {files ^ set(shims.views())} is a file or a line, not both")
    for name in files:
        if not (shims.HERE / f"{name}.sql").read_text().startswith("-- "):
            problem(f"{name}.sql: its first line does not say what it means")
    if asked := set(shims.views()) - PARTS ^ set(sums.COLUMNS):
        problem(f"sums.py: {asked} is a view without an answer there, or an answer without a view")


def check_store(store, asked):
    """Each view as a whole among engines, and the columns that say something against our own sums."""
    own = sums.Sums(store)
    for engine in asked:
        began = time.monotonic()
        if not opened(engine, store):
            continue
        for view, query in shims.views().items():
            what = f"{store.name}: {view}"
            if (whole := answers(engine, own.question(view), what)) is None:
                continue
            names, rows = whole
            expected = first.setdefault((store.name, view), (engine, names, rows))
            # An engine gives no columns to no rows.
            if names and expected[1] and names != expected[1]:
                problem(f"{what}: columns of {engine.name} are {names}, of {expected[0].name} {expected[1]}")
            compare(f"{what} (of {expected[0].name})", engine, rows, expected[2], "order by" in re.sub(r"over \([^)]*\)", "", query))
            if view in sums.COLUMNS and names:
                places = [names.index(name) for name in sums.COLUMNS[view].split(", ")]
                rows = [[row[place] for place in places] for row in rows]
            if view in sums.COLUMNS:
                ours = [list(map(engines.plain, row)) for row in own.of(view)]
                compare(f"{what} (of our own sums)", engine, rows, ours)
                if store.name == "days" and not ours:
                    problem(f"{what}: nothing was compared")
        print(f"{store.name}: {engine.name}: {len(shims.views())} views, {time.monotonic() - began:.1f} s", flush=True)


# The first answer to each view of a store.
first = {}

# Each function once: arguments that all engines take, and what comes out.
NAMES = {"kworker/0:1H": "kworker", "kworker/u8:3-x": "kworker", "kworker/R-nfs": "kworker", "kworker/x": "task", "ksoftirqd/3": "ksoftirqd", "ksoftirqd/": "task",
         "migration/0": "migration", "rcuop/1": "rcu", "rcu_sched": "rcu", "rcu_tasks_kthre": "task", "nfsd": "nfsd", "nfsd/1": "task", "irq/33-virtio": "irq-thread",
         "ktimers/1": "ktimers", "jbd2/sda1-8": "storage", "kswapd0": "storage", "kswapdx": "task", "fio": "task"}  # fmt: skip
FUNCTIONS = [("share(1, 4)", 0.25), ("share(1, 0)", None), ("share(wide(3), wide(4))", 0.75)] + [(f"role('{name}')", role) for name, role in NAMES.items()]
LISTS = {"DuckDB": "[{}]::bigint[]", "duckdb": "[{}]::bigint[]", "ClickHouse": "cast([{}] as Array(Int64))", "Spark": "cast(array({}) as array<bigint>)"}
# As sql/ had it: in the middle of the first step, the last step, none, and one of each end.
HISTOGRAMS = [("4", 0.5, 2.0**-20 * 1e9 / 2), ("0, 4", 0.5, 2.0**-20 * 1e9 * 2 ** (1 / 8)), (", ".join(["0"] * 105 + ["7"]), 0.5, 64e9), ("0, 0", 0.5, None), ("1", 1.5, None),
              ("1, 0, 1", 1.0, 2.0**-19.5 * 1e9), ("1, 3", 0.0, 0.0)]  # fmt: skip
ADDED = {"DuckDB": "hist_sum(b)", "duckdb": "hist_sum(b)", "ClickHouse": "hist_sum(b)", "Spark": "hist_sum(collect_list(b))"}


def check_functions(engine):
    cases = FUNCTIONS + [(f"hist_quantile({LISTS[engine.name].format(counts)}, {part})", length) for counts, part, length in HISTOGRAMS]
    found = answers(engine, "select " + ", ".join(f"{call} as c{place}" for place, (call, _) in enumerate(cases)), "functions")
    for (call, expected), cell in zip(cases, found[1][0] if found else []):
        if not same(cell, expected):
            problem(f"{engine.name}: {call} is {cell}, not {expected}")
    one, other = (LISTS[engine.name].format(counts) for counts in ("1, 2", "1, 2, 3"))
    added = answers(engine, f"select {ADDED[engine.name]} as b from (select {one} as b union all select {other}) h", "hist_sum")
    if added and added[1] != [[[2, 4, 3]]]:
        problem(f"{engine.name}: hist_sum is {added[1]}")


# What is seen of a view where a table has no rows, as docs/engines.md says it of each.
def seen(view, whole, found):
    names, rows = found
    if not rows:
        return "empty"
    if difference(unordered(rows), unordered(whole[1])) is None:
        return "same"
    column = lambda name: [row[names.index(name)] for row in rows]
    if "missing" in (names or []) and any(column("missing")):
        return "no share" if all(share is None for share in column("share")) else "some shares"
    return "less"


def check_missing(asked, place):
    """The page's table: views × the table that is missing."""
    lines = re.findall(r"^\| `(\w+)` \|(.*)\|$", PAGE.read_text().split("<!-- missing tables -->")[1], re.MULTILINE)
    promised = {view: [cell.strip() for cell in cells.split("|")] for view, cells in lines}
    if set(promised) != set(sums.COLUMNS):
        problem(f"{PAGE.name}: the table of missing tables has other views: {set(promised) ^ set(sums.COLUMNS)}")
    days = stores.days(place / "whole")
    whole = {}
    for engine in asked:
        if opened(engine, days):
            whole[engine.name] = {view: engine.ask(f"select * from {view}") for view in sums.COLUMNS}
    for column, table in enumerate(shims.TABLES):
        lacking = stores.without(days, table, place / f"without-{table}")
        for engine in asked:
            if engine.name == "Spark" and table not in shims.FOLDED or not opened(engine, lacking):
                continue
            for view in promised:
                found = answers(engine, f"select * from {view}", f"without {table}: {view}")
                if found and seen(view, whole[engine.name][view], found) != promised[view][column]:
                    problem(f"without {table}: {view}: {engine.name}: {seen(view, whole[engine.name][view], found)}, not {promised[view][column]}")
            counted = dict(answers(engine, "select table_name, row_count from table_rows", "table_rows")[1])
            if counted.get(table) != 0:
                problem(f"without {table}: table_rows of {engine.name} says {counted}")
    print(f"missing tables: {len(promised)} views without each of {len(shims.TABLES)} tables", flush=True)


# The program's section is the module's.
PAGES = {"duckdb": "DuckDB"}


def check_page(asked, store):
    """The statements of docs/engines.md, of its very text: the last one of each engine counts rows."""
    count = len(stores.rows(store, "blame_rollup"))
    for engine in asked:
        section = PAGE.read_text().split(f"\n## {PAGES.get(engine.name, engine.name)}\n")[1].split("\n## ")[0]
        blocks = re.findall(r"```sql\n(.*?)```", section, re.DOTALL)
        statements = shims.statements("".join(blocks).replace(shims.PLACE, str(store)))
        try:
            engine.open(store, statements[:-1])
            _, rows = engine.ask(statements[-1])
        except Exception as error:
            problem(f"{PAGE.name}: {engine.name}: {str(error)[:500]}")
            continue
        if sum(row[-1] for row in rows) != count:
            problem(f"{PAGE.name}: {engine.name} counts {rows}, there are {count} rows")
        print(f"{PAGE.name}: {engine.name}: {len(statements)} statements", flush=True)


def main():
    check_shims()
    asked = list(engines.present())
    print("engines: " + ", ".join(f"{engine.name} {engine.version}" for engine in asked), flush=True)
    if not asked:
        print("skipped: no engine is here, nothing was compared")
        return
    with tempfile.TemporaryDirectory(prefix="unstarve-views-") as place:
        place = Path(place)
        for name in sys.argv[1:] or ASKED:
            of_store = [engine for engine in asked if engine.name != "Spark" or name in (sys.argv[1:] or ASKED_OF_SPARK)]
            check_store(STORES[name](place / name), of_store)
        if not sys.argv[1:]:
            for engine in asked:
                check_functions(engine)
            check_missing(asked, place)
            check_page(asked, stores.copied("hourly", place / "page"))
    sys.exit(f"{len(problems)} differences" if problems else 0)


if __name__ == "__main__":
    main()
