//! The order of rows in a merged file: by victim, then by time, then by host.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{Array, RecordBatch, StringArray};

use super::sorted::RowAt;

/// Queries select by victim first, then by time.
const VICTIM_COLUMNS: [&str; 2] = ["victim_role", "victim"];

/// The sort key of a row (rank of its victim, time, rank of its host), then its batch and row.
type RowPosition = (u32, Option<i64>, u32, (u32, u32));

/// All rows in order.
pub(super) fn sorted_rows(batches: &[RecordBatch]) -> Vec<RowAt> {
    let has = |name: &&str| batches.first().is_some_and(|batch| batch.column_by_name(name).is_some());
    let victims = ranks(batches, VICTIM_COLUMNS.into_iter().find(has));
    let hosts = ranks(batches, Some("host"));
    let mut places: Vec<RowPosition> = Vec::with_capacity(batches.iter().map(RecordBatch::num_rows).sum());
    for (at, batch) in batches.iter().enumerate() {
        let moments =
            batch.column_by_name("ts").and_then(|column| column.as_primitive_opt::<TimestampMicrosecondType>());
        for row in 0..batch.num_rows() {
            let ts = moments.filter(|moments| moments.is_valid(row)).map(|moments| moments.value(row));
            places.push((victims[at][row], ts, hosts[at][row], (at as u32, row as u32)));
        }
    }
    places.sort_unstable();
    places.into_iter().map(|(.., (batch, row))| (batch as usize, row as usize)).collect()
}

/// For each row the rank of its text in a column, from 1; 0 for an empty cell.
fn ranks(batches: &[RecordBatch], column: Option<&str>) -> Vec<Vec<u32>> {
    let texts = |batch: &'_ RecordBatch| {
        column.and_then(|name| Some(batch.column_by_name(name)?.as_string_opt::<i32>()?.clone()))
    };
    let all: Vec<Option<StringArray>> = batches.iter().map(texts).collect();
    let (mut numbers, mut ranks) = (TextNumbers::default(), Vec::with_capacity(all.len()));
    for (texts, batch) in all.iter().zip(batches) {
        ranks.push(match texts {
            None => vec![0; batch.num_rows()],
            Some(texts) => texts.iter().map(|text| text.map_or(0, |text| numbers.of(text))).collect(),
        });
    }
    let places = numbers.places();
    ranks.iter_mut().flatten().for_each(|number: &mut u32| *number = places[*number as usize]);
    ranks
}

/// Numbers texts from 1 in the order of appearance. Most often a text repeats the one before.
#[derive(Default)]
struct TextNumbers<'a> {
    known: HashMap<&'a str, u32>,
    last: Option<(&'a str, u32)>,
}

impl<'a> TextNumbers<'a> {
    fn of(&mut self, text: &'a str) -> u32 {
        if let Some((last, number)) = self.last
            && last == text
        {
            return number;
        }
        let next = self.known.len() as u32 + 1;
        let number = *self.known.entry(text).or_insert(next);
        self.last = Some((text, number));
        number
    }

    /// For each number the rank of its text; 0 stays 0.
    fn places(&self) -> Vec<u32> {
        let mut texts: Vec<(&str, u32)> = self.known.iter().map(|(text, number)| (*text, *number)).collect();
        texts.sort_unstable();
        let mut places = vec![0; texts.len() + 1];
        texts.iter().zip(1..).for_each(|((_, number), place)| places[*number as usize] = place);
        places
    }
}
