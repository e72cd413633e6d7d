//! Softirqs by kind and CPU, since boot.

use std::collections::BTreeMap;

use crate::Root;

/// The counters of `/proc/softirqs`, whose header has one column for each possible CPU.
pub(super) fn read(root: &Root) -> Option<BTreeMap<String, BTreeMap<u32, u64>>> {
    let text = root.text("/proc/softirqs").ok().filter(|text| !text.is_empty())?;
    Some(counted_rows(&text).map(|(kind, counts)| (kind.to_owned(), counts)).collect())
}

/// The rows of a table such as `/proc/interrupts`, whose first line names the CPUs: what is counted, and how often on
/// each CPU that counted any.
pub(super) fn counted_rows(text: &str) -> impl Iterator<Item = (&str, BTreeMap<u32, u64>)> {
    let mut lines = text.lines();
    let header = lines.next().unwrap_or_default();
    let cpus: Vec<u32> =
        header.split_ascii_whitespace().filter_map(|word| word.strip_prefix("CPU")?.parse().ok()).collect();
    lines.filter_map(move |line| {
        let (what, rest) = line.split_once(':')?;
        let counts = rest.split_ascii_whitespace().map_while(|word| word.parse::<u64>().ok());
        Some((what.trim(), cpus.iter().copied().zip(counts).filter(|(_, count)| *count > 0).collect()))
    })
}
