//! When an episode begins, and when it is over: a pure function of successive readings.
//!
//! Only waits that others' precedence is to blame for count. A turn among equals, a CPU that is idle and time of which nothing
//! is known never begin an episode, however long they take.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unstarve_model::{Nanos, Severity};
use unstarve_timeline::Rule;

use crate::config::{Length, RoleThresholds, Thresholds};
use crate::{Blame, Reading, Role, RoleId, TaskId, VictimClass};

/// The time over which shares are taken.
const WINDOW: u64 = 1_000_000_000;
/// How much of the past is compared with: a wait that ends now may have begun long before.
const PAST: u64 = 30_000_000_000;
/// Readings of the past that are kept; with the usual four a second those of the last seconds, and then one a second.
const MOST: usize = 48;
/// After a gap this long the machine, or this process, was stopped: what happened meanwhile is nobody's doing.
const STOPPED: u64 = 60_000_000_000;

/// What was above its threshold.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Trigger {
    /// A wait that ended.
    Wait {
        /// It took at least this long.
        ns: u64,
        /// More than this.
        threshold_ns: u64,
    },
    /// Many waits.
    Share {
        /// This part of the last second.
        share: f64,
        /// More than this.
        threshold: f64,
    },
    /// A wait that lasts.
    Oldest {
        /// So far.
        ns: u64,
        /// More than this.
        threshold_ns: u64,
    },
}

impl Trigger {
    /// How bad it is, as far as the counters say.
    pub(super) fn severity(&self) -> Severity {
        match self {
            // Somebody waits longer than his role bears.
            Trigger::Wait { .. } | Trigger::Oldest { .. } => Severity::Critical,
            // Many pay.
            Trigger::Share { .. } => Severity::Warning,
        }
    }
}

/// An episode, as the counters show it.
#[derive(Clone, PartialEq, Debug)]
pub struct Begun {
    /// When, on both clocks.
    pub at: unstarve_model::ClockPair,
    /// Why.
    pub trigger: Trigger,
    /// Since when its waits may have been, on the clock of readings.
    pub since: unstarve_model::Time,
    /// Who waits.
    pub victim: Role,
    /// Its longest wait now, if it has one.
    pub victim_task: Option<TaskId>,
    /// Who was preferred most.
    pub culprit: Option<Role>,
    /// Who has the CPU of that wait.
    pub culprit_task: Option<TaskId>,
    /// By which rule.
    pub rule: Option<Rule>,
    /// For how long, lately.
    pub ns: Nanos,
}

/// What a reading brings.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Step {
    /// Episodes that have begun, one of each class at most.
    pub begun: Vec<Begun>,
    /// Roles that are above a threshold, too, and have no episode of their own while one of their class is open. Each once
    /// in an open episode.
    pub hidden: Vec<String>,
    /// Classes whose open episode is over.
    pub ended: Vec<VictimClass>,
    /// Something is above half of its threshold, or an episode is open.
    pub armed: bool,
}

/// Watches readings.
#[derive(Debug)]
pub struct Detector {
    thresholds: Thresholds,
    past: VecDeque<Arc<Reading>>,
    open: BTreeMap<VictimClass, Open>,
}

/// An episode that is not over.
#[derive(Debug)]
struct Open {
    /// When something of its class was last above its threshold.
    last: u64,
    /// The roles that were.
    roles: BTreeSet<String>,
}

impl Detector {
    /// Has seen nothing yet.
    pub fn new(thresholds: Thresholds) -> Detector {
        Detector { thresholds, past: VecDeque::new(), open: BTreeMap::new() }
    }

    /// Judges by others from now on.
    pub fn judge_by(&mut self, thresholds: Thresholds) {
        self.thresholds = thresholds;
    }

    /// Whether an episode is open.
    pub fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// The next reading.
    pub fn see(&mut self, reading: Arc<Reading>) -> Step {
        let now = reading.at.trace.0;
        let is_next = self.past.back().is_none_or(|last| {
            let gap = now.checked_sub(last.at.trace.0);
            last.since == reading.since && gap.is_some_and(|gap| gap <= STOPPED)
        });
        if !is_next {
            self.past.clear();
        }
        let found = self.above_half(&reading);
        self.remember(reading);
        let mut step = Step::default();
        for class in VictimClass::ALL {
            let above =
                found.iter().filter(|(rank, begun)| *rank >= 1.0 && VictimClass::of(begun.victim.kind) == class);
            self.judge(class, &above.collect::<Vec<_>>(), now, &mut step);
        }
        step.armed = !self.open.is_empty() || !found.is_empty();
        step
    }

