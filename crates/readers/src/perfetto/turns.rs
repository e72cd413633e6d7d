//! Tracks the turns in which Perfetto empties the kernel's buffers, to prove how far all CPUs were recorded.

use unstarve_model::{CpuId, CpuSet, Time};

/// Perfetto empties the buffers of all CPUs in turn, and a CPU without events yields no bundle. A CPU that yields
/// another bundle after other CPUs did starts the next turn. Whatever a CPU recorded before the latest event of a turn
/// is in that turn or the next, because its buffer is read after that event.
#[derive(Debug, Default)]
pub struct Turns {
    here: CpuSet,
    last: Option<CpuId>,
    latest: Time,
    /// The times of the latest events before this turn, and before the previous one.
    before: Time,
    earlier: Time,
}

impl Turns {
    /// Notes a bundle of this CPU, and the time of its latest event.
    pub fn note(&mut self, cpu: CpuId, latest: Option<Time>) {
        if self.here.contains(cpu) && self.last != Some(cpu) {
            (self.earlier, self.before) = (self.before, self.latest);
            self.here = CpuSet::default();
        }
        self.here.insert(cpu);
        self.last = Some(cpu);
        self.latest = self.latest.max(latest.unwrap_or(self.latest));
    }

    /// The time up to which the events of all CPUs are in the file. The last turn does not count: the file may be cut
    /// in it, or a buffer may have been full and dropped new events.
    pub fn proved(&self) -> Option<Time> {
        (self.earlier > Time(0)).then_some(self.earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_turn_before_the_last_is_whole() {
        let mut turns = Turns::default();
        let mut note = |cpu: u32, time: u64| {
            turns.note(CpuId(cpu), Some(Time(time)));
            turns.proved().map(|time| time.0)
        };
        // CPU 1 yields two bundles in one turn, then none.
        assert_eq!([note(0, 10), note(1, 12), note(1, 14), note(3, 13)], [None; 4]);
        assert_eq!([note(0, 30), note(3, 32)], [None; 2]);
        assert_eq!([note(0, 50), note(3, 51)], [Some(14); 2]);
        assert_eq!(note(0, 70), Some(32));
    }
}
