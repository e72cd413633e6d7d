use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, Float64Array, ListArray};
use datafusion::arrow::datatypes::{DataType, Field, Float64Type, UInt64Type};
use datafusion::common::Result;
use datafusion::common::cast::as_list_array;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};

/// Lists of counts, as histograms are.
pub fn counts() -> DataType {
    DataType::List(Arc::new(Field::new("item", DataType::UInt64, true)))
}

/// `hist_quantile(buckets, q)`.
pub fn function() -> ScalarUDF {
    let of_rows = |arguments: &[ColumnarValue]| {
        let arrays = ColumnarValue::values_to_arrays(arguments)?;
        Ok(ColumnarValue::Array(Arc::new(quantiles(
            as_list_array(&arrays[0])?,
            arrays[1].as_primitive::<Float64Type>(),
        ))))
    };
    create_udf(
        "hist_quantile",
        vec![counts(), DataType::Float64],
        DataType::Float64,
        Volatility::Immutable,
        Arc::new(move |arguments: &[ColumnarValue]| -> Result<ColumnarValue> { of_rows(arguments) }),
    )
}

fn quantiles(histograms: &ListArray, parts: &Float64Array) -> Float64Array {
    let of_row = |row: usize| {
        if histograms.is_null(row) || parts.is_null(row) {
            return None;
        }
        let counts = histograms.value(row);
        quantile(counts.as_primitive::<UInt64Type>().values(), parts.value(row))
    };
    (0..histograms.len()).map(of_row).collect()
}

/// The bounds of a step in ns: below 2⁻²⁰ s, then four for each power of two of a second (crates/watch/src/engine/reading/histogram.rs).
fn bounds(step: usize) -> (f64, f64) {
    let bound = |step: usize| (-20.0 + step as f64 / 4.0).exp2() * 1e9;
    match step {
        0 => (0.0, bound(0)),
        step if step + 1 >= STEPS => (bound(STEPS - 2), bound(STEPS - 2)),
        step => (bound(step - 1), bound(step)),
    }
}

/// Steps, the first and the last included.
const STEPS: usize = 106;

/// Inside of a step lengths are taken to be spread as its bounds are: by powers. Of waits longer than 64 s it says 64 s.
pub fn quantile(counts: &[u64], part: f64) -> Option<f64> {
    let total: u64 = counts.iter().fold(0, |sum: u64, count| sum.saturating_add(*count));
    if total == 0 || !(0.0..=1.0).contains(&part) {
        return None;
    }
    let rank = part * total as f64;
    let (mut below, mut longest) = (0.0, None);
    for (step, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let count = *count as f64;
        if below + count >= rank {
            let (from, to) = bounds(step);
            let inside = ((rank - below) / count).clamp(0.0, 1.0);
            return Some(if from == 0.0 { to * inside } else { from * (to / from).powf(inside) });
        }
        below += count;
        longest = Some(bounds(step).1);
    }
    // Numbers above 2^53 may be rounded to less than the rank.
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_leaves_no_quantile_out() {
        let mut counts = vec![0; 90];
        (counts[10], counts[40], counts[81]) = (1, 1 << 53, 1);
        assert_eq!(quantile(&counts, 1.0), Some(bounds(81).1));
    }

    #[test]
    fn a_quantile_lies_in_the_step_of_its_rank() {
        let mut counts = vec![0; 90];
        counts[40] = 99;
        counts[81] = 1;
        let (from, to) = bounds(40);
        let half = quantile(&counts, 0.5).expect("there are waits");
        assert!(from < half && half < to, "{from} {half} {to}");
        let (from, to) = bounds(81);
        let last = quantile(&counts, 0.999).expect("there are waits");
        assert!(from <= last && last <= to, "{from} {last} {to}");
        // 1 s begins step 81: crates/watch/src/engine/reading/histogram.rs has a test of it.
        assert!((from - 1e9).abs() < 1.0, "{from}");
    }

    #[test]
    fn nothing_has_no_quantile() {
        assert_eq!((quantile(&[], 0.5), quantile(&[0, 0], 0.5), quantile(&[1], 1.5)), (None, None, None));
        assert_eq!(quantile(&[4], 0.5), Some(bounds(0).1 / 2.0));
        assert_eq!(quantile(&[0; 105].into_iter().chain([7]).collect::<Vec<u64>>(), 0.5), Some(64e9));
    }
}
