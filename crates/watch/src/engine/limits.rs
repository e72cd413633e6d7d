//! What the kernel counts of groups that a limit stops, and what of their waits is that.
//!
//! While a limit stops a group others have the CPU, and the events look as if these were preferred to it. Only the kernel knows:
//! `cpu.stat` says for how long each of the group's queues was stopped, however many tasks waited in it. So much of what the group
//! waited behind others is taken from them here, at least, and counted as `throttled`. The sum over a victim stays what it was.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use unstarve_facts::Throttled;
use unstarve_sched::Rule;
use unstarve_sched::counted::{COUNTED_RULES, place};

use crate::engine::reading::{LimitedGroup, RoleKind, shares};
use crate::engine::totals::Totals;

/// Rules by which others seem to be preferred, or to have their turn, while a limit stops who waits.
const TAKEN_FROM: [Rule; 3] = [Rule::Weight, Rule::WakeupPreemption, Rule::Fair];
/// A stop is counted when it ends, mostly with its period, which is a second at most. Four readings a second, and as long again.
const SETTLED_WITHIN: u64 = 8;
/// A group that has used more than its quota pays that back: then a stop lasts for several periods and is counted once. What it waited
/// meanwhile is its neighbours' already, so that as much is taken from them within as long a time; no longer than ten seconds.
const SETTLED_AT_LAST: u64 = 40;
/// So long is a reading, mostly.
const READING: u64 = 250_000_000;

/// Puts what the kernel counts as stopped in its place.
#[derive(Debug, Default)]
pub(crate) struct Stops {
    /// The counters at the last look, by path.
    counted: BTreeMap<Arc<str>, Throttled>,
    /// By role.
    accounts: BTreeMap<usize, Account>,
    /// What was taken so far, by victim, occupant and the place of the rule.
    taken: BTreeMap<(usize, usize, usize), u64>,
}

/// Stops of one role.
#[derive(Debug, Default)]
struct Account {
    /// All that was stopped so far.
    stopped: u64,
    /// What was stopped and is not yet counted as throttled; less than nothing where it was counted as that before the kernel had.
    left: i128,
    /// What came lately, and what was seen to be throttled lately: what does not find each other in time never does.
    came: Lately,
    seen: Lately,
    /// Sums at the last look, once all was put in its place.
    sums: Vec<u64>,
}

impl Stops {
    /// Counts what the groups were stopped since the last call. `totals` are all sums since the beginning, as they were counted.
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

    /// Whether all that was stopped has found its wait, or is too long ago to find it. That is counted in readings.
    #[cfg(feature = "bpf")]
    pub fn is_settled(&self) -> bool {
        self.accounts.values().all(|account| account.came.entries.is_empty() && account.seen.entries.is_empty())
    }

    /// Takes what was taken before: the sums are those since the beginning.
    pub fn repeat(&self, totals: &mut Totals) {
        for ((victim, occupant, place), ns) in &self.taken {
            totals.take((*victim, *occupant, *place), throttled(), *ns);
        }
        for (victim, account) in &self.accounts {
            totals.roles[*victim].stopped = account.stopped;
        }
    }

    /// By role what the counters of its own group have grown by. Of limits further down, and of groups that share a role, nobody knows
    /// whose wait it was: there others of the role run meanwhile.
    fn grown(&mut self, groups: &[LimitedGroup]) -> BTreeMap<usize, Stopped> {
        let mut grown: BTreeMap<usize, Stopped> = BTreeMap::new();
        for group in groups.iter().filter(|group| is_whole_role(group)) {
            let before = self.counted.get(&group.path).filter(|before| before.count <= group.counted.count);
            // What it was stopped before the first look is nobody's wait that is counted here.
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

/// Whether a role is this group with all that is below it.
fn is_whole_role(group: &LimitedGroup) -> bool {
    group.role.index() >= RoleKind::FIXED.len() && group.path.matches('/').count() == 1
}

/// What a counter has grown by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Stopped {
    ns: u64,
    /// Each is counted once, for however many periods it lasts.
    times: u64,
}

impl Stopped {
    /// For how many readings it counts. On several CPUs the stops are as many times longer here, at most.
    fn lasts(self) -> u64 {
        let mean = self.ns.checked_div(self.times).unwrap_or(self.ns);
        mean.div_ceil(READING).saturating_add(SETTLED_WITHIN).min(SETTLED_AT_LAST)
    }
}

/// What came in the last readings, each for its time.
#[derive(Debug, Default)]
struct Lately {
    now: u64,
    /// Until which reading, and how much.
    entries: VecDeque<(u64, u64)>,
}

impl Lately {
    /// The next reading brings so much, which counts for so many readings.
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
    /// Takes as much as was stopped and is not yet counted so; says from what. Several neighbours give as they had the CPU.
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
            // Less than nothing is left where it was seen before the kernel had counted it.
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

/// While a group is stopped no task of it has the CPU; on an idle one the engine sees by itself why nobody runs.
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
