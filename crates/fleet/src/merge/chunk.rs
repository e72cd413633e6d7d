//! Collects rows of many files, and writes them as one sorted file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{DataType, Field, Schema as ArrowSchema, SchemaRef};
use unstarve_tables::Schema;

use super::hourly;
use super::row_order::sorted_rows;
use super::sorted;
use crate::commit::Sum;
use crate::decode::{MAX_EXTRA_COLUMNS, Run, is_one_name, table_schema};
use crate::store::Readers;

/// Rows and memory of a full merged file: they bound the memory of a compaction.
const FULL_ROWS: u64 = 1 << 20;
pub(crate) const FULL_MEMORY: usize = 256 << 20;

/// Rows to be written to one file.
pub(crate) struct Chunk<'a> {
    table: &'a Schema,
    /// Columns that the table does not have.
    more: BTreeMap<String, DataType>,
    batches: Vec<RecordBatch>,
    /// Memory of the rows as they were read.
    came: usize,
    /// The part of it that is the [widths](width) of the columns in the rows' files.
    there: usize,
    /// Number of rows.
    pub rows: u64,
    /// The sum of the added rows.
    pub sum: Sum,
    /// Users who may read the files of these rows.
    pub readers: Readers,
}

impl<'a> Chunk<'a> {
    pub fn of(table: &'a Schema) -> Chunk<'a> {
        let (more, batches) = (BTreeMap::new(), Vec::new());
        Chunk { table, more, batches, came: 0, there: 0, rows: 0, sum: Sum::default(), readers: Readers::default() }
    }

    pub fn is_full(&self) -> bool {
        self.rows >= FULL_ROWS || self.memory() >= FULL_MEMORY
    }

    /// Whether it would be larger than a full file with the rows of these files.
    pub fn is_over(&self, run: &Run) -> bool {
        self.rows.saturating_add(rows_of(run)) > FULL_ROWS || self.memory_with(run) > FULL_MEMORY
    }

    /// Memory of its rows when they are written: each then has all columns, and empty cells take memory, too.
    pub fn memory(&self) -> usize {
        self.memory_of(self.came, self.there, self.rows, 0)
    }

    /// [`Chunk::memory`] with the rows of these files.
    pub fn memory_with(&self, run: &Run) -> usize {
        let new = self.more_of(run).into_iter().filter(|(name, _)| !self.more.contains_key(name));
        let added = new.map(|(_, kind)| width(&kind)).sum();
        let there = self.there.saturating_add(there_of(run));
        self.memory_of(self.came.saturating_add(run.memory), there, self.rows.saturating_add(rows_of(run)), added)
    }

    fn memory_of(&self, came: usize, there: usize, rows: u64, added: usize) -> usize {
        let known = table_schema(self.table);
        let kinds = known.fields().iter().map(|field| field.data_type()).chain(self.more.values());
        let all = (kinds.map(width).sum::<usize>() + added).saturating_mul(rows as usize);
        came.saturating_add(all.saturating_sub(there))
    }

    /// Whether these files have columns that the table does not have.
    pub fn has_extra_columns(&self, run: &Run) -> bool {
        !self.more_of(run).is_empty()
    }

    /// Whether the extra columns of these files fit to those before: no column has two types or is written in two ways, and there are not too
    /// many.
    pub fn fits_columns(&self, run: &Run) -> bool {
        let new = self.more_of(run);
        let is_alike = new.iter().all(|(name, kind)| {
            self.more.iter().all(|(other, is)| !is_one_name(name, other) || (name == other && kind == is))
        });
        let unknown = new.iter().filter(|(name, _)| !self.more.contains_key(name)).count();
        is_alike && self.more.len() + unknown <= MAX_EXTRA_COLUMNS
    }

    /// The columns of files that the table does not have.
    fn more_of(&self, run: &Run) -> Vec<(String, DataType)> {
        let known = table_schema(self.table);
        let fields = run.batches.first().map(RecordBatch::schema);
        let fields = fields.iter().flat_map(|schema| schema.fields());
        let new = fields.filter(|field| known.field_with_name(field.name()).is_err());
        new.map(|field| (field.name().clone(), field.data_type().clone())).collect()
    }

    /// Adds rows of files with the same readers, whose columns [fit](Chunk::fits_columns).
    ///
    /// # Errors
    /// If the files have several sets of columns.
    pub fn push(&mut self, run: Run, readers: Readers) -> Result<(), String> {
        let schema = run.batches.first().map(RecordBatch::schema);
        if run.batches.iter().any(|batch| Some(batch.schema()) != schema) {
            return Err("its rows have several sets of columns".to_owned());
        }
        self.more.extend(self.more_of(&run));
        self.rows = self.rows.saturating_add(rows_of(&run));
        self.sum = run.files.iter().fold(self.sum, |sum, file| sum.plus(file.sum));
        self.came = self.came.saturating_add(run.memory);
        self.there = self.there.saturating_add(there_of(&run));
        self.readers = readers;
        self.batches.extend(run.batches);
        Ok(())
    }

    /// Folds the rows by the hour, if the table supports that and there are far fewer rows then; `None` with extra columns.
    pub fn hourly(&self) -> io::Result<Option<RecordBatch>> {
        let Some(how) = &self.table.hourly else { return Ok(None) };
        let schema = Chunk::of(self.table).schema();
        let batches: Vec<RecordBatch> =
            self.batches.iter().map(|batch| with_all_columns(batch, &schema)).collect::<io::Result<_>>()?;
        hourly::fold(&batches, &schema, how)
    }

    /// Writes all rows, sorted, and returns their sum.
    pub fn write(self, file: &mut File) -> io::Result<Sum> {
        let schema = self.schema();
        let batches: Vec<RecordBatch> =
            self.batches.iter().map(|batch| with_all_columns(batch, &schema)).collect::<io::Result<_>>()?;
        drop(self.batches);
        sorted::write(file, &schema, &batches, &sorted_rows(&batches))
    }

    /// The columns of the table, then the extra ones. All may be empty: older versions lack some.
    fn schema(&self) -> SchemaRef {
        let known = table_schema(self.table);
        let mut fields: Vec<Field> =
            known.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
        fields.extend(self.more.iter().map(|(name, kind)| Field::new(name, kind.clone(), true)));
        Arc::new(ArrowSchema::new_with_metadata(fields, known.metadata().clone()))
    }
}

fn rows_of(run: &Run) -> u64 {
    run.files.iter().fold(0, |rows, file| rows.saturating_add(file.rows))
}

/// The [widths](width) of the columns that files have, for all their rows.
fn there_of(run: &Run) -> usize {
    let of = |batch: &RecordBatch| {
        let fields = batch.schema_ref().fields().iter().map(|field| width(field.data_type()));
        fields.sum::<usize>().saturating_mul(batch.num_rows())
    };
    run.batches.iter().map(of).fold(0, usize::saturating_add)
}

/// Memory of an empty cell: a number or an offset, and its validity.
fn width(kind: &DataType) -> usize {
    kind.primitive_width().unwrap_or(size_of::<i32>()) + 1
}

/// The rows with all columns; those that the file did not have are empty.
fn with_all_columns(batch: &RecordBatch, schema: &SchemaRef) -> io::Result<RecordBatch> {
    let column = |field: &Arc<Field>| match batch.column_by_name(field.name()) {
        Some(column) => Arc::clone(column),
        None => new_null_array(field.data_type(), batch.num_rows()),
    };
    let columns: Vec<ArrayRef> = schema.fields().iter().map(column).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(io::Error::other)
}

#[cfg(test)]
#[path = "chunk_tests.rs"]
mod tests;
