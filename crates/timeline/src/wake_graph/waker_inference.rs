//! Infers the waker if events lack the context in which they were issued.
//!
//! `perf script` and `trace-cmd report` omit the context, and handlers of timers and IPIs have no events. The current task of a
//! wakeup is then the waker, or it was only interrupted. Interrupts hit all tasks alike: for them, a task is current in the
//! same part of a wakee's wakeups as it has of the CPU time. A task that is current more often wakes it.

use rustc_hash::FxHashMap;
use unstarve_model::{Context, Event, Nanos, Time};

use crate::ActorId;
use crate::cpus::Cpu;

/// Required excess over chance, in standard deviations…
const BEYOND_CHANCE: f64 = 2.5;

/// …and as a factor: a timer that a task sets before it sleeps finds the same task current every time. So a task that has the
/// CPU for more than two thirds of the time is never inferred to be the waker.
const TIMES_CHANCE: f64 = 1.5;

/// Wakeups by waker and wakee; only if contexts are missing.
#[derive(Debug, Default)]
pub(super) struct WakerInference {
    pairs: FxHashMap<(ActorId, ActorId), u64>,
    wakeups: FxHashMap<ActorId, u64>,
    /// By CPU; empty while the context of all events is known.
    shares: Vec<Shares>,
}

impl WakerInference {
    /// Maximum number of counted pairs; beyond it, no waker is inferred.
    const LIMIT: usize = 1 << 16;

    /// Counts a wakeup during which `current` had the CPU, with its share of the CPU time. Returns whether it is the waker.
    fn judge(&mut self, current: Option<(ActorId, f64)>, wakee: ActorId) -> bool {
        let full = self.pairs.len() >= WakerInference::LIMIT;
        let Some(all) = counted(&mut self.wakeups, wakee, full) else { return false };
        let Some((current, share)) = current else { return false };
        let Some(its) = counted(&mut self.pairs, (current, wakee), full) else { return false };
        let (its, all) = (its as f64, all as f64);
        its >= TIMES_CHANCE * share * all && its - share * all > BEYOND_CHANCE * (all * share * (1.0 - share)).sqrt()
    }

    /// From the first event with unknown context on, the time of each actor on that event's CPU counts.
    #[inline(never)]
    pub fn begin(&mut self, index: usize, now: Time) {
        if self.shares.len() <= index {
            self.shares.resize_with(index + 1, Shares::default);
        }
        self.shares[index].since.get_or_insert(now);
    }

    /// A run of the actor ended.
    #[inline(always)]
    pub fn add_stay(&mut self, index: usize, actor: ActorId, stay: Nanos) {
        if let Some(shares) = self.shares.get_mut(index) {
            shares.add(actor, stay);
        }
    }

    /// Whether the CPU's current task, and not an interrupt, wakes a task of this actor.
    pub fn is_waker(&mut self, cpu: &Cpu, wakee: ActorId, now: Time) -> bool {
        let share = || self.shares.get(cpu.index()).map_or(1.0, |shares| shares.of_current(cpu, now));
        let current = cpu.task().map(|_| (cpu.holder(), share()));
        self.judge(current, wakee)
    }

    /// A wakeup that certainly came from an interrupt.
    pub fn note_interrupt(&mut self, event: &Event, wakee: ActorId) {
        if event.issuer.context() == Context::Unknown {
            self.judge(None, wakee);
        }
    }
}

/// Increments a count, if there is room.
fn counted<K: Eq + std::hash::Hash>(counts: &mut FxHashMap<K, u64>, key: K, full: bool) -> Option<u64> {
    if full && !counts.contains_key(&key) {
        return None;
    }
    let count = counts.entry(key).or_default();
    *count += 1;
    Some(*count)
}

/// How long each actor had a CPU.
#[derive(Debug, Default)]
struct Shares {
    since: Option<Time>,
    had: FxHashMap<ActorId, Nanos>,
}

impl Shares {
    /// Maximum number of actors whose time is counted for each CPU.
    const LIMIT: usize = 1 << 12;

    #[inline(never)]
    fn add(&mut self, actor: ActorId, stay: Nanos) {
        if self.since.is_none() {
            return;
        }
        if self.had.len() < Shares::LIMIT || self.had.contains_key(&actor) {
            *self.had.entry(actor).or_default() += stay;
        }
    }
    /// The share of this CPU's time that the current task's actor has had.
    fn of_current(&self, cpu: &Cpu, now: Time) -> f64 {
        let Some(since) = self.since else { return 1.0 };
        let before = self.had.get(&cpu.holder()).copied().unwrap_or(Nanos::ZERO);
        (before + now.since(cpu.run_start().max(since))).share_of(now.since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of wakeups attributed to their current tasks, each given with its share of the time.
    fn believed(currents: &[Option<(u32, f64)>]) -> usize {
        let mut inference = WakerInference::default();
        let judge = |current: &&Option<(u32, f64)>| {
            inference.judge(current.map(|(id, share)| (ActorId(id), share)), ActorId(99))
        };
        currents.iter().filter(judge).count()
    }

    #[test]
    fn whoever_is_current_as_often_as_it_runs_was_only_interrupted() {
        // A hog with nine tenths of the CPU, idle in the rest; a timer wakes the task.
        let hog: Vec<_> = (0..100).map(|at| (at % 10 != 0).then_some((1, 0.9))).collect();
        assert_eq!(believed(&hog), 0);
        // Ten tasks with equal shares; the very first wakeups have no basis for comparison.
        let tenth: Vec<_> = (0..100).map(|at| Some((at % 10, 0.1))).collect();
        assert!(believed(&tenth) < 10, "{}", believed(&tenth));
        let seldom: Vec<_> = (0..100).map(|at| (at == 50).then_some((1, 0.01))).collect();
        assert_eq!(believed(&seldom), 0);
        assert_eq!(believed(&vec![Some((1, 1.0)); 100]), 0, "nobody else could have been current");
    }

    #[test]
    fn whoever_is_always_there_is_the_waker() {
        let partner = vec![Some((1, 0.5)); 50];
        assert!(believed(&partner) > 40, "{}", believed(&partner));
        assert_eq!(believed(&[Some((1, 0.01))]), 1, "a task that hardly gets the CPU");
        // A few of many: it runs too rarely for chance.
        let few: Vec<_> = (0..100).map(|at| (at % 20 == 19).then_some((1, 0.001))).collect();
        assert_eq!(believed(&few), 5);
    }
}
