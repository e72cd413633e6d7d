//! Tasks with limits: of time, of the space that all of them take, and only as long as somebody waits for them.
//!
//! A task that is stopped ends with an error and reads no further. Ballista starts parts of a task that do not end with it; these end at the next rows that they
//! read from a file, since that is what is stopped.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ballista_core::JobId;
use ballista_core::error::BallistaError;
use ballista_core::serde::protobuf::{RuntimeStatsReport, ShuffleWritePartition, TaskColumnStats, WindowStateReport};
use ballista_executor::execution_engine::{DefaultExecutionEngine, ExecutionEngine, QueryStageExecutor};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::prelude::SessionConfig;
use tokio::sync::watch;

use crate::stoppable::Stoppable;

/// Why a task is stopped, once it is.
pub type Why = Option<Arc<str>>;

/// The tasks that run.
#[derive(Default)]
pub struct Tasks {
    next: AtomicU64,
    running: Mutex<BTreeMap<u64, (JobId, watch::Sender<Why>)>>,
}

impl Tasks {
    fn running(&self) -> MutexGuard<'_, BTreeMap<u64, (JobId, watch::Sender<Why>)>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(self: &Arc<Self>, job: JobId) -> (Running, watch::Receiver<Why>) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = watch::channel(None);
        self.running().insert(number, (job, sender));
        (Running { tasks: Arc::clone(self), number }, receiver)
    }

    /// The queries that they are parts of.
    pub fn jobs(&self) -> BTreeSet<String> {
        self.running().values().map(|(job, _)| job.as_str().to_owned()).collect()
    }

    /// Stops those of a query; of all, if none is named.
    pub fn stop(&self, job: Option<&str>, why: &str) {
        for (of, sender) in self.running().values() {
            if job.is_none_or(|job| job == of.as_str()) {
                sender.send_replace(Some(why.into()));
            }
        }
    }
}

/// A task, as long as it runs.
struct Running {
    tasks: Arc<Tasks>,
    number: u64,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tasks.running().remove(&self.number);
    }
}

/// Ballista's engine, with limits.
pub struct Limited {
    engine: DefaultExecutionEngine,
    tasks: Arc<Tasks>,
    time: Duration,
}

impl Limited {
    /// For so long at most may a task run.
    pub fn new(tasks: Arc<Tasks>, time: Duration) -> Limited {
        Limited { engine: DefaultExecutionEngine::new(), tasks, time }
    }
}

impl ExecutionEngine for Limited {
    fn create_query_stage_exec(
        &self,
        job: JobId,
        stage: usize,
        task: usize,
        outputs: Vec<usize>,
        plan: Arc<dyn ExecutionPlan>,
        work: &str,
        config: &SessionConfig,
    ) -> Result<Arc<dyn QueryStageExecutor>> {
        let (running, stopped) = self.tasks.enter(job.clone());
        let stoppable = |plan: Arc<dyn ExecutionPlan>| {
            Ok(match plan.downcast_ref::<DataSourceExec>() {
                Some(_) => Transformed::yes(Arc::new(Stoppable::new(plan, stopped.clone())) as Arc<dyn ExecutionPlan>),
                None => Transformed::no(plan),
            })
        };
        let plan = plan.transform_up(stoppable)?.data;
        let inner = self.engine.create_query_stage_exec(job, stage, task, outputs, plan, work, config)?;
        Ok(Arc::new(Stage { inner, running, stopped, time: self.time }))
    }
}

/// A task of a query.
struct Stage {
    inner: Arc<dyn QueryStageExecutor>,
    running: Running,
    stopped: watch::Receiver<Why>,
    time: Duration,
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}

/// What a stopped task ends with.
pub fn stopped_by(why: &str) -> DataFusionError {
    DataFusionError::Execution(why.to_owned())
}

