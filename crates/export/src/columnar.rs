use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{Int32Builder, StringBuilder, UInt32Builder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use crate::columns::Presence;
use crate::{Cell, Column, ExportError, Kind, Out, Rows};

/// Rows of one batch: some hundred kilobytes.
const BATCH: usize = 1 << 13;

/// Rows of one group in a Parquet file. The writer holds a group in memory, encoded: some ten megabytes.
const GROUP: usize = 1 << 18;

/// The schema of a table; what a column means is in its fields' metadata.
fn schema(columns: &[Column]) -> SchemaRef {
    let field = |column: &Column| {
        let kind = match column.kind {
            Kind::U64 => DataType::UInt64,
            Kind::U32 => DataType::UInt32,
            Kind::I32 => DataType::Int32,
            Kind::Text => DataType::Utf8,
        };
        let metadata = [("unit", column.unit), ("meaning", column.meaning)];
        let told = metadata.into_iter().filter(|(_, text)| !text.is_empty());
        Field::new(column.name, kind, column.presence == Presence::Optional)
            .with_metadata(told.map(|(key, text)| (key.to_owned(), text.to_owned())).collect::<HashMap<_, _>>())
    };
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

enum Builder {
    U64(UInt64Builder),
    U32(UInt32Builder),
    I32(Int32Builder),
    Text(StringBuilder),
}

impl Builder {
    fn new(kind: Kind) -> Builder {
        match kind {
            Kind::U64 => Builder::U64(UInt64Builder::new()),
            Kind::U32 => Builder::U32(UInt32Builder::new()),
            Kind::I32 => Builder::I32(Int32Builder::new()),
            Kind::Text => Builder::Text(StringBuilder::new()),
        }
    }

    fn push(&mut self, cell: Cell<'_>) {
        let number = match cell {
            Cell::Number(number) => Some(number),
            _ => None,
        };
        match self {
            Builder::U64(builder) => builder.append_option(number.and_then(|number| number.try_into().ok())),
            Builder::U32(builder) => builder.append_option(number.and_then(|number| number.try_into().ok())),
            Builder::I32(builder) => builder.append_option(number.and_then(|number| number.try_into().ok())),
            Builder::Text(builder) => builder.append_option(match cell {
                Cell::Text(text) => Some(text),
                _ => None,
            }),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Builder::U64(builder) => Arc::new(builder.finish()),
            Builder::U32(builder) => Arc::new(builder.finish()),
            Builder::I32(builder) => Arc::new(builder.finish()),
            Builder::Text(builder) => Arc::new(builder.finish()),
        }
    }
}

/// Rows that become batches.
struct Batches {
    schema: SchemaRef,
    builders: Vec<Builder>,
    rows: usize,
}

impl Batches {
    fn new(columns: &[Column]) -> Batches {
        let builders = columns.iter().map(|column| Builder::new(column.kind)).collect();
        Batches { schema: schema(columns), builders, rows: 0 }
    }

    /// A batch, each time one is full.
    fn row(&mut self, cells: &[Cell<'_>]) -> Result<Option<RecordBatch>, String> {
        self.builders.iter_mut().zip(cells).for_each(|(builder, cell)| builder.push(*cell));
        self.rows += 1;
        if self.rows < BATCH { Ok(None) } else { self.rest() }
    }

    /// What is left.
    fn rest(&mut self) -> Result<Option<RecordBatch>, String> {
        if self.rows == 0 {
            return Ok(None);
        }
        self.rows = 0;
        let columns = self.builders.iter_mut().map(Builder::finish).collect();
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map(Some).map_err(|error| error.to_string())
    }
}

/// Rows as an Arrow IPC file (Feather version 2).
pub struct ArrowRows<W: Out> {
    batches: Batches,
    out: FileWriter<W>,
}

fn arrow(error: impl ToString) -> ExportError {
    ExportError::Format { format: "Arrow IPC", why: error.to_string() }
}

impl<W: Out> ArrowRows<W> {
    /// Writes the schema.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(out: W, columns: &[Column]) -> Result<ArrowRows<W>, ExportError> {
        let batches = Batches::new(columns);
        let out = FileWriter::try_new(out, &batches.schema).map_err(arrow)?;
        Ok(ArrowRows { batches, out })
    }
}

impl<W: Out> Rows for ArrowRows<W> {
    fn row(&mut self, cells: &[Cell<'_>]) -> Result<(), ExportError> {
        match self.batches.row(cells).map_err(arrow)? {
            Some(batch) => self.out.write(&batch).map_err(arrow),
            None => Ok(()),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<(), ExportError> {
        if let Some(batch) = self.batches.rest().map_err(arrow)? {
            self.out.write(&batch).map_err(arrow)?;
        }
        self.out.finish().map_err(arrow)?;
        Ok(self.out.get_mut().flush()?)
    }
}

/// Rows as a Parquet file.
pub struct ParquetRows<W: Out> {
    batches: Batches,
    out: ArrowWriter<W>,
}

fn parquet(error: impl ToString) -> ExportError {
    ExportError::Format { format: "Parquet", why: error.to_string() }
}

impl<W: Out> ParquetRows<W> {
    /// Writes the beginning.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(out: W, columns: &[Column]) -> Result<ParquetRows<W>, ExportError> {
        let batches = Batches::new(columns);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(Some(GROUP))
            .set_created_by(concat!("unstarve ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let out = ArrowWriter::try_new(out, Arc::clone(&batches.schema), Some(properties)).map_err(parquet)?;
        Ok(ParquetRows { batches, out })
    }
}

impl<W: Out> Rows for ParquetRows<W> {
    fn row(&mut self, cells: &[Cell<'_>]) -> Result<(), ExportError> {
        match self.batches.row(cells).map_err(parquet)? {
            Some(batch) => self.out.write(&batch).map_err(parquet),
            None => Ok(()),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<(), ExportError> {
        if let Some(batch) = self.batches.rest().map_err(parquet)? {
            self.out.write(&batch).map_err(parquet)?;
        }
        let mut out = self.out.into_inner().map_err(parquet)?;
        Ok(out.flush()?)
    }
}
