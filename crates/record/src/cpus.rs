//! Detects CPUs that do not run ordinary tasks at the moment.
//!
//! On a CPU that a real-time task monopolises, nothing ordinary runs: neither the kernel worker that enlarges that
//! CPU's event buffer (`ring_buffer_resize()` in kernel/trace/ring_buffer.c waits for work on each CPU), nor a thread
//! of ours that happens to be there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, getpriority_process, setpriority_process};
use rustix::thread::{CpuSet, MembarrierCommand, gettid, membarrier, sched_getaffinity, sched_setaffinity};

/// How long to wait for the first sign of each CPU.
const FIRST_SIGN_TIMEOUT: Duration = Duration::from_millis(8);

/// How often a CPU's thread shows that it runs.
const SIGN_INTERVAL: Duration = Duration::from_millis(2);

/// How much time may be spent on buffers of full size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SetUpSpeed {
    /// Start at once: the events happening now are wanted.
    Fast,
    /// Recording goes on for days: a CPU that is merely busy gets the requested buffer size.
    Thorough,
}

impl SetUpSpeed {
    /// For how long CPUs are watched at least, so that a real-time task that sleeps between two bursts is noticed.
    const fn watch(self) -> Duration {
        Duration::from_millis(match self {
            SetUpSpeed::Fast => 40,
            SetUpSpeed::Thorough => 400,
        })
    }

    /// How long an RCU grace period may take. Idle machines need 10 to 30 ms.
    const fn grace(self) -> Duration {
        Duration::from_millis(match self {
            SetUpSpeed::Fast => 40,
            SetUpSpeed::Thorough => 400,
        })
    }

    /// A CPU whose thread has not run for this long counts as starving. With half a dozen ordinary tasks competing,
    /// each gets to run within the first of these times; with a hundred, within the second.
    pub(crate) const fn late(self) -> Duration {
        Duration::from_millis(match self {
            SetUpSpeed::Fast => 25,
            SetUpSpeed::Thorough => 250,
        })
    }
}

/// The CPUs that are online. A recording covers those that are online when it begins.
pub(crate) fn online() -> Vec<u32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    match text.trim().parse::<unstarve_model::CpuSet>() {
        Ok(cpus) if !text.trim().is_empty() => cpus.iter().map(|cpu| cpu.0).collect(),
        _ => (0..std::thread::available_parallelism().map_or(1, |count| count.get() as u32)).collect(),
    }
}

