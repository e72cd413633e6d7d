//! Helpers: exports recordings to memory, and reads tables.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use unstarve_diagnose::report::Report;
use unstarve_diagnose::{Options, explain_beside};
use unstarve_export::{Export, Table, Tables};
use unstarve_model::EventSource;
use unstarve_tables::CsvRows;
use unstarve_timeline::Selection;

/// Output that can be read after its writer has been dropped.
#[derive(Clone, Default)]
pub struct Sheet(Arc<Mutex<Vec<u8>>>);

impl Sheet {
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().expect("no test thread panicked with it").clone()
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.bytes()).expect("UTF-8")
    }
}

impl Write for Sheet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no test thread panicked with it").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// All recordings in `testdata/traces`.
pub fn traces() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces");
    let files = std::fs::read_dir(directory).expect("testdata").map(|entry| entry.expect("testdata").path());
    let is_trace = |path: &PathBuf| path.extension().is_some_and(|e| e == "dat" || e == "pftrace" || e == "txt");
    let mut traces: Vec<PathBuf> = files.filter(is_trace).collect();
    traces.sort();
    assert!(traces.len() >= 10, "{traces:?}");
    traces
}

pub fn open(trace: &Path) -> Box<dyn EventSource> {
    unstarve_readers::open(trace).unwrap_or_else(|error| panic!("{}: {error}", trace.display()))
}

/// Runs a source through an export, and returns the report.
pub fn export(source: Box<dyn EventSource>, mut export: impl Export) -> Report {
    let explained = explain_beside(source, &Options::default(), &mut export, |_| {});
    let report = explained.expect("there are events").report;
    export.finish(&report).expect("memory can be written");
    report
}

/// A row of a table by column names.
pub type Row = BTreeMap<String, String>;

/// Reads a CSV table.
pub fn read_csv(text: &str) -> Vec<Row> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().map(|row| row.expect("a whole row")).collect()
}

/// An output for each table.
pub fn sheets() -> [Sheet; 4] {
    Default::default()
}

/// All tables as CSV, and the report.
pub fn tables(source: Box<dyn EventSource>) -> ([Vec<Row>; 4], Report) {
    let sheets = sheets();
    let mut tables = Tables::new(Selection::default());
    for (table, sheet) in Table::ALL.into_iter().zip(&sheets) {
        tables.add(table, Box::new(CsvRows::new(sheet.clone(), table.schema()).expect("memory can be written")));
    }
    let report = export(source, tables);
    (sheets.map(|sheet| read_csv(&sheet.text())), report)
}

pub fn number(row: &Row, column: &str) -> u64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} of {row:?} is a number"))
}

pub fn sum(rows: &[Row], column: &str) -> u64 {
    rows.iter().map(|row| number(row, column)).sum()
}
