//! Attributes waits of throttled groups to their quota, by the kernel's counters.
//!
//! While a group is throttled, other tasks have the CPU, and the events look as if these were preferred to it. Only the kernel knows:
//! `cpu.stat` shows for how long each of the group's run queues was throttled, however many tasks waited in it. At least this much of the
//! group's wait behind other tasks is moved here to the rule `throttled`. The sum per victim does not change.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use unstarve_facts::Throttled;
use unstarve_sched::Rule;
use unstarve_sched::counted::{COUNTED_RULES, place};

use crate::engine::reading::{LimitedGroup, RoleKind, shares};
use crate::engine::totals::Totals;

/// Rules by which other tasks seem to be preferred, or to get an equal share, while a quota throttles the waiting tasks.
const TAKEN_FROM: [Rule; 3] = [Rule::Weight, Rule::WakeupPreemption, Rule::Fair];
/// Readings within which throttled time must be matched. The kernel counts it when the throttling ends, usually with its period, which is at
/// most one second: four readings a second, and as many again.
const SETTLED_WITHIN: u64 = 8;
/// The same for a group that exceeded its quota: it repays the excess, so that throttling lasts for several periods and is counted once. By
/// then its wait has been attributed to its neighbours, so that as much is taken from them over an equally long time; at most ten seconds.
const SETTLED_AT_LAST: u64 = 40;
/// Usual length of a reading.
const READING: u64 = 250_000_000;

/// Moves waits from other rules to `throttled`, up to what the kernel counted.
#[derive(Debug, Default)]
pub(crate) struct Stops {
    /// The counters at the last look, by path.
    counted: BTreeMap<Arc<str>, Throttled>,
    /// By role.
    accounts: BTreeMap<usize, Account>,
    /// What was moved so far, by victim, occupant and place of the rule.
    taken: BTreeMap<(usize, usize, usize), u64>,
}

/// Throttled time of one role.
#[derive(Debug, Default)]
struct Account {
    /// All throttled time so far.
    stopped: u64,
    /// Throttled time not yet counted as `throttled`; negative where waits were counted as that before the kernel had counted them.
    left: i128,
    /// Throttled time that the kernel counted recently, and waits seen as `throttled` recently: they must match within a bounded time.
    came: Lately,
    seen: Lately,
    /// Sums at the last look, after the move.
    sums: Vec<u64>,
}

impl Stops {
    /// Attributes the throttled time since the last call. `totals` are the unmodified sums since the beginning.
    pub fn settle(&mut self, totals: &mut Totals, groups: &[LimitedGroup]) {
        self.repeat(totals);
        let grown = self.grown(groups);
        let victims: BTreeSet<usize> =
            groups.iter().map(|group| group.role.index()).chain(self.accounts.keys().copied()).collect();
        for victim in victims {
            let stopped = grown.get(&victim).copied().unwrap_or_default();
            let account = self.accounts.entry(victim).or_default();
            let taken = account.settle(totals, victim, stopped);
            for (place, ns) in taken {
                *self.taken.entry(place).or_insert(0) += ns;
            }
            totals.roles[victim].stopped = self.accounts.get(&victim).map_or(0, |account| account.stopped);
        }
    }

    /// Whether all throttled time is matched with waits or is too old to be. Age is counted in readings.
    #[cfg(feature = "bpf")]
    pub fn is_settled(&self) -> bool {
        self.accounts.values().all(|account| account.came.entries.is_empty() && account.seen.entries.is_empty())
    }

    /// Repeats the earlier moves: the sums are those since the beginning.
    pub fn repeat(&self, totals: &mut Totals) {
        for ((victim, occupant, place), ns) in &self.taken {
            totals.take((*victim, *occupant, *place), throttled(), *ns);
        }
        for (victim, account) in &self.accounts {
            totals.roles[*victim].stopped = account.stopped;
        }
    }

    /// By role, the growth of the counters of its own group. Groups further down, and groups that share a role, are left out: other tasks of the
    /// role run meanwhile, so that it is unknown which waits were due to the quota.
    fn grown(&mut self, groups: &[LimitedGroup]) -> BTreeMap<usize, Stopped> {
        let mut grown: BTreeMap<usize, Stopped> = BTreeMap::new();
        for group in groups.iter().filter(|group| is_whole_role(group)) {
            let before = self.counted.get(&group.path).filter(|before| before.count <= group.counted.count);
            // Throttled time before the first look belongs to waits that are not counted here.
            let stopped = before.map_or_else(Stopped::default, |before| Stopped {
                ns: group.counted.ns.0.saturating_sub(before.ns.0),
                times: group.counted.count - before.count,
            });
            grown.insert(group.role.index(), stopped);
        }
        self.counted = groups.iter().map(|group| (Arc::clone(&group.path), group.counted)).collect();
        grown
    }
}

