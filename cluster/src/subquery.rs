//! Subqueries that give one value get a name of their own.
//!
//! On one machine DataFusion computes them beside the query. Ballista cannot send the place that such a value is put into, so they become joins; and in
//! `select share(sum(ns), (select sum(ns) from t)) from t` both sides have a column `sum(t.ns)` then, which DataFusion refuses.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::{ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule};
use datafusion::prelude::Column;

const PREFIX: &str = "__named";

#[derive(Debug)]
struct NamedSubqueries;

/// DataFusion's rules, and before them this one.
pub fn rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let ours: Arc<dyn OptimizerRule + Send + Sync> = Arc::new(NamedSubqueries);
    std::iter::once(ours).chain(Optimizer::new().rules).collect()
}

impl OptimizerRule for NamedSubqueries {
    fn name(&self) -> &str {
        "named_subqueries"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let renamed = expr.transform_up(|expr| match expr {
                Expr::ScalarSubquery(subquery) if needs_name(&subquery) => {
                    Ok(Transformed::yes(Expr::ScalarSubquery(named(&subquery, config)?)))
                }
                expr => Ok(Transformed::no(expr)),
            })?;
            Ok(renamed.update_data(|expr| name.restore(expr)))
        })
    }
}

/// One that depends on the row around it is a join on one machine, too.
fn needs_name(subquery: &Subquery) -> bool {
    let is_named = subquery.subquery.schema().field(0).name().starts_with(PREFIX);
    subquery.outer_ref_columns.is_empty() && !is_named
}

fn named(subquery: &Subquery, config: &dyn OptimizerConfig) -> Result<Subquery> {
    let plan = subquery.subquery.as_ref().clone();
    let value = Expr::Column(Column::from(plan.schema().qualified_field(0)));
    let value = value.alias(config.alias_generator().next(PREFIX));
    let plan = LogicalPlanBuilder::from(plan).project([value])?.build()?;
    Ok(subquery.with_plan(Arc::new(plan)))
}
