use std::time::{Duration, Instant};

use anyhow::Result;
use unstarve_model::{Comm, Tid};
use unstarve_top::{App, View};

/// Where events come from: this machine, or a recording.
pub trait Feed {
    /// Takes what happened until `to`, counted from the beginning on the feed's own clock.
    ///
    /// Returns whether more may come.
    fn advance(&mut self, to: Duration) -> Result<bool>;

    /// Whether its clock is the machine's, so that it has to be waited for.
    fn is_live(&self) -> bool;

    /// Whether all up to `to` has been taken; for what is not live.
    fn has_reached(&self, to: Duration) -> bool;

    /// When the next event is, where that is known before it is taken.
    fn next_event(&self) -> Option<Duration> {
        None
    }

    /// What is shown now.
    fn view(&mut self, app: &App) -> View;

    /// The name of a living task.
    fn name(&self, tid: Tid) -> Option<Comm>;

    /// Makes ready for what is to be shown from now on.
    fn prepare(&mut self, _: &mut App) -> Result<()> {
        Ok(())
    }
}

/// What this process costs.
pub struct OwnCpuUsage {
    began: Instant,
    before: Duration,
}

impl OwnCpuUsage {
    /// From now on.
    pub fn new() -> OwnCpuUsage {
        OwnCpuUsage { began: Instant::now(), before: cpu_time() }
    }

    /// As a part of one CPU.
    pub fn part(&self) -> f64 {
        (cpu_time() - self.before).as_secs_f64() / self.began.elapsed().as_secs_f64().max(1e-3)
    }
}

/// What this process has used so far.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.clamp(0, 999_999_999) as u32)
}
