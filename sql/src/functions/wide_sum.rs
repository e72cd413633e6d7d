//! `sum` of whole numbers as decimals of 38 digits: 10,000 hosts are watched for 2⁶⁴ ns in three weeks, and the engine's own sum begins again
//! at 0 there, without a word.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, SetMonotonicity, Signature,
    Volatility,
};

/// Has every u64 and i64.
const WHOLE: DataType = DataType::Decimal128(20, 0);

pub fn function() -> AggregateUDF {
    AggregateUDF::from(WideSum { engines: sum_udaf(), signature: Signature::user_defined(Volatility::Immutable) })
}

/// The engine's, told that whole numbers are decimals.
#[derive(Debug, PartialEq, Eq, Hash)]
struct WideSum {
    engines: Arc<AggregateUDF>,
    signature: Signature,
}

fn wide(of: &DataType) -> Result<DataType> {
    Ok(match of {
        whole if whole.is_integer() || whole.is_null() => WHOLE,
        float if float.is_floating() => DataType::Float64,
        DataType::Dictionary(_, values) => return wide(values),
        other if other.is_decimal() => other.clone(),
        DataType::Duration(_) | DataType::Interval(_) => of.clone(),
        other => return plan_err!("sum of {other}: expected numbers; cast(… as double) makes some of text"),
    })
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
        self.engines.return_type(types)
    }

    fn accumulator(&self, of: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.engines.accumulator(of)
    }

    fn state_fields(&self, of: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.engines.state_fields(of)
    }

    fn groups_accumulator_supported(&self, of: AccumulatorArgs<'_>) -> bool {
        self.engines.groups_accumulator_supported(of)
    }

    fn create_groups_accumulator(&self, of: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        self.engines.create_groups_accumulator(of)
    }

    fn create_sliding_accumulator(&self, of: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.engines.create_sliding_accumulator(of)
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