/// Whether a role consists of exactly this group and all groups below it.
fn is_whole_role(group: &LimitedGroup) -> bool {
    group.role.index() >= RoleKind::FIXED.len() && group.path.matches('/').count() == 1
}

/// Growth of a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Stopped {
    ns: u64,
    /// Each throttling is counted once, however many periods it lasts.
    times: u64,
}

impl Stopped {
    /// Number of readings for which it counts. On several CPUs the throttled time is the sum of theirs, so that this is an upper bound.
    fn lasts(self) -> u64 {
        let mean = self.ns.checked_div(self.times).unwrap_or(self.ns);
        mean.div_ceil(READING).saturating_add(SETTLED_WITHIN).min(SETTLED_AT_LAST)
    }
}

/// Amounts of the last readings, each with the reading at which it expires.
#[derive(Debug, Default)]
struct Lately {
    now: u64,
    /// The reading at which it expires, and the amount.
    entries: VecDeque<(u64, u64)>,
}

impl Lately {
    /// Starts the next reading, with an amount that counts for the given number of readings.
    fn note(&mut self, ns: u64, readings: u64) {
        self.now += 1;
        self.entries.retain(|(until, _)| *until > self.now);
        if ns > 0 {
            self.entries.push_back((self.now + readings, ns));
        }
    }

    fn sum(&self) -> i128 {
        self.entries.iter().map(|(_, ns)| i128::from(*ns)).sum()
    }
}

impl Account {
    /// Moves as much as was throttled and is not yet counted so; returns from where. Several neighbours contribute in proportion to their CPU time.
    fn settle(&mut self, totals: &mut Totals, victim: usize, stopped: Stopped) -> Vec<((usize, usize, usize), u64)> {
        self.stopped = self.stopped.saturating_add(stopped.ns);
        let sums = totals.of_victim(victim).to_vec();
        let before = std::mem::replace(&mut self.sums, sums);
        if before.is_empty() {
            return Vec::new();
        }
        let grown = |sums: &[u64], index: usize| sums[index].saturating_sub(before[index]);
        let throttled = throttled();
        let seen = (0..self.sums.len()).filter(|index| index % COUNTED_RULES == throttled);
        let seen: u64 = seen.map(|index| grown(&self.sums, index)).sum();
        self.came.note(stopped.ns, stopped.lasts());
        self.seen.note(seen, SETTLED_WITHIN);
        let left = self.left + i128::from(stopped.ns) - i128::from(seen);
        self.left = left.clamp(-self.seen.sum(), self.came.sum());
        let mut taken = Vec::new();
        for rule in TAKEN_FROM {
            // Negative where waits were seen as throttled before the kernel had counted them.
            let Ok(left) = u64::try_from(self.left) else { break };
            let place = place(rule);
            let neighbours = (0..self.sums.len() / COUNTED_RULES).filter(|occupant| is_neighbour(victim, *occupant));
            let neighbours: Vec<usize> = neighbours.collect();
            let grown: Vec<u64> =
                neighbours.iter().map(|occupant| grown(&self.sums, occupant * COUNTED_RULES + place)).collect();
            for (occupant, ns) in neighbours.into_iter().zip(shares(&grown, left)).filter(|(_, ns)| *ns > 0) {
                totals.take((victim, occupant, place), throttled, ns);
                self.left -= i128::from(ns);
                taken.push(((victim, occupant, place), ns));
            }
        }
        self.sums = totals.of_victim(victim).to_vec();
        taken
    }
}

/// While a group is throttled, none of its tasks has the CPU. Idle CPUs are left out: the engine itself sees why nothing runs there.
fn is_neighbour(victim: usize, occupant: usize) -> bool {
    let is = |kind: RoleKind| kind.fixed_id().is_some_and(|id| id.index() == occupant);
    victim != occupant && !is(RoleKind::Unknown) && !is(RoleKind::Idle)
}

fn throttled() -> usize {
    place(Rule::Throttled)
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
