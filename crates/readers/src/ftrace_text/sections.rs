//! Several texts in one: the CPUs of one recording one after the other (`cat per_cpu/cpu*/trace`), or another recording.

use unstarve_model::{CpuId, CpuSet};

/// Which CPUs were seen before the last head of a text.
#[derive(Debug, Default)]
pub struct Sections {
    before: CpuSet,
    here: CpuSet,
}

impl Sections {
    /// A head: what follows is a text of its own.
    pub fn begin(&mut self) {
        for cpu in self.here.iter() {
            self.before.insert(cpu);
        }
        self.here = CpuSet::default();
    }

    /// Takes the CPU of the next event. Whether it is of the same recording: a CPU of which events came before has no second text
    /// in it. If it is not, neither is anything since the last head: another recording may begin on a CPU that the first has not.
    pub fn take(&mut self, cpu: CpuId) -> bool {
        self.here.insert(cpu);
        !self.before.contains(cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_one_after_the_other_are_one_recording() {
        let mut sections = Sections::default();
        for cpu in 0..3 {
            sections.begin();
            assert!((0..5).all(|_| sections.take(CpuId(cpu))));
        }
        sections.begin();
        assert!(sections.take(CpuId(3)));
        assert!(!sections.take(CpuId(1)), "a second text of CPU 1");
    }
}
