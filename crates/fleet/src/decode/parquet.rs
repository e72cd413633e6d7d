//! Decodes a Parquet file whose columns are those of a table.

use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float64Type, Int32Type, Int64Type, TimestampMicrosecondType, TimestampNanosecondType, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, Int64Array, ListArray, RecordBatch, TimestampMicrosecondArray};
use arrow_schema::{DataType, Field, Schema as ArrowSchema, SchemaRef, TimeUnit};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::ParquetMetaData;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash64;
use unstarve_tables::{Column, Kind, Presence, Schema, Sign, arrow_schema, arrow_type};

use crate::commit::Sum;

/// Rows of a batch.
const BATCH_ROWS: usize = 1 << 13;
/// Maximum number of columns beyond the table's, in hosts' and merged files: a newer version wrote them.
pub(crate) const MAX_EXTRA_COLUMNS: usize = 16;
/// The longest name of such a column.
const MAX_COLUMN_NAME_BYTES: usize = 64;

/// Limits for the rows of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DecodeLimits {
    /// Bytes of memory.
    pub memory: usize,
    /// Number of rows: sorting needs memory for each, even for an empty one.
    pub rows: u64,
    /// Columns that must be present.
    pub needed: Needed,
    /// Processor time of the child that decodes it, and others with it.
    pub seconds: u64,
}

/// The columns of a table that a file must have.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Needed {
    /// Those that are never empty, and `host`: without them a row belongs to no host or time.
    Placed,
    /// As [`Needed::Placed`], of a file that an engine reads itself: numbers have 63 bits, as it does not keep larger ones at the largest.
    Asked,
    /// None: the rows are merged already, and early versions merged any rows.
    Nothing,
}

impl DecodeLimits {
    /// For a host's file of an hour.
    pub const INPUT: DecodeLimits =
        DecodeLimits { memory: 256 << 20, rows: 1 << 21, needed: Needed::Placed, seconds: 120 };
    /// For the same after it was merged.
    pub const MERGED: DecodeLimits = DecodeLimits { needed: Needed::Nothing, ..DecodeLimits::INPUT };
    /// For merged rows.
    pub const OUTPUT: DecodeLimits =
        DecodeLimits { memory: 1 << 30, rows: 1 << 24, needed: Needed::Nothing, seconds: 120 };
}

/// The rows of a file.
#[derive(Debug)]
pub struct Decoded {
    /// Its rows.
    pub batches: Vec<RecordBatch>,
    /// How many.
    pub rows: u64,
    /// Their sum.
    pub sum: Sum,
    /// How many bytes they take in memory.
    pub memory: usize,
}

/// The content of a file.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Examined {
    /// Its rows.
    pub rows: u64,
    /// Their sum.
    pub sum: Sum,
    /// Their size in memory, in bytes.
    pub memory: usize,
}

/// Decodes a table's file. Columns that the table does not have are kept if their type is one that tables have: a newer version
/// may have written them. A missing column is no error if its cells may be empty: an older version wrote the file. The sizes in
/// the file's footer are checked before anything is decoded. A crafted file can still make the Parquet decoder panic, or
/// allocate more for a moment: use [`crate::SandboxedDecode`] for untrusted files.
///
/// # Errors
/// Why it is refused: it is not a Parquet file, a column has another type, a required one is missing or empty, or its rows
/// exceed the limits.
pub fn decode(bytes: Vec<u8>, table: &Schema, most: DecodeLimits) -> Result<Decoded, String> {
    let mut batches = Vec::new();
    let Examined { rows, sum, memory } = examine(Bytes::from(bytes), table, most, |batch| {
        batches.push(batch);
        Ok(())
    })?;
    Ok(Decoded { batches, rows, sum, memory })
}

/// Decodes a file batch by batch; `take` decides whether rows are kept in memory.
pub(crate) fn examine(
    bytes: Bytes,
    table: &Schema,
    most: DecodeLimits,
    mut take: impl FnMut(RecordBatch) -> Result<(), String>,
) -> Result<Examined, String> {
    let mut found = Examined { rows: 0, sum: Sum::default(), memory: 0 };
    for_each_batch(bytes, table, most, |batch| {
        found.sum = found.sum.plus(sum_of(&batch)?);
        found.add(&batch, most)?;
        take(batch)
    })?;
    Ok(found)
}

/// The Arrow schema of a table, made once: there are many small files.
pub(crate) fn table_schema(table: &Schema) -> SchemaRef {
    static KNOWN: LazyLock<Vec<(&str, SchemaRef)>> =
        LazyLock::new(|| unstarve_tables::ALL.iter().map(|table| (table.name, arrow_schema(table))).collect());
    let known = KNOWN.iter().find(|(name, _)| *name == table.name);
    known.map_or_else(|| arrow_schema(table), |(_, schema)| Arc::clone(schema))
}

