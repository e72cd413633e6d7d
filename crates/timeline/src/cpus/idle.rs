//! Measures how long at least one CPU of a set has been idle.

use std::num::NonZeroU32;

use unstarve_model::{CpuId, CpuSet, Nanos, Time};

/// A watched set of CPUs: its index plus one, so that an `Option` of it is no larger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IdleGroup(NonZeroU32);

impl IdleGroup {
    fn at(place: usize) -> IdleGroup {
        IdleGroup(NonZeroU32::MIN.saturating_add(place as u32))
    }

    #[inline]
    pub fn place(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Idle time of at least one CPU of each set that tasks are bound to.
#[derive(Debug)]
pub(crate) struct IdleWatch {
    groups: Vec<Group>,
    idle: CpuSet,
}

#[derive(Debug)]
struct Group {
    /// `None` is every CPU.
    cpus: Option<CpuSet>,
    idle: u32,
    since: Time,
    total: Nanos,
}

impl IdleWatch {
    /// The group of all CPUs.
    pub const ALL: IdleGroup = IdleGroup(NonZeroU32::MIN);
    /// Maximum number of watched affinities; tasks with others count as of unknown affinity.
    pub const LIMIT: usize = 32;

    pub fn new() -> IdleWatch {
        let all = Group { cpus: None, idle: 0, since: Time(0), total: Nanos::ZERO };
        IdleWatch { groups: vec![all], idle: CpuSet::default() }
    }

    /// The group of these CPUs, if there is room to watch it.
    pub fn group_of(&mut self, cpus: CpuSet, now: Time) -> Option<IdleGroup> {
        if let Some(place) = self.groups.iter().position(|group| group.cpus.as_ref() == Some(&cpus)) {
            return Some(IdleGroup::at(place));
        }
        if self.groups.len() >= IdleWatch::LIMIT {
            return None;
        }
        let idle = cpus.iter().filter(|cpu| self.idle.contains(*cpu)).count();
        self.groups.push(Group { cpus: Some(cpus), idle: idle as u32, since: now, total: Nanos::ZERO });
        Some(IdleGroup::at(self.groups.len() - 1))
    }

    /// The CPU becomes idle.
    pub fn enter(&mut self, cpu: CpuId, now: Time) {
        if self.idle.contains(cpu) {
            return;
        }
        self.idle.insert(cpu);
        for group in self.groups.iter_mut().filter(|group| group.has(cpu)) {
            if group.idle == 0 {
                group.since = now;
            }
            group.idle += 1;
        }
    }

    /// The CPU is no longer idle.
    pub fn leave(&mut self, cpu: CpuId, now: Time) {
        if !self.idle.contains(cpu) {
            return;
        }
        self.idle.remove(cpu);
        for group in self.groups.iter_mut().filter(|group| group.has(cpu)) {
            group.idle = group.idle.saturating_sub(1);
            if group.idle == 0 {
                group.total += now.since(group.since);
            }
        }
    }

    /// The highest of these CPUs that is in the group.
    pub fn last_of(&self, group: IdleGroup, cpus: &CpuSet) -> Option<CpuId> {
        match &self.groups[group.place()].cpus {
            Some(those) => cpus.last_common(those),
            None => cpus.last(),
        }
    }

    /// Whether the CPU is in the group.
    pub fn has(&self, group: IdleGroup, cpu: CpuId) -> bool {
        self.groups[group.place()].has(cpu)
    }

    /// How long some CPU of the group has been idle, up to now.
    #[inline]
    pub fn total(&self, group: IdleGroup, now: Time) -> Nanos {
        let group = &self.groups[group.place()];
        if group.idle > 0 { group.total + now.since(group.since) } else { group.total }
    }
}

impl Group {
    fn has(&self, cpu: CpuId) -> bool {
        self.cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_idle_while_any_of_its_cpus_is() {
        //  cpu 0: idle 10..30    cpu 1: idle 20..40
        let mut watch = IdleWatch::new();
        let pair = watch.group_of([CpuId(1), CpuId(2)].into_iter().collect(), Time(0)).unwrap();
        watch.enter(CpuId(0), Time(10));
        watch.enter(CpuId(1), Time(20));
        watch.leave(CpuId(0), Time(30));
        assert_eq!(watch.total(IdleWatch::ALL, Time(35)), Nanos(25));
        watch.leave(CpuId(1), Time(40));
        assert_eq!(watch.total(IdleWatch::ALL, Time(99)), Nanos(30));
        assert_eq!(watch.total(pair, Time(99)), Nanos(20));
    }
}
