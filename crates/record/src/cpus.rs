//! The CPUs, and which of them run ordinary tasks at the moment.
//!
//! On a CPU that a real-time task keeps for itself nothing ordinary runs: not the kernel's worker that enlarges that CPU's
//! event buffer (`ring_buffer_resize()` in kernel/trace/ring_buffer.c waits for work that it schedules on each CPU), and not
//! a thread of ours that happens to be there.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, getpriority_process, setpriority_process};
use rustix::thread::{CpuSet, MembarrierCommand, gettid, membarrier, sched_getaffinity, sched_setaffinity};

/// How long a CPU has to show that it runs ordinary tasks, while other things are prepared. One where a dozen compete shows
/// it in that time.
const PATIENCE: Duration = Duration::from_millis(40);

/// How long it has when nothing is left to do but to wait for it.
const SHORT_PATIENCE: Duration = Duration::from_millis(15);

/// The CPUs to record. One that comes online later is not recorded: its switches would have no beginning.
pub(crate) fn online() -> Vec<u32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    match text.trim().parse::<unstarve_kernel::CpuSet>() {
        Ok(cpus) if !text.trim().is_empty() => cpus.iter().map(|cpu| cpu.0).collect(),
        _ => (0..std::thread::available_parallelism().map_or(1, |count| count.get() as u32)).collect(),
    }
}

/// Threads of ours, one on each CPU, each of which says when it comes to run.
pub(crate) struct RollCall {
    asked: Vec<u32>,
    answers: Receiver<Answer>,
    until: Instant,
}

enum Answer {
    /// Before it goes to its CPU.
    Sent { cpu: u32, tid: Pid },
    /// It ran there, or it may not go there and nothing can be said.
    Ran { cpu: u32 },
}

impl RollCall {
    /// Asks each of `cpus`.
    pub(crate) fn of(cpus: &[u32]) -> RollCall {
        RollCall::within(PATIENCE, cpus)
    }

    /// Asks each of `cpus` again, at once before something rests on it: where a real-time task leaves a twentieth of the time
    /// to others (RT throttling, the fair server of 6.12 and later), the first answer may have come in that twentieth.
    pub(crate) fn again(cpus: &[u32]) -> RollCall {
        RollCall::within(SHORT_PATIENCE, cpus)
    }

    fn within(patience: Duration, cpus: &[u32]) -> RollCall {
        let (sender, answers) = channel();
        for &cpu in cpus {
            let sender = sender.clone();
            let go = move || {
                let _ = sender.send(Answer::Sent { cpu, tid: gettid() });
                // As the kernel's workers.
                let _ = setpriority_process(None, 0);
                let mut only = CpuSet::new();
                if (cpu as usize) < CpuSet::MAX_CPU {
                    only.set(cpu as usize);
                    let _ = sched_setaffinity(None, &only);
                }
                let _ = sender.send(Answer::Ran { cpu });
            };
            let _ = std::thread::Builder::new().name("unstarve-record".into()).stack_size(64 << 10).spawn(go);
        }
        RollCall { asked: cpus.to_vec(), answers, until: Instant::now() + patience }
    }

