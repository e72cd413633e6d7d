use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, UInt64Array};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use datafusion::arrow::datatypes::{DataType, Field, UInt64Type};
use datafusion::common::cast::as_list_array;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};

use super::hist_quantile::counts;
use super::wide_sum::counted;

/// `hist_sum(buckets)`.
pub fn function() -> AggregateUDF {
    AggregateUDF::from(HistSum { signature: Signature::exact(vec![counts()], Volatility::Immutable) })
}

/// Histograms added up. A shorter one has no waits in the steps that it does not have.
#[derive(Debug, PartialEq, Eq, Hash)]
struct HistSum {
    signature: Signature,
}

impl AggregateUDFImpl for HistSum {
    fn name(&self) -> &str {
        "hist_sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(counts())
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::<Sum>::default())
    }

    fn groups_accumulator_supported(&self, of: AccumulatorArgs<'_>) -> bool {
        !of.is_distinct
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::<Groups>::default())
    }
}

/// The counts of all rows, one behind the other; an empty one is 0. And where each row's are.
struct Rows<'a> {
    lists: &'a ListArray,
    counts: UInt64Array,
}

impl Rows<'_> {
    fn of(lists: &ArrayRef) -> Result<Rows<'_>> {
        let lists = as_list_array(lists)?;
        let Some(counts) = lists.values().as_primitive_opt::<UInt64Type>() else {
            return exec_err!("hist_sum of {}: expected lists of counts", lists.data_type());
        };
        // What is below an empty count is not said to be 0.
        let is_whole = counts.null_count() == 0;
        let counts =
            if is_whole { counts.clone() } else { counts.iter().map(|count| Some(count.unwrap_or(0))).collect() };
        Ok(Rows { lists, counts })
    }

    fn row(&self, row: usize) -> &[u64] {
        let offsets = self.lists.value_offsets();
        &self.counts.values()[offsets[row] as usize..offsets[row + 1] as usize]
    }
}

fn add(sums: &mut [u64], counts: &[u64]) {
    sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum = sum.saturating_add(*count));
}

