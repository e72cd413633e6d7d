"""A table of a recording, as Arrow in a mapped file: what is not looked at is not in memory, and frames of other libraries share its columns."""
from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Iterator, Optional, Sequence, Tuple

from . import _program
from ._shown import cell, rows
from .errors import LibraryMissing, ProgramMismatch

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    import pyarrow

# Of a table in a notebook.
ROWS_SHOWN = 10


def library(name: str) -> Any:
    """A library that only tables need."""
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        extra = "arrow" if package == "pyarrow" else package
        raise LibraryMissing(f"tables need {package}, which cannot be imported ({error}): pip install 'unstarve[{extra}]'") from error


@dataclass(frozen=True)
class Column:
    """A column of a table: the same as in docs/tables.md."""

    name: str
    type: str
    """Arrow's name of the type."""
    unit: str
    """`ns`, `B`; empty where there is none."""
    meaning: str


class Table:
    """Rows of a recording. `to_arrow`, `to_pandas`, `to_polars` and `to_duckdb` give them without a copy of the numbers.

    Integers stay integers where cells are empty: times above 2⁵³ ns lose nothing.
    """

    def __init__(self, arrow: pyarrow.Table) -> None:
        self._arrow = arrow

    @classmethod
    def mapped(cls, arguments: Sequence[str], timeout: Optional[float]) -> Table:
        """Of what the program writes into a file. The file has no name any more when this returns: it goes with the last frame."""
        ipc = library("pyarrow.ipc")
        arrow = library("pyarrow")
        # Only for this user, and never a name that somebody else chose.
        with tempfile.TemporaryDirectory(prefix="unstarve-") as directory:
            path = os.path.join(directory, "table.arrow")
            _program.run([*arguments, "--format", "arrow", "--output", path], timeout)
            try:
                return cls(ipc.open_file(arrow.memory_map(path, "r")).read_all())
            except arrow.ArrowException as error:
                raise ProgramMismatch(f"{_program.program()}: wrote a table that pyarrow cannot read: {error}") from error

    @property
    def columns(self) -> Tuple[Column, ...]:
        """Each column with its unit and meaning."""
        found = []
        for field in self._arrow.schema:
            said = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
            found.append(Column(field.name, str(field.type), said.get("unit", ""), said.get("meaning", "")))
        return tuple(found)

    @property
    def nbytes(self) -> int:
        """Bytes of all columns; of the mapped file, not of memory."""
        return int(self._arrow.nbytes)

    def to_arrow(self) -> pyarrow.Table:
        """A `pyarrow.Table` of the mapped file."""
        return self._arrow

    def to_pandas(self) -> pandas.DataFrame:
        """A DataFrame whose columns are Arrow's (`pandas.ArrowDtype`)."""
        pandas = library("pandas")
        return self._arrow.to_pandas(types_mapper=pandas.ArrowDtype)

    def to_polars(self) -> polars.DataFrame:
        """A `polars.DataFrame`."""
        return library("polars").from_arrow(self._arrow)

    def to_duckdb(self, connection: Optional[duckdb.DuckDBPyConnection] = None) -> duckdb.DuckDBPyRelation:
        """A relation of DuckDB, of its default connection unless another one is given."""
        return (connection or library("duckdb")).from_arrow(self._arrow)

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        """For every library that takes Arrow's C stream: `polars.DataFrame(table)`, `duckdb.sql("from table")`."""
        return self._arrow.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return int(self._arrow.num_rows)

    def __repr__(self) -> str:
        name = (self._arrow.schema.metadata or {}).get(b"unstarve.table", b"table").decode()
        return f"<Table {name}: {len(self)} rows, {self._arrow.num_columns} columns: {', '.join(self._arrow.column_names)}>"

    def _repr_html_(self) -> str:
        first = self._arrow.slice(0, ROWS_SHOWN).to_pylist()
        names = self._arrow.column_names
        body = [["" if row[name] is None else cell(row[name]) for name in names] for row in first]
        rest = len(self) - len(first)
        return rows(names, body) + (f"<p>and {rest:,} more rows</p>" if rest else "")


def batches(arguments: Sequence[str], timeout: Optional[float]) -> pyarrow.RecordBatchReader:
    """The rows of a table as they come from the program, 8192 at a time: memory does not grow with the recording.

    An error of the program is raised where the batches end.
    """
    import io

    ipc, arrow = library("pyarrow.ipc"), library("pyarrow")
    output = _program.Output([*arguments, "--format", "arrow-stream", "--output", "-"], timeout)
    try:
        # Arrow takes fewer bytes than it asked for as the end.
        reader = ipc.open_stream(arrow.PythonFile(io.BufferedReader(output, 1 << 16), "r"))
    except arrow.ArrowException as error:
        with output:
            output.check()
            raise ProgramMismatch(f"{output.command[0]}: wrote a table that pyarrow cannot read: {error}") from error
    except BaseException:
        output.close()
        raise

    def read() -> Iterator[pyarrow.RecordBatch]:
        with output:
            try:
                yield from reader
            except arrow.ArrowException:
                output.check()
                raise
            output.check()

    return arrow.RecordBatchReader.from_batches(reader.schema, read())