impl Examined {
    fn add(&mut self, batch: &RecordBatch, most: DecodeLimits) -> Result<(), String> {
        self.rows += batch.num_rows() as u64;
        self.memory += batch.get_array_memory_size();
        // Row groups may have more rows than the footer says.
        if self.rows > most.rows {
            return Err(format!("it has more than {} rows", most.rows));
        }
        if self.memory > most.memory { Err(too_much(most)) } else { Ok(()) }
    }
}

fn too_much(most: DecodeLimits) -> String {
    format!("its rows take more than {} bytes of memory; write several smaller files", most.memory)
}

fn for_each_batch(
    bytes: Bytes,
    table: &Schema,
    most: DecodeLimits,
    mut take: impl FnMut(RecordBatch) -> Result<(), String>,
) -> Result<(), String> {
    // Only Parquet's own schema is used: the copy that Arrow embeds would have to be checked, too.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(bytes, options);
    let builder = builder.map_err(reader_error)?;
    check_size(builder.metadata(), table, most)?;
    check_types(builder.schema(), table)?;
    let (full, unsigned) = match most.needed {
        Needed::Placed | Needed::Asked => (check_needed(builder.schema(), table)?, unsigned(builder.schema(), table)),
        Needed::Nothing => (Vec::new(), Vec::new()),
    };
    let reader = builder.with_batch_size(BATCH_ROWS).build().map_err(reader_error)?;
    for batch in reader {
        let batch = batch.map_err(reader_error)?;
        if let Some(at) = full.iter().find(|at| batch.column(**at).null_count() > 0) {
            let name = batch.schema_ref().field(*at).name().clone();
            return Err(format!("column `{name}` has empty cells; expected a value in every row"));
        }
        let is_beyond = |at: &usize| most.needed == Needed::Asked && is_beyond_signed(batch.column(*at));
        if let Some(at) = (0..batch.num_columns()).find(is_beyond) {
            let name = batch.schema_ref().field(at).name().clone();
            return Err(format!("column `{name}` has numbers of 64 bits without a sign"));
        }
        let batch = with_our_types(&batch)?;
        if let Some(at) = unsigned.iter().find(|at| has_negative(batch.column(**at))) {
            let name = batch.schema_ref().field(*at).name().clone();
            return Err(format!("column `{name}` has numbers below zero, which it cannot have"));
        }
        take(batch)?;
    }
    Ok(())
}

/// Indices of the columns whose numbers are never below zero: one row could take away what others add up to.
fn unsigned(found: &ArrowSchema, table: &Schema) -> Vec<usize> {
    let counts = table.columns.iter().filter(|column| column.sign == Sign::NotNegative);
    counts.filter_map(|column| found.index_of(column.name).ok()).collect()
}

/// Whether a column of unsigned integers or of lists of them has one that a signed integer cannot have.
fn is_beyond_signed(column: &ArrayRef) -> bool {
    let any = |column: &ArrayRef| {
        let numbers = column.as_primitive_opt::<UInt64Type>();
        numbers.is_some_and(|numbers| numbers.iter().flatten().any(|number| i64::try_from(number).is_err()))
    };
    column.as_list_opt::<i32>().map_or_else(|| any(column), |lists| lists.iter().flatten().any(|list| any(&list)))
}

/// Whether a column of integers or of lists of them has one below zero; others have none.
fn has_negative(column: &ArrayRef) -> bool {
    let any = |numbers: &Int64Array| {
        // Empty cells may hide anything: they are looked at only if something is below zero.
        numbers.values().iter().any(|number| *number < 0) && numbers.iter().flatten().any(|number| number < 0)
    };
    match column.data_type() {
        DataType::Int64 => column.as_primitive_opt::<Int64Type>().is_some_and(any),
        DataType::List(_) => column.as_list_opt::<i32>().is_some_and(|lists| {
            lists.iter().flatten().any(|list| list.as_primitive_opt::<Int64Type>().is_some_and(any))
        }),
        _ => false,
    }
}

/// Indices of the columns that must not have empty cells. A column added to a table must be [`Presence::Optional`]: files of
/// older versions lack it.
fn check_needed(found: &ArrowSchema, table: &Schema) -> Result<Vec<usize>, String> {
    let is_full = |column: &&Column| column.presence == Presence::Always;
    let mut absent = table.columns.iter().filter(|column| is_full(column) || column.name == "host");
    if let Some(column) = absent.find(|column| found.field_with_name(column.name).is_err()) {
        let why = "without it its rows are nobody's, or of no time";
        let why = if matches!(column.name, "host" | "ts") { why } else { "it is never empty" };
        return Err(format!("it has no column `{}`, which each file of {} has: {why}", column.name, table.name));
    }
    Ok(table.columns.iter().filter(is_full).filter_map(|column| found.index_of(column.name).ok()).collect())
}

