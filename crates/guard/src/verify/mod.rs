//! Measures whether a rule helped: the waits of its tasks before and after, from histograms in the kernel, or without eBPF from
//! the kernel's schedstat sums.

#[cfg(feature = "bpf")]
mod ebpf;
mod judge;
mod still;
mod trial;

pub use judge::{ENOUGH, Figures, HELPED, Judged, Reason, SLICES, Side, Verdict, judge, must_last_longer};
pub use trial::{Keep, Outcome, Trial, TrialError, run};

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::policy::Policy;
use crate::scan::Scanner;
use crate::task::Task;
use still::{Still, runnable};
use unstarve_change::TaskKey;
use unstarve_executor::sched::monotonic_ns;

/// Run and wait times of a rule's tasks during a measurement.
#[derive(Clone, PartialEq, Debug, Default, Serialize, schemars::JsonSchema)]
pub struct Fared {
    /// Tasks that ran or waited.
    pub tasks: usize,
    /// How long they ran, in ns.
    pub ran_ns: u64,
    /// How long they waited for a CPU, in ns.
    pub waited_ns: u64,
    /// Single waits, if they were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<Waits>,
    /// The same for equal slices of the time, which shows the variation.
    #[serde(skip)]
    pub slices: Vec<Tally>,
}

/// Run and wait times during a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// How long they ran, in ns.
    pub ran_ns: u64,
    /// How long they waited for a CPU, in ns.
    pub waited_ns: u64,
    /// Number of waits.
    pub waits: u64,
    /// Length of the slice, in ns.
    pub lasted_ns: u64,
}

impl Tally {
    fn since(self, before: Tally) -> Tally {
        Tally {
            ran_ns: self.ran_ns.saturating_sub(before.ran_ns),
            waited_ns: self.waited_ns.saturating_sub(before.waited_ns),
            waits: self.waits.saturating_sub(before.waits),
            lasted_ns: self.lasted_ns.saturating_sub(before.lasted_ns),
        }
    }
}

/// Single waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, schemars::JsonSchema)]
pub struct Waits {
    /// How many.
    pub count: u64,
    /// Median: the lower end of its histogram bucket; there are four for each power of two.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// The longest, exact.
    pub max_ns: u64,
}

impl Fared {
    /// Wait time per run time, which depends little on load. `None` if nothing ran.
    pub fn wait_ratio(&self) -> Option<f64> {
        (self.ran_ns > 0).then(|| self.waited_ns as f64 / self.ran_ns as f64)
    }
}

impl Fared {
    /// Number of waits; with schedstat, how often the tasks got a CPU.
    pub fn count(&self) -> u64 {
        self.waits.map_or_else(|| self.slices.iter().map(|slice| slice.waits).sum(), |waits| waits.count)
    }

    /// The average wait, in ns; `None` if there was none.
    pub fn average_ns(&self) -> Option<u64> {
        self.waited_ns.checked_div(self.count())
    }
}

/// How waits were measured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "by")]
pub enum By {
    /// Histograms that BPF programs keep in the kernel.
    Ebpf,
    /// The kernel's sums for each task, `/proc/PID/schedstat`: without single waits.
    Schedstat {
        /// Why eBPF was not used.
        reason: String,
    },
}

/// The measurement of each rule's tasks.
#[derive(Clone, PartialEq, Debug, Serialize, schemars::JsonSchema)]
pub struct Measured {
    /// The method.
    #[serde(flatten)]
    pub by: By,
    /// In the policy's order.
    pub rules: Vec<Fared>,
}

/// How long, and how often, to look at tasks.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// In total.
    pub time: Duration,
    /// How often to look for new tasks.
    pub step: Duration,
    /// Ends the measurement early.
    pub stop: &'a AtomicBool,
}

/// Measures all tasks for a while and sums up those that each rule selects. A worker counts for a rule from the first look at
/// which it is known to execute the rule's work; tasks that live shorter than a step may be missed.
///
/// # Errors
/// If `/proc` cannot be read, or the kernel's sums have gone.
pub fn watch(policy: &Policy, span: Span) -> io::Result<Measured> {
    #[cfg(feature = "bpf")]
    match ebpf::Meter::open() {
        Ok(meter) => {
            let rules = watch_with(policy, span, meter)?;
            Ok(Measured { by: By::Ebpf, rules })
        }
        Err(reason) => by_schedstat(policy, span, reason),
    }
    #[cfg(not(feature = "bpf"))]
    by_schedstat(policy, span, "this program was built without the feature `bpf`".to_owned())
}

