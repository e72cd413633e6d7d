//! Checks with `/proc` whether a task that seems to wait is runnable and has not run: without this no task is reported as starving.

use std::collections::BTreeMap;
use std::fs;

use unstarve_model::{Nanos, Tid, Time};

use crate::engine::proc::is_runnable;

/// Maximum tasks that are checked repeatedly.
const MAX_CHECKED_TASKS: usize = 256;

/// A wait according to events: the task and the start of its wait.
pub type Claim = (Tid, Time);

/// What was read of tasks while they seemed to wait.
#[derive(Clone, Debug, Default)]
pub struct SchedstatCheck {
    first: BTreeMap<Claim, Ran>,
}

/// How much a task has run so far: while it waits, this does not change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ran {
    /// CPU time as far as it is accounted: at each tick, and when the task leaves the CPU.
    time: u64,
    /// Number of times the task got a CPU.
    count: u64,
}

impl SchedstatCheck {
    /// Sets the tasks that seem to wait now. What was read when a wait was first seen is kept while it is in progress.
    pub fn hear(&mut self, claims: impl Iterator<Item = Claim>) {
        let mut before = std::mem::take(&mut self.first);
        for claim in claims.take(MAX_CHECKED_TASKS) {
            if let Some(ran) = before.remove(&claim).or_else(|| ran(claim.0)) {
                self.first.insert(claim, ran);
            }
        }
    }

    /// Whether `/proc` confirms the wait: the task is runnable and has not run since the wait was first seen. `None` if that cannot be read.
    pub fn agrees(&self, claim: Claim) -> Option<bool> {
        let runnable = is_runnable(claim.0)?;
        let first = self.first.get(&claim);
        Some(runnable && first.is_none_or(|first| ran(claim.0).is_none_or(|now| now == *first)))
    }

    /// Whether `/proc` confirms any wait of the task that was passed to `hear`.
    pub fn agrees_on(&self, tid: Tid) -> Option<bool> {
        let claim = self.first.range((tid, Time(0))..).next().map(|(claim, _)| *claim);
        self.agrees(claim.filter(|(known, _)| *known == tid).unwrap_or((tid, Time(0))))
    }
}

/// The three numbers of `schedstat` (Documentation/scheduler/sched-stats.rst): CPU time, waiting time, number of times it got a CPU.
fn schedstat(tid: Tid) -> Option<[u64; 3]> {
    let text = fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some([next()?, next()?, next()?])
}

fn ran(tid: Tid) -> Option<Ran> {
    schedstat(tid).map(|[time, _, count]| Ran { time, count })
}

/// Total length of a thread's finished waits.
pub fn waited(tid: Tid) -> Option<Nanos> {
    // A kernel without CONFIG_SCHED_INFO prints zeros: it does not account for waits.
    schedstat(tid).filter(|[time, waited, _]| (*time, *waited) != (0, 0)).map(|[_, waited, _]| Nanos(waited))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tid() -> Tid {
        Tid(u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).unwrap_or_default())
    }

    #[test]
    fn who_runs_or_sleeps_does_not_wait() {
        // According to the claim this thread waits; it runs, which the kernel accounts for at a tick.
        let claim = (tid(), Time(5));
        let mut check = SchedstatCheck::default();
        check.hear([claim].into_iter());
        if check.first.is_empty() {
            unstarve_testing::not_possible_here("no schedstat here");
            return;
        }
        let begun = std::time::Instant::now();
        while check.agrees(claim) == Some(true) && begun.elapsed().as_secs() < 20 {
            std::hint::spin_loop();
        }
        assert_eq!(check.agrees(claim), Some(false), "it ran");
        check.hear([claim].into_iter());
        assert_eq!(check.agrees_on(claim.0), Some(false), "what was read first stays while the claim does");
        check.hear(std::iter::empty());
        assert!(check.first.is_empty(), "nothing is kept of waits that are over");
        // A task that sleeps.
        let (sender, receiver) = std::sync::mpsc::channel();
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            sender.send(tid()).expect("somebody listens");
            let _ = ends.recv();
        });
        let sleeper = receiver.recv().expect("its number");
        let begun = std::time::Instant::now();
        while check.agrees((sleeper, Time(1))) != Some(false) && begun.elapsed().as_secs() < 20 {
            std::thread::yield_now();
        }
        assert_eq!(check.agrees((sleeper, Time(1))), Some(false), "it sleeps");
        drop(end);
        thread.join().expect("ended");
        // Who joins hears of the end before the kernel has ended the task.
        let begun = std::time::Instant::now();
        while check.agrees((sleeper, Time(1))) != Some(false) && begun.elapsed().as_secs() < 20 {
            std::thread::yield_now();
        }
        assert_eq!(check.agrees((sleeper, Time(1))), Some(false), "it is gone");
    }
}
