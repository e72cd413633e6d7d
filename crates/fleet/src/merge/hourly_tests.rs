//! Tests of folding rows by the hour.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use unstarve_tables::{BLAME_ROLLUP, Cell, Schema, WAIT_ROLLUP, parquet_file};

use super::*;
use crate::decode::{Asked, DecodeLimits, Examine, InProcessDecode, Wants, decode};
use crate::merge::chunk::Chunk;
use crate::store::Readers;

/// The largest number of a column.
const MAX_INTEGER: u64 = i64::MAX.unsigned_abs();

/// A row of `wait_rollup`: the columns that distinguish it, and those that are folded.
#[derive(Clone, Debug)]
struct Row {
    host: u8,
    role: u8,
    kernel: Option<u8>,
    ts: u64,
    n: u64,
    max: Option<u64>,
    counts: Vec<u64>,
}

fn row() -> impl Strategy<Value = Row> {
    let n = prop_oneof![4 => 0..9_u64, 1 => (MAX_INTEGER - 9)..=MAX_INTEGER];
    let counts = prop::collection::vec(prop_oneof![4 => 0..9_u64, 1 => Just(MAX_INTEGER)], 0..4);
    let texts = (0..2_u8, 0..2_u8, prop::option::of(0..2_u8));
    (texts, prop_oneof![4 => 0..99_u64, 1 => Just(4_000_000_000_000)], n, prop::option::of(0..9_u64), counts)
        .prop_map(|((host, role, kernel), ts, n, max, counts)| Row { host, role, kernel, ts, n, max, counts })
}

fn file(rows: &[Row]) -> Vec<u8> {
    let file = parquet_file(&WAIT_ROLLUP, |out| {
        rows.iter().try_for_each(|row| {
            let [host, role] = [row.host, row.role].map(|text| text.to_string());
            let kernel = row.kernel.map(|text| text.to_string());
            let max = row.max.map_or(Cell::Empty, Cell::from);
            out.row(&[
                Cell::Text(&host),
                Cell::Empty,
                Cell::Empty,
                row.ts.into(),
                1_u64.into(),
                Cell::Text(&role),
                Cell::Text("kernel"),
                Cell::Empty,
                row.n.into(),
                7_u64.into(),
                max,
                Cell::Counts(&row.counts),
                kernel.as_deref().map_or(Cell::Empty, Cell::Text),
                Cell::Empty,
            ])
        })
    });
    file.expect("it can be encoded")
}

