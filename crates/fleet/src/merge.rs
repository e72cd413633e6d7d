//! Rows of many files become one sorted file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{DataType, Field, Schema as ArrowSchema, SchemaRef};
use arrow_select::interleave::interleave_record_batch;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use unstarve_tables::{Schema, arrow_schema};

use crate::decode::{MORE_COLUMNS, sum_of};
use crate::store::Readers;
use crate::{Decoded, Sum};

/// How many rows are merged into one file, and how many bytes they take in memory: what bounds the memory of a compaction.
const FULL_ROWS: u64 = 1 << 20;
const FULL_MEMORY: usize = 256 << 20;
/// Rows of a group: what a reader leaves out at once.
const GROUP: usize = 1 << 17;
/// Rows that are sorted into place at once.
const SLICE: usize = 1 << 15;

/// Who waits is asked for first, then when.
const VICTIMS: [&str; 2] = ["victim_role", "victim"];

/// Rows on their way into one file.
pub(crate) struct Chunk<'a> {
    table: &'a Schema,
    /// Columns that the table does not have.
    more: BTreeMap<String, DataType>,
    batches: Vec<RecordBatch>,
    memory: usize,
    /// How many rows.
    pub rows: u64,
    /// The sum of what was put in.
    pub sum: Sum,
    /// Who may read the files that are in it.
    pub readers: Readers,
}

/// What was written.
pub(crate) struct Written {
    pub sum: Sum,
    pub min_ts: Option<i64>,
    pub max_ts: Option<i64>,
    pub hosts: u64,
}

/// Where a row belongs: its victim, moment and host by their order, then where it is.
type Place = (u32, Option<i64>, u32, (u32, u32));

