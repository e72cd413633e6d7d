use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::cast::as_list_array;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Accumulator, AggregateUDF, Volatility, create_udaf};

use super::hist_quantile::counts;

/// `hist_sum(buckets)`.
pub fn function() -> AggregateUDF {
    create_udaf(
        "hist_sum",
        vec![counts()],
        Arc::new(counts()),
        Volatility::Immutable,
        Arc::new(|_| Ok(Box::<Sum>::default())),
        Arc::new(vec![counts()]),
    )
}

/// Histograms added up. A shorter one has no waits in the steps that it does not have.
#[derive(Debug, Default)]
struct Sum {
    counts: Vec<u64>,
    any: bool,
}

impl Sum {
    fn add(&mut self, counts: &[u64]) {
        self.any = true;
        if self.counts.len() < counts.len() {
            self.counts.resize(counts.len(), 0);
        }
        self.counts.iter_mut().zip(counts).for_each(|(sum, count)| *sum = sum.saturating_add(*count));
    }
}

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let histograms = as_list_array(&values[0])?;
        for row in (0..histograms.len()).filter(|row| histograms.is_valid(*row)) {
            self.add(histograms.value(row).as_primitive::<UInt64Type>().values());
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
