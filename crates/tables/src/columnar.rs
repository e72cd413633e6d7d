//! Writes tables as Arrow IPC and Parquet.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{Float64Builder, Int64Builder, ListBuilder, StringBuilder, TimestampMicrosecondBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{ArrowError, DataType, Field, Schema as ArrowSchema, SchemaRef, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};

use crate::{Cell, Kind, Out, Presence, Rows, Schema, TableError};

/// Rows per batch: some hundred kilobytes.
const BATCH_ROWS: usize = 1 << 13;

/// Rows per row group of a Parquet file. The writer keeps an encoded group in memory: about ten megabytes.
const GROUP_ROWS: usize = 1 << 18;

/// The time zone of moments.
const MOMENT_ZONE: &str = "UTC";

/// The Arrow schema of a table. Metadata contains the table's name and meaning, and the columns' meanings and units.
pub fn arrow_schema(table: &Schema) -> SchemaRef {
    let field = |column: &crate::Column| {
        let metadata = texts([("unit", column.unit), ("meaning", column.meaning)]);
        Field::new(column.name, arrow_type(column.kind), column.presence == Presence::Optional).with_metadata(metadata)
    };
    let metadata = texts([("unstarve.table", table.name), ("unstarve.meaning", table.meaning)]);
    Arc::new(ArrowSchema::new_with_metadata(table.columns.iter().map(field).collect::<Vec<_>>(), metadata))
}

fn texts(texts: [(&str, &str); 2]) -> HashMap<String, String> {
    let metadata = texts.into_iter().filter(|(_, text)| !text.is_empty());
    metadata.map(|(key, text)| (key.to_owned(), text.to_owned())).collect()
}

/// The type of a column of this kind.
pub fn arrow_type(kind: Kind) -> DataType {
    match kind {
        Kind::I64 => DataType::Int64,
        Kind::F64 => DataType::Float64,
        Kind::Text => DataType::Utf8,
        Kind::Moment => DataType::Timestamp(TimeUnit::Microsecond, Some(MOMENT_ZONE.into())),
        Kind::Counts => DataType::List(Arc::new(element())),
    }
}

/// An element of a list.
fn element() -> Field {
    Field::new("item", DataType::Int64, false)
}

enum Builder {
    I64(Int64Builder),
    F64(Float64Builder),
    Text(StringBuilder),
    Moment(TimestampMicrosecondBuilder),
    Counts(ListBuilder<Int64Builder>),
}

impl Builder {
    fn new(kind: Kind) -> Builder {
        match kind {
            Kind::I64 => Builder::I64(Int64Builder::new()),
            Kind::F64 => Builder::F64(Float64Builder::new()),
            Kind::Text => Builder::Text(StringBuilder::new()),
            Kind::Moment => Builder::Moment(TimestampMicrosecondBuilder::new().with_timezone(MOMENT_ZONE)),
            Kind::Counts => Builder::Counts(ListBuilder::new(Int64Builder::new()).with_field(element())),
        }
    }

    fn push(&mut self, cell: Cell<'_>) {
        let number = match cell {
            Cell::Number(number) => Some(number),
            _ => None,
        };
        match self {
            Builder::I64(builder) => builder.append_option(number.map(integer)),
            Builder::Moment(builder) => builder.append_option(number.map(|ns| integer(ns.div_euclid(1000)))),
            Builder::F64(builder) => builder.append_option(match cell {
                Cell::Real(number) => Some(number),
                _ => None,
            }),
            Builder::Text(builder) => builder.append_option(match cell {
                Cell::Text(text) => Some(text),
                _ => None,
            }),
            Builder::Counts(builder) => match cell {
                Cell::Counts(counts) => {
                    counts.iter().for_each(|count| builder.values().append_value(integer((*count).into())));
                    builder.append(true);
                }
                _ => builder.append(false),
            },
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Builder::I64(builder) => Arc::new(builder.finish()),
            Builder::F64(builder) => Arc::new(builder.finish()),
            Builder::Text(builder) => Arc::new(builder.finish()),
            Builder::Moment(builder) => Arc::new(builder.finish()),
            Builder::Counts(builder) => Arc::new(builder.finish()),
        }
    }
}

/// The number, or the nearest that the column can have: a sum beyond 292 years is a fault of who counted, and an error here
/// would lose the other rows (docs/decisions/0615).
fn integer(number: i128) -> i64 {
    i64::try_from(number).unwrap_or(if number < 0 { i64::MIN } else { i64::MAX })
}

/// Collects rows into batches.
struct Batches {
    schema: SchemaRef,
    builders: Vec<Builder>,
    rows: usize,
}

impl Batches {
    fn new(table: &Schema) -> Batches {
        let builders = table.columns.iter().map(|column| Builder::new(column.kind)).collect();
        Batches { schema: arrow_schema(table), builders, rows: 0 }
    }

