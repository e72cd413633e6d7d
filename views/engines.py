"""Engines that answer the views, each asked in its own process: what one gives back is rows in the same Python types."""
import datetime
import decimal
import os
import subprocess
import tempfile
from pathlib import Path

import shims

# Where tools/setup.sh puts them.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unstarve/engines"


def plain(value):
    """A cell as all engines write it: whole numbers, floats of nine digits, moments in UTC without a zone."""
    if isinstance(value, decimal.Decimal):
        return int(value)
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, datetime.datetime):
        return (value.astimezone(datetime.timezone.utc) if value.tzinfo else value).replace(tzinfo=None).isoformat()
    if isinstance(value, datetime.date):
        return value.isoformat()
    return list(map(plain, value)) if isinstance(value, (list, tuple)) else value


def rows(names, found):
    """Columns and rows. The hour of a path is a text with two digits or a number."""
    hour = names.index("hour") if "hour" in names and "date" in names else None
    made = [[int(cell) if place == hour and cell is not None else plain(cell) for place, cell in enumerate(row)] for row in found]
    return names, made


class DuckDB:
    name = "DuckDB"

    def __init__(self):
        import duckdb

        self.version, self.module = duckdb.__version__, duckdb

    def open(self, store, statements=None):
        self.connection = self.module.connect()
        for statement in statements or shims.statements(shims.whole("duckdb", store)):
            self.connection.execute(statement)

    def ask(self, question):
        found = self.connection.execute(question)
        return rows([column[0] for column in found.description], found.fetchall())


class DuckDBProgram:
    """The command-line program, which may be of another version than the module (PyPI: duckdb-cli). Answers are Parquet, for their types."""

    name = "duckdb"

    def __init__(self):
        import duckdb_cli

        self.program = Path(duckdb_cli.__path__[0]) / "duckdb"
        self.scratch = tempfile.TemporaryDirectory(prefix="unstarve-duckdb-")
        self.version = self.run("select version()", "-noheader", "-list").strip()

    def run(self, text, *options):
        found = subprocess.run([self.program, *options], input=text, capture_output=True, text=True, timeout=300)
        if found.returncode:
            raise RuntimeError(found.stderr.strip())
        return found.stdout

    def open(self, store, statements=None):
        self.opening = f"{self.scratch.name}/open.sql"
        Path(self.opening).write_text(";\n".join(statements) + ";\n" if statements else shims.whole("duckdb", store))
        self.run("", "-init", self.opening, "-bail")

    def ask(self, question):
        import pyarrow.parquet

        answer = f"{self.scratch.name}/answer.parquet"
        self.run(f"copy ({question}) to '{answer}' (format parquet);\n", "-init", self.opening, "-bail")
        table = pyarrow.parquet.ParquetFile(answer).read()
        return rows(table.column_names, list(zip(*(column.to_pylist() for column in table.columns))))


class ClickHouse:
    name = "ClickHouse"

    def __init__(self):
        from chdb import dbapi, session

        self.dbapi, self.session_module = dbapi, session
        self.session = session.Session()
        self.version = str(self.session.query("select version()", "TSV")).strip()

    def open(self, store, statements=None):
        for statement in statements or shims.statements(shims.whole("clickhouse", store)):
            self.session.query(statement)

    def ask(self, question):
        """Arrow has the types; its file is the answer."""
        import io

        import pyarrow.ipc

        found = self.session.query(question, "ArrowStream").bytes()
        if not found:
            return None, []
        table = pyarrow.ipc.open_stream(io.BytesIO(found)).read_all()
        return rows(table.column_names, list(zip(*(column.to_pylist() for column in table.columns))) if table.num_columns else [])


# For plans that are small and many: what compiles them takes longer than what runs them.
SMALL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


class Spark:
    name = "Spark"

    def __init__(self, session=None):
        self.scratch = tempfile.TemporaryDirectory(prefix="unstarve-spark-")
        self.session = session or self.local()
        self.version = self.session.version

    def local(self):
        import logging

        from pyspark.sql import SparkSession

        logging.disable(logging.WARNING)
        own = {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "1g",
            "spark.sql.warehouse.dir": f"{self.scratch.name}/warehouse",
            "spark.local.dir": self.scratch.name,
            "spark.log.level": "ERROR",
        }
        builder = SparkSession.builder.master("local[2]")
        for key, value in {**SMALL, **own}.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()

    def open(self, store, statements=None):
        for statement in statements or shims.statements(shims.whole("spark", store)):
            self.session.sql(statement)

    def ask(self, question):
        # Moments as Python has them depend on the zone of this process.
        found = self.session.sql(question)
        return rows(found.columns, [tuple(row) for row in found.collect()])


def present():
    """The engines that are here; of others is said why not. Only those of UNSTARVE_ENGINES, if that is set."""
    wanted = os.environ.get("UNSTARVE_ENGINES", "").lower()
    for kind in (DuckDB, DuckDBProgram, ClickHouse, Spark):
        if wanted and kind.name.lower() not in wanted.split(","):
            continue
        try:
            yield kind()
        except Exception as error:  # An engine's module ends in many ways where Java or a library is missing.
            print(f"skipped: {kind.name}: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
