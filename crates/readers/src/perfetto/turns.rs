//! The turns in which Perfetto empties the kernel's buffers.

use unstarve_model::{CpuId, CpuSet, Time};

/// Perfetto empties the buffers of all CPUs in turn, and a CPU that has nothing gives no bundle: one that gives another after
/// others did is in the next turn. What a CPU issued by the time of the latest event of a turn is in this turn or in the next, for
/// its buffer was read after that event, or will be.
#[derive(Debug, Default)]
pub struct Turns {
    here: CpuSet,
    last: Option<CpuId>,
    latest: Time,
    /// The latest events before this turn, and before the last one.
    before: Time,
    earlier: Time,
}

impl Turns {
    /// A bundle of this CPU, and its latest event.
    pub fn note(&mut self, cpu: CpuId, latest: Option<Time>) {
        if self.here.contains(cpu) && self.last != Some(cpu) {
            (self.earlier, self.before) = (self.before, self.latest);
            self.here = CpuSet::default();
        }
        self.here.insert(cpu);
        self.last = Some(cpu);
        self.latest = self.latest.max(latest.unwrap_or(self.latest));
    }

    /// Up to when all events of all CPUs are in the file. Its last turn may be a part: the file is cut, or a buffer that takes no more
    /// was full.
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
        // CPU 1 gives two bundles at once; then it is silent.
        assert_eq!([note(0, 10), note(1, 12), note(1, 14), note(3, 13)], [None; 4]);
        assert_eq!([note(0, 30), note(3, 32)], [None; 2]);
        assert_eq!([note(0, 50), note(3, 51)], [Some(14); 2]);
        assert_eq!(note(0, 70), Some(32));
    }
}
