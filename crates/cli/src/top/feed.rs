//! The sources of `top`: this machine or a recording.

use std::time::{Duration, Instant};

use anyhow::Result;
use unstarve_host::SchedAttr;
use unstarve_model::{Comm, Policy, SchedPolicy, Tid};
use unstarve_top::{App, View};

/// A source of events.
pub trait Feed {
    /// Takes what happened until `to`, on the feed's own clock, which starts at zero.
    ///
    /// Returns whether more may come.
    fn advance(&mut self, to: Duration) -> Result<bool>;

    /// Whether it runs in real time, so that the caller has to wait.
    fn is_live(&self) -> bool;

    /// Whether everything up to `to` has been taken; for recordings.
    fn has_reached(&self, to: Duration) -> bool;

    /// The time of the next event, where it is known in advance.
    fn next_event(&self) -> Option<Duration> {
        None
    }

    /// The current view.
    fn view(&mut self, app: &App) -> View;

    /// The name of a living task.
    fn name(&self, tid: Tid) -> Option<Comm>;

    /// An error if nothing that was selected was seen: an empty answer must not look healthy.
    fn check_selection(&self) -> Result<()> {
        Ok(())
    }

    /// Prepares for rows of another kind.
    fn prepare(&mut self, _: &mut App) -> Result<()> {
        Ok(())
    }
}

/// The policy of a living real-time task of this machine: `FIFO 50`.
pub fn real_time_policy(tid: Tid) -> Option<String> {
    let attr = SchedAttr::of(tid).ok()?;
    let policy = SchedPolicy::from_number(attr.policy);
    (policy.class() == Some(Policy::Rt)).then(|| format!("{} {}", policy.word(), attr.priority))
}

/// The CPU time that this process uses.
pub struct OwnCpuUsage {
    began: Instant,
    before: Duration,
}

impl OwnCpuUsage {
    /// Starts measuring.
    pub fn new() -> OwnCpuUsage {
        OwnCpuUsage { began: Instant::now(), before: cpu_time() }
    }

    /// As a fraction of one CPU.
    pub fn part(&self) -> f64 {
        (cpu_time() - self.before).as_secs_f64() / self.began.elapsed().as_secs_f64().max(1e-3)
    }
}

/// The CPU time used so far.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.clamp(0, 999_999_999) as u32)
}