fn chunk(table: &'static Schema, files: Vec<Vec<u8>>) -> Chunk<'static> {
    let mut chunk = Chunk::of(table);
    for file in files {
        let asked = Asked { table, files: &[Bytes::from(file)], most: DecodeLimits::INPUT, wants: Wants::Rows };
        InProcessDecode.read(&asked, &|| true, &mut |run| {
            chunk.push(run.expect("a good file"), Readers::default()).expect("its columns fit");
            true
        });
    }
    chunk
}

/// The result of queries: for each host, role, kernel and hour the first time, the sums, the maximum, and the merged
/// histograms.
type Answer = BTreeMap<(String, String, Option<String>, i64), (i64, i128, i128, Option<i64>, Vec<i64>)>;

fn answer(batches: &[RecordBatch]) -> Answer {
    let mut answer = Answer::new();
    for batch in batches {
        let column = |name: &str| batch.column_by_name(name).expect("it has all columns");
        let text = |name: &str, row: usize| {
            let texts = column(name).as_string::<i32>();
            texts.is_valid(row).then(|| texts.value(row).to_owned())
        };
        let number = |name: &str, row: usize| {
            let numbers = column(name).as_primitive::<Int64Type>();
            numbers.is_valid(row).then(|| numbers.value(row))
        };
        for row in 0..batch.num_rows() {
            let ts = column("ts").as_primitive::<TimestampMicrosecondType>().value(row);
            let key = (
                text("host", row).expect("always"),
                text("victim_role", row).expect("always"),
                text("kernel", row),
                ts / 3_600_000_000,
            );
            let found = answer.entry(key).or_insert((i64::MAX, 0, 0, None, Vec::new()));
            found.0 = found.0.min(ts);
            found.1 += i128::from(number("n", row).expect("always"));
            found.2 += i128::from(number("span_ns", row).expect("always"));
            found.3 = found.3.max(number("max_ns", row));
            let counts = column("buckets").as_list::<i32>().value(row);
            let counts = counts.as_primitive::<Int64Type>().values().to_vec();
            found.4.resize(found.4.len().max(counts.len()), 0);
            found.4.iter_mut().zip(counts).for_each(|(sum, count)| *sum = sum.saturating_add(count));
        }
    }
    answer
}

fn rows_of(bytes: Vec<u8>) -> Vec<RecordBatch> {
    decode(bytes, &WAIT_ROLLUP, DecodeLimits::OUTPUT).expect("what was just written").batches
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// For any rows, including sums beyond 64 bits, queries over an hour have the same results.
    #[test]
    fn an_hour_answers_as_its_rows_do(rows in prop::collection::vec(row(), 1..80), files in 1..4_usize) {
        let files: Vec<Vec<u8>> = rows.chunks(rows.len().div_ceil(files)).map(file).collect();
        let all: Vec<RecordBatch> = files.iter().flat_map(|bytes| rows_of(bytes.clone())).collect();
        let folded = chunk(&WAIT_ROLLUP, files).hourly().expect("it can be folded");
        let expected = answer(&all);
        prop_assert_eq!(folded.is_some(), expected.len() * 2 <= rows.len());
        let Some(folded) = folded else { return Ok(()) };
        prop_assert_eq!(answer(std::slice::from_ref(&folded)), expected.clone());
        // And as a file.
        let mut file = tempfile::tempfile().expect("a file");
        let sum = write(&mut file, &folded).expect("it can be written");
        let mut bytes = Vec::new();
        std::io::Seek::rewind(&mut file).expect("a file");
        std::io::Read::read_to_end(&mut file, &mut bytes).expect("a file");
        let decoded = decode(bytes, &WAIT_ROLLUP, DecodeLimits::OUTPUT).expect("what was just written");
        prop_assert_eq!((decoded.sum, answer(&decoded.batches)), (sum, expected));
    }
}

/// A sum that is too large for its column continues in another row.
#[test]
fn a_sum_does_not_stop_at_64_bits() {
    let row = Row { host: 1, role: 1, kernel: None, ts: 5, n: MAX_INTEGER, max: None, counts: vec![1] };
    let folded = chunk(&WAIT_ROLLUP, vec![file(&vec![row; 4])]).hourly().expect("it can be folded").expect("four rows");
    assert_eq!(folded.num_rows(), 4);
    assert_eq!(answer(&[folded]).into_values().next().expect("one host").1, 4 * i128::from(i64::MAX));
}

/// Histograms of any length stay within the memory limit.
#[test]
fn long_histograms_stay_as_they_are() {
    let row = |host: u8| Row { host, role: 1, kernel: None, ts: 5, n: 1, max: None, counts: vec![1; 3 << 20] };
    let short = |host: u8| Row { counts: vec![1], ..row(host) };
    let folded = |rows: &[Row]| chunk(&WAIT_ROLLUP, vec![file(rows)]).hourly().expect("it can be folded").is_some();
    assert!(folded(&[short(1), short(1), short(2), short(2)]));
    assert!(!folded(&[row(1), short(1), row(2), short(2), row(3), short(3)]));
}

/// Columns that are not folded must be text: they distinguish rows.
#[test]
fn the_rest_of_a_table_by_the_hour_is_text() {
    for table in unstarve_tables::ALL {
        for column in table.columns {
            let fold = table.hourly.and_then(|hourly| hourly.folds.iter().find(|(name, _)| *name == column.name));
            assert!(
                table.hourly.is_none() || fold.is_some() || column.kind == unstarve_tables::Kind::Text,
                "{column:?}"
            );
        }
    }
    assert!(BLAME_ROLLUP.hourly.is_some() && WAIT_ROLLUP.hourly.is_some());
}
