//! A Parquet file becomes rows, if its columns are those of the table.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, TimestampNanosecondType, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, ListArray, RecordBatch};
use arrow_schema::{DataType, Field, Schema as ArrowSchema};
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use twox_hash::XxHash64;
use unstarve_tables::{Schema, arrow_schema, arrow_type};

use crate::Sum;

/// Rows of a batch.
const BATCH: usize = 1 << 13;
/// More rows than any host writes in an hour, and than a merged file has.
const MOST_ROWS: i64 = 1 << 24;
/// More than the rows of any such file take in memory.
const MOST_MEMORY: usize = 1 << 30;

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

/// Reads a file of a table. A column that the table does not have is kept, if it is of a type that tables have: a newer version may have
/// written it. One that the file does not have is no error: an older version wrote it.
///
/// # Errors
/// Why it is refused: it is no Parquet file, or a column has another type.
pub fn decode(bytes: Vec<u8>, table: &Schema) -> Result<Decoded, String> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes)).map_err(|error| error.to_string())?;
    let file = builder.metadata().file_metadata();
    if !(0..=MOST_ROWS).contains(&file.num_rows()) {
        return Err(format!("it has {} rows; expected at most {MOST_ROWS}", file.num_rows()));
    }
    check_types(builder.schema(), table)?;
    let reader = builder.with_batch_size(BATCH).build().map_err(|error| error.to_string())?;
    let mut decoded = Decoded { batches: Vec::new(), rows: 0, sum: Sum::default(), memory: 0 };
    for batch in reader {
        let batch = alike(&batch.map_err(|error| error.to_string())?)?;
        decoded.rows += batch.num_rows() as u64;
        decoded.sum = decoded.sum.plus(sum_of(&batch)?);
        decoded.memory += batch.get_array_memory_size();
        if decoded.memory > MOST_MEMORY {
            return Err(format!("its rows take more than {MOST_MEMORY} bytes of memory"));
        }
        decoded.batches.push(batch);
    }
    Ok(decoded)
}

fn check_types(found: &ArrowSchema, table: &Schema) -> Result<(), String> {
    let known = arrow_schema(table);
    for (at, field) in found.fields().iter().enumerate() {
        if found.fields()[..at].iter().any(|other| other.name() == field.name()) {
            return Err(format!("column `{}` is there twice", field.name()));
        }
        match known.field_with_name(field.name()) {
            Ok(expected) if !is_same(field.data_type(), expected.data_type()) => {
                return Err(format!(
                    "column `{}` is {}; expected {}",
                    field.name(),
                    field.data_type(),
                    expected.data_type()
                ));
            }
            Err(_) if !unstarve_tables::KINDS.into_iter().any(|kind| is_same(field.data_type(), &arrow_type(kind))) => {
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

/// Lists are the same whatever their elements are called.
fn is_same(one: &DataType, other: &DataType) -> bool {
    match (one, other) {
        (DataType::List(one), DataType::List(other)) => one.data_type() == other.data_type(),
        _ => one == other,
    }
}

/// The same rows with the element of lists as our tables have it, and columns that may be empty.
fn alike(batch: &RecordBatch) -> Result<RecordBatch, String> {
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let (kind, column) = match column.as_list_opt::<i32>() {
            None => (field.data_type().clone(), Arc::clone(column)),
            Some(list) => {
                let DataType::List(element) = arrow_type(unstarve_tables::Kind::Counts) else { continue };
                let (_, offsets, values, nulls) = list.clone().into_parts();
                let list = ListArray::try_new(Arc::clone(&element), offsets, values, nulls);
                let list = list.map_err(|error| format!("column `{}`: {error}", field.name()))?;
                (DataType::List(element), Arc::new(list) as ArrayRef)
            }
        };
        fields.push(Field::new(field.name(), kind, true));
        columns.push(column);
    }
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(ArrowSchema::new(fields)), columns, &options)
        .map_err(|error| error.to_string())
}

/// The sum over rows: what is in a cell is hashed with the column's name, the cells of a row are added up and hashed again, and the rows are
/// added up.
pub(crate) fn sum_of(batch: &RecordBatch) -> Result<Sum, String> {
    let mut rows = vec![0_u64; batch.num_rows()];
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let seed = XxHash64::oneshot(0, field.name().as_bytes());
        add_cells(column, seed, &mut rows)
            .ok_or_else(|| format!("column `{}`: no sum of {}", field.name(), field.data_type()))?;
    }
    Ok(rows.iter().map(|row| Sum(XxHash64::oneshot(0, &row.to_le_bytes()))).sum())
}

fn add_cells(column: &ArrayRef, seed: u64, rows: &mut [u64]) -> Option<()> {
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
        DataType::UInt64 => numbers!(UInt64Type),
        DataType::UInt32 => numbers!(UInt32Type),
        DataType::Int32 => numbers!(Int32Type),
        DataType::Float64 => numbers!(Float64Type),
        DataType::Timestamp(..) => numbers!(TimestampNanosecondType),
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
                        list.as_primitive_opt::<UInt64Type>()?.values().iter().flat_map(|number| number.to_le_bytes()),
                    );
                    add(row, &bytes);
                }
            }
        }
        _ => return None,
    }
    Some(())
}
