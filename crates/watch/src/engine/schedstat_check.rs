//! What the kernel itself says of a task that seems to wait: without its word nobody is called starving.

use std::collections::BTreeMap;
use std::fs;

use unstarve_model::{Nanos, Tid, Time};

use crate::engine::proc::is_runnable;

/// Tasks that are asked about again and again.
const MAX_CHECKED_TASKS: usize = 256;

/// A wait, as events tell it.
pub type Claim = (Tid, Time);

/// What was read of tasks while they seemed to wait.
#[derive(Clone, Debug, Default)]
pub struct Word {
    first: BTreeMap<Claim, Ran>,
}

/// How a task has run so far: a task that waits does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ran {
    /// Its CPU time, as far as it is accounted: at each tick, and when it leaves the CPU.
    time: u64,
    /// How often it got a CPU.
    count: u64,
}

impl Word {
    /// Those who seem to wait now. What is read of a wait when it is first seen is kept while it lasts.
    pub fn hear(&mut self, claims: impl Iterator<Item = Claim>) {
        let mut before = std::mem::take(&mut self.first);
        for claim in claims.take(MAX_CHECKED_TASKS) {
            if let Some(ran) = before.remove(&claim).or_else(|| ran(claim.0)) {
                self.first.insert(claim, ran);
            }
        }
    }

    /// Whether the kernel agrees that it waits: it is runnable, and has not run since the wait was first seen. Nothing if it does
    /// not say.
    pub fn agrees(&self, claim: Claim) -> Option<bool> {
        let runnable = is_runnable(claim.0)?;
        let first = self.first.get(&claim);
        Some(runnable && first.is_none_or(|first| ran(claim.0).is_none_or(|now| now == *first)))
    }

    /// Whether it agrees that the task waits, by whatever wait of it was heard of.
    pub fn agrees_on(&self, tid: Tid) -> Option<bool> {
        let claim = self.first.range((tid, Time(0))..).next().map(|(claim, _)| *claim);
        self.agrees(claim.filter(|(known, _)| *known == tid).unwrap_or((tid, Time(0))))
    }
}

/// The three numbers of `schedstat` (Documentation/scheduler/sched-stats.rst): time on a CPU, time waited, times it got one.
fn schedstat(tid: Tid) -> Option<[u64; 3]> {
    let text = fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some([next()?, next()?, next()?])
}

fn ran(tid: Tid) -> Option<Ran> {
    schedstat(tid).map(|[time, _, count]| Ran { time, count })
}

/// How long a thread has waited in all, waits that are over.
pub fn waited(tid: Tid) -> Option<Nanos> {
    // A kernel without CONFIG_SCHED_INFO prints zeros: it does not account for this.
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
        // Events say of this thread that it waits; it runs, which the kernel accounts for at a tick.
        let claim = (tid(), Time(5));
        let mut word = Word::default();
        word.hear([claim].into_iter());
        if word.first.is_empty() {
            unstarve_testing::not_possible_here("no schedstat here");
            return;
        }
        let begun = std::time::Instant::now();
        while word.agrees(claim) == Some(true) && begun.elapsed().as_secs() < 20 {
            std::hint::spin_loop();
        }
        assert_eq!(word.agrees(claim), Some(false), "it ran");
        word.hear([claim].into_iter());
        assert_eq!(word.agrees_on(claim.0), Some(false), "what was read first stays while the claim does");
        word.hear(std::iter::empty());
        assert!(word.first.is_empty(), "nothing is kept of waits that are over");
        // One that sleeps.
        let (sender, receiver) = std::sync::mpsc::channel();
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            sender.send(tid()).expect("somebody listens");
            let _ = ends.recv();
        });
        let sleeper = receiver.recv().expect("its number");
        let begun = std::time::Instant::now();
        while word.agrees((sleeper, Time(1))) != Some(false) && begun.elapsed().as_secs() < 20 {
            std::thread::yield_now();
        }
        assert_eq!(word.agrees((sleeper, Time(1))), Some(false), "it sleeps");
        drop(end);
        thread.join().expect("ended");
        assert_eq!(word.agrees((sleeper, Time(1))), Some(false), "it is gone");
    }
}
