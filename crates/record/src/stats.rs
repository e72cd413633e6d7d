//! The kernel's event counters of one CPU's ring buffer.

use unstarve_model::CpuId;

use crate::Lost;
use crate::instance::Instance;

/// The counters of one CPU (`per_cpu/cpuN/stats`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CpuStats {
    pub(crate) cpu: u32,
    /// The text of the file.
    pub(crate) text: String,
    /// Events read.
    pub(crate) read: u64,
    /// Events lost: overwritten before they were read, dropped, or longer than a page.
    pub(crate) lost: u64,
    /// Lost events other than the overwritten ones.
    pub(crate) dropped: u64,
}

impl CpuStats {
    pub(crate) fn read(instance: &Instance, cpu: u32) -> Option<CpuStats> {
        CpuStats::parse(cpu, instance.text(&format!("per_cpu/cpu{cpu}/stats")).ok()?)
    }

    fn parse(cpu: u32, text: String) -> Option<CpuStats> {
        let count = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.trim().parse::<u64>().ok())
        };
        let dropped: u64 = ["commit overrun", "dropped events"].into_iter().filter_map(count).sum();
        let lost = dropped.saturating_add(count("overrun").unwrap_or_default());
        Some(CpuStats { cpu, read: count("read events")?, lost, dropped, text })
    }

    pub(crate) fn loss(&self) -> Lost {
        Lost { cpu: CpuId(self.cpu), count: self.lost }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_of_losing_counts() {
        let text = "entries: 7\noverrun: 5\ncommit overrun: 1\nbytes: 480\noldest event ts:  1.0\nnow ts:  2.0\n\
                    dropped events: 2\nread events: 1000\n";
        let stats = CpuStats::parse(3, text.to_owned()).expect("the kernel's text");
        assert_eq!((stats.read, stats.dropped, stats.loss()), (1000, 3, Lost { cpu: CpuId(3), count: 8 }));
        assert_eq!(CpuStats::parse(0, "nonsense".to_owned()), None);
    }
}
