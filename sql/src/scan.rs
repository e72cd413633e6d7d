//! The files of a table. Those whose path says that they are of another hour are not opened.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, Result, ScalarValue, project_schema};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::union::UnionExec;

use crate::layout;
use crate::place::Part;

/// A table: its columns, and its files.
#[derive(Debug)]
pub struct Files {
    schema: SchemaRef,
    parts: Vec<Part>,
}

impl Files {
    /// A table of these files. A file without one of the columns has nothing in it.
    pub fn new(schema: SchemaRef, parts: Vec<Part>) -> Files {
        Files { schema, parts }
    }
}

const HOUR: i64 = 3_600_000_000_000;

/// The moments that a file's rows may be of: from the first to before the second, ns since 1970. By
/// `date=2026-11-23/hour=07` of its path.
fn hour_of(part: &Part) -> Option<(i64, i64)> {
    let value = |key: &str| layout::value(&part.meta.location, key);
    let moment = format!("{} {}:00:00", value("date")?, value("hour")?);
    let begin = datafusion::arrow::compute::kernels::cast_utils::string_to_timestamp_nanos(&moment).ok()?;
    Some((begin, begin.checked_add(HOUR)?))
}

/// The bounds that filters put on `ts`, both included.
fn bounds(filters: &[Expr]) -> (i64, i64) {
    let mut bounds = (i64::MIN, i64::MAX);
    let all = filters.iter().flat_map(datafusion::logical_expr::utils::split_conjunction);
    for expr in all {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let (op, moment) = match (is_ts(left), moment(right), moment(left), is_ts(right)) {
                    (true, Some(moment), ..) => (*op, moment),
                    (.., Some(moment), true) => match op.swap() {
                        Some(op) => (op, moment),
                        None => continue,
                    },
                    _ => continue,
                };
                match op {
                    Operator::Eq => bounds = (bounds.0.max(moment), bounds.1.min(moment)),
                    Operator::Gt | Operator::GtEq => bounds.0 = bounds.0.max(moment),
                    Operator::Lt | Operator::LtEq => bounds.1 = bounds.1.min(moment),
                    _ => {}
                }
            }
            Expr::Between(between) if !between.negated && is_ts(&between.expr) => {
                bounds.0 = bounds.0.max(moment(&between.low).unwrap_or(i64::MIN));
                bounds.1 = bounds.1.min(moment(&between.high).unwrap_or(i64::MAX));
            }
            _ => {}
        }
    }
    bounds
}

fn is_ts(expr: &Expr) -> bool {
    matches!(expr, Expr::Column(column) if column.name == "ts")
}

fn moment(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(ScalarValue::TimestampNanosecond(Some(ns), _), _) => Some(*ns),
        _ => None,
    }
}

#[async_trait]
impl TableProvider for Files {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        // Statistics of row groups leave out what cannot match; what is read is filtered again.
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (first, last) = bounds(filters);
        let may_match = |part: &&Part| hour_of(part).is_none_or(|(begin, end)| begin <= last && first < end);
        let mut by_store: BTreeMap<String, (ObjectStoreUrl, Vec<PartitionedFile>)> = BTreeMap::new();
        for part in self.parts.iter().filter(may_match) {
            let (_, files) = by_store.entry(part.store.to_string()).or_insert_with(|| (part.store.clone(), Vec::new()));
            files.push(PartitionedFile::from(part.meta.clone()));
        }
        let mut source = ParquetSource::new(Arc::clone(&self.schema)).with_pushdown_filters(true);
        if let Some(filter) = conjunction(filters.to_vec()) {
            let schema = DFSchema::try_from(Arc::clone(&self.schema))?;
            source = source.with_predicate(state.create_physical_expr(filter, &schema)?);
        }
        let source = Arc::new(source);
        let mut plans: Vec<Arc<dyn ExecutionPlan>> = Vec::new();
        for (store, files) in by_store.into_values() {
            let groups = FileGroup::new(files).split_files(state.config().target_partitions());
            let config = FileScanConfigBuilder::new(store, Arc::clone(&source) as _)
                .with_file_groups(groups)
                .with_projection_indices(projection.cloned())?
                .with_limit(if filters.is_empty() { limit } else { None })
                .build();
            plans.push(DataSourceExec::from_data_source(config));
        }
        match plans.len() {
            0 => Ok(Arc::new(EmptyExec::new(project_schema(&self.schema, projection)?))),
            1 => Ok(plans.remove(0)),
            _ => UnionExec::try_new(plans),
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::{col, lit};

    use super::*;

    fn at(ns: i64) -> Expr {
        lit(ScalarValue::TimestampNanosecond(Some(ns), Some("UTC".into())))
    }

    #[test]
    fn the_path_of_a_file_says_its_hour() {
        let hour = hour_of(&Part::local("tables/table=hosts/date=2025-11-24/hour=16/web1.parquet"));
        assert_eq!(hour, Some((1_764_000_000_000_000_000, 1_764_003_600_000_000_000)));
        assert_eq!(hour_of(&Part::local("exports/waits.parquet")), None);
        assert_eq!(hour_of(&Part::local("table=hosts/date=x/hour=16/a.parquet")), None);
    }

    #[test]
    fn filters_bound_the_moments_from_both_sides() {
        let ts = || col("ts");
        assert_eq!(bounds(&[ts().gt_eq(at(5)), ts().lt(at(9))]), (5, 9));
        assert_eq!(bounds(&[at(5).lt_eq(ts()).and(col("host").eq(lit("a")))]), (5, i64::MAX));
        assert_eq!(bounds(&[ts().eq(at(7))]), (7, 7));
        assert_eq!(bounds(&[ts().between(at(1), at(2))]), (1, 2));
        assert_eq!(bounds(&[ts().gt(at(5)).or(col("host").eq(lit("a")))]), (i64::MIN, i64::MAX));
        assert_eq!(bounds(&[col("start_ns").gt(at(5))]), (i64::MIN, i64::MAX));
    }
}
