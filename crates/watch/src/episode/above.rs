//! What is above its threshold of one role: a pure function of readings.

use std::collections::VecDeque;
use std::sync::Arc;

use unstarve_model::{Nanos, Time};
use unstarve_timeline::Rule;

use super::{Begun, Trigger};
use crate::config::{Length, RoleThresholds};
use crate::limits::shares;
use crate::{Blame, Reading, Role, RoleId};

/// The time over which shares are taken.
pub(super) const WINDOW: u64 = 1_000_000_000;
/// Twice the period of fair scheduling: nobody's turn among equals takes that long (docs/blame.md, "How bad").
const LONG: u64 = 24_000_000;
/// In so many of a second's readings somebody waits for long: one burst that many tasks wait for at once is not what lasts.
const READINGS: usize = 3;

/// How far above its threshold.
pub(super) type Ranked = (f64, Begun);

/// One role in two successive readings.
pub(super) struct Pair<'a> {
    pub id: RoleId,
    pub role: &'a Role,
    pub before: &'a Reading,
    pub reading: &'a Reading,
    pub past: &'a VecDeque<Arc<Reading>>,
}

impl Pair<'_> {
    /// The condition that is met furthest, and since when its waits may have been.
    pub fn worst(&self, thresholds: &RoleThresholds) -> Option<(f64, Trigger, u64)> {
        let conditions = [
            thresholds.wait.and_then(|limit| self.wait(limit)),
            thresholds.oldest.and_then(|limit| self.oldest(limit)),
            thresholds.share.and_then(|limit| self.share(limit.0)),
            thresholds.stalled.and_then(|limit| self.stalled(limit.0)),
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

    /// Long waits behind real-time tasks, together, as a part of the last second. At least half of all that was waited must be behind
    /// them: the sums do not say for which of the waits they are to blame.
    fn stalled(&self, limit: f64) -> Option<(f64, Trigger, u64)> {
        let begin = self.at_or_before(self.reading.at.trace.0.saturating_sub(WINDOW));
        let span = self.reading.at.trace.0.saturating_sub(begin.at.trace.0);
        if span < WINDOW * 3 / 4 || limit <= 0.0 {
            return None;
        }
        let waited = self.waited_since(begin)?.0;
        let least = (limit / 2.0 * span as f64) as u64;
        if waited < least {
            return None;
        }
        let by_class = self.preferred_since(begin.at.trace.0).into_iter().filter(|(row, _)| row.rule == Rule::Class);
        let by_class: u64 = by_class.map(|(_, ns)| ns.0).sum();
        if by_class < least || by_class.saturating_mul(2) < waited {
            return None;
        }
        // Of what lasts only this second's part; of a wait that has ended some may have been before.
        let lasting = self.long_lasting().map(|ns| ns.min(span)).sum();
        let long = self.long_ended(begin, self.reading).saturating_add(lasting).min(by_class);
        let share = (long as f64 / span as f64).min(1.0);
        let rank = share / limit;
        let lasts = || self.readings_with_long(begin.at.trace.0) >= READINGS;
        (rank >= 0.5 && lasts()).then_some((rank, Trigger::Stalled { share, threshold: limit }, begin.at.trace.0))
    }

    /// What long waits took that ended between two readings, by the lower bounds of their steps.
    fn long_ended(&self, then: &Reading, now: &Reading) -> u64 {
        let of = |reading: &Reading| {
            let id = self.same_role(reading)?;
            reading.waits.get(id.index()).map(|waits| waits.histogram.clone())
        };
        let Some(ended) = of(now) else { return 0 };
        let ended = of(then).map_or_else(|| ended.clone(), |then| ended.since(&then));
        let long =
            ended.buckets().map(|bucket| ((bucket.from * 1e9) as u64, bucket.count)).filter(|(ns, _)| *ns >= LONG);
        long.map(|(ns, count)| ns.saturating_mul(count)).fold(0, u64::saturating_add)
    }

    fn long_lasting(&self) -> impl Iterator<Item = u64> {
        let of_role = self.reading.oldest.iter().filter(|wait| wait.role == self.id);
        of_role.map(|wait| wait.ns.0).filter(|ns| *ns >= LONG)
    }

    /// At how many readings since then somebody had waited for long, and waits still or did so since the reading before.
    fn readings_with_long(&self, since: u64) -> usize {
        let readings: Vec<&Reading> =
            self.past.iter().map(|reading| &**reading).filter(|reading| reading.at.trace.0 >= since).collect();
        let pairs = readings.iter().zip(readings.iter().skip(1).copied().chain([self.reading]));
        let has_long = |(then, now): &(&&Reading, &Reading)| {
            let id = self.same_role(now);
            let lasts = now.oldest.iter().any(|wait| Some(wait.role) == id && wait.ns.0 >= LONG);
            lasts || self.long_ended(then, now) > 0
        };
        pairs.filter(has_long).count()
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
        let grown = rows.map(|row| (*row, row.ns.saturating_sub(self.earlier(then, row))));
        let (throttled, mut others): (Vec<_>, Vec<_>) = grown.partition(|(row, _)| row.rule == Rule::Throttled);
        let mut stopped: Nanos = throttled.into_iter().map(|(_, ns)| ns).sum();
        // What the kernel has counted and no reading has put in its place yet: nobody is named for it.
        let mut left = self.stopped_since(then).saturating_sub(stopped);
        for rule in [Rule::Weight, Rule::WakeupPreemption] {
            let is_of = |row: &Blame| row.rule == rule && row.occupant != self.id;
            let of_rule: Vec<&mut Nanos> = others.iter_mut().filter(|(row, _)| is_of(row)).map(|(_, ns)| ns).collect();
            let parts: Vec<u64> = of_rule.iter().map(|ns| ns.0).collect();
            for (ns, taken) in of_rule.into_iter().zip(shares(&parts, left.0)) {
                *ns = Nanos(ns.0.saturating_sub(taken));
                (left, stopped) = (Nanos(left.0.saturating_sub(taken)), Nanos(stopped.0 + taken));
            }
        }
        let by_limit = Blame { victim: self.id, occupant: self.id, rule: Rule::Throttled, ns: stopped };
        others.push((by_limit, stopped));
        others.retain(|(_, ns)| ns.0 > 0);
        others
    }

    /// What the kernel says that limits stopped since then.
    fn stopped_since(&self, then: &Reading) -> Nanos {
        let Some(now) = self.reading.waits.get(self.id.index()) else { return Nanos::ZERO };
        let then = self.same_role(then).and_then(|id| then.waits.get(id.index()));
        then.map_or(now.stopped, |then| now.stopped.saturating_sub(then.stopped))
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

    pub fn begun(&self, trigger: Trigger, since: u64) -> Begun {
        let most = self.preferred_since(since).into_iter().max_by_key(|(_, ns)| *ns);
        let wait = self.oldest_wait();
        // A limit is the group's own: who had the CPU while it stopped the group is not to blame.
        let most_by_others = most.filter(|(row, _)| row.rule != Rule::Throttled);
        let culprit = most_by_others.and_then(|(row, _)| self.reading.role(row.occupant)).cloned();
        // The task that has the CPU at this moment, if it is of those that had it most.
        let culprit_task =
            wait.filter(|wait| most_by_others.is_some_and(|(row, _)| row.occupant == wait.occupant_role));
        Begun {
            at: self.reading.at,
            trigger,
            since: Time(since),
            victim: self.role.clone(),
            group: None,
            victim_task: wait.map(|wait| wait.task),
            culprit,
            culprit_task: culprit_task.and_then(|wait| wait.occupant),
            rule: most.map(|(row, _)| row.rule),
            ns: most.map_or(Nanos(0), |(_, ns)| ns),
        }
    }
}

/// Whether a rule prefers the occupant to who waits.
pub fn is_precedence(rule: Rule) -> bool {
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
