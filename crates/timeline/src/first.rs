//! What a CPU did before its first event.
//!
//! No switch came from it, so it did all the time what that event finds it doing, unless events of other CPUs contradict
//! (buffers that were overwritten begin at different times).

use unstarve_model::{CpuId, CpuSet, Nanos};

use crate::ActorId;
use crate::timeline::Timeline;

/// An idle CPU takes a task that is put on its runqueue within the time that it needs to leave idle, a vCPU included.
const LEAVES_IDLE_WITHIN: Nanos = Nanos::from_millis(5);

impl Timeline {
    /// The first event of the CPU finds it idle.
    pub(crate) fn was_idle_before(&mut self, index: usize) {
        self.no_longer_unheard(index);
        let (start, now) = (self.world.start, self.world.now);
        let cpu = &mut self.cpus[index];
        let id = cpu.id;
        if now == start || cpu.arrival.is_some_and(|arrival| now.since(arrival) > LEAVES_IDLE_WITHIN) {
            return;
        }
        cpu.occupancy.rename(ActorId::UNKNOWN, ActorId::IDLE, start, now);
        self.world.idle_until_heard.insert(id);
        let idle = &self.idle;
        for pending in self.world.tasks.pending_mut() {
            if let Some((group, before)) = &mut pending.idle_before
                && idle.has(*group, id)
            {
                pending.idle_carried = now.since(pending.start.max(start));
                *before = idle.total(*group, now);
            }
        }
    }

    /// The first event of the CPU finds it running a task; if no event has told of that task either, it ran all the time.
    pub(crate) fn ran_before(&mut self, index: usize, is_new: bool) {
        self.no_longer_unheard(index);
        if is_new {
            let cpu = &mut self.cpus[index];
            cpu.occupancy.rename(ActorId::UNKNOWN, cpu.base, self.world.start, self.world.now);
        }
    }

    pub(crate) fn no_longer_unheard(&mut self, index: usize) {
        if let Some(unheard) = &mut self.unheard {
            unheard.remove(CpuId(index as u32));
            self.unheard = self.unheard.take().filter(|left: &CpuSet| !left.is_empty());
        }
    }

    /// Another CPU puts something on the runqueue of this one.
    pub(crate) fn arrive(&mut self, from: usize, at: CpuId) {
        let now = self.world.now;
        let cpu = &mut self.cpus[at.index()];
        if !cpu.heard && at.index() != from {
            cpu.arrival.get_or_insert(now);
        }
    }
}
