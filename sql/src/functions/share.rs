use std::sync::Arc;

use datafusion::arrow::array::{AsArray, Float64Array};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};

/// `share(ns, dt)`.
pub fn function() -> ScalarUDF {
    let of_rows = |arguments: &[ColumnarValue]| -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(arguments)?;
        let (part, whole) = (arrays[0].as_primitive::<Float64Type>(), arrays[1].as_primitive::<Float64Type>());
        let share = |(part, whole): (Option<f64>, Option<f64>)| Some(part? / whole.filter(|whole| *whole > 0.0)?);
        Ok(ColumnarValue::Array(Arc::new(part.iter().zip(whole).map(share).collect::<Float64Array>())))
    };
    create_udf("share", vec![DataType::Float64; 2], DataType::Float64, Volatility::Immutable, Arc::new(of_rows))
}
