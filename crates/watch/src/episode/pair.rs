//! Compares one role in two successive readings.

use std::collections::VecDeque;
use std::sync::Arc;

use unstarve_model::Nanos;
use unstarve_sched::Rule;

use super::begun::Begun;
use super::trigger::Trigger;
use crate::engine::reading::{Blame, Histogram, OldestWait, Reading, Role, RoleId, Waits, is_precedence, shares};

/// Window for shares of time.
pub(super) const WINDOW: u64 = 1_000_000_000;
/// Twice the period of fair scheduling: no turn among equals takes that long (docs/blame.md, "How bad").
pub(super) const LONG: u64 = 24_000_000;
/// Minimum readings within a second in which a task waits for long: a single burst that many tasks wait for does not persist.
pub(super) const READINGS: usize = 3;

/// The multiple of the threshold, and the episode.
pub(super) type Ranked = (f64, Begun);

/// A condition that is at half of its threshold or above.
#[derive(Clone, Copy)]
pub(super) struct Met<'a> {
    pub rank: f64,
    pub trigger: Trigger,
    /// When its waits may have begun.
    pub since: u64,
    /// The wait in progress that meets the condition, if it is one.
    pub wait: Option<&'a OldestWait>,
    /// Why the wait counts.
    pub by: Counts,
}

/// Why a wait counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Counts {
    /// Other tasks were preferred.
    Precedence,
    /// It is so long that fair turns of equals count too.
    Length,
    /// The table of verdicts calls the waits for this reason an alarm.
    Reason(Reason),
}

/// Why tasks wait, as far as sums per role show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reason {
    /// Real-time tasks, or tasks of a higher priority, had the CPU.
    Class,
    /// Tasks of a higher weight had the CPU.
    Weight,
    /// Equals had the CPU, and a crowd of them waits.
    Crowd,
}

/// One role in two successive readings.
pub(super) struct Pair<'a> {
    pub id: RoleId,
    pub role: &'a Role,
    pub before: &'a Reading,
    pub reading: &'a Reading,
    pub past: &'a VecDeque<Arc<Reading>>,
}

impl<'a> Pair<'a> {
    /// Lower bound of the longest finished wait, and when it may have begun.
    pub(super) fn longest_ended(&self) -> Option<(u64, u64)> {
        let longest = self.ended(self.before, self.reading)?.buckets().last()?;
        // Only the lower bound of a histogram step is certain.
        let ns = (longest.from * 1e9) as u64;
        Some((ns, self.before.at.trace.0.saturating_sub(ns)))
    }