    /// The CPUs that did not answer in time. The threads that were sent there are called back: one that never runs could
    /// not end either, and this process not without it.
    pub(crate) fn silent(self) -> Vec<u32> {
        let mut sent = Vec::new();
        let mut ran = Vec::new();
        loop {
            match self.answers.recv_timeout(self.until.saturating_duration_since(Instant::now())) {
                Ok(Answer::Sent { cpu, tid }) => sent.push((cpu, tid)),
                Ok(Answer::Ran { cpu }) => ran.push(cpu),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        let silent: Vec<u32> = self
            .asked
            .iter()
            .copied()
            .filter(|cpu| sent.iter().any(|(to, _)| to == cpu) && !ran.contains(cpu))
            .collect();
        if let Some(others) = without(&silent) {
            for (_, tid) in sent.iter().filter(|(cpu, _)| silent.contains(cpu)) {
                let _ = sched_setaffinity(Some(*tid), &others);
            }
        }
        silent
    }
}

/// The CPUs that this thread may use, less some; `None` if that leaves none.
fn without(cpus: &[u32]) -> Option<CpuSet> {
    let mut allowed = sched_getaffinity(None).ok()?;
    for &cpu in cpus.iter().filter(|cpu| (**cpu as usize) < CpuSet::MAX_CPU) {
        allowed.unset(cpu as usize);
    }
    (allowed.count() > 0).then_some(allowed)
}

/// Asks whether RCU's grace periods end at the moment. Where a CPU's softirqs are left to a ksoftirqd that does not come to
/// run, they do not (seen on 6.1), and much of tracefs waits for them, without an end and without a signal.
///
/// `MEMBARRIER_CMD_GLOBAL` is `synchronize_rcu()` (kernel/sched/membarrier.c).
pub(crate) struct GracePeriod {
    ended: Receiver<bool>,
    until: Instant,
}

impl GracePeriod {
    pub(crate) fn begin() -> GracePeriod {
        let (sender, ended) = channel();
        let wait = move || {
            let _ = sender.send(membarrier(MembarrierCommand::Global).is_ok());
        };
        let _ = std::thread::Builder::new().name("unstarve-record".into()).stack_size(64 << 10).spawn(wait);
        GracePeriod { ended, until: Instant::now() + PATIENCE }
    }

    /// Whether it ended in time; `None` if this kernel does not say (with `nohz_full`).
    pub(crate) fn has_ended(self) -> Option<bool> {
        match self.ended.recv_timeout(self.until.saturating_duration_since(Instant::now())) {
            Ok(true) => Some(true),
            Ok(false) | Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => Some(false),
        }
    }
}

/// Lets the calling thread, and those that it starts, go before other ordinary tasks.
pub(crate) struct Hurry {
    before: i32,
}

impl Hurry {
    pub(crate) fn up() -> Option<Hurry> {
        let before = getpriority_process(None).ok()?;
        setpriority_process(None, -20).ok().map(|()| Hurry { before })
    }
}

impl Drop for Hurry {
    fn drop(&mut self) {
        let _ = setpriority_process(None, self.before);
    }
}

/// Keeps the calling thread, and those that it starts, from CPUs on which it would not come to run.
pub(crate) struct Away {
    before: CpuSet,
    now: CpuSet,
}

impl Away {
    /// `None` if there is nothing to keep away from, or nowhere else to go.
    pub(crate) fn from(cpus: &[u32]) -> Option<Away> {
        if cpus.is_empty() {
            return None;
        }
        let away = Away { before: sched_getaffinity(None).ok()?, now: without(cpus)? };
        away.go();
        Some(away)
    }

    fn go(&self) {
        let _ = sched_setaffinity(None, &self.now);
    }

    /// Does something that must not inherit it.
    pub(crate) fn pause<T>(&self, work: impl FnOnce() -> T) -> T {
        let _ = sched_setaffinity(None, &self.before);
        let result = work();
        self.go();
        result
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_that_run_ordinary_tasks_answer() {
        // Another test may have a CPU for itself for a moment, but hardly three times.
        let cpus = online();
        assert!(!cpus.is_empty());
        assert!((0..3).any(|_| RollCall::of(&cpus).silent().is_empty()));
    }

    #[test]
    fn a_cpu_that_does_not_exist_says_nothing_about_itself() {
        assert_eq!(RollCall::of(&[100_000]).silent(), [0_u32; 0]);
    }

    #[test]
    fn a_hurry_ends() {
        let before = getpriority_process(None).expect("a priority");
        if let Some(hurry) = Hurry::up() {
            assert_eq!(getpriority_process(None).expect("a priority"), -20);
            drop(hurry);
        }
        assert_eq!(getpriority_process(None).expect("a priority"), before);
    }

    #[test]
    fn a_thread_goes_away_and_comes_back() {
        let before = sched_getaffinity(None).expect("a set");
        if before.count() < 2 {
            return; // There is nowhere to go.
        }
        let first = (0..CpuSet::MAX_CPU).find(|cpu| before.is_set(*cpu)).expect("one");
        let away = Away::from(&[first as u32]).expect("somewhere else");
        assert!(!sched_getaffinity(None).expect("a set").is_set(first));
        away.pause(|| assert_eq!(sched_getaffinity(None).expect("a set"), before));
        assert!(!sched_getaffinity(None).expect("a set").is_set(first));
        drop(away);
        assert_eq!(sched_getaffinity(None).expect("a set"), before);
        assert!(Away::from(&[]).is_none());
    }
}
