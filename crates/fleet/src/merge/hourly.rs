//! Folds rows that differ only in time and numbers into one row for the hour: a tenth of the rows. Queries over many hosts
//! rarely need single intervals.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, Int64Array, ListArray, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow_schema::{DataType, Field, SchemaRef};
use arrow_select::interleave::interleave;
use unstarve_tables::{Fold, Hourly};

use super::row_order::sorted_rows;
use super::sorted::{self, RowAt};
use crate::commit::Sum;

/// Maximum memory of the sums; more than a day of a thousand hosts takes. Rows that would take more, because histograms have
/// any length, are not folded.
const MAX_FOLD_MEMORY: usize = 64 << 20;

/// Folds rows by the hour: one for those that differ only in the folded columns. `None` if more than half of the rows remain,
/// or if it takes too much memory. All batches have the columns of the schema. A sum that does not fit into its column
/// continues in another row.
pub(crate) fn fold(batches: &[RecordBatch], schema: &SchemaRef, how: &Hourly) -> io::Result<Option<RecordBatch>> {
    let rows = batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    let is_folded = |field: &Field| how.folds.iter().any(|(name, _)| name == field.name());
    let mut groups = Groups::of(batches);
    for (at, _) in schema.fields().iter().enumerate().filter(|(_, field)| !is_folded(field)) {
        groups.divide(batches, at)?;
    }
    for (name, _) in how.folds.iter().filter(|(_, fold)| *fold == Fold::First) {
        groups.divide_by_hour(batches, schema.index_of(name).map_err(io::Error::other)?)?;
    }
    if groups.count.saturating_mul(2) > rows {
        return Ok(None);
    }
    let fold_of =
        |(name, fold): &(&str, Fold)| Ok((schema.index_of(name).map_err(io::Error::other)?, Folded::new(*fold)));
    let mut folded = how.folds.iter().map(fold_of).collect::<io::Result<Vec<_>>>()?;
    let mut slots = Slots { of_group: vec![None; groups.count], first: Vec::new() };
    for (at, batch) in batches.iter().enumerate() {
        let cells: Vec<Cells<'_>> =
            folded.iter().map(|(column, _)| Cells::of(batch.column(*column))).collect::<io::Result<_>>()?;
        for (row, group) in groups.of_rows[at].iter().enumerate() {
            let fits =
                |slot: usize| folded.iter().zip(&cells).all(|((_, folded), cells)| folded.fits(slot, cells, row));
            let known = slots.of_group[*group as usize].filter(|slot| fits(*slot));
            let slot = known.unwrap_or_else(|| slots.add(*group, (at, row)));
            folded.iter_mut().zip(&cells).for_each(|((_, folded), cells)| folded.add(slot, cells, row));
        }
        if folded.iter().map(|(_, folded)| folded.memory()).sum::<usize>() > MAX_FOLD_MEMORY {
            return Ok(None);
        }
    }
    let mut of_column: HashMap<usize, Folded> = folded.into_iter().collect();
    let column = |at: usize, field: &Field| match of_column.remove(&at) {
        Some(folded) => folded.finish(field.data_type()),
        None => {
            let arrays: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(at).as_ref()).collect();
            interleave(&arrays, &slots.first).map_err(io::Error::other)
        }
    };
    let mut column = column;
    let columns = schema.fields().iter().enumerate().map(|(at, field)| column(at, field)).collect::<io::Result<_>>()?;
    RecordBatch::try_new(Arc::clone(schema), columns).map(Some).map_err(io::Error::other)
}

/// Writes folded rows, in the order of merged ones.
pub(crate) fn write(file: &mut File, rows: &RecordBatch) -> io::Result<Sum> {
    let batches = std::slice::from_ref(rows);
    sorted::write(file, &rows.schema(), batches, &sorted_rows(batches))
}

/// Groups of rows that are equal in the columns compared so far.
struct Groups {
    /// By batch and row.
    of_rows: Vec<Vec<u32>>,
    count: usize,
}

impl Groups {
    /// All rows in one group.
    fn of(batches: &[RecordBatch]) -> Groups {
        let of_rows = batches.iter().map(|batch| vec![0; batch.num_rows()]).collect();
        Groups { of_rows, count: 1 }
    }

