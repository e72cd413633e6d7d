//! Plain tables of sums per role.

use std::collections::BTreeMap;

use unstarve_model::{CpuId, Nanos, Time};
use unstarve_sched::counted::COUNTED_RULES;

use crate::engine::reading::{CpuWaits, Histogram, RoleId, TaskId};
use crate::engine::recent_runs::RecentRuns;

const ROLES: usize = RoleId::LIMIT;

/// Sums over all CPUs by role.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Totals {
    /// By victim, occupant and rule.
    blame: Vec<u64>,
    pub roles: Vec<OfRole>,
    /// By role and CPU.
    cpus: BTreeMap<(u8, u32), OnCpu>,
    /// For how long real-time and deadline tasks had each CPU, by CPU number.
    real_time: Vec<u64>,
    /// Which real-time programs had each CPU lately.
    recent: BTreeMap<u32, RecentRuns>,
}

/// Waits of a role for one CPU, and the part of them in which a higher class had the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct OnCpu {
    waited: u64,
    by_class: u64,
}

/// Waits of a role.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct OfRole {
    pub waited: u64,
    /// For how long other tasks were preferred; each moment counts once per CPU, however many tasks wait.
    pub preferred: u64,
    pub ended: u64,
    pub waiting: u32,
    /// Throttled task time according to the kernel.
    pub stopped: u64,
    pub histogram: Histogram,
}

impl OfRole {
    fn since(&self, earlier: &OfRole) -> OfRole {
        OfRole {
            waited: self.waited.saturating_sub(earlier.waited),
            preferred: self.preferred.saturating_sub(earlier.preferred),
            ended: self.ended.saturating_sub(earlier.ended),
            waiting: self.waiting,
            stopped: self.stopped.saturating_sub(earlier.stopped),
            histogram: self.histogram.since(&earlier.histogram),
        }
    }

    fn add(&mut self, other: &OfRole) {
        self.waited = self.waited.saturating_add(other.waited);
        self.preferred = self.preferred.saturating_add(other.preferred);
        self.ended = self.ended.saturating_add(other.ended);
        self.waiting += other.waiting;
        self.stopped = self.stopped.saturating_add(other.stopped);
        self.histogram.merge(&other.histogram);
    }
}

impl Default for Totals {
    fn default() -> Totals {
        Totals::new()
    }
}

impl Totals {
    pub fn new() -> Totals {
        Totals {
            blame: vec![0; ROLES * ROLES * COUNTED_RULES],
            roles: vec![OfRole::default(); ROLES],
            cpus: BTreeMap::new(),
            real_time: Vec::new(),
            recent: BTreeMap::new(),
        }
    }

    /// Waits of a victim, by occupant and rule.
    #[cfg(feature = "bpf")]
    pub fn victim_mut(&mut self, victim: usize) -> &mut [u64] {
        &mut self.blame[victim * ROLES * COUNTED_RULES..(victim + 1) * ROLES * COUNTED_RULES]
    }

    /// The same, read-only.
    pub fn of_victim(&self, victim: usize) -> &[u64] {
        &self.blame[victim * ROLES * COUNTED_RULES..(victim + 1) * ROLES * COUNTED_RULES]
    }

    /// Moves time from one rule to another, at most as much as there is.
    pub fn take(&mut self, (victim, occupant, rule): (usize, usize, usize), by: usize, ns: u64) {
        let at = (victim * ROLES + occupant) * COUNTED_RULES;
        let ns = ns.min(self.blame[at + rule]);
        self.blame[at + rule] -= ns;
        self.blame[at + by] = self.blame[at + by].saturating_add(ns);
    }

    pub fn add(&mut self, (victim, occupant, rule): (usize, usize, usize), ns: u64) {
        let sum = &mut self.blame[(victim * ROLES + occupant) * COUNTED_RULES + rule];
        *sum = sum.saturating_add(ns);
    }

