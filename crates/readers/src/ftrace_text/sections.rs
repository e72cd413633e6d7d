//! Several texts in one file: either the CPUs of one recording one after the other (`cat per_cpu/cpu*/trace`), or two
//! recordings.

use unstarve_model::{CpuId, CpuSet};

/// The CPUs seen before and after the last header.
#[derive(Debug, Default)]
pub struct Sections {
    before: CpuSet,
    here: CpuSet,
    /// Whether there was a header. A text without headers is a single section.
    headed: bool,
    /// The CPU of all events since the last header, if there is only one.
    only: Option<CpuId>,
    several: bool,
}

impl Sections {
    /// A header: a new section begins.
    pub fn begin(&mut self) {
        for cpu in self.here.iter() {
            self.before.insert(cpu);
        }
        self.here = CpuSet::default();
        (self.headed, self.only, self.several) = (true, None, false);
    }

    /// Notes the CPU of the next event. Returns `false` if the section belongs to another recording: within one
    /// recording a CPU has only one section. The caller then drops the whole section, as another recording may begin
    /// with a CPU that the first one lacks.
    pub fn take(&mut self, cpu: CpuId) -> bool {
        if self.only != Some(cpu) && !self.several {
            self.several = self.only.is_some();
            self.only = Some(cpu).filter(|_| !self.several);
        }
        self.here.insert(cpu);
        !self.before.contains(cpu)
    }

    /// Whether all events since the last header are of one CPU. They and the sections before may have to wait for those
    /// of other CPUs.
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
