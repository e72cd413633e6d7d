//! `sum` of whole numbers as decimals of 38 digits: 10,000 hosts are watched for 2⁶⁴ ns in three weeks, and the engine's own sum begins again
//! at 0 there, without a word.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Decimal128Array, PrimitiveArray,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, FieldRef, Int64Type, UInt64Type};
use datafusion::common::{ScalarValue, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, SetMonotonicity, Signature,
    Volatility,
};

/// Has every u64 and i64.
const WHOLE: DataType = DataType::Decimal128(20, 0);
/// What sums of these are: as the engine has them of [`WHOLE`].
const SUM: DataType = DataType::Decimal128(30, 0);

pub fn function() -> AggregateUDF {
    AggregateUDF::from(WideSum { engines: sum_udaf(), signature: Signature::user_defined(Volatility::Immutable) })
}

/// Whole numbers are added up here, everything else by the engine's sum.
#[derive(Debug, PartialEq, Eq, Hash)]
struct WideSum {
    engines: Arc<AggregateUDF>,
    signature: Signature,
}

fn wide(of: &DataType) -> Result<DataType> {
    Ok(match of {
        DataType::Null => WHOLE,
        whole if whole.is_unsigned_integer() => DataType::UInt64,
        whole if whole.is_integer() => DataType::Int64,
        float if float.is_floating() => DataType::Float64,
        DataType::Dictionary(_, values) => return wide(values),
        other if other.is_decimal() => other.clone(),
        DataType::Duration(_) | DataType::Interval(_) => of.clone(),
        other => return plan_err!("sum of {other}: expected numbers; cast(… as double) makes some of text"),
    })
}

fn is_whole(of: &AccumulatorArgs<'_>) -> bool {
    of.expr_fields.first().is_some_and(|field| field.data_type().is_integer())
}

impl AggregateUDFImpl for WideSum {
    fn name(&self) -> &str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [one] => Ok(vec![wide(one)?]),
            _ => plan_err!("sum takes one argument, not {}", types.len()),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        if types.first().is_some_and(DataType::is_integer) { Ok(SUM) } else { self.engines.return_type(types) }
    }

    fn accumulator(&self, of: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match (is_whole(&of), of.is_distinct) {
            (true, false) => Ok(Box::<One>::default()),
            (true, true) => Ok(Box::new(Distinct(self.engines.accumulator(of)?))),
            (false, _) => self.engines.accumulator(of),
        }
    }

    fn state_fields(&self, of: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.engines.state_fields(of)
    }

    fn groups_accumulator_supported(&self, of: AccumulatorArgs<'_>) -> bool {
        self.engines.groups_accumulator_supported(of)
    }

    fn create_groups_accumulator(&self, of: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        if is_whole(&of) { Ok(Box::<Groups>::default()) } else { self.engines.create_groups_accumulator(of) }
    }

    fn create_sliding_accumulator(&self, of: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if is_whole(&of) && !of.is_distinct {
            Ok(Box::<One>::default())
        } else {
            self.engines.create_sliding_accumulator(of)
        }
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.engines.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn set_monotonicity(&self, of: &DataType) -> SetMonotonicity {
        self.engines.inner().set_monotonicity(of)
    }
}

/// Whole numbers, or sums of some of them. 2⁶³ numbers fit into what they are added up in.
trait Whole: ArrowPrimitiveType {
    fn wide(of: Self::Native) -> i128;
}

impl Whole for UInt64Type {
    fn wide(of: u64) -> i128 {
        of.into()
    }
}

impl Whole for Int64Type {
    fn wide(of: i64) -> i128 {
        of.into()
    }
}

impl Whole for Decimal128Type {
    fn wide(of: i128) -> i128 {
        of
    }
}

/// Does the same to each kind of column that sums are made of.
macro_rules! with_whole {
    ($values:expr, $numbers:ident => $done:expr) => {
        match $values.data_type() {
            DataType::UInt64 => {
                let $numbers = $values.as_primitive::<UInt64Type>();
                $done
            }
            DataType::Int64 => {
                let $numbers = $values.as_primitive::<Int64Type>();
                $done
            }
            DataType::Decimal128(_, 0) => {
                let $numbers = $values.as_primitive::<Decimal128Type>();
                $done
            }
            other => return internal_err!("sum of whole numbers got {other}"),
        }
    };
}

fn added_up<T: Whole>(numbers: &PrimitiveArray<T>) -> i128 {
    if numbers.null_count() == 0 {
        return numbers.values().iter().fold(0, |sum: i128, number| sum.wrapping_add(T::wide(*number)));
    }
    numbers.iter().flatten().fold(0, |sum: i128, number| sum.wrapping_add(T::wide(number)))
}

fn decimals(sums: Vec<i128>, are_there: Option<NullBuffer>) -> ArrayRef {
    Arc::new(Decimal128Array::new(sums.into(), are_there).with_data_type(SUM))
}