/// The union of two lists, sorted.
pub(crate) fn union_of(cpus: &[u32], more: &[u32]) -> Vec<u32> {
    cpus.iter().chain(more).copied().collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

/// Threads of ours, one on each CPU, that keep showing whether they get to run.
pub(crate) struct CpuProbes {
    probes: Vec<Arc<ProbeState>>,
    began: Instant,
    speed: SetUpSpeed,
}

/// What one thread shows. Times are microseconds since the start.
#[derive(Debug)]
struct ProbeState {
    cpu: u32,
    last: AtomicU64,
    longest_gap: AtomicU64,
    /// Whether it has ever run there.
    seen: AtomicBool,
    tid: AtomicI32,
    /// Whether it has stopped: it is no longer needed, or may not move to its CPU, so that it shows nothing.
    over: AtomicBool,
}

impl CpuProbes {
    /// Starts a thread on each of `cpus`.
    pub(crate) fn start(cpus: &[u32], speed: SetUpSpeed) -> CpuProbes {
        let began = Instant::now();
        let probes = cpus.iter().filter_map(|&cpu| {
            let probe = Arc::new(ProbeState {
                cpu,
                last: AtomicU64::new(micros(began.elapsed())),
                longest_gap: AtomicU64::new(0),
                seen: AtomicBool::new(false),
                tid: AtomicI32::new(0),
                over: AtomicBool::new(false),
            });
            let shown = Arc::clone(&probe);
            let thread = std::thread::Builder::new().name("unstarve-record".into()).stack_size(64 << 10);
            thread.spawn(move || shown.show(began)).ok().map(|_| probe)
        });
        CpuProbes { probes: probes.collect(), began, speed }
    }

    /// The CPUs on which no thread has run yet.
    pub(crate) fn absent(&self) -> Vec<u32> {
        let absent = || {
            let not_seen =
                |probe: &&Arc<ProbeState>| !probe.seen.load(Ordering::Relaxed) && !probe.over.load(Ordering::Relaxed);
            self.probes.iter().filter(not_seen).map(|probe| probe.cpu).collect::<Vec<u32>>()
        };
        while !absent().is_empty() && self.began.elapsed() < FIRST_SIGN_TIMEOUT {
            std::thread::sleep(Duration::from_micros(200));
        }
        absent()
    }

    /// The CPUs that kept a thread waiting. Threads still on them are moved away: one that never runs could not exit
    /// either, and would keep this process from exiting.
    pub(crate) fn silent(self) -> Vec<u32> {
        std::thread::sleep(self.speed.watch().saturating_sub(self.began.elapsed()));
        let now = micros(self.began.elapsed());
        let late = |probe: &&Arc<ProbeState>| {
            let gap =
                now.saturating_sub(probe.last.load(Ordering::Relaxed)).max(probe.longest_gap.load(Ordering::Relaxed));
            !probe.over.load(Ordering::Relaxed) && gap > micros(self.speed.late())
        };
        let late: Vec<&Arc<ProbeState>> = self.probes.iter().filter(late).collect();
        let silent: Vec<u32> = late.iter().map(|probe| probe.cpu).collect();
        self.probes.iter().for_each(|probe| probe.over.store(true, Ordering::Relaxed));
        if let Some(others) = without(&silent) {
            for probe in late {
                // 0 would mean the calling thread.
                if let Some(tid) = Pid::from_raw(probe.tid.load(Ordering::Relaxed)) {
                    let _ = sched_setaffinity(Some(tid), &others);
                }
            }
        }
        silent
    }
}

impl ProbeState {
    fn show(&self, began: Instant) {
        self.tid.store(gettid().as_raw_nonzero().get(), Ordering::Relaxed);
        // The priority of the kernel's workers.
        let _ = setpriority_process(None, 0);
        let mut only = CpuSet::new();
        if self.cpu as usize >= CpuSet::MAX_CPU {
            return self.over.store(true, Ordering::Relaxed);
        }
        only.set(self.cpu as usize);
        if sched_setaffinity(None, &only).is_err() {
            return self.over.store(true, Ordering::Relaxed);
        }
        while !self.over.load(Ordering::Relaxed) {
            let now = micros(began.elapsed());
            let gap = now.saturating_sub(self.last.swap(now, Ordering::Relaxed));
            self.longest_gap.fetch_max(gap, Ordering::Relaxed);
            self.seen.store(true, Ordering::Relaxed);
            std::thread::sleep(SIGN_INTERVAL);
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The CPUs that this thread may use, minus `cpus`; `None` if that leaves none.
fn without(cpus: &[u32]) -> Option<CpuSet> {
    let mut allowed = sched_getaffinity(None).ok()?;
    for &cpu in cpus.iter().filter(|cpu| (**cpu as usize) < CpuSet::MAX_CPU) {
        allowed.unset(cpu as usize);
    }
    (allowed.count() > 0).then_some(allowed)
}

/// Tests whether RCU grace periods end at the moment. They do not if a CPU leaves its softirqs to a ksoftirqd that does
/// not get to run (seen on 6.1). Much of tracefs then waits for them, without a limit and without reacting to signals.
///
/// `MEMBARRIER_CMD_GLOBAL` is `synchronize_rcu()` (kernel/sched/membarrier.c).
pub(crate) struct GracePeriod {
    ended: Receiver<bool>,
    until: Instant,
}

impl GracePeriod {
    pub(crate) fn begin(speed: SetUpSpeed) -> GracePeriod {
        let (sender, ended) = channel();
        let wait = move || {
            let _ = sender.send(membarrier(MembarrierCommand::Global).is_ok());
        };
        let _ = std::thread::Builder::new().name("unstarve-record".into()).stack_size(64 << 10).spawn(wait);
        GracePeriod { ended, until: Instant::now() + speed.grace() }
    }

    /// Whether it ended in time; `None` if this kernel does not support the test (with `nohz_full`).
    pub(crate) fn has_ended(self) -> Option<bool> {
        match self.ended.recv_timeout(self.until.saturating_duration_since(Instant::now())) {
            Ok(true) => Some(true),
            Ok(false) | Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => Some(false),
        }
    }
}

/// The nice value of [`PriorityBoost`].
const BOOSTED_NICE: i32 = -20;

/// Raises the nice priority of the calling thread, and of the threads it starts, above ordinary tasks.
pub(crate) struct PriorityBoost {
    before: i32,
}

impl PriorityBoost {
    pub(crate) fn raise() -> Option<PriorityBoost> {
        let before = getpriority_process(None).ok()?;
        setpriority_process(None, BOOSTED_NICE).ok().map(|()| PriorityBoost { before })
    }

    /// Runs `work` with the original priority, which it may inherit.
    pub(crate) fn pause<T>(&self, work: impl FnOnce() -> T) -> T {
        let _ = setpriority_process(None, self.before);
        let result = work();
        let _ = setpriority_process(None, BOOSTED_NICE);
        result
    }
}

impl Drop for PriorityBoost {
    fn drop(&mut self) {
        let _ = setpriority_process(None, self.before);
    }
}

/// Moves the calling thread, and the threads it starts, off CPUs on which it would not run.
pub(crate) struct CpuAvoidance {
    before: CpuSet,
    now: CpuSet,
}

impl CpuAvoidance {
    /// `None` if there are no such CPUs, or no others to run on.
    pub(crate) fn from(cpus: &[u32]) -> Option<CpuAvoidance> {
        if cpus.is_empty() {
            return None;
        }
        let away = CpuAvoidance { before: sched_getaffinity(None).ok()?, now: without(cpus)? };
        away.go();
        Some(away)
    }

    fn go(&self) {
        let _ = sched_setaffinity(None, &self.now);
    }

    /// Runs `work` with the original affinity, which it may inherit.
    pub(crate) fn pause<T>(&self, work: impl FnOnce() -> T) -> T {
        let _ = sched_setaffinity(None, &self.before);
        let result = work();
        self.go();
        result
    }
}

impl Drop for CpuAvoidance {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_that_came_and_cpus_that_went_are_both_there_once() {
        assert_eq!(union_of(&[0, 2], &[0, 1, 3]), [0, 1, 2, 3]);
        assert_eq!(union_of(&[0, 1], &[]), [0, 1]);
    }

    #[test]
    fn cpus_that_run_ordinary_tasks_answer() {
        // Another test may monopolise a CPU for a moment, but hardly thirty times.
        let cpus = online();
        assert!(!cpus.is_empty());
        assert!((0..30).any(|_| CpuProbes::start(&cpus, SetUpSpeed::Fast).silent().is_empty()));
    }

    #[test]
    fn a_cpu_that_does_not_exist_says_nothing_about_itself() {
        assert_eq!(CpuProbes::start(&[100_000], SetUpSpeed::Fast).silent(), [0_u32; 0]);
    }

    #[test]
    fn a_priority_boost_ends() {
        let before = getpriority_process(None).expect("a priority");
        if let Some(boost) = PriorityBoost::raise() {
            assert_eq!(boost.pause(|| getpriority_process(None)).expect("a priority"), before);
            assert_eq!(getpriority_process(None).expect("a priority"), BOOSTED_NICE);
            drop(boost);
        }
        assert_eq!(getpriority_process(None).expect("a priority"), before);
    }

    #[test]
    fn a_thread_goes_away_and_comes_back() {
        let before = sched_getaffinity(None).expect("a set");
        if before.count() < 2 {
            return; // There is no other CPU.
        }
        let first = (0..CpuSet::MAX_CPU).find(|cpu| before.is_set(*cpu)).expect("one");
        let away = CpuAvoidance::from(&[first as u32]).expect("somewhere else");
        assert!(!sched_getaffinity(None).expect("a set").is_set(first));
        away.pause(|| assert_eq!(sched_getaffinity(None).expect("a set"), before));
        assert!(!sched_getaffinity(None).expect("a set").is_set(first));
        drop(away);
        assert_eq!(sched_getaffinity(None).expect("a set"), before);
        assert!(CpuAvoidance::from(&[]).is_none());
    }
}
