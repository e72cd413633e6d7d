//! Merges short runs into blocks for the timeline of a moment.

use rustc_hash::FxHashMap;
use unstarve_model::{CpuId, Nanos, Tid, Time};
use unstarve_timeline::ActorId;

use super::detail::{Kind, Record};

/// Runs too short to be drawn singly, merged into blocks: how busy a CPU was in each part of a window, with how many
/// runs, and which actor had it most. A merged run always stays visible on the page.
#[derive(Debug)]
pub(crate) struct Density {
    from: Time,
    /// The length of a part, on the waits' CPUs and on the others.
    near: Nanos,
    far: Nanos,
    blocks: FxHashMap<(CpuId, u64), Block>,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    start: Time,
    end: Time,
    busy: u64,
    runs: u32,
    leader: ActorId,
    ahead: u64,
}

/// Parts of a window on all of the waits' CPUs together, and on all other CPUs.
const NEAR_BLOCKS: u64 = 1200;
const FAR_BLOCKS: u64 = 2400;

/// Whether a CPU is one of a window's waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CpuScope {
    /// A CPU of a wait that the window shows.
    Near,
    /// Another CPU.
    Far,
}

impl Density {
    /// For a window on a machine with this many CPUs, `near` of them with waits.
    pub fn new((from, to): (Time, Time), cpus: usize, near: usize) -> Density {
        let span = to.since(from).0.max(1);
        let part = |parts: u64, cpus: usize| Nanos(span.div_ceil((parts / cpus.max(1) as u64).clamp(8, 512)));
        Density { from, near: part(NEAR_BLOCKS, near), far: part(FAR_BLOCKS, cpus), blocks: FxHashMap::default() }
    }

    /// Adds a run or an earlier block; returns whether it was one of these.
    pub fn add(&mut self, record: &Record, place: CpuScope) -> bool {
        let (busy, runs) = match record.kind {
            Kind::Run => (record.length().0, 1),
            Kind::Block => (busy_of(record), record.tid.0),
            _ => return false,
        };
        let part = if place == CpuScope::Near { self.near } else { self.far };
        let key = (record.cpu, record.start.since(self.from).0 / part.0.max(1));
        let new = Block { start: record.start, end: record.end, busy: 0, runs: 0, leader: record.actor, ahead: 0 };
        let block = self.blocks.entry(key).or_insert(new);
        block.start = block.start.min(record.start);
        block.end = block.end.max(record.end);
        block.busy += busy;
        block.runs = block.runs.saturating_add(runs);
        if block.leader == record.actor {
            block.ahead += busy;
        } else if busy > block.ahead {
            (block.leader, block.ahead) = (record.actor, busy - block.ahead);
        } else {
            block.ahead -= busy;
        }
        true
    }

    /// The blocks in the order of their ends.
    pub fn into_records(self) -> Vec<Record> {
        let mut records: Vec<Record> = self
            .blocks
            .iter()
            .map(|((cpu, _), block)| Record {
                start: block.start,
                end: block.end,
                kind: Kind::Block,
                cpu: *cpu,
                tid: Tid(block.runs),
                actor: block.leader,
                detail: share(block.busy, block.end.since(block.start)),
            })
            .collect();
        records.sort_unstable_by_key(|record| (record.end, record.cpu, record.start));
        records
    }
}

/// A fraction of a span, in units of 2^-32.
pub(crate) fn share(part: u64, whole: Nanos) -> u32 {
    (Nanos(part).share_of(whole).min(1.0) * f64::from(u32::MAX)) as u32
}

fn busy_of(block: &Record) -> u64 {
    (f64::from(block.detail) / f64::from(u32::MAX) * block.length().0 as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(cpu: u32, start: u64, end: u64, actor: ActorId) -> Record {
        Record { start: Time(start), end: Time(end), kind: Kind::Run, cpu: CpuId(cpu), tid: Tid(9), actor, detail: 0 }
    }

    #[test]
    fn merged_runs_keep_their_time_their_number_and_who_had_most() {
        let mut density = Density::new((Time(0), Time(8_000_000)), 64, 1);
        let mut busy = 0;
        for index in 0..10_000 {
            let start = index * 800;
            let actor = if index % 3 == 0 { ActorId::UNKNOWN } else { ActorId::OTHERS };
            assert!(density.add(&run((index % 2) as u32, start, start + 500, actor), CpuScope::Far));
            busy += 500;
        }
        assert!(!density.add(&Record { kind: Kind::Wake, ..run(0, 5, 5, ActorId::IDLE) }, CpuScope::Near));
        let blocks = density.into_records();
        assert!(blocks.len() <= 2 * 64, "{}", blocks.len());
        assert_eq!(blocks.iter().map(|block| u64::from(block.tid.0)).sum::<u64>(), 10_000);
        let kept: u64 = blocks.iter().map(busy_of).sum();
        assert!(kept.abs_diff(busy) < busy / 1000, "{kept} of {busy}");
        assert!(blocks.iter().all(|block| block.actor == ActorId::OTHERS && block.kind == Kind::Block));

        // Blocks merge like runs.
        let mut coarse = Density::new((Time(0), Time(8_000_000)), 1024, 1);
        blocks.iter().for_each(|block| assert!(coarse.add(block, CpuScope::Far)));
        let merged = coarse.into_records();
        assert!(merged.len() < blocks.len());
        assert_eq!(merged.iter().map(|block| u64::from(block.tid.0)).sum::<u64>(), 10_000);
    }
}
