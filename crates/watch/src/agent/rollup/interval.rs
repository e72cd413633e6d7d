//! The growth of sums between two readings, by names of roles.

use std::collections::BTreeMap;

use unstarve_model::{Nanos, Time, WallTime};

use crate::engine::reading::{Histogram, Reading, Role, RoleKind};

/// A role by its stable name, and its number among the groups of that name.
type Key = (String, u64);

/// Sums at one moment.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Sums {
    mono: Time,
    wall: WallTime,
    waits: BTreeMap<Key, Waited>,
    /// By victim, occupant and rule.
    blame: BTreeMap<(Key, Key, &'static str), u64>,
}

/// Waits of a role.
#[derive(Clone, PartialEq, Debug)]
struct Waited {
    kind: RoleKind,
    count: u64,
    ns: u64,
    histogram: Histogram,
}

/// A role's waits in an interval.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct WaitRow {
    pub role: String,
    pub kind: RoleKind,
    pub count: u64,
    pub ns: u64,
    pub histogram: Histogram,
}

/// A victim's waits in an interval by occupant and rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct BlameRow {
    pub victim: String,
    pub kind: RoleKind,
    pub occupant: String,
    pub rule: &'static str,
    pub ns: u64,
}

/// The growth of all sums in an interval.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Interval {
    /// Start of the interval.
    pub at: WallTime,
    /// Length of the interval.
    pub span: Nanos,
    pub waits: Vec<WaitRow>,
    pub blame: Vec<BlameRow>,
}

impl Sums {
    /// The sums when the engine started: all zero.
    pub fn at_the_start(reading: &Reading) -> Sums {
        let since = reading.since;
        Sums { mono: since.trace, wall: since.wall, waits: BTreeMap::new(), blame: BTreeMap::new() }
    }

    pub fn of(reading: &Reading) -> Sums {
        let mut sums = Sums { mono: reading.at.trace, wall: reading.at.wall, ..Sums::at_the_start(reading) };
        for (role, waits) in reading.roles.iter().zip(&reading.waits) {
            let Some(role) = role else { continue };
            let new =
                Waited { kind: role.kind, count: waits.count, ns: waits.waited.0, histogram: waits.histogram.clone() };
            sums.add(key(role), &new);
        }
        for blame in &reading.blame {
            let (Some(victim), Some(occupant)) = (reading.role(blame.victim), reading.role(blame.occupant)) else {
                continue;
            };
            *sums.blame.entry((key(victim), key(occupant), blame.rule.word())).or_insert(0) += blame.ns.0;
        }
        sums
    }

    /// The time of these sums.
    pub fn wall(&self) -> WallTime {
        self.wall
    }

    fn add(&mut self, key: Key, new: &Waited) {
        match self.waits.get_mut(&key) {
            Some(sum) => {
                sum.count += new.count;
                sum.ns += new.ns;
                sum.histogram.merge(&new.histogram);
            }
            None => drop(self.waits.insert(key, new.clone())),
        }
    }

    /// The same, with sums of roles that no longer exist in `now` moved to [`RoleKind::Gone`], as the engine does. A group that was created again
    /// under the same name counts as another one.
    fn moved(&self, now: &Sums) -> Sums {
        let key_now = |key: &Key| match now.waits.contains_key(key) {
            true => key.clone(),
            false => (RoleKind::Gone.word().to_owned(), 0),
        };
        let mut moved = Sums { mono: self.mono, wall: self.wall, waits: BTreeMap::new(), blame: BTreeMap::new() };
        self.waits.iter().for_each(|(key, waited)| moved.add(key_now(key), waited));
        for ((victim, occupant, rule), ns) in &self.blame {
            *moved.blame.entry((key_now(victim), key_now(occupant), rule)).or_insert(0) += ns;
        }
        moved
    }

    /// The growth until `now`. When groups are removed nothing is lost or counted twice: their later waits are in `gone`.
    pub fn until(&self, now: &Sums) -> Interval {
        let then = self.moved(now);
        let mut waits = BTreeMap::new();
        for (key, waited) in &now.waits {
            let new = waited.since(then.waits.get(key));
            // Names that differ only in characters that a terminal cannot show are merged.
            let row = waits.entry(&key.0).or_insert_with(|| WaitRow::of(&key.0, waited.kind));
            row.count += new.count;
            row.ns += new.ns;
            row.histogram.merge(&new.histogram);
        }
        let mut blame = BTreeMap::new();
        for (key, ns) in &now.blame {
            let new = ns.saturating_sub(then.blame.get(key).map_or(0, |before| *before));
            let (victim, occupant, rule) = key;
            *blame.entry((&victim.0, &occupant.0, *rule)).or_insert(0) += new;
        }
        let blamed = |((victim, occupant, rule), ns): ((&String, &String, &'static str), u64)| {
            let kind = waits.get(victim).filter(|_| ns > 0)?.kind;
            Some(BlameRow { victim: victim.clone(), kind, occupant: occupant.clone(), rule, ns })
        };
        let blame = blame.into_iter().filter_map(blamed).collect();
        let is_new = |row: &WaitRow| row.count > 0 || row.ns > 0;
        let waits = waits.into_values().filter(is_new).collect();
        Interval { at: self.wall, span: now.mono.since(self.mono), waits, blame }
    }
}

impl Waited {
    fn since(&self, earlier: Option<&Waited>) -> Waited {
        let Some(earlier) = earlier else { return self.clone() };
        Waited {
            kind: self.kind,
            count: self.count.saturating_sub(earlier.count),
            ns: self.ns.saturating_sub(earlier.ns),
            histogram: self.histogram.since(&earlier.histogram),
        }
    }
}

impl WaitRow {
    pub fn of(role: &str, kind: RoleKind) -> WaitRow {
        WaitRow { role: role.to_owned(), kind, count: 0, ns: 0, histogram: Histogram::new() }
    }
}

fn key(role: &Role) -> Key {
    (role.name(), role.generation)
}

#[cfg(test)]
#[path = "interval_tests.rs"]
mod tests;
