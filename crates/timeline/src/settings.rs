use std::str::FromStr;

use thiserror::Error;
use unstarve_model::{CpuId, Tid, WallClock};

use crate::{GroupId, Groups};

/// What a host snapshot can tell about tasks that their events cannot. `None` everywhere means: not known.
pub trait Settings: Send {
    /// The cgroups that [`Self::group`] speaks of, once, when a timeline begins.
    fn groups(&self) -> Groups;

    /// The cgroup with whose weight the task competes with tasks of other groups; `None` when it is in the root cgroup,
    /// as kernel threads are, or when that is not known.
    fn group(&self, tid: Tid) -> Option<GroupId>;

    /// The task's own load weight, where its priority does not tell it: that of SCHED_IDLE is 3 at any nice.
    fn own_weight(&self, tid: Tid) -> Option<u32>;

    /// The CPUs that the task may use.
    fn allowed_cpus(&self, tid: Tid) -> Option<CpuSet>;

    /// Whether the task, runnable when the trace began, was so when it ended and did not run in between.
    fn has_only_waited(&self, _: Tid) -> bool {
        false
    }

    /// Whether a CPU that issued no event at all in the whole trace was idle: it is online, and work on it would have shown
    /// by its ticks.
    fn is_idle_if_silent(&self, _: CpuId) -> bool {
        false
    }

    /// Whether a bandwidth limit applies to the task's cgroup or one above it.
    fn has_bandwidth_limit(&self, tid: Tid) -> Option<bool>;

    /// Whether it is a kernel thread, whatever its name.
    fn is_kernel_thread(&self, _tid: Tid) -> Option<bool> {
        None
    }

    /// The process that a thread belongs to.
    fn process_of(&self, _: Tid) -> Option<Tid> {
        None
    }

    /// The path of a task's cgroup.
    fn cgroup_of(&self, _: Tid) -> Option<&str> {
        None
    }

    /// Where the wall's clock stood.
    fn wall(&self) -> Option<WallClock> {
        None
    }

    /// The name of the machine.
    fn host(&self) -> Option<&str> {
        None
    }
}

/// Settings that can be part of what is printed in a test.
pub(crate) struct BoxedSettings(pub(crate) Box<dyn Settings>);

impl std::fmt::Debug for BoxedSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Settings")
    }
}

/// Nothing is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSettings;

impl Settings for NoSettings {
    fn groups(&self) -> Groups {
        Groups::default()
    }
    fn group(&self, _: Tid) -> Option<GroupId> {
        None
    }
    fn own_weight(&self, _: Tid) -> Option<u32> {
        None
    }
    fn allowed_cpus(&self, _: Tid) -> Option<CpuSet> {
        None
    }
    fn has_bandwidth_limit(&self, _: Tid) -> Option<bool> {
        None
    }
}

/// A set of CPUs.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct CpuSet(Vec<u64>);

impl CpuSet {
    /// Puts a CPU in; those at or above [`CpuId::LIMIT`] are ignored.
    pub fn insert(&mut self, cpu: CpuId) {
        if cpu.0 >= CpuId::LIMIT {
            return;
        }
        let word = cpu.index() / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (cpu.index() % 64);
    }

    /// Takes a CPU out.
    pub fn remove(&mut self, cpu: CpuId) {
        if let Some(word) = self.0.get_mut(cpu.index() / 64) {
            *word &= !(1 << (cpu.index() % 64));
        }
    }

    /// Whether the CPU is in it.
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.0.get(cpu.index() / 64).is_some_and(|word| word & 1 << (cpu.index() % 64) != 0)
    }

    /// How many CPUs are in it.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The highest CPU that is in this set and in `other`; in all sets is what is in no set.
    pub(crate) fn last_common(&self, other: Option<&CpuSet>) -> Option<CpuId> {
        self.0.iter().enumerate().rev().find_map(|(index, word)| {
            let common = word & other.map_or(!0, |other| other.0.get(index).copied().unwrap_or(0));
            (common != 0).then(|| CpuId(index as u32 * 64 + 63 - common.leading_zeros()))
        })
    }

    /// Whether no CPU is in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A text that is no list of CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("not a list of CPUs; expected one like 0,2-3")]
pub struct NotCpus;

impl FromStr for CpuSet {
    type Err = NotCpus;

    /// Reads the kernel's own notation: `0,2-3`.
    fn from_str(text: &str) -> Result<CpuSet, NotCpus> {
        let mut cpus = CpuSet::default();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.parse::<u32>().map_err(|_| NotCpus);
            let (first, last) = (number(first)?, number(last)?);
            if first > last || last >= CpuId::LIMIT {
                return Err(NotCpus);
            }
            (first..=last).for_each(|cpu| cpus.insert(CpuId(cpu)));
        }
        Ok(cpus)
    }
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> CpuSet {
        let mut set = CpuSet::default();
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_the_kernel_prints_them() {
        let cpus = "0,2-3".parse::<CpuSet>().unwrap();
        assert_eq!((0..5).filter(|cpu| cpus.contains(CpuId(*cpu))).collect::<Vec<_>>(), [0, 2, 3]);
        for text in ["", "a", "3-2", "0-", "0,,1", "0-99999999"] {
            assert_eq!(text.parse::<CpuSet>(), Err(NotCpus), "{text}");
        }
    }
}
