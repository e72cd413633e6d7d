//! Tables of who waited for whom, and of what ran where.

use rustc_hash::FxHashMap;
use unstarve_model::{CpuId, Nanos};
use unstarve_sched::Rule;
use unstarve_timeline::ActorId;

/// Waiting time by victim, occupant, CPU and rule, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct BlameTable {
    /// By victim: most have few occupants, so the search starts at the last entry found.
    rows: Vec<Row>,
    entries: usize,
}

#[derive(Debug, Default)]
struct Row {
    list: Vec<BlameEntry>,
    last: usize,
    /// The position of each entry, once there are many.
    index: FxHashMap<(ActorId, Rule, CpuId), usize>,
}

/// One cell of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlameEntry {
    pub occupant: ActorId,
    pub rule: Rule,
    pub cpu: CpuId,
    pub length: Nanos,
}

impl BlameTable {
    /// A limit for hostile traces; later occupants count as [`ActorId::OTHERS`].
    const MAX_BLAME_ROWS: usize = 1 << 18;
    /// Longer lists are not searched linearly.
    const MAX_LISTED_CULPRITS: usize = 24;

    pub fn add(&mut self, victim: ActorId, occupant: ActorId, rule: Rule, cpu: CpuId, length: Nanos) {
        if self.rows.len() <= victim.index() {
            self.rows.resize_with(victim.index() + 1, Row::default);
        }
        let full = self.entries >= BlameTable::MAX_BLAME_ROWS;
        let row = &mut self.rows[victim.index()];
        let key = |entry: &BlameEntry| (entry.occupant, entry.rule, entry.cpu);
        let wanted = (occupant, rule, cpu);
        if let Some(entry) = row.list.get_mut(row.last)
            && key(entry) == wanted
        {
            entry.length += length;
            return;
        }
        let found = if row.list.len() > BlameTable::MAX_LISTED_CULPRITS {
            row.index.get(&wanted).copied()
        } else {
            row.list.iter().position(|entry| key(entry) == wanted)
        };
        if let Some(at) = found {
            row.last = at;
            row.list[at].length += length;
            return;
        }
        if full && occupant != ActorId::OTHERS {
            self.add(victim, ActorId::OTHERS, rule, cpu, length);
            return;
        }
        self.entries += 1;
        row.last = row.list.len();
        row.list.push(BlameEntry { occupant, rule, cpu, length });
        if row.list.len() > BlameTable::MAX_LISTED_CULPRITS {
            if row.index.is_empty() {
                row.index.extend(row.list.iter().enumerate().map(|(at, entry)| (key(entry), at)));
            } else {
                row.index.insert(wanted, row.last);
            }
        }
    }

    /// All entries, victim by victim.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &BlameEntry)> {
        self.rows.iter().enumerate().flat_map(|(victim, row)| row.list.iter().map(move |entry| (victim, entry)))
    }
}

/// An actor's time on a CPU.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct CpuUse {
    pub ran: Nanos,
    pub runs: u64,
    pub waited: Nanos,
    pub waits: u64,
    /// The longest wait there.
    pub longest: Nanos,
}

/// The number and total time of an interrupt on a CPU.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct InterruptTime {
    pub count: u64,
    pub total: Nanos,
    pub longest: Nanos,
}

/// A value for each actor and CPU.
#[derive(Debug)]
pub(crate) struct ByPlace<T> {
    /// By actor and CPU, for the first CPUs.
    near: Vec<Vec<T>>,
    far: FxHashMap<(ActorId, CpuId), T>,
}

impl<T> Default for ByPlace<T> {
    fn default() -> ByPlace<T> {
        ByPlace { near: Vec::new(), far: FxHashMap::default() }
    }
}

impl<T: Clone + Default> ByPlace<T> {
    /// CPUs in the dense table; with more CPUs few actors run on most of them.
    const DENSE_CPUS: usize = 16;
    /// A limit for hostile traces; later actors count as [`ActorId::OTHERS`].
    const MAX_SPARSE_ENTRIES: usize = 1 << 18;

    pub fn at(&mut self, actor: ActorId, cpu: CpuId) -> &mut T {
        if cpu.index() >= Self::DENSE_CPUS {
            let full = self.far.len() >= Self::MAX_SPARSE_ENTRIES && !self.far.contains_key(&(actor, cpu));
            let actor = if full { ActorId::OTHERS } else { actor };
            return self.far.entry((actor, cpu)).or_default();
        }
        if self.near.len() <= actor.index() {
            self.near.resize_with(actor.index() + 1, Vec::new);
        }
        let row = &mut self.near[actor.index()];
        if row.len() <= cpu.index() {
            row.resize(cpu.index() + 1, T::default());
        }
        &mut row[cpu.index()]
    }

    /// All values that were requested and some that were not: (actor's index, CPU, value).
    pub fn iter(&self) -> impl Iterator<Item = (usize, CpuId, &T)> {
        let near =
            self.near.iter().enumerate().flat_map(|(actor, row)| {
                row.iter().enumerate().map(move |(cpu, value)| (actor, CpuId(cpu as u32), value))
            });
        near.chain(self.far.iter().map(|((actor, cpu), value)| (actor.index(), *cpu, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_keeps_every_nanosecond() {
        let mut table = BlameTable::default();
        let mut sum = 0;
        for step in 0..5000u64 {
            let (rule, cpu) = (Rule::ALL[(step % 10) as usize], CpuId((step % 37) as u32));
            table.add(ActorId::IDLE, ActorId::OTHERS, rule, cpu, Nanos(step));
            sum += step;
        }
        assert_eq!(table.iter().map(|(_, entry)| entry.length.0).sum::<u64>(), sum);
        assert_eq!(table.iter().count(), 370);
        assert!(table.iter().all(|(victim, _)| victim == ActorId::IDLE.index()));
    }
}