/// One sum, from which numbers can be taken again: of a window that moves.
#[derive(Debug, Default)]
struct One {
    sum: i128,
    count: usize,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.sum = self.sum.wrapping_add(with_whole!(values[0], numbers => added_up(numbers)));
        self.count += values[0].len() - values[0].null_count();
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.sum = self.sum.wrapping_sub(with_whole!(values[0], numbers => added_up(numbers)));
        self.count -= values[0].len() - values[0].null_count();
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Decimal128((self.count > 0).then_some(self.sum), 30, 0))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The engine's sum of numbers that differ, which knows them as decimals.
#[derive(Debug)]
struct Distinct(Box<dyn Accumulator>);

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(&[cast(&values[0], &SUM)?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}

/// A sum for each group, and whether there is any number in it.
#[derive(Debug, Default)]
struct Groups {
    sums: Vec<i128>,
    any: Vec<bool>,
}

impl Groups {
    fn add<T: Whole>(
        &mut self,
        numbers: &PrimitiveArray<T>,
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let mut add = |group: usize, number: T::Native| {
            self.sums[group] = self.sums[group].wrapping_add(T::wide(number));
            self.any[group] = true;
        };
        let nulls = counted(numbers, filter);
        match nulls.filter(|nulls| nulls.null_count() > 0) {
            None => groups.iter().zip(numbers.values()).for_each(|(group, number)| add(*group, *number)),
            Some(nulls) => nulls.valid_indices().for_each(|row| add(groups[row], numbers.value(row))),
        }
        Ok(())
    }
}

/// Which rows count: those with a value that no filter leaves out.
pub fn counted(values: &dyn Array, filter: Option<&BooleanArray>) -> Option<NullBuffer> {
    let chosen = filter.map(|filter| match filter.nulls() {
        Some(nulls) => NullBuffer::new(filter.values() & nulls.inner()),
        None => NullBuffer::new(filter.values().clone()),
    });
    NullBuffer::union(values.logical_nulls().as_ref(), chosen.as_ref())
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.sums.resize(count, 0);
        self.any.resize(count, false);
        with_whole!(values[0], numbers => self.add(numbers, groups, filter))
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.update_batch(states, groups, None, count)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let (sums, any) = (emit.take_needed(&mut self.sums), emit.take_needed(&mut self.any));
        Ok(decimals(sums, Some(NullBuffer::from(any)).filter(|nulls| nulls.null_count() > 0)))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit)?])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        fn wide<T: Whole>(numbers: &PrimitiveArray<T>) -> Vec<i128> {
            numbers.values().iter().map(|number| T::wide(*number)).collect()
        }
        let sums = with_whole!(values[0], numbers => wide(numbers));
        Ok(vec![decimals(sums, counted(&values[0], filter))])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i128>() + self.any.capacity()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, UInt64Array};

    use super::*;

    fn u64s(of: impl IntoIterator<Item = Option<u64>>) -> ArrayRef {
        Arc::new(of.into_iter().collect::<UInt64Array>())
    }

    fn sums(of: &ArrayRef) -> Vec<Option<i128>> {
        assert_eq!(*of.data_type(), SUM);
        of.as_primitive::<Decimal128Type>().iter().collect()
    }

    #[test]
    fn groups_are_added_up_beyond_64_bits_and_merged() {
        const MOST: i128 = u64::MAX as i128;
        let mut groups = Groups::default();
        let values = u64s([Some(u64::MAX), None, Some(5), Some(u64::MAX), Some(9)]);
        let filter: BooleanArray = [Some(true), Some(true), Some(true), None, Some(false)].into_iter().collect();
        groups.update_batch(&[Arc::clone(&values)], &[0, 1, 2, 0, 2], None, 3).expect("numbers");
        groups.update_batch(&[Arc::clone(&values)], &[0, 1, 2, 0, 2], Some(&filter), 4).expect("numbers");
        let state = groups.convert_to_state(&[values], Some(&filter)).expect("numbers");
        assert_eq!(sums(&state[0]), [Some(MOST), None, Some(5), None, None]);
        groups.merge_batch(&state, &[3, 3, 2, 0, 0], 4).expect("states");
        let first = groups.state(EmitTo::First(1)).expect("states");
        assert_eq!(sums(&first[0]), [Some(3 * MOST)]);
        // What was the second group is the first now.
        groups.update_batch(&[u64s([Some(1)])], &[0], None, 3).expect("numbers");
        assert_eq!(sums(&groups.evaluate(EmitTo::All).expect("sums")), [Some(1), Some(24), Some(MOST)]);
        groups.update_batch(&[u64s([None])], &[0], None, 1).expect("numbers");
        assert_eq!(sums(&groups.evaluate(EmitTo::All).expect("sums")), [None], "it begins again");
    }

    #[test]
    fn a_window_that_moves_takes_numbers_back() {
        let mut one = One::default();
        let below: ArrayRef = Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MIN)]));
        assert_eq!(one.evaluate().expect("a sum"), ScalarValue::Decimal128(None, 30, 0));
        one.update_batch(&[Arc::clone(&below)]).expect("numbers");
        one.update_batch(&[u64s([Some(7)])]).expect("numbers");
        let state = one.state().expect("a state")[0].to_array().expect("a column");
        assert_eq!(sums(&state), [Some(2 * i128::from(i64::MIN) + 7)]);
        one.retract_batch(&[below]).expect("numbers");
        one.merge_batch(&[state]).expect("a state");
        assert_eq!(
            sums(&one.evaluate().expect("a sum").to_array().expect("a column")),
            [Some(2 * i128::from(i64::MIN) + 14)]
        );
        let mut none = One::default();
        none.update_batch(&[u64s([Some(3), None])]).expect("numbers");
        none.retract_batch(&[u64s([Some(3)])]).expect("numbers");
        assert_eq!(none.evaluate().expect("a sum"), ScalarValue::Decimal128(None, 30, 0));
    }
}