/// The decoder's error. Other programs may use codecs that hosts do not.
fn reader_error(error: impl ToString) -> String {
    let text = error.to_string();
    match text.rsplit_once("Disabled feature at compile time: ") {
        Some((_, codec)) => format!("its columns are compressed by {codec}; expected zstd, or no compression"),
        None => text,
    }
}

/// Checks the sizes in the footer.
fn check_size(file: &ParquetMetaData, table: &Schema, most: DecodeLimits) -> Result<(), String> {
    let (rows, columns) = (file.file_metadata().num_rows(), file.file_metadata().schema_descr().num_columns());
    if !u64::try_from(rows).is_ok_and(|rows| rows <= most.rows) {
        return Err(format!("it has {rows} rows; expected at most {}", most.rows));
    }
    if columns > table.columns.len() + MAX_EXTRA_COLUMNS {
        return Err(format!(
            "it has {columns} columns; expected at most {} more than the {} of {}",
            MAX_EXTRA_COLUMNS,
            table.columns.len(),
            table.name
        ));
    }
    let mut bytes = 0_u64;
    for group in file.row_groups() {
        if group.num_rows() < 0 {
            return Err("a group of rows has less than none".to_owned());
        }
        for column in group.columns() {
            let announced = u64::try_from(column.uncompressed_size());
            bytes = bytes.saturating_add(announced.map_err(|_| "a column has less than no bytes".to_owned())?);
        }
    }
    if bytes > most.memory as u64 { Err(too_much(most)) } else { Ok(()) }
}

/// What is said of two columns with one name.
const ONE_NAME: &str = "differ in upper and lower case only, which Spark and DuckDB take for one name";

/// Whether engines take two names of columns for one: most do not distinguish upper and lower case.
pub(crate) fn is_one_name(one: &str, other: &str) -> bool {
    one == other || one.to_lowercase() == other.to_lowercase()
}

