//! Arrow and Parquet files contain the same as CSV.

use std::io::Cursor;
use std::path::PathBuf;
use std::process::Command;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, RecordBatch};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::DataType;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use unstarve_export::{Table, Tables};
use unstarve_tables::{ArrowRows, ParquetRows, Rows};
use unstarve_timeline::Selection;

use crate::formats::stage::{Row, Sheet, export, open, sheets, tables, traces};

type MakeRows = fn(Sheet, Table) -> Box<dyn Rows>;
type ReadRows = fn(Vec<u8>) -> Vec<RecordBatch>;

fn arrow_rows(sheet: Sheet, table: Table) -> Box<dyn Rows> {
    Box::new(ArrowRows::new(sheet, table.schema()).expect("memory can be written"))
}

fn arrow_stream_rows(sheet: Sheet, table: Table) -> Box<dyn Rows> {
    Box::new(ArrowRows::stream(sheet, table.schema()).expect("memory can be written"))
}

fn parquet_rows(sheet: Sheet, table: Table) -> Box<dyn Rows> {
    Box::new(ParquetRows::new(sheet, table.schema()).expect("memory can be written"))
}

fn read_arrow(bytes: Vec<u8>) -> Vec<RecordBatch> {
    let reader = FileReader::try_new(Cursor::new(bytes), None).expect("an Arrow file");
    reader.map(|batch| batch.expect("a whole batch")).collect()
}

fn read_arrow_stream(bytes: Vec<u8>) -> Vec<RecordBatch> {
    let reader = StreamReader::try_new(Cursor::new(bytes), None).expect("an Arrow stream");
    reader.map(|batch| batch.expect("a whole batch")).collect()
}

fn read_parquet(bytes: Vec<u8>) -> Vec<RecordBatch> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes)).expect("a Parquet file");
    builder.build().expect("it can be read").map(|batch| batch.expect("a whole batch")).collect()
}

fn cell(column: &dyn Array, row: usize) -> String {
    if column.is_null(row) {
        return String::new();
    }
    match column.data_type() {
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row).to_string(),
        DataType::Timestamp(..) => column.as_primitive::<TimestampMicrosecondType>().value(row).to_string(),
        DataType::Utf8 => column.as_string::<i32>().value(row).to_owned(),
        other => panic!("{other} in a table"),
    }
}

fn rows(batches: &[RecordBatch]) -> Vec<Row> {
    let row = |batch: &RecordBatch, index: usize| -> Row {
        let schema = batch.schema();
        let names = schema.fields().iter().map(|field| field.name().clone());
        names.zip(batch.columns()).map(|(name, column)| (name, cell(column, index))).collect()
    };
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |index| row(batch, index))).collect()
}

/// A row of CSV with its moment as the other formats have it.
fn in_microseconds(row: &Row) -> Row {
    let mut row = row.clone();
    if let Some(ts) = row.get_mut("ts").filter(|ts| !ts.is_empty()) {
        *ts = (ts.parse::<i64>().expect("ns") / 1000).to_string();
    }
    row
}

#[test]
fn arrow_and_parquet_hold_what_csv_holds() {
    let formats: [(MakeRows, ReadRows); 3] =
        [(arrow_rows, read_arrow), (arrow_stream_rows, read_arrow_stream), (parquet_rows, read_parquet)];
    // Smaller than a megabyte, because every cell is compared.
    let small = |trace: &PathBuf| trace.metadata().is_ok_and(|metadata| metadata.len() < 1 << 20);
    for trace in traces().into_iter().filter(small) {
        let (expected, _) = tables(open(&trace));
        for (make, read) in formats {
            let sheets = sheets();
            let mut tables = Tables::new(Selection::default());
            for (table, sheet) in Table::ALL.into_iter().zip(&sheets) {
                tables.add(table, make(sheet.clone(), table));
            }
            export(open(&trace), tables);
            for (sheet, expected) in sheets.iter().zip(&expected) {
                let expected: Vec<Row> = expected.iter().map(in_microseconds).collect();
                assert!(rows(&read(sheet.bytes())) == expected, "{}", trace.display());
            }
        }
    }
}

/// The most common reader, if it is installed.
#[test]
fn pyarrow_reads_them() {
    if !unstarve_testing::python_module("pyarrow.parquet") {
        return;
    }
    let python = |program: &str| Command::new("python3").args(["-c", program]).output().ok();
    let trace = traces().into_iter().find(|trace| trace.ends_with("linux-6.1-dio-weight.dat")).expect("testdata");
    let directory = tempfile::tempdir().expect("a place for files");
    let file = |name: &str| directory.path().join(name);
    let mut report = None;
    for (name, make) in [("waits.arrow", arrow_rows as MakeRows), ("waits.parquet", parquet_rows)] {
        let sheet = Sheet::default();
        let mut tables = Tables::new(Selection::default());
        tables.add(Table::Waits, make(sheet.clone(), Table::Waits));
        report = Some(export(open(&trace), tables));
        std::fs::write(file(name), sheet.bytes()).expect("it can be written");
    }
    let program = format!(
        "import pyarrow as pa, pyarrow.parquet as pq, pyarrow.compute as pc\n\
         p = pq.read_table({:?}); a = pa.ipc.open_file({:?}).read_all()\n\
         assert a.equals(p)\n\
         print(p.num_rows, pc.sum(p['wait_ns']))",
        file("waits.parquet"),
        file("waits.arrow"),
    );
    let output = python(&program).expect("python3 is there");
    let trace = report.expect("written").trace;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert_eq!(said, format!("{} {}", trace.waits_count, trace.waits_total_ns), "{output:?}");
}