    /// Adds waits of a role for a CPU.
    pub fn add_on_cpu(&mut self, role: usize, cpu: u32, waited: u64, by_class: u64) {
        let Ok(role) = u8::try_from(role) else { return };
        let sums = self.cpus.entry((role, cpu)).or_default();
        sums.waited = sums.waited.wrapping_add(waited);
        sums.by_class = sums.by_class.wrapping_add(by_class);
    }

    /// Adds time that real-time and deadline tasks had a CPU.
    pub fn add_real_time(&mut self, cpu: usize, ns: u64) {
        if self.real_time.len() <= cpu {
            self.real_time.resize(cpu + 1, 0);
        }
        let sum = &mut self.real_time[cpu];
        *sum = sum.wrapping_add(ns);
    }

    /// The time that they had each CPU, by CPU number.
    pub fn real_time(&self) -> Vec<Nanos> {
        self.real_time.iter().copied().map(Nanos).collect()
    }

    /// The real-time programs that had a CPU lately.
    pub fn recent_mut(&mut self, cpu: CpuId) -> &mut RecentRuns {
        self.recent.entry(cpu.0).or_default()
    }

    /// Of each CPU the one that had it for longer lately than all others together, sorted by CPU.
    pub fn real_time_tasks(&self, now: Time) -> Vec<(CpuId, TaskId)> {
        self.recent.iter().filter_map(|(cpu, recent)| Some((CpuId(*cpu), recent.most(now)?))).collect()
    }

    /// By role and CPU, for CPUs on which a higher class kept tasks waiting.
    pub fn cpus(&self) -> Vec<CpuWaits> {
        let held = self.cpus.iter().filter(|(_, sums)| sums.by_class > 0);
        let row = |((role, cpu), sums): (&(u8, u32), &OnCpu)| CpuWaits {
            cpu: CpuId(*cpu),
            role: RoleId(*role),
            waited: Nanos(sums.waited),
            by_class: Nanos(sums.by_class),
        };
        held.map(row).collect()
    }

    /// Victim, occupant, index of the rule, and sum of all entries that are not zero.
    pub fn filled(&self) -> impl Iterator<Item = ((usize, usize, usize), u64)> {
        let filled = self.blame.iter().enumerate().filter(|(_, ns)| **ns > 0);
        filled.map(|(index, ns)| {
            ((index / COUNTED_RULES / ROLES, index / COUNTED_RULES % ROLES, index % COUNTED_RULES), *ns)
        })
    }

    /// The same tables with each role's sums moved to index `to(role)`.
    pub fn moved(&self, to: impl Fn(usize) -> usize) -> Totals {
        let mut moved = Totals::new();
        for ((victim, occupant, rule), ns) in self.filled() {
            moved.add((to(victim), to(occupant), rule), ns);
        }
        for (index, role) in self.roles.iter().enumerate() {
            moved.roles[to(index)].add(role);
        }
        moved
    }

    pub fn since(&self, earlier: &Totals) -> Totals {
        let blame = self.blame.iter().zip(&earlier.blame).map(|(now, then)| now.saturating_sub(*then)).collect();
        let roles = self.roles.iter().zip(&earlier.roles).map(|(now, then)| now.since(then)).collect();
        Totals { blame, roles, ..Totals::new() }
    }

    pub fn merge(&mut self, other: &Totals) {
        self.blame.iter_mut().zip(&other.blame).for_each(|(sum, ns)| *sum = sum.saturating_add(*ns));
        self.roles.iter_mut().zip(&other.roles).for_each(|(sum, role)| sum.add(role));
    }

    /// Copies from `now` all entries that involve a role.
    pub fn copy_role(&mut self, role: usize, now: &Totals) {
        for other in 0..ROLES {
            for place in 0..COUNTED_RULES {
                for index in
                    [(role * ROLES + other) * COUNTED_RULES + place, (other * ROLES + role) * COUNTED_RULES + place]
                {
                    self.blame[index] = now.blame[index];
                }
            }
        }
        self.roles[role] = now.roles[role].clone();
    }

    /// Only the entries that involve a role.
    pub fn only(&self, role: usize) -> Totals {
        let mut only = Totals::new();
        only.copy_role(role, self);
        only
    }
}
