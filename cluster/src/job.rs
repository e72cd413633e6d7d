//! A query that a cluster answers. Whoever does not wait for its end any more gives it up, and the cluster stops it.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use ballista_core::execution_plans::DistributedQueryExec;
use ballista_core::planner::BallistaQueryPlanner;
use ballista_core::serde::protobuf::CancelJobParams;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion_proto::protobuf::LogicalPlanNode;
use futures::Stream;
use tokio::task::JoinSet;
use tonic::transport::Channel;

use crate::words::words;

/// Queries, and the scheduler that they can be given up at.
#[derive(Clone)]
pub struct Jobs {
    client: SchedulerGrpcClient<Channel>,
    going: Arc<Mutex<JoinSet<()>>>,
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Jobs")
    }
}

impl Jobs {
    /// None yet.
    pub fn new(client: SchedulerGrpcClient<Channel>) -> Jobs {
        Jobs { client, going: Arc::default() }
    }

    fn give_up(&self, job: String) {
        let mut client = self.client.clone();
        let mut going = self.going.lock().unwrap_or_else(PoisonError::into_inner);
        going.spawn(async move {
            let asked = client.cancel_job(CancelJobParams { job_id: job });
            let _ = tokio::time::timeout(Duration::from_secs(2), asked).await;
        });
    }

    /// Until the scheduler knows of all that were given up, if it is there.
    pub async fn given_up(&self) {
        let going = std::mem::take(&mut *self.going.lock().unwrap_or_else(PoisonError::into_inner));
        going.join_all().await;
    }
}

type Distributed = DistributedQueryExec<LogicalPlanNode>;

/// Ballista's planner; what it sends to the cluster can be given up.
#[derive(Debug)]
pub struct Planner {
    planner: BallistaQueryPlanner<LogicalPlanNode>,
    jobs: Jobs,
}

impl Planner {
    /// Plans as this one does.
    pub fn new(planner: BallistaQueryPlanner<LogicalPlanNode>, jobs: Jobs) -> Planner {
        Planner { planner, jobs }
    }
}

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.planner.create_physical_plan(plan, session).await?;
        match plan.downcast_ref::<Distributed>() {
            Some(_) => Ok(Arc::new(Asked { plan, jobs: self.jobs.clone() })),
            None => Ok(plan),
        }
    }
}

/// A query that is sent.
#[derive(Debug)]
struct Asked {
    plan: Arc<dyn ExecutionPlan>,
    jobs: Jobs,
}

impl DisplayAs for Asked {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        self.plan.fmt_as(t, f)
    }
}

impl ExecutionPlan for Asked {
    fn name(&self) -> &str {
        "Asked"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.plan.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a query that is sent has no inputs") }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.plan.execute(partition, context)?;
        Ok(Box::pin(Answer { rows, plan: Arc::clone(&self.plan), jobs: self.jobs.clone(), is_over: false }))
    }
}

/// The rows of a query.
struct Answer {
    rows: SendableRecordBatchStream,
    plan: Arc<dyn ExecutionPlan>,
    jobs: Jobs,
    is_over: bool,
}

impl Stream for Answer {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let rows = self.rows.as_mut().poll_next(context);
        if let Poll::Ready(None | Some(Err(_))) = rows {
            self.is_over = true;
        }
        rows.map(|rows| rows.map(|batch| batch.map_err(plainly)))
    }
}

impl RecordBatchStream for Answer {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let job = self.plan.downcast_ref::<Distributed>().and_then(Distributed::job_id);
        if let Some(job) = job.filter(|_| !self.is_over) {
            self.jobs.give_up(job.into_inner());
        }
    }
}

/// An error of a cluster, without the names that Ballista's code has for its causes.
fn plainly(error: DataFusionError) -> DataFusionError {
    let text = match &error {
        DataFusionError::Execution(text) => text.clone(),
        _ => error.strip_backtrace(),
    };
    DataFusionError::Execution(words(&text))
}
