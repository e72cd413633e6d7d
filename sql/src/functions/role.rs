use std::sync::Arc;

use datafusion::arrow::array::{AsArray, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};
use unstarve_model::Comm;
use unstarve_sched::{KernelThread, VictimKind};

/// `role(comm)`, as the columns `kind` of the tables have it.
pub fn function() -> ScalarUDF {
    let of_rows = |arguments: &[ColumnarValue]| -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(arguments)?;
        let names = cast(&arrays[0], &DataType::Utf8)?;
        let roles: StringArray = names.as_string::<i32>().iter().map(|name| name.map(role)).collect();
        Ok(ColumnarValue::Array(Arc::new(roles)))
    };
    create_udf("role", vec![DataType::Utf8View], DataType::Utf8, Volatility::Immutable, Arc::new(of_rows))
}

fn role(name: &str) -> &'static str {
    VictimKind::from(KernelThread::of(&Comm::from(name))).word()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_those_of_explain() {
        assert_eq!((role("kworker/0:1H"), role("ksoftirqd/3"), role("fio")), ("kworker", "ksoftirqd", "task"));
    }
}