fn check_types(found: &ArrowSchema, table: &Schema) -> Result<(), String> {
    let known = table_schema(table);
    // Rows without a column take no memory, so the memory limit would not stop them.
    if found.fields().is_empty() {
        return Err("it has no column".to_owned());
    }
    let more = found.fields().iter().filter(|field| known.field_with_name(field.name()).is_err()).count();
    if more > MAX_EXTRA_COLUMNS {
        return Err(format!(
            "it has {more} columns that {} does not have; expected at most {MAX_EXTRA_COLUMNS}",
            table.name
        ));
    }
    for (at, field) in found.fields().iter().enumerate() {
        if let Some(other) = found.fields()[..at].iter().find(|other| is_one_name(other.name(), field.name())) {
            return Err(match other.name() == field.name() {
                true => format!("column `{}` is there twice", field.name()),
                false => format!("columns `{}` and `{}` {ONE_NAME}", other.name(), field.name()),
            });
        }
        if let Some(ours) =
            table.columns.iter().find(|ours| is_one_name(ours.name, field.name()) && ours.name != field.name())
        {
            return Err(format!("column `{}`: expected `{}`; the two {ONE_NAME}", field.name(), ours.name));
        }
        if field.name().len() > MAX_COLUMN_NAME_BYTES {
            return Err(format!(
                "a column has a name of {} bytes; expected at most {MAX_COLUMN_NAME_BYTES}",
                field.name().len()
            ));
        }
        match known.field_with_name(field.name()) {
            Ok(expected) if our_type(field.data_type()).as_ref() != Some(expected.data_type()) => {
                return Err(format!(
                    "column `{}` is {}; expected {}",
                    field.name(),
                    field.data_type(),
                    expected.data_type()
                ));
            }
            Err(_) if our_type(field.data_type()).is_none() => {
                return Err(format!(
                    "column `{}` is {}, which no table has; use a newer unstarve",
                    field.name(),
                    field.data_type()
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The type of a table's column that a column of a file is read as; `None`: no table has such. Versions before layout `v1` wrote
/// unsigned and shorter integers, and nanoseconds; the names of list elements do not matter.
fn our_type(found: &DataType) -> Option<DataType> {
    let is_utc = |zone: &Option<Arc<str>>| zone.as_deref() == Some("UTC");
    let kind = match found {
        DataType::Int64 | DataType::UInt64 | DataType::UInt32 | DataType::Int32 => Kind::I64,
        DataType::Float64 => Kind::F64,
        DataType::Utf8 => Kind::Text,
        DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Nanosecond, zone) if is_utc(zone) => Kind::Moment,
        DataType::List(element) if matches!(element.data_type(), DataType::Int64 | DataType::UInt64) => Kind::Counts,
        _ => return None,
    };
    Some(arrow_type(kind))
}

/// The rows with our types, and all columns nullable.
fn with_our_types(batch: &RecordBatch) -> Result<RecordBatch, String> {
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let converted = our_type(field.data_type()).and_then(|kind| Some((converted(column, &kind)?, kind)));
        let Some((column, kind)) = converted else {
            return Err(format!("column `{}`: {} cannot be converted", field.name(), field.data_type()));
        };
        fields.push(Field::new(field.name(), kind, true));
        columns.push(column);
    }
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(ArrowSchema::new(fields)), columns, &options)
        .map_err(|error| error.to_string())
}

/// The column as [`our_type`] of it.
fn converted(column: &ArrayRef, kind: &DataType) -> Option<ArrayRef> {
    Some(match column.data_type() {
        same if same == kind => Arc::clone(column),
        DataType::Timestamp(..) => {
            let moments = column.as_primitive_opt::<TimestampNanosecondType>()?;
            let moments: TimestampMicrosecondArray = moments.unary(|ns| ns.div_euclid(1000));
            Arc::new(moments.with_timezone_opt(zone_of(kind)))
        }
        DataType::List(_) => {
            let DataType::List(element) = kind else { return None };
            let (_, offsets, values, nulls) = column.as_list_opt::<i32>()?.clone().into_parts();
            let list = ListArray::try_new(Arc::clone(element), offsets, integers(&values)?, nulls);
            Arc::new(list.ok()?)
        }
        _ => integers(column)?,
    })
}

fn zone_of(kind: &DataType) -> Option<Arc<str>> {
    match kind {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    }
}

/// As the writer of tables does, larger numbers are kept at the largest.
fn integers(column: &ArrayRef) -> Option<ArrayRef> {
    let integers: Int64Array = match column.data_type() {
        DataType::Int64 => return Some(Arc::clone(column)),
        DataType::UInt64 => {
            column.as_primitive_opt::<UInt64Type>()?.unary(|number| i64::try_from(number).unwrap_or(i64::MAX))
        }
        DataType::UInt32 => column.as_primitive_opt::<UInt32Type>()?.unary(i64::from),
        DataType::Int32 => column.as_primitive_opt::<Int32Type>()?.unary(i64::from),
        _ => return None,
    };
    Some(Arc::new(integers))
}

/// The sum over rows: cells are hashed with the column's name and added up for each row, rows are hashed again and added up.
fn sum_of(batch: &RecordBatch) -> Result<Sum, String> {
    let mut rows = vec![0_u64; batch.num_rows()];
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        add_cells(column, seed_of(field.name()), &mut rows)
            .ok_or_else(|| format!("column `{}`: no sum of {}", field.name(), field.data_type()))?;
    }
    Ok(sum_of_rows(&rows))
}

/// The hash seed of a column's cells.
pub(crate) fn seed_of(column: &str) -> u64 {
    XxHash64::oneshot(0, column.as_bytes())
}

/// The sum of rows whose cell hashes were added up.
pub(crate) fn sum_of_rows(rows: &[u64]) -> Sum {
    rows.iter().map(|row| Sum(XxHash64::oneshot(0, &row.to_le_bytes()))).sum()
}

/// Adds the hashes of a column's cells to their rows.
pub(crate) fn add_cells(column: &ArrayRef, seed: u64, rows: &mut [u64]) -> Option<()> {
    let add = |row: &mut u64, bytes: &[u8]| *row = row.wrapping_add(XxHash64::oneshot(seed, bytes));
    macro_rules! numbers {
        ($kind:ty) => {{
            let numbers = column.as_primitive_opt::<$kind>()?;
            for (row, number) in rows.iter_mut().zip(numbers) {
                if let Some(number) = number {
                    add(row, &number.to_le_bytes());
                }
            }
        }};
    }
    match column.data_type() {
        DataType::Int64 => numbers!(Int64Type),
        DataType::Float64 => numbers!(Float64Type),
        DataType::Timestamp(..) => numbers!(TimestampMicrosecondType),
        DataType::Utf8 => {
            for (row, text) in rows.iter_mut().zip(column.as_string_opt::<i32>()?) {
                if let Some(text) = text {
                    add(row, text.as_bytes());
                }
            }
        }
        DataType::List(_) => {
            let mut bytes = Vec::new();
            for (row, list) in rows.iter_mut().zip(column.as_list_opt::<i32>()?.iter()) {
                if let Some(list) = list {
                    bytes.clear();
                    bytes.extend(
                        list.as_primitive_opt::<Int64Type>()?.values().iter().flat_map(|number| number.to_le_bytes()),
                    );
                    add(row, &bytes);
                }
            }
        }
        _ => return None,
    }
    Some(())
}
