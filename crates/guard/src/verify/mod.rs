//! Did it help? The waits of the tasks that a rule is about, before and after: by histograms in the kernel, or where eBPF is not
//! to be had by the kernel's own sums.

#[cfg(feature = "bpf")]
mod ebpf;

use std::io;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::policy::Policy;
use crate::scan::{self, Scanner};
use crate::task::{Task, TaskKey};

/// How much less tasks have to wait, for each second that they run, for a rule to have helped.
pub const HELPED: f64 = 0.10;

/// How tasks of a rule fared for a while.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Fared {
    /// Tasks that ran or waited.
    pub tasks: usize,
    /// How long they ran, in ns.
    pub ran_ns: u64,
    /// How long they waited for a CPU, in ns.
    pub waited_ns: u64,
    /// Their single waits, where these are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<Waits>,
}

/// Single waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Waits {
    /// How many.
    pub count: u64,
    /// Half of them were shorter: the lower end of a step of the histogram, of which there are four for each power of two.
    pub p50_ns: u64,
    /// 99 of 100 were shorter.
    pub p99_ns: u64,
    /// The longest, to the nanosecond.
    pub max_ns: u64,
}

impl Fared {
    /// Waiting for each ns of running: what load alone does not change much. `None` if nothing ran.
    pub fn wait_ratio(&self) -> Option<f64> {
        (self.ran_ns > 0).then(|| self.waited_ns as f64 / self.ran_ns as f64)
    }

    /// The mean of single waits, where these are known.
    fn mean_wait(&self) -> Option<f64> {
        self.waits.map(|waits| self.waited_ns as f64 / waits.count as f64)
    }
}

/// What became of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The waits are shorter by a tenth or more.
    Helped,
    /// They are not.
    DidNotHelp,
    /// Nothing of it ran or waited on one side.
    Unknown,
}

/// Judges by the waits before and after, measured for as long. Waiting for each second of running is the measure for those
/// that run much; those that run for some µs now and then, or could not run at all before, are told by their single waits.
pub fn judge(before: &Fared, after: &Fared) -> Verdict {
    let less = |(before, after): (f64, f64)| before > 0.0 && after <= before * (1.0 - HELPED);
    let while_running = before.wait_ratio().zip(after.wait_ratio());
    let each = before.mean_wait().zip(after.mean_wait());
    match (while_running, each) {
        (None, None) => Verdict::Unknown,
        (Some(ratios), None) if less(ratios) => Verdict::Helped,
        (Some(ratios), Some(means)) if less(ratios) && means.1 <= means.0 => Verdict::Helped,
        (_, Some(means)) if less(means) && after.waited_ns <= before.waited_ns => Verdict::Helped,
        _ => Verdict::DidNotHelp,
    }
}

/// By what waits were measured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "by")]
pub enum By {
    /// Histograms that BPF programs keep in the kernel.
    Ebpf,
    /// The kernel's own sums for each task, `/proc/PID/schedstat`: no single waits.
    Schedstat {
        /// Why not by eBPF.
        reason: String,
    },
}

/// How the tasks of each rule fared for a while.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Measured {
    /// By what.
    #[serde(flatten)]
    pub by: By,
    /// In the policy's order.
    pub rules: Vec<Fared>,
}

/// Watches all tasks for a while and sums up, for each rule, those that it selects. A worker counts for a rule from the
/// first look on at which it is known for the rule's work; tasks that live for less than `step` may not be seen.
///
/// # Errors
/// If `/proc` cannot be read, or the kernel's sums no more.
pub fn watch(policy: &Policy, time: Duration, step: Duration) -> io::Result<Measured> {
    #[cfg(feature = "bpf")]
    match ebpf::Meter::open() {
        Ok(meter) => {
            let rules = watch_with(policy, time, step, meter)?;
            Ok(Measured { by: By::Ebpf, rules })
        }
        Err(reason) => by_schedstat(policy, time, step, reason),
    }
    #[cfg(not(feature = "bpf"))]
    by_schedstat(policy, time, step, "this program was built without the feature `bpf`".to_owned())
}

/// As [`watch`], by the kernel's own sums for each task.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn by_schedstat(policy: &Policy, time: Duration, step: Duration, reason: String) -> io::Result<Measured> {
    let rules = watch_with(policy, time, step, Sums::default())?;
    Ok(Measured { by: By::Schedstat { reason }, rules })
}

