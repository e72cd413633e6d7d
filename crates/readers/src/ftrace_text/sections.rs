//! Several texts in one: the CPUs of one recording one after the other (`cat per_cpu/cpu*/trace`), or another recording.

use unstarve_model::{CpuId, CpuSet};

/// Which CPUs were seen before the last head of a text.
#[derive(Debug, Default)]
pub struct Sections {
    before: CpuSet,
    here: CpuSet,
    /// Whether there was a head: a text without has no second part.
    headed: bool,
    /// The CPU of all events since the last head, if it is one.
    only: Option<CpuId>,
    several: bool,
}

impl Sections {
    /// A head: what follows is a text of its own.
    pub fn begin(&mut self) {
        for cpu in self.here.iter() {
            self.before.insert(cpu);
        }
        self.here = CpuSet::default();
        (self.headed, self.only, self.several) = (true, None, false);
    }

    /// Takes the CPU of the next event. Whether it is of the same recording: a CPU of which events came before has no second text
    /// in it. If it is not, neither is anything since the last head: another recording may begin on a CPU that the first has not.
    pub fn take(&mut self, cpu: CpuId) -> bool {
        if self.only != Some(cpu) && !self.several {
            self.several = self.only.is_some();
            self.only = Some(cpu).filter(|_| !self.several);
        }
        self.here.insert(cpu);
        !self.before.contains(cpu)
    }

    /// Whether all events since the last head are of one CPU: they, and those of CPUs before, may have to wait for another's.
    pub fn are_of_one_cpu(&self) -> bool {
        self.headed && self.only.is_some()
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
            assert!(!sections.are_of_one_cpu());
            assert!((0..5).all(|_| sections.take(CpuId(cpu)) && sections.are_of_one_cpu()));
        }
        sections.begin();
        assert!(sections.take(CpuId(3)));
        assert!(!sections.take(CpuId(1)), "a second text of CPU 1");
        assert!(!sections.are_of_one_cpu());
    }
}
