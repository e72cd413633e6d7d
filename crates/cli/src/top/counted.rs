//! `top` with rows of roles, counted by the watch's engine in the kernel.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Result;
use unstarve_model::{Comm, Nanos, Tid};
use unstarve_top::{App, Counted, CountedLook, View};
use unstarve_watch::{Engine, EngineError, SchedstatCheck, waited};

use super::feed::{Feed, OwnCpuUsage, real_time_policy};

/// The engine is read this often; ongoing waits are visible only in a reading.
const READING_INTERVAL: Duration = Duration::from_millis(250);

/// How long the last reading is shown if the next one fails: a busy machine may not have time to copy sums.
const KEEP_LAST_READING: Duration = Duration::from_secs(5);

/// This machine, counted by the watch's engine.
pub struct CountedFeed {
    engine: Box<dyn Engine>,
    counted: Counted,
    check: SchedstatCheck,
    looked: Option<Instant>,
    failing: Option<Instant>,
    began: Instant,
    own: OwnCpuUsage,
}

impl CountedFeed {
    pub fn new(engine: Box<dyn Engine>, window: Nanos) -> CountedFeed {
        let counted = Counted::new(window);
        CountedFeed {
            engine,
            counted,
            check: SchedstatCheck::default(),
            looked: None,
            failing: None,
            began: Instant::now(),
            own: OwnCpuUsage::new(),
        }
    }

    fn look(&mut self) -> Result<()> {
        let reading = match self.engine.read() {
            Ok(reading) => reading,
            Err(EngineError::Read { .. })
                if self.failing.get_or_insert_with(Instant::now).elapsed() < KEEP_LAST_READING =>
            {
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        self.failing = None;
        let mut reading = reading.without_occupant(Tid(std::process::id()));
        let at = reading.at.trace;
        let claim = |wait: &unstarve_watch::OldestWait| (wait.task.tid, at - wait.ns);
        self.check.hear(reading.oldest.iter().map(claim));
        reading.oldest.retain(|wait| self.check.agrees(claim(wait)) != Some(false));
        self.counted.add(CountedLook { reading, cpus: cpus() }, &waited);
        Ok(())
    }
}

/// Busy and total time of each CPU, in ticks; empty if `/proc/stat` lacks them.
fn cpus() -> Vec<(u32, u64, u64)> {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    text.lines().filter_map(cpu).collect()
}

/// `cpu3 user nice system idle iowait irq softirq steal …` (proc_stat(5)); user includes guests' time.
fn cpu(line: &str) -> Option<(u32, u64, u64)> {
    let (number, times) = line.strip_prefix("cpu")?.split_once(' ')?;
    let times: Vec<u64> = times.split_ascii_whitespace().take(8).map_while(|time| time.parse().ok()).collect();
    let total: u64 = times.iter().sum();
    let idle: u64 = times.get(3)? + times.get(4)?;
    Some((number.parse().ok()?, total.saturating_sub(idle), total))
}

impl Feed for CountedFeed {
    fn advance(&mut self, _: Duration) -> Result<bool> {
        if self.looked.is_none_or(|looked| looked.elapsed() >= READING_INTERVAL) {
            self.looked = Some(Instant::now());
            self.look()?;
        }
        Ok(true)
    }

    fn is_live(&self) -> bool {
        true
    }

    fn has_reached(&self, to: Duration) -> bool {
        self.began.elapsed() >= to
    }

    fn view(&mut self, app: &App) -> View {
        let view = View::counted(&self.counted, app, self.engine.name(), &waited);
        View { own_cpu: Some(self.own.part()), ..view.with_policies(&real_time_policy) }
    }

    fn name(&self, tid: Tid) -> Option<Comm> {
        self.counted.name(tid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_not_busy() {
        assert_eq!(cpu("cpu3 10 1 5 100 20 2 3 4 7 0"), Some((3, 25, 145)));
        assert_eq!(cpu("cpu  10 1 5 100 20 2 3 4 7 0"), None, "all CPUs together are none");
        assert_eq!(cpu("intr 5"), None);
    }
}
