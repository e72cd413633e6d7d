//! Parquet and Arrow files of each table are read back with their types, units and values.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, RecordBatch};
use arrow_schema::SchemaRef;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use unstarve_tables::{ALL, Cell, Kind, Presence, Schema, WAIT_ROLLUP, parquet_file};

fn read(bytes: Vec<u8>) -> RecordBatch {
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes)).expect("a Parquet file");
    let mut batches = builder.build().expect("it can be read").map(|batch| batch.expect("a whole batch"));
    batches.next().expect("there are rows")
}

/// The schema with the file's metadata, which batches lack.
fn schema_of(bytes: &[u8]) -> SchemaRef {
    let builder =
        ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::copy_from_slice(bytes)).expect("a Parquet file");
    builder.schema().clone()
}

fn full(kind: Kind) -> Cell<'static> {
    match kind {
        Kind::I64 => Cell::Number(7),
        Kind::Moment => Cell::Number(1_764_000_187_000_000_001),
        Kind::F64 => Cell::Real(-0.25),
        Kind::Text => Cell::Text("a=b, \"c\"\n"),
        Kind::Counts => Cell::Counts(&[0, 3, u64::MAX]),
    }
}

fn rows_of(schema: &Schema) -> [Vec<Cell<'static>>; 2] {
    let whole = schema.columns.iter().map(|column| full(column.kind));
    let least = schema.columns.iter().map(|column| match column.presence {
        Presence::Always => full(column.kind),
        Presence::Optional => Cell::Empty,
    });
    [whole.collect(), least.collect()]
}

#[test]
fn every_table_is_read_back() {
    for schema in ALL {
        let rows = rows_of(schema);
        let bytes =
            parquet_file(schema, |out| rows.iter().try_for_each(|row| out.row(row))).expect("memory can be written");
        let batch = read(bytes.clone());
        assert_eq!(batch.num_rows(), 2, "{}", schema.name);
        let told = schema_of(&bytes);
        assert_eq!(told.metadata().get("unstarve.table").map(String::as_str), Some(schema.name));
        for ((column, field), values) in schema.columns.iter().zip(told.fields()).zip(batch.columns()) {
            assert_eq!(field.name(), column.name);
            assert_eq!(field.metadata().get("unit").map_or("", String::as_str), column.unit, "{}", column.name);
            assert_eq!(field.metadata().get("meaning").map_or("", String::as_str), column.meaning);
            assert!(values.is_valid(0), "{}.{}", schema.name, column.name);
            assert_eq!(values.is_null(1), column.presence == Presence::Optional, "{}.{}", schema.name, column.name);
        }
    }
}

#[test]
fn moments_lists_and_fractions_keep_their_values() {
    let [row, _] = rows_of(&WAIT_ROLLUP);
    let batch = read(parquet_file(&WAIT_ROLLUP, |out| out.row(&row)).expect("memory can be written"));
    let moment = batch.column_by_name("ts").expect("a column").as_primitive::<TimestampMicrosecondType>();
    assert_eq!(moment.value(0), 1_764_000_187_000_000, "µs");
    assert_eq!(moment.timezone(), Some("UTC"));
    let buckets = batch.column_by_name("buckets").expect("a column").as_list::<i32>().value(0);
    assert_eq!(buckets.as_primitive::<Int64Type>().values().to_vec(), [0, 3, i64::MAX]);
    let [row, _] = rows_of(&unstarve_tables::PROOFS);
    let batch = read(parquet_file(&unstarve_tables::PROOFS, |out| out.row(&row)).expect("memory can be written"));
    assert_eq!(batch.column_by_name("effect").expect("a column").as_primitive::<Float64Type>().value(0), -0.25);
}

/// Small files are not compressed, larger ones are, and each column chunk says so for readers.
#[test]
fn only_files_with_many_rows_are_compressed() {
    use parquet::basic::Compression;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    for (rows, is_packed) in [(1, false), (2048, false), (2049, true), (20_000, true)] {
        let row: Vec<Cell<'_>> = WAIT_ROLLUP.columns.iter().map(|column| full(column.kind)).collect();
        let bytes = parquet_file(&WAIT_ROLLUP, |out| (0..rows).try_for_each(|_| out.row(&row)));
        let file =
            SerializedFileReader::new(bytes::Bytes::from(bytes.expect("memory can be written"))).expect("Parquet");
        let columns = file.metadata().row_groups().iter().flat_map(|group| group.columns());
        assert!(columns.into_iter().all(|it| (it.compression() != Compression::UNCOMPRESSED) == is_packed), "{rows}");
        assert_eq!(file.metadata().file_metadata().num_rows(), rows);
    }
}

/// What does not fit is kept at the end of what fits, below and above, and never makes a row disappear.
#[test]
fn numbers_beyond_64_bits_are_kept_at_the_limit() {
    for (number, kept) in [
        (0, 0),
        (-1, -1),
        (i128::from(i64::MAX), i64::MAX),
        (i128::from(i64::MAX) + 1, i64::MAX),
        (u64::MAX.into(), i64::MAX),
        (i128::MIN, i64::MIN),
    ] {
        let [mut row, _] = rows_of(&WAIT_ROLLUP);
        let at = WAIT_ROLLUP.columns.iter().position(|column| column.name == "sum_ns").expect("a column");
        row[at] = Cell::Number(number);
        let batch = read(parquet_file(&WAIT_ROLLUP, |out| out.row(&row)).expect("memory can be written"));
        let sums = batch.column_by_name("sum_ns").expect("a column").as_primitive::<Int64Type>();
        assert_eq!(sums.value(0), kept, "{number}");
    }
}

/// Spark refuses TIMESTAMP(NANOS), and makes decimals of unsigned numbers: no column of any table has either.
#[test]
fn every_column_has_a_type_that_every_engine_reads() {
    use parquet::basic::{LogicalType, TimeUnit};
    for schema in ALL {
        let bytes = parquet_file(schema, |_| Ok(())).expect("memory can be written");
        let builder = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes)).expect("a Parquet file");
        for column in builder.metadata().file_metadata().schema_descr().columns() {
            let logical = column.logical_type_ref();
            let is_plain = match logical {
                None | Some(LogicalType::String) => true,
                Some(LogicalType::Timestamp(of)) => matches!(of.unit, TimeUnit::MICROS) && of.is_adjusted_to_u_t_c,
                Some(_) => false,
            };
            assert!(is_plain, "{}.{}: {logical:?}", schema.name, column.name());
        }
    }
}
