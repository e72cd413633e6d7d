//! Masks of CPUs as the kernel prints them: hexadecimal words of 32 bits, the highest first, `ff` or `3,ffffffff`.

use unstarve_model::{CpuId, CpuSet};

/// The CPUs of a mask; `None` if it is none.
pub(crate) fn parse(text: &str) -> Option<CpuSet> {
    let mut cpus = CpuSet::default();
    for (index, word) in text.trim().rsplit(',').enumerate() {
        let word = u32::from_str_radix(word, 16).ok()?;
        let first = u32::try_from(index).ok()?.checked_mul(u32::BITS)?;
        (0..u32::BITS).filter(|bit| word >> bit & 1 == 1).for_each(|bit| cpus.insert(CpuId(first + bit)));
    }
    Some(cpus)
}

/// The mask of these CPUs.
pub(crate) fn print(cpus: &CpuSet) -> String {
    let words = cpus.last().map_or(1, |last| last.0 / u32::BITS + 1);
    let word = |index: u32| {
        (0..u32::BITS)
            .filter(|bit| cpus.contains(CpuId(index * u32::BITS + bit)))
            .fold(0_u32, |word, bit| word | 1 << bit)
    };
    let mut text = format!("{:x}", word(words - 1));
    (0..words - 1).rev().for_each(|index| text += &format!(",{:08x}", word(index)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_read_and_printed_as_the_kernel_does() {
        for (mask, list) in [("0", ""), ("1", "0"), ("ff", "0-7"), ("1,00000000", "32"), ("3,fffffff0", "4-33")] {
            let cpus: CpuSet = list.parse().expect("a list");
            assert_eq!(parse(mask), Some(cpus.clone()), "{mask}");
            assert_eq!(print(&cpus), mask);
        }
        assert_eq!(parse("00000000,000000ff\n").map(|cpus| cpus.to_string()).as_deref(), Some("0-7"));
        assert_eq!((parse("0-7"), parse("")), (None, None));
    }
}
