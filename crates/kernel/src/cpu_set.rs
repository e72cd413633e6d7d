use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use unstarve_model::CpuId;

/// A set of CPUs, written as the kernel writes lists: `0-3,8`. Empty is the empty text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CpuSet {
    /// Disjoint, ascending, not adjacent.
    ranges: Vec<RangeInclusive<u32>>,
}

/// Text that is no list of CPUs.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not a list of CPUs such as 0-3,8")]
pub struct CpuSetError {
    text: String,
}

impl CpuSet {
    /// Whether `cpu` is in it.
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.ranges.iter().any(|range| range.contains(&cpu.0))
    }

    /// Whether it holds no CPU.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many CPUs it holds.
    pub fn len(&self) -> usize {
        self.ranges.iter().map(|range| range.clone().count()).sum()
    }

    /// Its CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.ranges.iter().flat_map(|range| range.clone().map(CpuId))
    }
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> CpuSet {
        CpuSet::joined(cpus.into_iter().map(|cpu| cpu.0..=cpu.0).collect())
    }
}

impl CpuSet {
    fn joined(mut ranges: Vec<RangeInclusive<u32>>) -> CpuSet {
        ranges.sort_unstable_by_key(|range| *range.start());
        let mut joined: Vec<RangeInclusive<u32>> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(last) if *range.start() <= last.end().saturating_add(1) => {
                    *last = *last.start()..=*last.end().max(range.end());
                }
                _ => joined.push(range),
            }
        }
        CpuSet { ranges: joined }
    }
}

impl FromStr for CpuSet {
    type Err = CpuSetError;

    /// Parses the kernel's list form. `(null)` is what sysfs prints for an empty `nohz_full`.
    fn from_str(text: &str) -> Result<CpuSet, CpuSetError> {
        let text = text.trim();
        if text.is_empty() || text == "(null)" {
            return Ok(CpuSet::default());
        }
        let bad = || CpuSetError { text: text.to_owned() };
        let number = |digits: &str| digits.parse::<u32>().ok().filter(|&n| n < CpuId::LIMIT).ok_or_else(bad);
        let mut ranges = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let range = number(first)?..=number(last)?;
            if range.is_empty() {
                return Err(bad());
            }
            ranges.push(range);
        }
        Ok(CpuSet::joined(ranges))
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.ranges.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            match (range.start(), range.end()) {
                (first, last) if first == last => write!(f, "{comma}{first}")?,
                (first, last) => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl Serialize for CpuSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CpuSet, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_read_and_write_as_the_kernel_does() {
        for (given, shown, count) in
            [("0-3,8", "0-3,8", 5), ("", "", 0), ("(null)", "", 0), ("7", "7", 1), ("2,0-1", "0-2", 3)]
        {
            let set: CpuSet = given.parse().unwrap();
            assert_eq!((set.to_string().as_str(), set.len()), (shown, count), "{given}");
        }
        let set: CpuSet = "0-3,8".parse().unwrap();
        assert!(set.contains(CpuId(3)) && !set.contains(CpuId(4)) && set.contains(CpuId(8)));
        assert_eq!(set.iter().collect::<CpuSet>(), set);
    }

    #[test]
    fn a_hostile_list_cannot_name_more_cpus_than_there_can_be() {
        for bad in ["0-4294967295", "3-1", "x", "1,,2", "-", "9999999999"] {
            assert!(bad.parse::<CpuSet>().is_err(), "{bad}");
        }
    }
}