/// Measures tasks that it is told of.
trait Meter {
    /// A task that was seen at a look, the rules that select it now, and whether this is the first look of all.
    fn see(&mut self, task: TaskKey, rules: &[usize], first: bool) -> io::Result<()>;
    /// What came of them, for each of so many rules.
    fn finish(self, rules: usize) -> io::Result<Vec<Fared>>;
}

fn watch_with(policy: &Policy, time: Duration, step: Duration, mut meter: impl Meter) -> io::Result<Vec<Fared>> {
    let scanner = Scanner::new(policy.wanted());
    // What a worker was once known for it stays known for.
    let mut selected: FxHashMap<TaskKey, Vec<usize>> = FxHashMap::default();
    let end = Instant::now() + time;
    let mut first = true;
    loop {
        for task in scanner.all()? {
            let rules = selected.entry(task.key).or_default();
            for rule in rules_of(policy, &task) {
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
            meter.see(task.key, rules, first)?;
        }
        first = false;
        let now = Instant::now();
        if now >= end {
            return meter.finish(policy.rules.len());
        }
        std::thread::sleep(step.min(end - now));
    }
}

/// A task's sums at the first and at the last look, and its rules.
#[derive(Default)]
struct Sums {
    tasks: FxHashMap<TaskKey, (Times, Times, Vec<usize>)>,
}

/// How long a task ran and waited since it is there.
type Times = (u64, u64);

impl Meter for Sums {
    fn see(&mut self, task: TaskKey, rules: &[usize], first: bool) -> io::Result<()> {
        let Some(now) = scan::waited(task.tid) else { return Ok(()) };
        // One born meanwhile began at nothing.
        let begin = if first { now } else { (0, 0) };
        let sums = self.tasks.entry(task).or_insert_with(|| (begin, now, Vec::new()));
        sums.1 = now;
        sums.2.clear();
        sums.2.extend_from_slice(rules);
        Ok(())
    }

    fn finish(self, rules: usize) -> io::Result<Vec<Fared>> {
        let mut fared = vec![Fared::default(); rules];
        for (first, last, rules) in self.tasks.into_values() {
            let (ran, waited) = (last.0.saturating_sub(first.0), last.1.saturating_sub(first.1));
            if ran + waited == 0 {
                continue;
            }
            for rule in rules {
                fared[rule].tasks += 1;
                fared[rule].ran_ns += ran;
                fared[rule].waited_ns += waited;
            }
        }
        Ok(fared)
    }
}

fn rules_of(policy: &Policy, task: &Task) -> Vec<usize> {
    policy.candidates(&task.comm).filter(|&rule| policy.rules[rule].selector.matches(task)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fared(ran_ns: u64, waited_ns: u64, count: u64) -> Fared {
        let waits = Waits { count, p50_ns: 0, p99_ns: 0, max_ns: 0 };
        Fared { tasks: 1, ran_ns, waited_ns, waits: (count > 0).then_some(waits) }
    }

    #[test]
    fn a_tenth_less_waiting_is_help() {
        for (before, after, verdict) in [
            ((100, 100), (200, 100), Verdict::Helped),
            ((100, 100), (100, 90), Verdict::Helped),
            ((100, 100), (100, 95), Verdict::DidNotHelp),
            ((100, 0), (100, 0), Verdict::DidNotHelp),
            ((0, 0), (100, 0), Verdict::Unknown),
        ] {
            let (before, after) = (fared(before.0, before.1, 0), fared(after.0, after.1, 0));
            assert_eq!(judge(&before, &after), verdict, "{before:?} {after:?}");
        }
    }

    #[test]
    fn those_that_hardly_run_are_told_by_their_single_waits() {
        // ksoftirqd beside a real-time task: one wait of 80 ms, or none.
        let (before, after) = (fared(20_000_000, 80_040_000, 4), fared(5_000, 40_000, 3));
        assert_eq!(judge(&before, &after), Verdict::Helped);
        assert_eq!(judge(&after, &before), Verdict::DidNotHelp);
        // It did not run at all, and waits still at the end.
        assert_eq!(judge(&fared(0, 3_000_000_000, 1), &fared(500, 9_000, 3)), Verdict::Helped);
        // Shorter waits, but so many that there is more waiting.
        assert_eq!(judge(&fared(100, 1_000, 10), &fared(100, 2_000, 40)), Verdict::DidNotHelp);
    }
}
