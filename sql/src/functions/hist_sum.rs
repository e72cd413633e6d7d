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

/// Adds a histogram to a sum; a shorter one has no waits in the steps that it does not have.
fn add(sum: &mut Option<Vec<u64>>, counts: &[u64]) {
    let sum = sum.get_or_insert_default();
    if sum.len() < counts.len() {
        sum.resize(counts.len(), 0);
    }
    sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum = sum.saturating_add(*count));
}

#[derive(Debug, Default)]
struct Sum(Option<Vec<u64>>);

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = Rows::of(&values[0])?;
        for row in (0..rows.lists.len()).filter(|row| rows.lists.is_valid(*row)) {
            add(&mut self.0, rows.row(row));
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let Some(sum) = &self.0 else { return ScalarValue::try_from(&counts()) };
        let values: Vec<ScalarValue> = sum.iter().map(|count| ScalarValue::UInt64(Some(*count))).collect();
        Ok(ScalarValue::List(ScalarValue::new_list_nullable(&values, &DataType::UInt64)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.0.as_ref().map_or(0, Vec::capacity) * size_of::<u64>()
    }
}

/// Sums of many groups. Each has the length of its own: hosts choose how long a histogram is, and one that is long must not take its room in all groups.
#[derive(Debug, Default)]
struct Groups {
    sums: Vec<Option<Vec<u64>>>,
    /// How many counts they have together.
    held: usize,
}

impl Groups {
    fn add(&mut self, group: usize, counts: &[u64]) {
        let sum = &mut self.sums[group];
        let before = sum.as_ref().map_or(0, Vec::len);
        add(sum, counts);
        self.held += counts.len().saturating_sub(before);
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
        self.sums.resize(count, None);
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
        let sums = emit.take_needed(&mut self.sums);
        let length = |sum: &Option<Vec<u64>>| sum.as_ref().map_or(0, Vec::len);
        self.held -= sums.iter().map(length).sum::<usize>();
        let offsets = OffsetBuffer::from_lengths(sums.iter().map(length));
        let nulls: NullBuffer = sums.iter().map(Option::is_some).collect::<Vec<_>>().into();
        let item = Arc::new(Field::new("item", DataType::UInt64, true));
        let values: Vec<u64> = sums.into_iter().flatten().flatten().collect();
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
        self.sums.capacity() * size_of::<Option<Vec<u64>>>() + self.held * size_of::<u64>()
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

    /// Hosts choose how long a histogram is.
    #[test]
    fn a_long_histogram_takes_its_room_once() {
        let mut groups = Groups::default();
        let places: Vec<usize> = (0..1000).collect();
        let rows = std::iter::once(some(&vec![1; 1 << 16])).chain((1..1000).map(|_| some(&[1]))).collect::<Vec<_>>();
        groups.update_batch(&[lists(&rows)], &places, None, places.len()).expect("histograms");
        assert!(groups.size() < 1 << 20, "{}", groups.size());
        assert_eq!(of(&groups.evaluate(EmitTo::First(999)).expect("sums")), rows[..999]);
        assert_eq!(groups.held, 1, "what was given out takes none");
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
