//! A source of rows that can be stopped.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;
use tokio::sync::watch;

use crate::engine::{Why, stopped_by};

/// What its input gives, until it is stopped; then an error.
#[derive(Debug)]
pub struct Stoppable {
    input: Arc<dyn ExecutionPlan>,
    stopped: watch::Receiver<Why>,
}

impl Stoppable {
    /// Stops a source.
    pub fn new(input: Arc<dyn ExecutionPlan>, stopped: watch::Receiver<Why>) -> Stoppable {
        Stoppable { input, stopped }
    }
}

impl DisplayAs for Stoppable {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Stoppable")
    }
}

// It has no metrics: Ballista counts on those of the plan that it knows.
impl ExecutionPlan for Stoppable {
    fn name(&self) -> &str {
        "Stoppable"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(Stoppable { input, stopped: self.stopped.clone() })),
            _ => internal_err!("a source that can be stopped has one input"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        let (schema, stopped) = (rows.schema(), self.stopped.clone());
        let rows = rows.map(move |batch| match &*stopped.borrow() {
            Some(why) => Err(stopped_by(why)),
            None => batch,
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}
