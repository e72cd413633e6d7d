//! Reads softirq counters.

use std::collections::BTreeMap;

use crate::Root;

/// The counters of `/proc/softirqs`, whose header has one column for each possible CPU.
pub(super) fn read(root: &Root) -> Option<BTreeMap<String, BTreeMap<u32, u64>>> {
    let text = root.text("/proc/softirqs").ok()?;
    let mut lines = text.lines();
    let cpus: Vec<u32> =
        lines.next()?.split_ascii_whitespace().filter_map(|word| word.strip_prefix("CPU")?.parse().ok()).collect();
    let table = lines.filter_map(|line| {
        let (kind, rest) = line.split_once(':')?;
        let counts = rest.split_ascii_whitespace().map_while(|word| word.parse::<u64>().ok());
        let counts = cpus.iter().copied().zip(counts).filter(|(_, count)| *count > 0).collect();
        Some((kind.trim().to_owned(), counts))
    });
    Some(table.collect())
}
