//! Tests of collecting rows for one merged file.

use unstarve_tables::{COLUMN_KINDS, HOSTS, Kind, arrow_type};

use super::*;
use crate::decode::Examined;

/// A run of a file with these columns and this many empty rows.
fn run(columns: &[(&str, Kind)], rows: usize) -> Run {
    let field = |(name, kind): &(&str, Kind)| Field::new(*name, arrow_type(*kind), true);
    let schema = Arc::new(ArrowSchema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let arrays = schema.fields().iter().map(|field| new_null_array(field.data_type(), rows)).collect();
    let batch = RecordBatch::try_new(schema, arrays).expect("columns of one length");
    let memory = batch.get_array_memory_size();
    let files = vec![Examined { rows: rows as u64, sum: Sum::default(), memory }];
    Run { files, batches: vec![batch], memory }
}

fn chunk(runs: Vec<Run>) -> Chunk<'static> {
    let mut chunk = Chunk::of(&HOSTS);
    runs.into_iter().for_each(|run| chunk.push(run, Readers::default()).expect("columns that fit"));
    chunk
}

/// Rows that take almost no memory also fill a file.
#[test]
fn a_chunk_is_over_by_rows_too() {
    let mut full = chunk(vec![run(&[("host", Kind::Text)], 1)]);
    full.rows = FULL_ROWS - 1;
    assert_eq!([1, 2].map(|rows| full.is_over(&run(&[("host", Kind::Text)], rows))), [false, true]);
}

/// A written file has the columns of all its files. Empty cells take memory before they are written, also in earlier rows.
#[test]
fn memory_counts_columns_that_files_did_not_have() {
    let more: Vec<(String, Kind)> =
        (0..16).map(|at| (format!("c{at}"), COLUMN_KINDS[at % COLUMN_KINDS.len()])).collect();
    let more: Vec<(&str, Kind)> = more.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
    let runs = || vec![run(&[("host", Kind::Text)], 50_000), run(&more, 10_000), run(&more[..3], 10_000)];
    let chunk = chunk(runs());
    let schema = chunk.schema();
    let written = chunk.batches.iter().map(|batch| with_all_columns(batch, &schema).expect("columns of one length"));
    let written = written.map(|batch| batch.get_array_memory_size()).sum::<usize>();
    let (counted, came) = (chunk.memory(), runs().iter().map(|run| run.memory).sum::<usize>());
    assert!((written..written * 5 / 4).contains(&counted) && counted > 5 * came, "{came} {written} {counted}");
    // The same before it is added.
    let mut before = self::chunk(runs().drain(..2).collect());
    let last = runs().pop().expect("three");
    let expected = before.memory_with(&last);
    before.push(last, Readers::default()).expect("columns that fit");
    assert_eq!((before.memory(), before.memory()), (expected, counted));
}
