//! `/proc/interrupts` and `/proc/softirqs`: two looks say what came in between, and on which CPU.

use unstarve_model::CpuId;

use super::{Kind, Section, Took};
use crate::fact::{Facts, InterruptLook, Spot};

pub(super) const KIND: Kind = Kind { triggers: &["CPU0 ", "     CPU0"], open };

/// Rows of a table: a large host has some thousand interrupts.
const MAX_ROWS: usize = 16_384;

struct Table {
    cpus: Vec<u32>,
    look: Option<InterruptLook>,
    file: u32,
}

/// A line of nothing but `CPU0 CPU1 …`.
fn open(text: &str, file: u32) -> Option<Box<dyn Section>> {
    let number = |word: &str| word.strip_prefix("CPU")?.parse().ok().filter(|cpu| *cpu < CpuId::LIMIT);
    let cpus: Option<Vec<u32>> = text.split_whitespace().map(number).collect();
    let cpus = cpus.filter(|cpus| !cpus.is_empty() && text.trim_start().starts_with("CPU0"))?;
    Some(Box::new(Table { cpus, look: None, file }))
}

impl Section for Table {
    fn name(&self) -> &'static str {
        "counts of interrupts (/proc/interrupts, /proc/softirqs)"
    }

    fn first(&mut self, _text: &str, spot: &Spot, _facts: &mut Facts) {
        self.look = Some(InterruptLook { rows: Vec::new(), spot: spot.clone(), file: self.file });
    }

    fn line(&mut self, text: &str, _spot: &Spot, _facts: &mut Facts) -> Took {
        let row =
            text.trim().split_once(':').filter(|(name, _)| !name.is_empty() && !name.contains(char::is_whitespace));
        let Some((name, rest)) = row else { return Took::End };
        let counts: Vec<u64> =
            rest.split_whitespace().map_while(|word| word.parse().ok()).take(self.cpus.len()).collect();
        // `ERR: 0` has one number for all CPUs.
        if counts.len() < self.cpus.len() {
            return if counts.is_empty() { Took::End } else { Took::Line };
        }
        let device = rest.split_whitespace().skip(self.cpus.len()).last();
        let title = match device.filter(|_| name.bytes().all(|byte| byte.is_ascii_digit())) {
            Some(device) => format!("interrupt {name} of {device}"),
            None => name.to_owned(),
        };
        if let Some(look) = self.look.as_mut().filter(|look| look.rows.len() < MAX_ROWS) {
            look.rows.push((title, self.cpus.iter().copied().zip(counts).collect()));
        }
        Took::Line
    }

    fn finish(&mut self, facts: &mut Facts) {
        if let Some(look) = self.look.take().filter(|look| !look.rows.is_empty()) {
            facts.looked_at_interrupts(look);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::facts_of;

    fn interrupts(queue: u64, timer: u64) -> String {
        format!(
            "           CPU0       CPU1
  0:         44          0   IO-APIC   2-edge      timer
 45:          7  {queue}   PCI-MSI 524288-edge      nvme0q1
LOC:   {timer}     {timer}   Local timer interrupts
ERR:          0

"
        )
    }

    #[test]
    fn two_looks_say_what_came_in_between() {
        let text = interrupts(1000, 5000) + "some words\n" + &interrupts(1_234_567, 9_000_000);
        insta::assert_snapshot!(facts_of(&text), @"InterruptsCame nobody cpus [1] Unknown interrupt 45 of nvme0q1: 1,233,567 on CPU 1, 100 % of all between two looks line 8");
        assert_eq!(facts_of(&interrupts(1_234_567, 1)), "", "one look counts since the boot");
        assert_eq!(facts_of(&(interrupts(1_234_567, 1) + &interrupts(5, 1))), "", "another boot");
        assert_eq!(facts_of(&(interrupts(5, 1) + &interrupts(999, 1))), "", "few");
        let softirqs = |net: u64| {
            format!(
                "                    CPU0       CPU1\n          HI:          1          0\n      NET_RX:   {net}          5\n"
            )
        };
        let found = facts_of(&(softirqs(5) + "\n" + &softirqs(500_000)));
        assert!(found.contains("NET_RX: 499,995 on CPU 0"), "{found}");
    }
}