impl<'a> Chunk<'a> {
    pub fn of(table: &'a Schema) -> Chunk<'a> {
        let (more, batches) = (BTreeMap::new(), Vec::new());
        Chunk { table, more, batches, memory: 0, rows: 0, sum: Sum::default(), readers: Readers::default() }
    }

    pub fn is_full(&self) -> bool {
        self.rows >= FULL_ROWS || self.memory >= FULL_MEMORY
    }

    /// Puts the rows of a file in, which has the same readers as those before.
    ///
    /// # Errors
    /// If a column has another type than in a file before.
    pub fn push(&mut self, file: Decoded, readers: Readers) -> Result<(), String> {
        let known = arrow_schema(self.table);
        let schema = file.batches.first().map(RecordBatch::schema);
        let fields = schema.iter().flat_map(|schema| schema.fields());
        let new: Vec<_> = fields.filter(|field| known.field_with_name(field.name()).is_err()).collect();
        for field in &new {
            if let Some(kind) = self.more.get(field.name()).filter(|kind| *kind != field.data_type()) {
                return Err(format!("column `{}` is {}, and {kind} in other files", field.name(), field.data_type()));
            }
        }
        let unknown = new.iter().filter(|field| !self.more.contains_key(field.name())).count();
        if self.more.len() + unknown > MORE_COLUMNS {
            return Err(format!("with its columns there are more than {MORE_COLUMNS} that the table does not have"));
        }
        self.more.extend(new.iter().map(|field| (field.name().clone(), field.data_type().clone())));
        self.rows += file.rows;
        self.sum = self.sum.plus(file.sum);
        self.memory += file.memory;
        self.readers = readers;
        self.batches.extend(file.batches);
        Ok(())
    }

    /// Writes all rows, sorted.
    pub fn write(self, file: &mut File) -> io::Result<Written> {
        let schema = self.schema();
        let batches: Vec<RecordBatch> =
            self.batches.iter().map(|batch| alike(batch, &schema)).collect::<io::Result<_>>()?;
        let (places, hosts) = places(&batches);
        let mut written = Written {
            sum: Sum::default(),
            min_ts: places.iter().filter_map(|place| place.1).min(),
            max_ts: places.iter().filter_map(|place| place.1).max(),
            hosts,
        };
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(Some(GROUP))
            .set_created_by(concat!("unstarve ", env!("CARGO_PKG_VERSION")).to_owned());
        let mut out = ArrowWriter::try_new(file, schema, Some(properties.build())).map_err(io::Error::other)?;
        let batches: Vec<&RecordBatch> = batches.iter().collect();
        for slice in places.chunks(SLICE) {
            let rows: Vec<(usize, usize)> =
                slice.iter().map(|(.., (batch, row))| (*batch as usize, *row as usize)).collect();
            let rows = interleave_record_batch(&batches, &rows).map_err(io::Error::other)?;
            written.sum = written.sum.plus(sum_of(&rows).map_err(io::Error::other)?);
            out.write(&rows).map_err(io::Error::other)?;
        }
        out.close().map_err(io::Error::other)?;
        Ok(written)
    }

    /// The columns of the table, and then those that only a newer version knows. Any of them may be empty: an older one did not write it.
    fn schema(&self) -> SchemaRef {
        let known = arrow_schema(self.table);
        let mut fields: Vec<Field> =
            known.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
        fields.extend(self.more.iter().map(|(name, kind)| Field::new(name, kind.clone(), true)));
        Arc::new(ArrowSchema::new_with_metadata(fields, known.metadata().clone()))
    }
}

/// The rows with all columns, those that the file did not have empty.
fn alike(batch: &RecordBatch, schema: &SchemaRef) -> io::Result<RecordBatch> {
    let column = |field: &Arc<Field>| match batch.column_by_name(field.name()) {
        Some(column) => Arc::clone(column),
        None => new_null_array(field.data_type(), batch.num_rows()),
    };
    let columns: Vec<ArrayRef> = schema.fields().iter().map(column).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(io::Error::other)
}

/// The order of all rows, and how many hosts there are.
fn places(batches: &[RecordBatch]) -> (Vec<Place>, u64) {
    let has = |name: &&str| batches.first().is_some_and(|batch| batch.column_by_name(name).is_some());
    let (victims, _) = ranks(batches, VICTIMS.into_iter().find(has));
    let (hosts, count) = ranks(batches, Some("host"));
    let mut places = Vec::with_capacity(batches.iter().map(RecordBatch::num_rows).sum());
    for (at, batch) in batches.iter().enumerate() {
        let moments =
            batch.column_by_name("ts").and_then(|column| column.as_primitive_opt::<TimestampNanosecondType>());
        for row in 0..batch.num_rows() {
            let ts = moments.filter(|moments| moments.is_valid(row)).map(|moments| moments.value(row));
            places.push((victims[at][row], ts, hosts[at][row], (at as u32, row as u32)));
        }
    }
    places.sort_unstable();
    (places, count)
}

/// For each row the place of its text among all texts of a column, from 1; 0 for an empty cell. And how many texts there are.
fn ranks(batches: &[RecordBatch], column: Option<&str>) -> (Vec<Vec<u32>>, u64) {
    let texts = |batch: &'_ RecordBatch| {
        column.and_then(|name| Some(batch.column_by_name(name)?.as_string_opt::<i32>()?.clone()))
    };
    let all: Vec<_> = batches.iter().map(texts).collect();
    let distinct: BTreeSet<&str> = all.iter().flatten().flat_map(|texts| texts.iter().flatten()).collect();
    let rank: std::collections::HashMap<&str, u32> = distinct.iter().copied().zip(1..).collect();
    let of_batch = |(texts, batch): (&Option<_>, &RecordBatch)| match texts {
        None => vec![0; batch.num_rows()],
        Some(texts) => {
            let texts: &arrow_array::StringArray = texts;
            texts.iter().map(|text| text.map_or(0, |text| rank[text])).collect()
        }
    };
    (all.iter().zip(batches).map(of_batch).collect(), distinct.len() as u64)
}