    /// What is above its threshold in a class: it begins an episode, or is of the one that is open.
    fn judge(&mut self, class: VictimClass, above: &[&Ranked], now: u64, step: &mut Step) {
        let Some((_, strongest)) = above.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0)) else {
            let calm = self.thresholds.calm.nanos();
            if self.open.get(&class).is_some_and(|open| now.saturating_sub(open.last) >= calm) {
                self.open.remove(&class);
                step.ended.push(class);
            }
            return;
        };
        let open = self.open.entry(class).or_insert_with(|| {
            step.begun.push(strongest.clone());
            Open { last: now, roles: BTreeSet::from([strongest.victim.name()]) }
        });
        open.last = now;
        let names = above.iter().map(|(_, begun)| begun.victim.name());
        step.hidden.extend(names.filter(|name| open.roles.insert(name.clone())));
    }

    /// What is above half of its threshold, and how far: 1 is the threshold itself.
    fn above_half(&self, reading: &Reading) -> Vec<Ranked> {
        let Some(before) = self.past.back() else { return Vec::new() };
        let ids = (0..reading.roles.len()).filter_map(|index| u8::try_from(index).ok().map(RoleId));
        let found = ids.filter_map(|id| {
            let role = reading.role(id).filter(|role| role.kind.can_wait())?;
            let thresholds = self.thresholds.of(&role.name());
            if thresholds.ignore {
                return None;
            }
            let pair = Pair { id, role, before, reading, past: &self.past };
            let (rank, trigger, since) = pair.worst(&thresholds)?;
            Some((rank, pair.begun(trigger, since)))
        });
        found.collect()
    }

    fn remember(&mut self, reading: Arc<Reading>) {
        let now = reading.at.trace.0;
        self.past.push_back(reading);
        self.past.retain(|old| now.saturating_sub(old.at.trace.0) <= PAST);
        if self.past.len() > MOST {
            // Every second of the older half: the recent ones stay close together.
            let half = self.past.len() / 2;
            let mut index = 0;
            self.past.retain(|_| {
                index += 1;
                index > half || index % 2 == 1
            });
        }
    }
}

/// How far above its threshold.
type Ranked = (f64, Begun);

/// One role in two successive readings.
struct Pair<'a> {
    id: RoleId,
    role: &'a Role,
    before: &'a Reading,
    reading: &'a Reading,
    past: &'a VecDeque<Arc<Reading>>,
}