/// An error as its reader is shown it; Ballista would write the names of its types. What a scheduler decides by stays as it is.
fn in_words(error: DataFusionError) -> DataFusionError {
    if is_decided_by(&error) { error } else { stopped_by(&error.strip_backtrace()) }
}

/// What could not be read or written is tried again. Rows that cannot be fetched are not made again: some came twice
/// (docs/decisions/0410-a-query-that-loses-an-executor-ends.md).
fn is_decided_by(error: &DataFusionError) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        match error.downcast_ref::<BallistaError>() {
            Some(BallistaError::IoError(_) | BallistaError::Cancelled) => return true,
            Some(BallistaError::FetchFailed(..)) => return false,
            Some(BallistaError::DataFusionError(error)) => return is_decided_by(error),
            _ => {}
        }
        cause = error.source();
    }
    matches!(error.find_root(), DataFusionError::IoError(_))
}

/// Until it is stopped; for ever, if nobody can stop it any more.
async fn stop(mut stopped: watch::Receiver<Why>) -> DataFusionError {
    let why = stopped.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
    match why {
        Some(why) => stopped_by(&why),
        None => std::future::pending().await,
    }
}

#[async_trait]
impl QueryStageExecutor for Stage {
    async fn execute_query_stage(&self, task: usize, context: Arc<TaskContext>) -> Result<Vec<ShuffleWritePartition>> {
        tokio::select! {
            biased;
            error = stop(self.stopped.clone()) => Err(error),
            () = tokio::time::sleep(self.time) => {
                let why = format!("a task took longer than {:?} (--task-time of the executor)", self.time);
                if let Some((_, sender)) = self.running.tasks.running().get(&self.running.number) {
                    sender.send_replace(Some(why.as_str().into()));
                }
                Err(stopped_by(&why))
            }
            done = self.inner.execute_query_stage(task, context) => done.map_err(in_words),
        }
    }

    fn collect_plan_metrics(&self) -> Vec<MetricsSet> {
        self.inner.collect_plan_metrics()
    }

    fn collect_runtime_stats_reports(&self) -> Vec<RuntimeStatsReport> {
        self.inner.collect_runtime_stats_reports()
    }

    fn collect_window_state_reports(&self) -> Result<Vec<WindowStateReport>> {
        self.inner.collect_window_state_reports()
    }

    fn collect_column_stats(&self) -> Vec<TaskColumnStats> {
        self.inner.collect_column_stats()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_scheduler_decides_by_is_kept() {
        let io = || std::io::Error::other("disk");
        for decided in [
            DataFusionError::IoError(io()),
            DataFusionError::IoError(io()).context("of a sort"),
            BallistaError::IoError(io()).into_datafusion(),
        ] {
            assert!(is_decided_by(&decided), "{decided:?}");
        }
        let grpc = BallistaError::GrpcActionError("gone".to_owned()).into_datafusion();
        let store = object_store::Error::Generic { store: "files", source: io().into() };
        let fetch =
            BallistaError::FetchFailed("1".to_owned(), 1, 1, "gone".to_owned()).into_datafusion().context("of rows");
        for other in [grpc, fetch, store.into(), stopped_by("enough")] {
            let said = in_words(other);
            assert!(matches!(&said, DataFusionError::Execution(text) if !text.contains("Error(")), "{said:?}");
        }
    }

    #[tokio::test]
    async fn tasks_of_a_query_are_stopped_and_others_are_not() {
        let tasks = Arc::new(Tasks::default());
        let (one, first) = tasks.enter("one".into());
        let (_other, second) = tasks.enter("other".into());
        assert_eq!(tasks.jobs().into_iter().collect::<Vec<_>>(), ["one", "other"]);
        tasks.stop(Some("one"), "enough");
        assert!(stop(first).await.to_string().contains("enough"));
        assert!(second.borrow().is_none());
        tasks.stop(None, "all");
        assert!(stop(second).await.to_string().contains("all"));
        drop(one);
        assert_eq!(tasks.jobs().len(), 1);
    }
}
