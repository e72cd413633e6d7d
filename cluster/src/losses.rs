//! A query that loses an executor ends with an error. Ballista would make its rows again, and has given some of them twice
//! (docs/decisions/0410-a-query-that-loses-an-executor-ends.md).

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ballista_core::JobId;
use ballista_core::serde::protobuf::ExecutorHeartbeat;
use ballista_core::serde::protobuf::executor_status::Status;
use ballista_scheduler::cluster::{BallistaCluster, ClusterState, JobState};

/// How often is looked.
const LOOK: Duration = Duration::from_millis(200);

/// Executors and queries, as the scheduler knows them.
pub struct Losses {
    executors: Arc<dyn ClusterState>,
    jobs: Arc<dyn JobState>,
    /// One that was silent for so many seconds is lost.
    silent: u64,
}

impl Losses {
    /// Of the cluster that a scheduler is made with.
    pub fn of(cluster: &BallistaCluster, silent: u64) -> Losses {
        Losses { executors: cluster.cluster_state(), jobs: cluster.job_state(), silent }
    }

    /// Gives up all queries each time that an executor is lost. Never ends.
    pub async fn watch(self, give_up: impl AsyncFn(JobId)) {
        let mut before = BTreeSet::new();
        loop {
            let live = live(&self.executors.executor_heartbeats(), now(), self.silent);
            if before.difference(&live).next().is_some() {
                for job in self.going().await {
                    give_up(job).await;
                }
            }
            before = live;
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Queries that have not ended.
    async fn going(&self) -> Vec<JobId> {
        let (all, ended) = (self.jobs.get_all_jobs().await, self.jobs.get_jobs().await);
        let (all, ended) = (all.unwrap_or_default(), ended.unwrap_or_default());
        all.into_iter().filter(|job| !ended.contains(job)).collect()
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Those that have asked for work within so many seconds.
fn live(beats: &HashMap<String, ExecutorHeartbeat>, now: u64, silent: u64) -> BTreeSet<String> {
    let is_live = |beat: &ExecutorHeartbeat| {
        let status = beat.status.as_ref().and_then(|status| status.status.as_ref());
        let is_gone = matches!(status, Some(Status::Dead(_) | Status::Terminating(_)));
        !is_gone && beat.timestamp.saturating_add(silent) > now
    };
    beats.iter().filter(|(_, beat)| is_live(beat)).map(|(id, _)| id.clone()).collect()
}

#[cfg(test)]
mod tests {
    use ballista_core::serde::protobuf::ExecutorStatus;

    use super::*;

    #[test]
    fn an_executor_is_lost_that_is_silent_or_says_that_it_goes() {
        let beat = |timestamp, status| ExecutorHeartbeat {
            timestamp,
            status: Some(ExecutorStatus { status }),
            ..ExecutorHeartbeat::default()
        };
        let beats = HashMap::from([
            ("asks".to_owned(), beat(100, Some(Status::Active(String::new())))),
            ("asked".to_owned(), beat(86, None)),
            ("silent".to_owned(), beat(85, None)),
            ("dead".to_owned(), beat(100, Some(Status::Dead(String::new())))),
            ("goes".to_owned(), beat(100, Some(Status::Terminating(String::new())))),
        ]);
        let found: Vec<String> = live(&beats, 100, 15).into_iter().collect();
        assert_eq!(found, ["asked", "asks"]);
    }
}
