//! Which of many have a series of their own in the metrics: the worst, in bounded number, now and over a day.
//!
//! The worst of each ten seconds are named, so many at a time. One that is named stays so for five minutes, and then until another one is twice as
//! bad. There are at most as many new names an hour as there are at a time. Whoever keeps a ranking sums up all others: each growth is counted in
//! exactly one row, so that rates add up.

use std::collections::BTreeMap;

use unstarve_model::{Nanos, Time};

/// The worst are found over this time.
pub const WINDOW: Nanos = Nanos::from_millis(10_000);
/// A name is kept for at least this time.
const STAYS: Nanos = Nanos::from_millis(300_000);
const HOUR: u64 = 3_600_000_000_000;
/// In a window less than this is not worth a name.
const LEAST: u64 = 1_000_000;

/// The sums of a row, in ns; what they are is up to who keeps the ranking.
pub type Parts = [u64; 3];

/// The named rows by key, each with its name.
#[derive(Debug)]
pub struct Ranking<K, N> {
    rows: BTreeMap<K, Row<N>>,
    window: BTreeMap<K, u64>,
    /// New names that are left, in ns of an hour for each.
    budget: u64,
    filled: Option<Time>,
}

#[derive(Debug)]
struct Row<N> {
    name: N,
    parts: Parts,
    since: Time,
    last: u64,
}

impl<K, N> Default for Ranking<K, N> {
    fn default() -> Ranking<K, N> {
        Ranking { rows: BTreeMap::new(), window: BTreeMap::new(), budget: 0, filled: None }
    }
}

impl<K: Ord + Clone, N> Ranking<K, N> {
    /// Adds a growth, of which `bad` counts for a name. Returns whether it is in a row of its own.
    pub fn add(&mut self, key: &K, parts: Parts, bad: u64) -> bool {
        if bad > 0 {
            *self.window.entry(key.clone()).or_insert(0) += bad;
        }
        let Some(row) = self.rows.get_mut(key) else { return false };
        row.parts.iter_mut().zip(parts).for_each(|(sum, ns)| *sum += ns);
        true
    }

    /// Names the worst of the window that ends.
    pub fn end_window(&mut self, now: Time, limit: usize, name: impl Fn(&K) -> N) {
        let window = std::mem::take(&mut self.window);
        let full = HOUR.saturating_mul(limit as u64);
        let grown = now.since(self.filled.unwrap_or(now)).0.saturating_mul(limit as u64);
        self.budget = if self.filled.is_none() { full } else { self.budget.saturating_add(grown).min(full) };
        self.filled = Some(now);
        for (key, row) in &mut self.rows {
            row.last = window.get(key).copied().unwrap_or(0);
        }
        let mut new: Vec<_> =
            window.into_iter().filter(|(key, ns)| *ns >= LEAST && !self.rows.contains_key(key)).collect();
        new.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        for (key, ns) in new {
            if self.budget < HOUR || limit == 0 || (self.rows.len() >= limit && !self.make_room(now, ns)) {
                break;
            }
            self.budget -= HOUR;
            let row = Row { name: name(&key), parts: Parts::default(), since: now, last: ns };
            self.rows.insert(key, row);
        }
        while self.rows.len() > limit && self.make_room(now, u64::MAX) {}
    }

    /// Ends the series of the least bad, if it has been there for long and another is twice as bad.
    fn make_room(&mut self, now: Time, ns: u64) -> bool {
        let old = self.rows.iter().filter(|(_, row)| now.since(row.since) >= STAYS);
        let least = old.min_by_key(|(_, row)| row.last).filter(|(_, row)| ns / 2 >= row.last);
        let Some(key) = least.map(|(key, _)| key.clone()) else { return false };
        self.rows.remove(&key).is_some()
    }

    /// The rows by key.
    pub fn rows(&self) -> impl Iterator<Item = (&K, &N, Parts)> {
        self.rows.iter().map(|(key, row)| (key, &row.name, row.parts))
    }
}
