//! Raises the priority of a thread for a short time, if permitted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, getpriority_process, setpriority_process};
use unstarve_executor::sched;
use unstarve_model::Tid;

/// The calling thread.
const SELF: Tid = Tid(0);

/// The highest priority of SCHED_OTHER.
const BOOSTED_NICE: i32 = -20;

/// Length of a boost in turns.
const TURN: Duration = Duration::from_millis(3);
/// Pause between boosts. A worker with continuous work loses less than the `share` (0.3) that would begin an episode.
const OTHERS: Duration = Duration::from_millis(9);

/// Raises this thread's priority above that of other SCHED_OTHER tasks. Threads and programs started meanwhile begin at nice 0.
///
/// For work of a few milliseconds: a task of nice 0 on the same CPU, for example a per-CPU kernel worker, gets only a hundredth of the CPU
/// meanwhile.
pub(crate) struct PriorityBoost {
    before: i32,
    had_reset: bool,
}

impl PriorityBoost {
    pub(crate) fn raise() -> Option<PriorityBoost> {
        let before = getpriority_process(None).ok()?;
        let had_reset = sched::read(SELF).ok()?.reset_on_fork;
        sched::set_reset_on_fork(SELF, true).ok()?;
        let boost = PriorityBoost { before, had_reset };
        setpriority_process(None, BOOSTED_NICE).ok().map(|()| boost)
    }
}

impl Drop for PriorityBoost {
    fn drop(&mut self) {
        let _ = setpriority_process(None, self.before);
        if !self.had_reset {
            let _ = sched::set_reset_on_fork(SELF, false);
        }
    }
}

/// The same for longer work: for three quarters of the time this thread has its usual nice value, so that waiting tasks run.
pub(crate) struct PriorityBoostInTurns {
    /// Stopped first.
    pacer: Option<JoinHandle<()>>,
    over: Arc<AtomicBool>,
    _boost: PriorityBoost,
}

impl PriorityBoostInTurns {
    pub(crate) fn raise() -> Option<PriorityBoostInTurns> {
        let boost = PriorityBoost::raise()?;
        let over = Arc::new(AtomicBool::new(false));
        let (before, is_over, who) = (boost.before, Arc::clone(&over), rustix::thread::gettid());
        let pace = move || take_turns(who, before, &is_over);
        let pacer = std::thread::Builder::new().name("unstarve-pacer".into()).spawn(pace).ok()?;
        Some(PriorityBoostInTurns { pacer: Some(pacer), over, _boost: boost })
    }
}

impl Drop for PriorityBoostInTurns {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(pacer) = self.pacer.take() {
            pacer.thread().unpark();
            let _ = pacer.join();
        }
    }
}

/// Starts when the thread has just been boosted.
fn take_turns(who: Pid, before: i32, over: &AtomicBool) {
    // The thread that alternates must get the CPU itself.
    let _ = setpriority_process(None, BOOSTED_NICE);
    for (after, nice) in [(TURN, before), (OTHERS, BOOSTED_NICE)].into_iter().cycle() {
        std::thread::park_timeout(after);
        if over.load(Ordering::Relaxed) {
            return;
        }
        let _ = setpriority_process(Some(who), nice);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use rustix::time::{ClockId, clock_gettime};

    use super::*;

    fn nice() -> i32 {
        getpriority_process(None).expect("known")
    }

    fn of_thread() -> i32 {
        std::thread::spawn(nice).join().expect("it ends")
    }

    #[test]
    fn who_hurries_does_so_for_a_while() {
        let before = nice();
        let Some(boost) = PriorityBoost::raise() else { return };
        assert_eq!((nice(), of_thread()), (-20, 0), "what is started meanwhile has nothing of it");
        drop(boost);
        assert_eq!((nice(), of_thread()), (before, before));
        let boost = PriorityBoostInTurns::raise().expect("as before");
        assert_eq!(of_thread(), 0, "nor has it here");
        drop(boost);
        assert_eq!((nice(), of_thread()), (before, before));
    }

    fn cpu_time() -> Duration {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    fn spin_until(over: impl Fn() -> bool) -> Duration {
        let before = cpu_time();
        while !over() {
            std::hint::spin_loop();
        }
        cpu_time() - before
    }

    /// The share of the CPU that a task of nice 0 gets next to 200 ms of a boosted one.
    fn left_beside<T>(boost: impl Fn() -> Option<T>) -> Option<f64> {
        let first = sched::affinity(SELF).ok()?.iter().next()?;
        sched::set_affinity(SELF, &[first].into_iter().collect()).ok()?;
        setpriority_process(None, 0).ok()?;
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let other = std::thread::spawn(move || spin_until(|| is_over.load(Ordering::Relaxed)));
        let boosted = boost()?;
        let (cpu, long) = (cpu_time(), Instant::now());
        let own =
            spin_until(|| cpu_time() - cpu >= Duration::from_millis(200) || long.elapsed() > Duration::from_secs(60));
        over.store(true, Ordering::Relaxed);
        drop(boosted);
        let other = other.join().expect("it ends");
        Some(other.as_secs_f64() / (other + own).as_secs_f64())
    }

    #[test]
    fn who_hurries_for_long_leaves_others_their_turns() {
        let beside = |in_turns: bool| {
            let measure = move || match in_turns {
                true => left_beside(PriorityBoostInTurns::raise),
                false => left_beside(PriorityBoost::raise),
            };
            // Its affinity and nice value end with the thread.
            std::thread::spawn(measure).join().expect("it ends")
        };
        let (Some(turns), Some(none)) = (beside(true), beside(false)) else { return };
        assert!(turns > 0.05 && turns > 2.0 * none, "{turns:.3} of the CPU in turns, {none:.3} without");
    }
}