/// As [`watch`], from the kernel's schedstat sums.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn by_schedstat(policy: &Policy, span: Span, reason: String) -> io::Result<Measured> {
    let rules = watch_with(policy, span, Sums::default())?;
    Ok(Measured { by: By::Schedstat { reason }, rules })
}

/// Measures the tasks that it is given.
trait Meter {
    /// Adds a task found at a look, with the rules that select it now; `first` is set at the first look of the measurement.
    fn see(&mut self, task: TaskKey, rules: &[usize], first: bool) -> io::Result<()>;
    /// Sums so far, for each rule.
    fn so_far(&mut self, rules: usize) -> io::Result<Vec<Fared>>;
}

fn watch_with(policy: &Policy, span: Span, meter: impl Meter) -> io::Result<Vec<Fared>> {
    let scanner = Scanner::of(policy);
    let rules = policy.rules.len();
    // A worker stays selected for work that it was once known for.
    let mut selected: FxHashMap<TaskKey, Vec<usize>> = FxHashMap::default();
    let look = || {
        let tasks = scanner.all()?.into_iter().map(|task| {
            let of_task = selected.entry(task.key).or_default();
            for rule in rules_of(policy, &task) {
                if !of_task.contains(&rule) {
                    of_task.push(rule);
                }
            }
            (task.key, of_task.clone())
        });
        Ok(tasks.collect())
    };
    measure(look, rules, span, meter)
}

/// Measures tasks for a while as one group; `look` is called repeatedly and returns the tasks that count.
///
/// # Errors
/// If they cannot be listed or measured.
pub fn watch_tasks(look: impl Fn() -> io::Result<Vec<TaskKey>>, span: Span) -> io::Result<(By, Fared)> {
    let named = || Ok(look()?.into_iter().map(|key| (key, vec![0])).collect());
    let only = |fared: Vec<Fared>| fared.into_iter().next().unwrap_or_default();
    #[cfg(feature = "bpf")]
    let reason = match ebpf::Meter::open() {
        Ok(meter) => return Ok((By::Ebpf, only(measure(named, 1, span, meter)?))),
        Err(reason) => reason,
    };
    #[cfg(not(feature = "bpf"))]
    let reason = "this program was built without the feature `bpf`".to_owned();
    Ok((By::Schedstat { reason }, only(measure(named, 1, span, Sums::default())?)))
}

/// Existing tasks, each with the groups that it counts for.
type Seen = Vec<(TaskKey, Vec<usize>)>;

fn measure(
    mut look: impl FnMut() -> io::Result<Seen>,
    rules: usize,
    span: Span,
    mut meter: impl Meter,
) -> io::Result<Vec<Fared>> {
    let (last, slices) = (vec![Tally::default(); rules], vec![Vec::new(); rules]);
    let mut sliced = Sliced { began: Instant::now(), count: 0, last, slices };
    let slice = span.time / SLICES as u32;
    let mut next_look = sliced.began;
    loop {
        let now = Instant::now();
        if now >= next_look {
            let first = next_look == sliced.began;
            for (task, rules) in look()? {
                meter.see(task, &rules, first)?;
            }
            next_look = Instant::now() + span.step;
        }
        let next_slice = sliced.began + slice * (sliced.count as u32 + 1);
        if Instant::now() >= next_slice {
            let fared = meter.so_far(rules)?;
            sliced.cut(&fared);
            if sliced.count == SLICES {
                return Ok(fared
                    .into_iter()
                    .zip(sliced.slices)
                    .map(|(fared, slices)| Fared { slices, ..fared })
                    .collect());
            }
        }
        if span.stop.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let until = next_look.min(sliced.began + slice * (sliced.count as u32 + 1));
        std::thread::sleep(until.saturating_duration_since(Instant::now()).min(span.step));
    }
}

/// Collects the slices of each rule's sums.
struct Sliced {
    began: Instant,
    count: usize,
    last: Vec<Tally>,
    slices: Vec<Vec<Tally>>,
}

impl Sliced {
    fn cut(&mut self, so_far: &[Fared]) {
        self.count += 1;
        let lasted_ns = self.began.elapsed().as_nanos() as u64;
        for ((fared, last), slices) in so_far.iter().zip(&mut self.last).zip(&mut self.slices) {
            let now = fared.slices.first().copied().unwrap_or_default();
            let now = Tally { lasted_ns, ..now };
            slices.push(now.since(std::mem::replace(last, now)));
        }
    }
}

/// Sums up `/proc/PID/schedstat` of each task.
#[derive(Default)]
struct Sums {
    tasks: FxHashMap<TaskKey, Summed>,
}

