//! Tracks waits in progress: the kernel books a wait when it ends, and tracepoints show only changes. Without this a task that
//! is runnable and never gets a CPU would seem to do nothing.

use unstarve_change::TaskKey;
use unstarve_executor::proc;

/// A task that was runnable at the first look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Still {
    /// Time of the first look.
    since: u64,
    /// Its run time at the first look, in ns.
    ran: u64,
    /// Its known wait time since, in ns.
    pub waited: u64,
}

impl Still {
    pub(super) fn new(ran: u64, now: u64) -> Still {
        Still { since: now, ran, waited: 0 }
    }

    /// Another look: if it is runnable and has not run meanwhile, it waited all the time. On a CPU without ticks a running
    /// task's run time may be up to a second old (`sched_tick_remote`, kernel/sched/core.c): then it has not waited at all.
    pub(super) fn look(&mut self, runnable: Option<u64>, now: u64) {
        self.waited = match runnable {
            Some(ran) if ran == self.ran => now.saturating_sub(self.since),
            Some(_) => 0,
            None => self.waited,
        };
    }

    /// Time since the first look, in ns.
    pub(super) fn age(&self, now: u64) -> u64 {
        now.saturating_sub(self.since)
    }
}

/// Total run time of a task, if it is runnable or running now.
pub(super) fn runnable(task: TaskKey) -> Option<u64> {
    proc::stat_of(task.tid).filter(|stat| stat.start == task.start && stat.state == 'R')?;
    proc::times(task.tid).map(|(ran, ..)| ran)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_runnable_twice_and_did_not_run_waited() {
        let mut still = Still::new(7, 1_000);
        still.look(Some(7), 4_000);
        assert_eq!(still.waited, 3_000);
        // It ran and sleeps now: its earlier wait time stays.
        still.look(None, 9_000);
        assert_eq!(still.waited, 3_000);
        // It had the CPU all the time.
        still.look(Some(5_000), 9_000);
        assert_eq!(still.waited, 0);
    }
}
