//! One role in two successive readings, and what its sums have grown by.

use std::collections::VecDeque;
use std::sync::Arc;

use unstarve_model::Nanos;
use unstarve_sched::Rule;

use super::begun::Begun;
use super::trigger::Trigger;
use crate::engine::reading::{Blame, OldestWait, Reading, Role, RoleId, is_precedence, shares};

/// The time over which shares are taken.
pub(super) const WINDOW: u64 = 1_000_000_000;
/// Twice the period of fair scheduling: nobody's turn among equals takes that long (docs/blame.md, "How bad").
pub(super) const LONG: u64 = 24_000_000;
/// In so many of a second's readings somebody waits for long: one burst that many tasks wait for at once is not what lasts.
pub(super) const READINGS: usize = 3;

/// How far above its threshold.
pub(super) type Ranked = (f64, Begun);

/// A condition that is met by half or more.
#[derive(Clone, Copy)]
pub(super) struct Met<'a> {
    pub rank: f64,
    pub trigger: Trigger,
    /// Since when its waits may have been.
    pub since: u64,
    /// The wait that meets it, if it is one that lasts.
    pub wait: Option<&'a OldestWait>,
    /// By what it counts.
    pub by: Counts,
}

/// By what a wait counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Counts {
    /// Others were preferred.
    Precedence,
    /// It is so long that turns among equals count, too.
    Length,
    /// The verdict's table says so, of what is for this reason.
    Reason(Reason),
}

/// For what reason tasks wait, as far as sums by role tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reason {
    /// Real-time tasks, or those of a higher priority, had the CPU.
    Class,
    /// Heavier ones had it.
    Weight,
    /// Equals had it, of whom a crowd waits.
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
    /// How long it was at least, and since when it may have been.
    pub(super) fn longest_ended(&self) -> Option<(u64, u64)> {
        let now = &self.reading.waits.get(self.id.index())?.histogram;
        let then = self.same_role(self.before).and_then(|id| self.before.waits.get(id.index()));
        let new = then.map_or_else(|| now.clone(), |then| now.since(&then.histogram));
        let longest = new.buckets().last()?;
        // Of a step only its lower bound is certain.
        let ns = (longest.from * 1e9) as u64;
        Some((ns, self.before.at.trace.0.saturating_sub(ns)))
    }

    /// All readings since then.
    pub(super) fn readings_since(&self, since: u64) -> Vec<&'a Reading> {
        let past = self.past.iter().map(|reading| &**reading).filter(|reading| reading.at.trace.0 >= since);
        past.chain([self.reading]).collect()
    }

    /// All that was waited since then.
    pub(super) fn waited_since(&self, then: &Reading) -> Option<Nanos> {
        let now = self.reading.waits.get(self.id.index())?.waited;
        let then = self.same_role(then).and_then(|id| then.waits.get(id.index()));
        Some(then.map_or(now, |then| now.saturating_sub(then.waited)))
    }

    /// For how long others were preferred since then, of all that wait for one CPU at once each moment once.
    pub(super) fn preferred_at_once_since(&self, then: &Reading) -> Nanos {
        let Some(now) = self.reading.waits.get(self.id.index()) else { return Nanos::ZERO };
        let then = self.same_role(then).and_then(|id| then.waits.get(id.index()));
        then.map_or(now.preferred, |then| now.preferred.saturating_sub(then.preferred))
    }

    /// The longest wait of each CPU that lasts.
    pub(super) fn oldest_waits(&self) -> impl Iterator<Item = &'a OldestWait> + use<'a> {
        let id = self.id;
        self.reading.oldest.iter().filter(move |wait| wait.role == id)
    }

    /// The latest reading of then or earlier; the earliest that is left, if there is none.
    pub(super) fn at_or_before(&self, time: u64) -> &'a Reading {
        let earlier = self.past.iter().rev().find(|reading| reading.at.trace.0 <= time);
        earlier.or(self.past.front()).map_or(self.before, |reading| reading)
    }

    /// Who was preferred, by which rule and for how long since then.
    pub(super) fn preferred_since(&self, time: u64) -> Vec<(Blame, Nanos)> {
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
    pub(super) fn stopped_since(&self, then: &Reading) -> Nanos {
        let Some(now) = self.reading.waits.get(self.id.index()) else { return Nanos::ZERO };
        let then = self.same_role(then).and_then(|id| then.waits.get(id.index()));
        then.map_or(now.stopped, |then| now.stopped.saturating_sub(then.stopped))
    }

    /// Who had the CPU by one rule and for how long since then.
    pub(super) fn by_rule_since(&self, time: u64, rule: Rule) -> impl Iterator<Item = (Blame, Nanos)> + use<'a, '_> {
        let then = self.at_or_before(time);
        let rows = self.reading.blame.iter().filter(move |row| row.victim == self.id && row.rule == rule);
        rows.map(move |row| (*row, row.ns.saturating_sub(self.earlier(then, row)))).filter(|(_, ns)| ns.0 > 0)
    }

    /// How much of a wait one rule has, as much as of all that the role waited meanwhile.
    pub(super) fn part_by(&self, ns: u64, since: u64, rule: Rule) -> u64 {
        let waited = self.waited_since(self.at_or_before(since)).map_or(0, |waited| waited.0);
        let by = self.by_rule_since(since, rule).map(|(_, ns)| ns.0).fold(0, u64::saturating_add);
        part_of(ns, by, waited)
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

    pub(super) fn same_role(&self, reading: &Reading) -> Option<RoleId> {
        let is_same = reading.role(self.id) == Some(self.role);
        if is_same { Some(self.id) } else { reading.find(self.role.kind, self.role.cgroup.as_deref()) }
    }
}

/// Of `ns` so much as `part` is of `all`, and no more than that.
pub(super) fn part_of(ns: u64, part: u64, all: u64) -> u64 {
    let part = part.min(all);
    let share = u128::from(ns) * u128::from(part) / u128::from(all.max(1));
    u64::try_from(share).unwrap_or(u64::MAX).min(part)
}