/// Run time, wait time and number of runs of a task since its start.
type Times = (u64, u64, u64);

/// A task's sums at the first and the last look, and its rules.
struct Summed {
    first: Times,
    last: Times,
    rules: Vec<usize>,
    /// Set if it was runnable at the first look and has not run since.
    still: Option<Still>,
}

impl Summed {
    fn new(first: Times, last: Times, is_runnable: bool, now: u64) -> Summed {
        Summed { first, last, rules: Vec::new(), still: is_runnable.then(|| Still::new(last.0, now)) }
    }

    fn look(&mut self, times: Times, is_runnable: bool, now: u64) {
        if let Some(still) = &mut self.still {
            if times == self.last {
                still.look(is_runnable.then_some(times.0), now);
            } else {
                // The wait has ended and is booked, including the part before the first look.
                let (ran, booked) = (times.0.saturating_sub(self.last.0), times.1.saturating_sub(self.last.1));
                self.first.1 += booked.saturating_sub(still.age(now).saturating_sub(ran));
                self.still = None;
            }
        }
        self.last = times;
    }

    /// Its sums since the first look.
    fn since(&self) -> Times {
        let waited = self.still.map_or(0, |still| still.waited);
        let since = |of: fn(&Times) -> u64| of(&self.last).saturating_sub(of(&self.first));
        (since(|times| times.0), since(|times| times.1) + waited, since(|times| times.2) + u64::from(waited > 0))
    }
}

impl Meter for Sums {
    fn see(&mut self, task: TaskKey, rules: &[usize], first: bool) -> io::Result<()> {
        let Some(times) = unstarve_executor::proc::times(task.tid) else { return Ok(()) };
        let (is_runnable, now) = (runnable(task).is_some(), monotonic_ns());
        // A task forked meanwhile started at zero.
        let begin = if first { times } else { (0, 0, 0) };
        let summed = self.tasks.entry(task).or_insert_with(|| Summed::new(begin, times, is_runnable, now));
        summed.look(times, is_runnable, now);
        summed.rules.clear();
        summed.rules.extend_from_slice(rules);
        Ok(())
    }

    fn so_far(&mut self, rules: usize) -> io::Result<Vec<Fared>> {
        let mut fared = vec![Fared::default(); rules];
        for (task, summed) in self.tasks.iter_mut().filter(|(_, summed)| !summed.rules.is_empty()) {
            // For a task that exited, or whose tid was reused, the last values count.
            if let Some(times) = unstarve_executor::proc::times(task.tid)
                .filter(|_| unstarve_executor::proc::start_of(task.tid) == Some(task.start))
            {
                summed.look(times, runnable(*task).is_some(), monotonic_ns());
            }
            let (ran, waited, times) = summed.since();
            if ran + waited == 0 {
                continue;
            }
            for &rule in &summed.rules {
                let fared = &mut fared[rule];
                fared.tasks += 1;
                fared.ran_ns += ran;
                fared.waited_ns += waited;
                fared.slices.resize(1, Tally::default());
                fared.slices[0].ran_ns += ran;
                fared.slices[0].waited_ns += waited;
                fared.slices[0].waits += times;
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

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn who_never_gets_a_turn_has_waited_all_the_time() {
        let mut victim = Summed::new((0, 0, 0), (0, 0, 0), true, 0);
        victim.look((0, 0, 0), true, 3 * SECOND);
        assert_eq!(victim.since(), (0, 3 * SECOND, 1));
    }

    /// The kernel books the whole wait when it ends: four seconds, three of them before the first look.
    #[test]
    fn what_a_task_waited_before_the_first_look_does_not_count() {
        let mut raised = Summed::new((0, 0, 0), (0, 0, 0), true, 3 * SECOND);
        raised.look((SECOND, 4 * SECOND, 1), true, 5 * SECOND);
        assert_eq!(raised.since(), (SECOND, SECOND, 1), "no more than the time since then");
        raised.look((2 * SECOND, 4 * SECOND + 5, 2), true, 6 * SECOND);
        assert_eq!(raised.since(), (2 * SECOND, SECOND + 5, 2));
    }

    #[test]
    fn who_sleeps_does_not_wait() {
        let mut sleeper = Summed::new((7, 7, 1), (7, 7, 1), false, 0);
        sleeper.look((7, 7, 1), false, SECOND);
        sleeper.look((7, 7, 1), true, 2 * SECOND);
        assert_eq!(sleeper.since(), (0, 0, 0));
    }
}
