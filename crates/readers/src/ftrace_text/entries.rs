//! How many events the buffers held, as a text's head says, and how many of them the text has.

use unstarve_model::{Coverage, CpuId, ProvedBy, Until};

use crate::text::number::leading;

/// Entries that the smallest buffer in use holds: 64 KiB, at 68 bytes for the commonest of long events, `sched_switch`.
const FIT_ANYWHERE: u64 = 900;

/// Counts the events of a text.
#[derive(Debug, Default)]
pub struct Entries {
    /// Heads with numbers, and those of the last.
    heads: u32,
    in_buffer: u64,
    written: u64,
    all: u64,
    by_cpu: Vec<u64>,
}

impl Entries {
    /// Takes the numbers of a head: `# entries-in-buffer/entries-written: 205/1205   #P:2`.
    pub fn read_head(&mut self, comment: &[u8]) {
        const HEAD: &[u8] = b"entries-in-buffer/entries-written:";
        let Some(at) = memchr::memmem::find(comment, HEAD) else { return };
        let numbers = comment[at + HEAD.len()..].trim_ascii_start();
        let Some((in_buffer, rest)) = leading(numbers) else { return };
        let Some((written, _)) = rest.strip_prefix(b"/").and_then(leading) else { return };
        self.heads += 1;
        (self.in_buffer, self.written) = (in_buffer, written);
    }

    /// Counts an event, of whatever type.
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

    /// Whether the buffers still had all that was ever written to them.
    pub fn has_everything(&self) -> bool {
        self.heads == 1 && self.in_buffer == self.written
    }

    /// What the numbers prove: a text that has all entries of the buffers has the last of each CPU. Only a buffer that drops what
    /// comes when it is full (`overwrite` off) has lost its newest events, and its head does not show it: one that has overwritten
    /// some does not drop any, and one that was not full has not yet. Buffers are equally large: one is not full that holds half of
    /// what another does. Texts of single CPUs (`per_cpu/cpu0/trace`) were read one after the other, perhaps while tracing went on:
    /// each has a head, and they prove nothing.
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

    /// Which of two CPUs with so many events are proved to the end.
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
        // Cut, or filtered.
        assert_eq!(one("46/46", [40, 5]), [false, false]);
        // Nothing says how many there were.
        assert_eq!(proved(&["tracer: nop"], [40, 5]), [false, false]);
        assert_eq!(one("forty/45", [40, 5]), [false, false]);
        // A buffer that holds as much as any may have been full, and not to be overwritten…
        assert_eq!(one("1300/1300", [1000, 300]), [false, true]);
        assert_eq!(one("3500/3500", [2500, 1000]), [false, true]);
        assert_eq!(one("3900/3900", [2500, 1400]), [false, false]);
        // …but these were overwritten.
        assert_eq!(one("3900/9000", [2500, 1400]), [true, true]);
        // One CPU after the other.
        assert_eq!(proved(&[&head("40/40"), &head("5/5")], [40, 5]), [false, false]);
    }
}
