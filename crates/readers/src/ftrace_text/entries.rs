//! Compares the number of entries that the header of an ftrace text claims with the number it contains, to prove that
//! the text is complete.

use unstarve_model::{Coverage, CpuId, ProvedBy, Until};

use crate::text::number::leading;

/// Entries that fit even into the smallest ring buffer in use: 64 KiB, at 68 bytes for `sched_switch`, the longest of
/// the common events.
const FIT_ANYWHERE: u64 = 900;

/// Counts the events of a text.
#[derive(Debug, Default)]
pub struct Entries {
    /// How many headers with entry counts there were, and the counts of the last one.
    heads: u32,
    in_buffer: u64,
    written: u64,
    all: u64,
    by_cpu: Vec<u64>,
}

impl Entries {
    /// Reads the counts of a header line: `# entries-in-buffer/entries-written: 205/1205   #P:2`.
    pub fn read_head(&mut self, comment: &[u8]) {
        const HEAD: &[u8] = b"entries-in-buffer/entries-written:";
        let Some(at) = memchr::memmem::find(comment, HEAD) else { return };
        let numbers = comment[at + HEAD.len()..].trim_ascii_start();
        let Some((in_buffer, rest)) = leading(numbers) else { return };
        let Some((written, _)) = rest.strip_prefix(b"/").and_then(leading) else { return };
        self.heads += 1;
        (self.in_buffer, self.written) = (in_buffer, written);
    }

    /// Counts an event of any type.
    pub fn count(&mut self, cpu: CpuId) {
        self.all += 1;
        if self.by_cpu.len() <= cpu.index() {
            self.by_cpu.resize(cpu.index() + 1, 0);
        }
        self.by_cpu[cpu.index()] += 1;
    }

    /// Events so far.
    pub fn all(&self) -> u64 {
        self.all
    }

    /// Whether the buffers still held everything that was ever written to them.
    pub fn has_everything(&self) -> bool {
        self.heads == 1 && self.in_buffer == self.written
    }

    /// Proves coverage of each CPU up to the end, where the counts allow it.
    ///
    /// A text with all entries of the buffers has the last entry of each CPU. The exception is a buffer with
    /// `overwrite` off: when it is full, it drops its newest events, and the header does not show that. Such a buffer
    /// has never overwritten anything, and it has been full. All buffers have the same size, so one that holds half of
    /// what another holds has not been full.
    ///
    /// Texts of single CPUs (`per_cpu/cpu0/trace`) prove nothing: each has its own header and they were read one after
    /// the other, perhaps while tracing continued.
    pub fn prove(&self, coverage: &mut Coverage) {
        if self.heads != 1 || self.all < self.in_buffer {
            return;
        }
        let most = self.by_cpu.iter().copied().max().unwrap_or(0);
        let keeps_newest = self.written > self.in_buffer;
        for (cpu, &count) in (0..).map(CpuId).zip(&self.by_cpu).filter(|(_, count)| **count > 0) {
            if keeps_newest || count < FIT_ANYWHERE || count <= most / 2 {
                coverage.prove(cpu, Until::End, ProvedBy::EntryCount);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether each of two CPUs with these event counts is proved to the end.
    fn proved(heads: &[&str], counts: [u64; 2]) -> [bool; 2] {
        let mut entries = Entries::default();
        heads.iter().for_each(|head| entries.read_head(head.as_bytes()));
        for (cpu, count) in counts.into_iter().enumerate() {
            (0..count).for_each(|_| entries.count(CpuId(cpu as u32)));
        }
        let mut coverage = Coverage::default();
        entries.prove(&mut coverage);
        [0, 1].map(|cpu| coverage.of(CpuId(cpu)).proof.is_some())
    }

    #[test]
    fn a_text_with_all_entries_has_the_last_of_each_cpu() {
        let head = |numbers: &str| format!(" entries-in-buffer/entries-written: {numbers}   #P:2");
        let one = |numbers: &str, counts| proved(&[&head(numbers)], counts);
        assert_eq!(one("45/45", [40, 5]), [true, true]);
        // The text was cut, or filtered.
        assert_eq!(one("46/46", [40, 5]), [false, false]);
        // No header with counts.
        assert_eq!(proved(&["tracer: nop"], [40, 5]), [false, false]);
        assert_eq!(one("forty/45", [40, 5]), [false, false]);
        // The fullest buffer may have been full with `overwrite` off…
        assert_eq!(one("1300/1300", [1000, 300]), [false, true]);
        assert_eq!(one("3500/3500", [2500, 1000]), [false, true]);
        assert_eq!(one("3900/3900", [2500, 1400]), [false, false]);
        // …but here entries were overwritten, so `overwrite` was on.
        assert_eq!(one("3900/9000", [2500, 1400]), [true, true]);
        // Texts of single CPUs, one after the other.
        assert_eq!(proved(&[&head("40/40"), &head("5/5")], [40, 5]), [false, false]);
    }
}