    /// All readings since then.
    pub(super) fn readings_since(&self, since: u64) -> Vec<&'a Reading> {
        let past = self.past.iter().map(|reading| &**reading).filter(|reading| reading.at.trace.0 >= since);
        past.chain([self.reading]).collect()
    }

    /// The role's sums in a reading.
    fn waits_in<'b>(&self, reading: &'b Reading) -> Option<&'b Waits> {
        reading.waits.get(self.same_role(reading)?.index())
    }

    /// Growth of one of the role's sums since then.
    fn grown_since(&self, then: &Reading, sum: impl Fn(&Waits) -> Nanos) -> Option<Nanos> {
        let now = sum(self.waits_in(self.reading)?);
        Some(self.waits_in(then).map_or(now, |then| now.saturating_sub(sum(then))))
    }

    /// Waits of the role that ended between two readings.
    pub(super) fn ended(&self, then: &Reading, now: &Reading) -> Option<Histogram> {
        let all = &self.waits_in(now)?.histogram;
        Some(self.waits_in(then).map_or_else(|| all.clone(), |then| all.since(&then.histogram)))
    }

    /// Total waiting time since then.
    pub(super) fn waited_since(&self, then: &Reading) -> Option<Nanos> {
        self.grown_since(then, |waits| waits.waited)
    }

    /// For how long other tasks were preferred since then; each moment counts once per CPU, however many tasks wait.
    pub(super) fn preferred_at_once_since(&self, then: &Reading) -> Nanos {
        self.grown_since(then, |waits| waits.preferred).unwrap_or_default()
    }

    /// The longest waits in progress of the role, one per CPU.
    pub(super) fn oldest_waits(&self) -> impl Iterator<Item = &'a OldestWait> + use<'a> {
        let id = self.id;
        self.reading.oldest.iter().filter(move |wait| wait.role == id)
    }

    /// The latest reading at or before this time; the earliest one kept if there is none.
    pub(super) fn at_or_before(&self, time: u64) -> &'a Reading {
        let earlier = self.past.iter().rev().find(|reading| reading.at.trace.0 <= time);
        earlier.or(self.past.front()).map_or(self.before, |reading| reading)
    }

    /// The preferred roles since then, with rule and duration.
    pub(super) fn preferred_since(&self, time: u64) -> Vec<(Blame, Nanos)> {
        let then = self.at_or_before(time);
        let rows = self.reading.blame.iter().filter(|row| row.victim == self.id && is_precedence(row.rule));
        let grown = rows.map(|row| (*row, row.ns.saturating_sub(self.earlier(then, row))));
        let (throttled, mut others): (Vec<_>, Vec<_>) = grown.partition(|(row, _)| row.rule == Rule::Throttled);
        let mut stopped: Nanos = throttled.into_iter().map(|(_, ns)| ns).sum();
        // Throttled time that the kernel has counted and no reading has attributed yet: no occupant is blamed for it.
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

    /// Throttled time since then, by the kernel's counters.
    pub(super) fn stopped_since(&self, then: &Reading) -> Nanos {
        self.grown_since(then, |waits| waits.stopped).unwrap_or_default()
    }

    /// The roles that had the CPU by one rule since then, with the duration.
    pub(super) fn by_rule_since(&self, time: u64, rule: Rule) -> impl Iterator<Item = (Blame, Nanos)> + use<'a, '_> {
        let then = self.at_or_before(time);
        let rows = self.reading.blame.iter().filter(move |row| row.victim == self.id && row.rule == rule);
        rows.map(move |row| (*row, row.ns.saturating_sub(self.earlier(then, row)))).filter(|(_, ns)| ns.0 > 0)
    }

    /// The part of a wait by one rule, in proportion to all that the role waited meanwhile.
    pub(super) fn part_by(&self, ns: u64, since: u64, rule: Rule) -> u64 {
        let waited = self.waited_since(self.at_or_before(since)).map_or(0, |waited| waited.0);
        let by = self.by_rule_since(since, rule).map(|(_, ns)| ns.0).fold(0, u64::saturating_add);
        part_of(ns, by, waited)
    }

    fn earlier(&self, then: &Reading, row: &Blame) -> Nanos {
        let find = |id: RoleId| {
            let role = self.reading.role(id)?;
            // Usually the role has kept its id.
            if then.role(id) == Some(role) { Some(id) } else { then.find(role.kind, role.cgroup.as_deref()) }
        };
        let (Some(victim), Some(occupant)) = (find(row.victim), find(row.occupant)) else { return Nanos(0) };
        let same = |old: &&Blame| (old.victim, old.occupant, old.rule) == (victim, occupant, row.rule);
        then.blame.iter().find(same).map_or(Nanos(0), |old| old.ns)
    }

    pub(super) fn same_role(&self, reading: &Reading) -> Option<RoleId> {
        let is_same = reading.role(self.id) == Some(self.role);
        if is_same { Some(self.id) } else { reading.find(self.role.kind, self.role.cgroup.as_deref()) }
    }
}

/// The fraction `part`/`all` of `ns`, at most `part`.
pub(super) fn part_of(ns: u64, part: u64, all: u64) -> u64 {
    let part = part.min(all);
    let share = u128::from(ns) * u128::from(part) / u128::from(all.max(1));
    u64::try_from(share).unwrap_or(u64::MAX).min(part)
}
