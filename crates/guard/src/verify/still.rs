//! A wait that no sum has yet: the kernel books a wait when it ends, and the tracepoints show only what changes. A task that is
//! runnable and never gets a CPU would seem to have done nothing.

use unstarve_change::TaskKey;
use unstarve_executor::proc;

/// A task that was runnable at the first look at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Still {
    /// When that look was.
    since: u64,
    /// How long it had run by then, in ns.
    ran: u64,
    /// For how long it is known to have waited since, in ns.
    pub waited: u64,
}

impl Still {
    pub(super) fn new(ran: u64, now: u64) -> Still {
        Still { since: now, ran, waited: 0 }
    }

    /// Another look: runnable again and not having run meanwhile, it has waited all the time. On a CPU without ticks a running
    /// task seems to stand still for up to a second (`sched_tick_remote`, kernel/sched/core.c): then it has not waited at all.
    pub(super) fn look(&mut self, runnable: Option<u64>, now: u64) {
        self.waited = match runnable {
            Some(ran) if ran == self.ran => now.saturating_sub(self.since),
            Some(_) => 0,
            None => self.waited,
        };
    }

    /// How long ago the first look was, in ns.
    pub(super) fn age(&self, now: u64) -> u64 {
        now.saturating_sub(self.since)
    }
}

/// How long a task has run in all, if it runs or waits for a CPU now.
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
        // It has its turn and sleeps: what it waited until then stays.
        still.look(None, 9_000);
        assert_eq!(still.waited, 3_000);
        // It had the CPU all the time.
        still.look(Some(5_000), 9_000);
        assert_eq!(still.waited, 0);
    }
}