    /// Splits groups by a text column.
    fn divide(&mut self, batches: &[RecordBatch], column: usize) -> io::Result<()> {
        let (mut texts, mut last) = (HashMap::<&str, u32>::new(), None);
        let mut divided = Divided::default();
        for (batch, of_rows) in batches.iter().zip(&mut self.of_rows) {
            let cells = texts_of(batch.column(column))?;
            for (row, group) in of_rows.iter_mut().enumerate() {
                // A text mostly repeats the previous one.
                let text = cells.is_valid(row).then(|| cells.value(row));
                let number = match last {
                    Some((known, number)) if known == text => number,
                    _ => {
                        let next = texts.len() as u32 + 1;
                        text.map_or(0, |text| *texts.entry(text).or_insert(next))
                    }
                };
                last = Some((text, number));
                *group = divided.group(*group, number);
            }
        }
        self.count = divided.groups.len();
        Ok(())
    }

    /// Splits groups by the hour of `ts`: a host may have written any time.
    fn divide_by_hour(&mut self, batches: &[RecordBatch], column: usize) -> io::Result<()> {
        const HOUR_US: i64 = 3_600_000_000;
        let (mut hours, mut divided) = (HashMap::<Option<i64>, u32>::new(), Divided::default());
        for (batch, of_rows) in batches.iter().zip(&mut self.of_rows) {
            let moments = batch.column(column).as_primitive_opt::<TimestampMicrosecondType>();
            let moments = moments.ok_or_else(|| io::Error::other("a column of moments is none"))?;
            for (group, moment) in of_rows.iter_mut().zip(moments) {
                let next = hours.len() as u32;
                let number = *hours.entry(moment.map(|us| us.div_euclid(HOUR_US))).or_insert(next);
                *group = divided.group(*group, number);
            }
        }
        self.count = divided.groups.len();
        Ok(())
    }
}

/// Groups, numbered by pairs of numbers.
#[derive(Default)]
struct Divided {
    groups: HashMap<u64, u32, BuildHasherDefault<Mixed>>,
    last: Option<(u64, u32)>,
}

impl Divided {
    /// The number of a pair, which mostly repeats the previous one.
    fn group(&mut self, group: u32, number: u32) -> u32 {
        let pair = u64::from(group) << 32 | u64::from(number);
        let group = match self.last {
            Some((known, group)) if known == pair => group,
            _ => {
                let next = self.groups.len() as u32;
                *self.groups.entry(pair).or_insert(next)
            }
        };
        self.last = Some((pair, group));
        group
    }
}

fn texts_of(column: &ArrayRef) -> io::Result<&StringArray> {
    column.as_string_opt::<i32>().ok_or_else(|| io::Error::other("a column of texts is none"))
}

/// A hasher for pairs of our own numbers, which other users cannot choose.
#[derive(Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

/// The folded rows: mostly one for each group.
struct Slots {
    of_group: Vec<Option<usize>>,
    /// For each, a row with its texts.
    first: Vec<RowAt>,
}

impl Slots {
    /// Adds another one, which further rows of this group go into.
    fn add(&mut self, group: u32, row: RowAt) -> usize {
        self.first.push(row);
        let slot = self.first.len() - 1;
        self.of_group[group as usize] = Some(slot);
        slot
    }
}

/// The cells of a column in a batch.
enum Cells<'a> {
    Numbers(&'a Int64Array),
    Moments(&'a TimestampMicrosecondArray),
    Histograms(&'a ListArray, &'a Int64Array),
}

impl Cells<'_> {
    fn of(column: &ArrayRef) -> io::Result<Cells<'_>> {
        let histograms = || {
            let lists = column.as_list_opt::<i32>()?;
            Some(Cells::Histograms(lists, lists.values().as_primitive_opt::<Int64Type>()?))
        };
        let numbers = column.as_primitive_opt::<Int64Type>().map(Cells::Numbers);
        let moments = || column.as_primitive_opt::<TimestampMicrosecondType>().map(Cells::Moments);
        numbers.or_else(moments).or_else(histograms).ok_or_else(|| io::Error::other("a column cannot be added up"))
    }

    fn number(&self, row: usize) -> Option<i64> {
        match self {
            Cells::Numbers(numbers) => numbers.is_valid(row).then(|| numbers.value(row)),
            _ => None,
        }
    }
}

