//! The activity of each CPU over the trace.

use unstarve_model::{CpuId, Nanos};
use unstarve_timeline::ActorId;

use super::activity::Load;
use super::scale::Stretch;

/// Each CPU over the trace: in each interval how busy it was, how many tasks waited for it, and which actor had it
/// most.
#[derive(Default, Debug)]
pub(crate) struct Lanes {
    cpus: Vec<Lane>,
}

/// One CPU over time.
#[derive(Clone, Default, Debug)]
pub(crate) struct Lane {
    pub busy: Load,
    /// The sum over waiting tasks.
    pub waiting: Load,
    /// Of each interval.
    leaders: Vec<Leader>,
}

/// The actor with most of an interval, found without counting all actors (Boyer and Moore's majority vote): certain if
/// one had more than half of the busy time, else one of those with a large part.
#[derive(Clone, Copy, Debug)]
struct Leader {
    actor: ActorId,
    ahead: u64,
}

impl Leader {
    const NONE: Leader = Leader { actor: ActorId::IDLE, ahead: 0 };

    fn add(&mut self, actor: ActorId, ns: u64) {
        if self.actor == actor {
            self.ahead += ns;
        } else if ns > self.ahead {
            *self = Leader { actor, ahead: ns - self.ahead };
        } else {
            self.ahead -= ns;
        }
    }
}

impl Lanes {
    /// Maximum CPUs shown; of a larger machine the first ones.
    const MAX_CPUS: usize = 1024;

    fn at(&mut self, cpu: CpuId) -> Option<&mut Lane> {
        let index = cpu.index();
        if index >= Lanes::MAX_CPUS {
            return None;
        }
        if self.cpus.len() <= index {
            self.cpus.resize_with(index + 1, Lane::default);
        }
        Some(&mut self.cpus[index])
    }

    /// Adds a run of an actor.
    pub fn ran(&mut self, cpu: CpuId, actor: ActorId, stretch: Stretch, width: Nanos) {
        let Some(lane) = self.at(cpu) else { return };
        lane.busy.add(stretch);
        if lane.leaders.len() <= stretch.last {
            lane.leaders.resize(stretch.last + 1, Leader::NONE);
        }
        lane.leaders[stretch.first].add(actor, stretch.in_first);
        if stretch.last > stretch.first {
            lane.leaders[stretch.first + 1..stretch.last].iter_mut().for_each(|leader| leader.add(actor, width.0));
            lane.leaders[stretch.last].add(actor, stretch.in_last);
        }
    }

    /// Adds a wait for the CPU.
    pub fn waited(&mut self, cpu: CpuId, stretch: Stretch) {
        if let Some(lane) = self.at(cpu) {
            lane.waiting.add(stretch);
        }
    }

    /// Merges pairs of intervals; `width` is that of the old ones.
    pub fn halve(&mut self, width: Nanos) {
        for lane in &mut self.cpus {
            lane.busy.halve(width);
            lane.waiting.halve(width);
            let merged = lane.leaders.chunks(2).map(|pair| {
                let mut leader = pair[0];
                pair.iter().skip(1).for_each(|other| leader.add(other.actor, other.ahead));
                leader
            });
            lane.leaders = merged.collect();
        }
    }

    /// The CPUs with any activity.
    pub fn iter(&self) -> impl Iterator<Item = (CpuId, &Lane)> {
        self.cpus.iter().enumerate().map(|(index, lane)| (CpuId(index as u32), lane))
    }
}

impl Lane {
    /// The actor that had the CPU for most of an interval.
    pub fn leader(&self, index: usize) -> Option<ActorId> {
        self.leaders.get(index).filter(|leader| leader.ahead > 0).map(|leader| leader.actor)
    }
}

#[cfg(test)]
mod tests {
    use unstarve_model::Time;

    use super::super::activity::stretch;
    use super::super::scale::Scale;
    use super::*;

    #[test]
    fn who_had_most_of_an_interval_is_known_after_merging() {
        let scale = Scale { width: Nanos(100) };
        let mut lanes = Lanes::default();
        let (hog, other) = (ActorId::OTHERS, ActorId::UNKNOWN);
        for (actor, start, end) in [(hog, 0, 60), (other, 60, 100), (hog, 100, 390), (other, 390, 400)] {
            lanes.ran(CpuId(1), actor, stretch(scale, Time(0), Time(start), Time(end)), scale.width);
        }
        let lane = lanes.cpus[1].clone();
        assert_eq!(
            (0..5).map(|index| lane.leader(index)).collect::<Vec<_>>(),
            [Some(hog), Some(hog), Some(hog), Some(hog), None]
        );
        assert_eq!(lane.busy.sums(scale.width)[..4], [100, 100, 100, 100]);
        lanes.halve(scale.width);
        let lane = lanes.cpus[1].clone();
        assert_eq!((&lane.busy.sums(Nanos(200))[..2], lane.leader(1)), (&[200, 200][..], Some(hog)));
    }
}