#[derive(Debug, Default)]
struct Sum {
    counts: Vec<u64>,
    any: bool,
}

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = Rows::of(&values[0])?;
        for row in (0..rows.lists.len()).filter(|row| rows.lists.is_valid(*row)) {
            let counts = rows.row(row);
            self.any = true;
            if self.counts.len() < counts.len() {
                self.counts.resize(counts.len(), 0);
            }
            add(&mut self.counts, counts);
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if !self.any {
            return ScalarValue::try_from(&counts());
        }
        let values: Vec<ScalarValue> = self.counts.iter().map(|count| ScalarValue::UInt64(Some(*count))).collect();
        Ok(ScalarValue::List(ScalarValue::new_list_nullable(&values, &DataType::UInt64)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.counts.capacity() * size_of::<u64>()
    }
}

/// Sums of many groups in one piece: each has room for as many counts as the longest has.
#[derive(Debug, Default)]
struct Groups {
    sums: Vec<u64>,
    /// How many counts there is room for.
    room: usize,
    /// How many a group has; without any histogram none.
    lengths: Vec<Option<u32>>,
}

/// Room is made for so many more counts at once.
const STEP: usize = 16;

impl Groups {
    /// Makes room for longer histograms in all groups.
    fn widen(&mut self, length: usize) {
        let room = length.next_multiple_of(STEP);
        let mut sums = vec![0; self.lengths.len() * room];
        if self.room > 0 {
            let moved = sums.chunks_exact_mut(room).zip(self.sums.chunks_exact(self.room));
            moved.for_each(|(new, old)| new[..old.len()].copy_from_slice(old));
        }
        (self.sums, self.room) = (sums, room);
    }

    fn add(&mut self, group: usize, counts: &[u64]) {
        if counts.len() > self.room {
            self.widen(counts.len());
        }
        add(&mut self.sums[group * self.room..(group + 1) * self.room], counts);
        let length = &mut self.lengths[group];
        *length = (*length).max(Some(counts.len() as u32));
    }
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.lengths.resize(count, None);
        self.sums.resize(count * self.room, 0);
        let rows = Rows::of(&values[0])?;
        match counted(rows.lists, filter) {
            None => groups.iter().enumerate().for_each(|(row, group)| self.add(*group, rows.row(row))),
            Some(valid) => valid.valid_indices().for_each(|row| self.add(groups[row], rows.row(row))),
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.update_batch(states, groups, None, count)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let lengths = emit.take_needed(&mut self.lengths);
        let rest = self.sums.split_off(lengths.len() * self.room);
        let sums = std::mem::replace(&mut self.sums, rest);
        let mut values = Vec::with_capacity(lengths.iter().flatten().map(|length| *length as usize).sum());
        for (group, length) in lengths.iter().enumerate() {
            let begin = group * self.room;
            values.extend_from_slice(&sums[begin..begin + length.unwrap_or(0) as usize]);
        }
        let offsets = OffsetBuffer::from_lengths(lengths.iter().map(|length| length.unwrap_or(0) as usize));
        let nulls: NullBuffer = lengths.iter().map(Option::is_some).collect::<Vec<_>>().into();
        let item = Arc::new(Field::new("item", DataType::UInt64, true));
        let values = Arc::new(UInt64Array::new(ScalarBuffer::from(values), None));
        Ok(Arc::new(ListArray::try_new(item, offsets, values, Some(nulls))?))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit)?])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows = Rows::of(&values[0])?;
        let (item, offsets, _, _) = rows.lists.clone().into_parts();
        let counts = Arc::new(rows.counts.clone());
        Ok(vec![Arc::new(ListArray::try_new(item, offsets, counts, counted(rows.lists, filter))?)])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<u64>() + self.lengths.capacity() * size_of::<Option<u32>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Counts = Option<Vec<Option<u64>>>;

    fn lists(of: &[Counts]) -> ArrayRef {
        Arc::new(ListArray::from_iter_primitive::<UInt64Type, _, _>(of.iter().cloned()))
    }

    fn some(counts: &[u64]) -> Counts {
        Some(counts.iter().copied().map(Some).collect())
    }

    fn of(lists: &ArrayRef) -> Vec<Counts> {
        let lists = lists.as_list::<i32>();
        lists.iter().map(|counts| Some(counts?.as_primitive::<UInt64Type>().iter().collect())).collect()
    }

    #[test]
    fn groups_of_histograms_are_those_of_one_by_one() {
        let rows =
            [some(&[1, 2]), None, Some(vec![Some(1), None, Some(3)]), some(&[]), some(&[u64::MAX; 20]), some(&[1])];
        let (rows, places) = (lists(&rows), [0, 1, 0, 2, 3, 3]);
        let mut groups = Groups::default();
        groups.update_batch(&[Arc::clone(&rows)], &places, None, 4).expect("histograms");
        let together = groups.state(EmitTo::All).expect("states").remove(0);
        let largest = some(&[u64::MAX; 20]);
        assert_eq!(of(&together), [some(&[2, 2, 3]), None, some(&[]), largest.clone()]);
        for (group, expected) in of(&together).iter().enumerate() {
            let mut one = Sum::default();
            for row in (0..places.len()).filter(|row| places[*row] == group) {
                one.update_batch(&[rows.slice(row, 1)]).expect("a histogram");
            }
            assert_eq!(
                of(&one.evaluate().expect("a sum").to_array().expect("a column")),
                std::slice::from_ref(expected)
            );
        }
        // Longer ones come after shorter ones, the first groups leave, and the rest moves up.
        groups.merge_batch(&[together.slice(0, 1)], &[1], 3).expect("states");
        groups.merge_batch(&[together.slice(3, 1)], &[2], 3).expect("states");
        assert_eq!(of(&groups.evaluate(EmitTo::First(1)).expect("sums")), [None]);
        groups.merge_batch(&[together.slice(0, 1)], &[1], 2).expect("states");
        let both: Vec<u64> = vec![u64::MAX; 20];
        assert_eq!(of(&groups.evaluate(EmitTo::All).expect("sums")), [some(&[2, 2, 3]), some(&both)]);
    }

    #[test]
    fn what_a_filter_leaves_out_is_not_there() {
        let rows = lists(&[some(&[1]), some(&[2]), None]);
        let filter: BooleanArray = [Some(false), Some(true), Some(true)].into_iter().collect();
        let mut groups = Groups::default();
        groups.update_batch(&[Arc::clone(&rows)], &[0, 1, 1], Some(&filter), 2).expect("histograms");
        assert_eq!(of(&groups.evaluate(EmitTo::All).expect("sums")), [None, some(&[2])]);
        let states = groups.convert_to_state(&[rows], Some(&filter)).expect("states");
        assert_eq!(of(&states[0]), [None, some(&[2]), None]);
    }
}