/// Folded cells, one for each folded row.
enum Folded {
    First(Vec<Option<i64>>),
    Added(Vec<Option<i64>>),
    Greatest(Vec<Option<i64>>),
    Histogram { counts: Vec<Option<Vec<i64>>>, memory: usize },
}

impl Folded {
    fn new(fold: Fold) -> Folded {
        match fold {
            Fold::First => Folded::First(Vec::new()),
            Fold::Added => Folded::Added(Vec::new()),
            Fold::Greatest => Folded::Greatest(Vec::new()),
            Fold::Histogram => Folded::Histogram { counts: Vec::new(), memory: 0 },
        }
    }

    /// Whether a cell can be added.
    fn fits(&self, slot: usize, cells: &Cells<'_>, row: usize) -> bool {
        match self {
            Folded::Added(sums) => match (sums[slot], cells.number(row)) {
                (Some(sum), Some(more)) => sum.checked_add(more).is_some(),
                _ => true,
            },
            _ => true,
        }
    }

    /// Adds a cell to a slot that exists or is the next one.
    fn add(&mut self, slot: usize, cells: &Cells<'_>, row: usize) {
        match self {
            Folded::First(moments) => {
                let moment = match cells {
                    Cells::Moments(moments) => moments.is_valid(row).then(|| moments.value(row)),
                    _ => None,
                };
                let first = at(moments, slot);
                *first = [*first, moment].into_iter().flatten().min();
            }
            Folded::Added(sums) => {
                let sum = at(sums, slot);
                *sum = match (*sum, cells.number(row)) {
                    (Some(sum), Some(more)) => Some(sum.saturating_add(more)),
                    (sum, more) => sum.or(more),
                };
            }
            Folded::Greatest(numbers) => {
                let greatest = at(numbers, slot);
                *greatest = (*greatest).max(cells.number(row));
            }
            Folded::Histogram { counts, memory } => {
                if let Cells::Histograms(lists, values) = cells
                    && lists.is_valid(row)
                {
                    let [from, to] = [row, row + 1].map(|at| lists.value_offsets()[at] as usize);
                    let sums = at(counts, slot).get_or_insert_default();
                    if sums.len() < to - from {
                        *memory += (to - from - sums.len()) * size_of::<i64>();
                        sums.resize(to - from, 0);
                    }
                    sums.iter_mut().zip(&values.values()[from..to]).for_each(|(sum, n)| *sum = sum.saturating_add(*n));
                } else {
                    at(counts, slot);
                }
            }
        }
    }

    fn memory(&self) -> usize {
        match self {
            Folded::First(moments) => moments.capacity() * size_of::<Option<i64>>(),
            Folded::Added(numbers) | Folded::Greatest(numbers) => numbers.capacity() * size_of::<Option<i64>>(),
            Folded::Histogram { counts, memory } => memory + counts.capacity() * size_of::<Option<Vec<i64>>>(),
        }
    }

    fn finish(self, kind: &DataType) -> io::Result<ArrayRef> {
        Ok(match self {
            Folded::First(moments) => match kind {
                DataType::Timestamp(_, zone) => {
                    Arc::new(TimestampMicrosecondArray::from(moments).with_timezone_opt(zone.clone()))
                }
                other => return Err(io::Error::other(format!("{other} is no moment"))),
            },
            Folded::Added(numbers) | Folded::Greatest(numbers) => Arc::new(Int64Array::from(numbers)),
            Folded::Histogram { counts, .. } => {
                let DataType::List(element) = kind else {
                    return Err(io::Error::other(format!("{kind} is no histogram")));
                };
                let mut lists = ListBuilder::new(Int64Builder::new()).with_field(Arc::clone(element));
                for counts in counts {
                    lists.values().append_slice(counts.as_deref().unwrap_or_default());
                    lists.append(counts.is_some());
                }
                Arc::new(lists.finish())
            }
        })
    }
}

fn at<T: Default>(all: &mut Vec<T>, slot: usize) -> &mut T {
    if slot == all.len() {
        all.push(T::default());
    }
    &mut all[slot]
}

#[cfg(test)]
#[path = "hourly_tests.rs"]
mod tests;