    /// Adds a row. Returns a batch when one is full.
    fn row(&mut self, cells: &[Cell<'_>]) -> Result<Option<RecordBatch>, String> {
        self.builders.iter_mut().zip(cells).for_each(|(builder, cell)| builder.push(*cell));
        self.rows += 1;
        if self.rows < BATCH_ROWS { Ok(None) } else { self.rest() }
    }

    /// The last, incomplete batch.
    fn rest(&mut self) -> Result<Option<RecordBatch>, String> {
        if self.rows == 0 {
            return Ok(None);
        }
        self.rows = 0;
        let columns = self.builders.iter_mut().map(Builder::finish).collect();
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map(Some).map_err(|error| error.to_string())
    }
}

/// Writes Arrow IPC: a file, or a stream.
pub struct ArrowRows<W: Out> {
    batches: Batches,
    out: IpcWriter<W>,
}

enum IpcWriter<W: Out> {
    File(FileWriter<W>),
    Stream(StreamWriter<W>),
}

impl<W: Out> IpcWriter<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        match self {
            IpcWriter::File(writer) => writer.write(batch),
            IpcWriter::Stream(writer) => writer.write(batch),
        }
    }

    /// Writes the end.
    fn finish(self) -> Result<W, ArrowError> {
        match self {
            IpcWriter::File(writer) => writer.into_inner(),
            IpcWriter::Stream(writer) => writer.into_inner(),
        }
    }
}

fn arrow(error: impl ToString) -> TableError {
    TableError::Format { format: "Arrow IPC", why: error.to_string() }
}

impl<W: Out> ArrowRows<W> {
    /// Writes the schema of an Arrow IPC file (Feather version 2).
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(out: W, table: &Schema) -> Result<ArrowRows<W>, TableError> {
        let batches = Batches::new(table);
        let out = IpcWriter::File(FileWriter::try_new(out, &batches.schema).map_err(arrow)?);
        Ok(ArrowRows { batches, out })
    }

    /// Writes the schema of an Arrow IPC stream, whose batches can be read while the next ones are written.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn stream(out: W, table: &Schema) -> Result<ArrowRows<W>, TableError> {
        let batches = Batches::new(table);
        let out = IpcWriter::Stream(StreamWriter::try_new(out, &batches.schema).map_err(arrow)?);
        Ok(ArrowRows { batches, out })
    }
}

impl<W: Out> Rows for ArrowRows<W> {
    fn row(&mut self, cells: &[Cell<'_>]) -> Result<(), TableError> {
        match self.batches.row(cells).map_err(arrow)? {
            Some(batch) => self.out.write(&batch).map_err(arrow),
            None => Ok(()),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<(), TableError> {
        if let Some(batch) = self.batches.rest().map_err(arrow)? {
            self.out.write(&batch).map_err(arrow)?;
        }
        Ok(self.out.finish().map_err(arrow)?.flush()?)
    }
}

/// Writes a Parquet file.
pub struct ParquetRows<W: Out> {
    batches: Batches,
    out: ArrowWriter<W>,
}

fn parquet(error: impl ToString) -> TableError {
    TableError::Format { format: "Parquet", why: error.to_string() }
}

impl<W: Out> ParquetRows<W> {
    /// Begins the file.
    ///
    /// # Errors If it cannot be written.
    pub fn new(out: W, table: &Schema) -> Result<ParquetRows<W>, TableError> {
        let batches = Batches::new(table);
        let out = ArrowWriter::try_new(out, Arc::clone(&batches.schema), Some(packed().build())).map_err(parquet)?;
        Ok(ParquetRows { batches, out })
    }
}

impl<W: Out> Rows for ParquetRows<W> {
    fn row(&mut self, cells: &[Cell<'_>]) -> Result<(), TableError> {
        match self.batches.row(cells).map_err(parquet)? {
            Some(batch) => self.out.write(&batch).map_err(parquet),
            None => Ok(()),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<(), TableError> {
        if let Some(batch) = self.batches.rest().map_err(parquet)? {
            self.out.write(&batch).map_err(parquet)?;
        }
        let mut out = self.out.into_inner().map_err(parquet)?;
        Ok(out.flush()?)
    }
}

/// Files in memory with at most this many rows are not compressed: to set up a decompressor for each column takes
/// longer than to read so few rows (docs/decisions/0430).
const MAX_PLAIN_ROWS: usize = 2048;

/// Holds rows until their number is known.
struct Held {
    batches: Batches,
    full: Vec<RecordBatch>,
}

impl Rows for Held {
    fn row(&mut self, cells: &[Cell<'_>]) -> Result<(), TableError> {
        self.full.extend(self.batches.row(cells).map_err(parquet)?);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), TableError> {
        Ok(())
    }
}

/// Writes a small table as a Parquet file in memory.
///
/// # Errors
/// If it cannot be encoded.
pub fn parquet_file(
    table: &Schema,
    fill: impl FnOnce(&mut dyn Rows) -> Result<(), TableError>,
) -> Result<Vec<u8>, TableError> {
    let mut held = Held { batches: Batches::new(table), full: Vec::new() };
    fill(&mut held)?;
    held.full.extend(held.batches.rest().map_err(parquet)?);
    let rows = held.full.iter().map(RecordBatch::num_rows).sum::<usize>();
    let properties = if rows > MAX_PLAIN_ROWS { packed() } else { plain() };
    let mut bytes = Vec::new();
    let out = ArrowWriter::try_new(&mut bytes, Arc::clone(&held.batches.schema), Some(properties.build()));
    let mut out = out.map_err(parquet)?;
    held.full.iter().try_for_each(|batch| out.write(batch)).map_err(parquet)?;
    out.close().map_err(parquet)?;
    Ok(bytes)
}

/// Properties of larger files.
fn packed() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_created_by(concat!("unstarve ", env!("CARGO_PKG_VERSION")).to_owned())
}

/// Properties of small files. A column is a single page, so page statistics would repeat those of the column.
fn plain() -> WriterPropertiesBuilder {
    let properties = packed().set_compression(Compression::UNCOMPRESSED);
    properties.set_statistics_enabled(EnabledStatistics::Chunk).set_offset_index_disabled(true)
}