impl Pair<'_> {
    /// The condition that is met furthest, and since when its waits may have been.
    fn worst(&self, thresholds: &RoleThresholds) -> Option<(f64, Trigger, u64)> {
        let conditions = [
            thresholds.wait.and_then(|limit| self.wait(limit)),
            thresholds.oldest.and_then(|limit| self.oldest(limit)),
            thresholds.share.and_then(|limit| self.share(limit.0)),
        ];
        conditions.into_iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// The longest wait that ended since the reading before, by the step of the histogram that it fell into.
    fn wait(&self, limit: Length) -> Option<(f64, Trigger, u64)> {
        let now = &self.reading.waits.get(self.id.index())?.histogram;
        let then = self.same_role(self.before).and_then(|id| self.before.waits.get(id.index()));
        let new = then.map_or_else(|| now.clone(), |then| now.since(&then.histogram));
        let longest = new.buckets().last()?;
        // Of a step only its lower bound is certain.
        let ns = (longest.from * 1e9) as u64;
        let since = self.before.at.trace.0.saturating_sub(ns);
        self.rank(ns, limit, since, |ns, threshold_ns| Trigger::Wait { ns, threshold_ns })
    }

    fn oldest(&self, limit: Length) -> Option<(f64, Trigger, u64)> {
        let ns = self.oldest_wait()?.ns.0;
        let since = self.reading.at.trace.0.saturating_sub(ns);
        self.rank(ns, limit, since, |ns, threshold_ns| Trigger::Oldest { ns, threshold_ns })
    }

    /// How far a wait is above its limit. Half of what it takes to be there must be others' precedence.
    fn rank(
        &self,
        ns: u64,
        limit: Length,
        since: u64,
        trigger: impl Fn(u64, u64) -> Trigger,
    ) -> Option<(f64, Trigger, u64)> {
        // Of one that is too short anyway it need not be known.
        if ns < limit.nanos() / 2 {
            return None;
        }
        let unfair = self.unfair_since(since).0.saturating_mul(2).min(ns);
        let rank = unfair as f64 / limit.nanos().max(1) as f64;
        (rank >= 0.5).then(|| (rank, trigger(ns, limit.nanos()), since))
    }

    fn share(&self, limit: f64) -> Option<(f64, Trigger, u64)> {
        let now = self.reading.at.trace.0;
        let begin = self.at_or_before(now.saturating_sub(WINDOW));
        let span = now.saturating_sub(begin.at.trace.0);
        // Of less than most of a second nothing can be said yet.
        if span < WINDOW * 3 / 4 || limit <= 0.0 {
            return None;
        }
        // All waits together are a bound, and are known at once.
        let waited = self.waited_since(begin)?;
        if waited.0 as f64 / span as f64 / limit < 0.5 {
            return None;
        }
        let unfair = self.unfair_since(begin.at.trace.0);
        let share = unfair.0 as f64 / span as f64;
        let rank = share / limit;
        (rank >= 0.5).then_some((rank, Trigger::Share { share, threshold: limit }, begin.at.trace.0))
    }

    /// All that was waited since then.
    fn waited_since(&self, then: &Reading) -> Option<Nanos> {
        let now = self.reading.waits.get(self.id.index())?.waited;
        let then = self.same_role(then).and_then(|id| then.waits.get(id.index()));
        Some(then.map_or(now, |then| now.saturating_sub(then.waited)))
    }

    fn oldest_wait(&self) -> Option<&crate::OldestWait> {
        self.reading.oldest.iter().filter(|wait| wait.role == self.id).max_by_key(|wait| wait.ns)
    }

    /// The latest reading of then or earlier; the earliest that is left, if there is none.
    fn at_or_before(&self, time: u64) -> &Reading {
        let earlier = self.past.iter().rev().find(|reading| reading.at.trace.0 <= time);
        earlier.or(self.past.front()).map_or(self.before, |reading| reading)
    }

    /// For how long others were preferred since then.
    fn unfair_since(&self, time: u64) -> Nanos {
        self.preferred_since(time).into_iter().map(|(_, ns)| ns).sum()
    }

    /// Who was preferred, by which rule and for how long since then.
    fn preferred_since(&self, time: u64) -> Vec<(Blame, Nanos)> {
        let then = self.at_or_before(time);
        let rows = self.reading.blame.iter().filter(|row| row.victim == self.id && is_precedence(row.rule));
        rows.map(|row| (*row, row.ns.saturating_sub(self.earlier(then, row)))).filter(|(_, ns)| ns.0 > 0).collect()
    }

    fn earlier(&self, then: &Reading, row: &Blame) -> Nanos {
        let find = |id: RoleId| {
            let role = self.reading.role(id)?;
            // Mostly it has kept its id.
            if then.role(id) == Some(role) { Some(id) } else { then.find(role.kind, role.cgroup.as_deref()) }
        };
        let (Some(victim), Some(occupant)) = (find(row.victim), find(row.occupant)) else { return Nanos(0) };
        let same = |old: &&Blame| (old.victim, old.occupant, old.rule) == (victim, occupant, row.rule);
        then.blame.iter().find(same).map_or(Nanos(0), |old| old.ns)
    }

    fn same_role(&self, reading: &Reading) -> Option<RoleId> {
        let is_same = reading.role(self.id) == Some(self.role);
        if is_same { Some(self.id) } else { reading.find(self.role.kind, self.role.cgroup.as_deref()) }
    }

    fn begun(&self, trigger: Trigger, since: u64) -> Begun {
        let most = self.preferred_since(since).into_iter().max_by_key(|(_, ns)| *ns);
        let wait = self.oldest_wait();
        let culprit = most.and_then(|(row, _)| self.reading.role(row.occupant)).cloned();
        // The task that has the CPU at this moment, if it is of those that had it most.
        let culprit_task = wait.filter(|wait| most.is_some_and(|(row, _)| row.occupant == wait.occupant_role));
        Begun {
            at: self.reading.at,
            trigger,
            since: unstarve_model::Time(since),
            victim: self.role.clone(),
            victim_task: wait.map(|wait| wait.task),
            culprit,
            culprit_task: culprit_task.and_then(|wait| wait.occupant),
            rule: most.map(|(row, _)| row.rule),
            ns: most.map_or(Nanos(0), |(_, ns)| ns),
        }
    }
}

/// Whether a rule prefers the occupant to who waits.
pub(crate) fn is_precedence(rule: Rule) -> bool {
    match rule {
        Rule::Irq
        | Rule::Softirq
        | Rule::Throttled
        | Rule::Class
        | Rule::Order
        | Rule::WakeupPreemption
        | Rule::Weight
        | Rule::Count => true,
        Rule::Unknown | Rule::Unranked | Rule::Idle | Rule::Fair => false,
    }
}

#[cfg(test)]
#[path = "detect_tests.rs"]
mod tests;
