//! A bounded hash map of sums with a small cache of recently used entries.

use std::hash::{BuildHasher, Hash};

use rustc_hash::{FxBuildHasher, FxHashMap};

/// Sums by key. Few keys take most of the additions, so their positions are cached beside the map.
#[derive(Clone, Debug)]
pub(crate) struct Table<K, V> {
    entries: Vec<(K, V)>,
    index: FxHashMap<K, u32>,
    /// Position of the entry that was last found for each key hash modulo [`RECENT`].
    recent: [u32; RECENT],
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Table<K, V> {
        Table { entries: Vec::new(), index: FxHashMap::default(), recent: [0; RECENT] }
    }
}

/// A power of two.
const RECENT: usize = 64;

impl<K: Hash + Eq + Copy, V: Default> Table<K, V> {
    /// Maximum pairs: far more than a host has kinds of tasks that meet. Bounds the memory that a hostile trace can take.
    const MAX_PAIRS: usize = 1 << 18;

    /// Maximum including privileged pairs, for which some room is reserved.
    const MAX_PRIVILEGED_PAIRS: usize = 1 << 20;

    /// The entry of `key`, or that of `overflow` once the table is full.
    #[inline]
    pub fn entry(&mut self, key: K, overflow: K) -> &mut V {
        self.entry_of(key, overflow, || false)
    }

    /// Like [`Table::entry`], with the larger limit if `is_kept`.
    #[inline]
    pub fn entry_of(&mut self, key: K, overflow: K, is_kept: impl FnOnce() -> bool) -> &mut V {
        let place = FxBuildHasher.hash_one(key) as usize % RECENT;
        let index = match self.entries.get(self.recent[place] as usize) {
            Some((recent, _)) if *recent == key => self.recent[place],
            _ => {
                let index = self.find(key, overflow, is_kept);
                self.recent[place] = index;
                index
            }
        };
        &mut self.entries[index as usize].1
    }

    #[inline(never)]
    fn find(&mut self, key: K, overflow: K, is_kept: impl FnOnce() -> bool) -> u32 {
        if let Some(&index) = self.index.get(&key) {
            return index;
        }
        let entries = self.entries.len();
        let has_room = entries < Self::MAX_PAIRS || entries < Self::MAX_PRIVILEGED_PAIRS && is_kept();
        let key = if has_room { key } else { overflow };
        *self.index.entry(key).or_insert_with(|| {
            self.entries.push((key, V::default()));
            (self.entries.len() - 1) as u32
        })
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.index.get(key).map(|&index| &self.entries[index as usize].1)
    }

    /// All entries in insertion order.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.entries.iter().map(|(key, value)| (*key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_a_map_however_keys_fall_together() {
        let (mut table, mut map) = (Table::<u32, u64>::default(), FxHashMap::<u32, u64>::default());
        for step in 0..20_000u32 {
            let key = step.wrapping_mul(2_654_435_761) >> (18 + step % 8);
            *table.entry(key, 0) += u64::from(step);
            *map.entry(key).or_default() += u64::from(step);
        }
        assert!(map.len() > 10 * RECENT);
        assert_eq!(table.iter().map(|(key, sum)| (key, *sum)).collect::<FxHashMap<_, _>>(), map);
        assert!(map.iter().all(|(key, sum)| table.get(key) == Some(sum)));
        assert_eq!(table.get(&u32::MAX), None);
    }

    #[test]
    fn a_full_table_puts_new_keys_together() {
        let mut table = Table::<u32, u64>::default();
        let most = Table::<u32, u64>::MAX_PAIRS as u32;
        (0..most).for_each(|key| *table.entry(key, u32::MAX) += 1);
        *table.entry(most, u32::MAX) += 1;
        *table.entry(most + 1, u32::MAX) += 1;
        *table.entry(5, u32::MAX) += 1;
        assert_eq!((table.get(&u32::MAX), table.get(&5), table.get(&most)), (Some(&2), Some(&2), None));
        (most + 2..=2 * u32::pow(2, 20)).for_each(|key| *table.entry_of(key, u32::MAX, || true) += 1);
        assert_eq!((table.get(&(most + 2)), table.get(&(2 * u32::pow(2, 20)))), (Some(&1), None));
    }
}
