//! Sets of CPUs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::CpuId;

/// A set of CPUs, printed as the kernel prints lists: `0-3,8`. The empty set is the empty text.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct CpuSet {
    /// One bit per CPU. The last word is never 0, so equal sets have equal representations.
    words: Vec<u64>,
}

/// Text that is not a list of CPUs.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{text}` is not a list of CPUs such as 0-3,8")]
pub struct CpuSetError {
    text: String,
}

const WORD_BITS: usize = u64::BITS as usize;

impl CpuSet {
    /// Adds a CPU. Those at or above [`CpuId::LIMIT`] are ignored.
    #[inline]
    pub fn insert(&mut self, cpu: CpuId) {
        match self.words.get_mut(cpu.index() / WORD_BITS) {
            Some(word) => *word |= 1 << (cpu.index() % WORD_BITS),
            None => self.extend_to(cpu),
        }
    }

    #[cold]
    fn extend_to(&mut self, cpu: CpuId) {
        if cpu.0 < CpuId::LIMIT {
            self.words.resize(cpu.index() / WORD_BITS + 1, 0);
            self.words[cpu.index() / WORD_BITS] = 1 << (cpu.index() % WORD_BITS);
        }
    }

    /// Removes a CPU.
    pub fn remove(&mut self, cpu: CpuId) {
        if let Some(word) = self.words.get_mut(cpu.index() / WORD_BITS) {
            *word &= !(1 << (cpu.index() % WORD_BITS));
            while self.words.last() == Some(&0) {
                self.words.pop();
            }
        }
    }

    /// Whether the set contains `cpu`.
    #[inline]
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.words.get(cpu.index() / WORD_BITS).is_some_and(|word| word & 1 << (cpu.index() % WORD_BITS) != 0)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The number of CPUs.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.words.iter().zip(0..).flat_map(|(&word, index)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(CpuId(index * u64::BITS + bit))
            })
        })
    }

    /// The highest CPU of this set that is also in `other`.
    pub fn last_common(&self, other: &CpuSet) -> Option<CpuId> {
        let words = self.words.iter().zip(&other.words).zip(0..).map(|((mine, others), index)| (mine & others, index));
        words.filter(|(common, _)| *common != 0).last().map(|(common, index)| last_of(common, index))
    }

    /// The highest CPU of this set.
    pub fn last(&self) -> Option<CpuId> {
        self.words.iter().zip(0..).last().map(|(&word, index)| last_of(word, index))
    }

    /// Ranges of consecutive CPUs, first and last.
    fn ranges(&self) -> Vec<(CpuId, CpuId)> {
        let mut ranges: Vec<(CpuId, CpuId)> = Vec::new();
        for cpu in self.iter() {
            match ranges.last_mut() {
                Some((_, last)) if last.0 + 1 == cpu.0 => *last = cpu,
                _ => ranges.push((cpu, cpu)),
            }
        }
        ranges
    }
}

/// The highest CPU of a word that is not 0.
fn last_of(word: u64, index: u32) -> CpuId {
    CpuId(index * u64::BITS + word.ilog2())
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> CpuSet {
        let mut set = CpuSet::default();
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}

impl FromStr for CpuSet {
    type Err = CpuSetError;

    /// Parses the kernel's list format. sysfs prints `(null)` for an empty `nohz_full`.
    fn from_str(text: &str) -> Result<CpuSet, CpuSetError> {
        let text = text.trim();
        let mut set = CpuSet::default();
        if text.is_empty() || text == "(null)" {
            return Ok(set);
        }
        let bad = || CpuSetError { text: text.to_owned() };
        let number = |digits: &str| digits.parse::<u32>().ok().filter(|&n| n < CpuId::LIMIT).ok_or_else(bad);
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let range = number(first)?..=number(last)?;
            if range.is_empty() {
                return Err(bad());
            }
            range.for_each(|cpu| set.insert(CpuId(cpu)));
        }
        Ok(set)
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.ranges().into_iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for CpuSet {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CpuSet".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "description": "CPUs as the kernel lists them", "type": "string", "examples": ["0-3,8"] })
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

    fn set(text: &str) -> CpuSet {
        text.parse().expect("a list of CPUs")
    }

    #[test]
    fn lists_read_and_write_as_the_kernel_does() {
        for (given, shown, count) in [
            ("0-3,8", "0-3,8", 5),
            ("", "", 0),
            ("(null)", "", 0),
            ("7", "7", 1),
            ("2,0-1", "0-2", 3),
            ("62-65,127-129", "62-65,127-129", 7),
            ("8191", "8191", 1),
        ] {
            let set = set(given);
            assert_eq!((set.to_string().as_str(), set.len()), (shown, count), "{given}");
            assert_eq!(set.iter().collect::<CpuSet>(), set);
        }
        assert!(set("0-3,8").contains(CpuId(3)) && !set("0-3,8").contains(CpuId(4)) && !set("").contains(CpuId(0)));
    }

    #[test]
    fn a_hostile_list_cannot_name_more_cpus_than_there_can_be() {
        for bad in ["0-4294967295", "3-1", "x", "1,,2", "-", "0-", "9999999999", "8192"] {
            assert!(bad.parse::<CpuSet>().is_err(), "{bad}");
        }
    }

    #[test]
    fn sets_are_equal_however_they_became_so() {
        let mut shrunk = set("1,300");
        shrunk.remove(CpuId(300));
        shrunk.remove(CpuId(5000));
        assert_eq!((&shrunk, shrunk.last()), (&set("1"), Some(CpuId(1))));
        shrunk.remove(CpuId(1));
        assert!(shrunk.is_empty() && shrunk == CpuSet::default() && shrunk.last().is_none());
        shrunk.insert(CpuId(CpuId::LIMIT));
        assert!(shrunk.is_empty());
    }

    #[test]
    fn the_last_common_cpu() {
        for (a, b, last) in
            [("0-3", "2,9", Some(2)), ("0,64-70,200", "65,100", Some(65)), ("1", "2", None), ("", "1", None)]
        {
            assert_eq!(set(a).last_common(&set(b)), last.map(CpuId), "{a} {b}");
            assert_eq!(set(b).last_common(&set(a)), last.map(CpuId), "{b} {a}");
        }
    }
}
