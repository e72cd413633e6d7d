//! What came between two readings, by the names of roles.

use std::collections::BTreeMap;

use unstarve_model::{Nanos, Time, WallTime};

use crate::engine::reading::{Histogram, Reading, Role, RoleKind};

/// A role by the name that lasts, and which one of that name it is.
type Key = (String, u64);

/// Sums as they stand at a moment.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Sums {
    mono: Time,
    wall: WallTime,
    waits: BTreeMap<Key, Waited>,
    /// By victim, occupant and rule.
    blame: BTreeMap<(Key, Key, &'static str), u64>,
}

/// What a role has waited.
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

/// What came in an interval.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Interval {
    /// When it began.
    pub at: WallTime,
    /// For how long it was.
    pub span: Nanos,
    pub waits: Vec<WaitRow>,
    pub blame: Vec<BlameRow>,
}

impl Sums {
    /// When the engine began: nothing was counted.
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

    /// When they stood so.
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

    /// The same with the sums of roles that `now` does not have any more where the engine has put them: in [`RoleKind::Gone`]. A
    /// group of the same name that came again is another one.
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

    /// What came until `now`. Nothing is lost or counted twice when groups go: what they had waited since is `gone`'s.
    pub fn until(&self, now: &Sums) -> Interval {
        let then = self.moved(now);
        let mut waits = BTreeMap::new();
        for (key, waited) in &now.waits {
            let new = waited.since(then.waits.get(key));
            // Names that differ in what no terminal shows alone are one.
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
