//! What came between two readings, by the names of roles.

use std::collections::BTreeMap;

use unstarve_model::{Nanos, Time, WallTime};

use crate::{Histogram, Reading, RoleKind};

/// Sums as they stand at a moment.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Sums {
    mono: Time,
    wall: WallTime,
    waits: BTreeMap<String, Waited>,
    /// By victim, occupant and rule.
    blame: BTreeMap<(String, String, &'static str), u64>,
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
            sums.add(role.name(), &new);
        }
        for blame in &reading.blame {
            let (Some(victim), Some(occupant)) = (reading.role(blame.victim), reading.role(blame.occupant)) else {
                continue;
            };
            *sums.blame.entry((victim.name(), occupant.name(), blame.rule.word())).or_insert(0) += blame.ns.0;
        }
        sums
    }

    /// When they stood so.
    pub fn wall(&self) -> WallTime {
        self.wall
    }

    fn add(&mut self, name: String, new: &Waited) {
        match self.waits.get_mut(&name) {
            Some(sum) => {
                sum.count += new.count;
                sum.ns += new.ns;
                sum.histogram.merge(&new.histogram);
            }
            None => drop(self.waits.insert(name, new.clone())),
        }
    }

    /// The same with the sums of roles that `now` does not have any more where the engine has put them: in [`RoleKind::Gone`]. A
    /// group of the same name that came again counts from 0.
    fn moved(&self, now: &Sums) -> Sums {
        let has_gone = |name: &str| match (self.waits.get(name), now.waits.get(name)) {
            (Some(then), Some(now)) => now.count < then.count,
            (Some(_), None) => true,
            (None, _) => false,
        };
        let name_now = |name: &String| if has_gone(name) { RoleKind::Gone.word().to_owned() } else { name.clone() };
        let mut moved = Sums { mono: self.mono, wall: self.wall, waits: BTreeMap::new(), blame: BTreeMap::new() };
        self.waits.iter().for_each(|(name, waited)| moved.add(name_now(name), waited));
        for ((victim, occupant, rule), ns) in &self.blame {
            *moved.blame.entry((name_now(victim), name_now(occupant), rule)).or_insert(0) += ns;
        }
        moved
    }

    /// What came until `now`. Nothing is lost or counted twice when groups go: what they had waited since is `gone`'s.
    pub fn until(&self, now: &Sums) -> Interval {
        let then = self.moved(now);
        let since = |name: &String, waited: &Waited| {
            let before = then.waits.get(name);
            let of = |part: fn(&Waited) -> u64| part(waited).saturating_sub(before.map_or(0, part));
            let row = WaitRow {
                role: name.clone(),
                kind: waited.kind,
                count: of(|waited| waited.count),
                ns: of(|waited| waited.ns),
                histogram: match before {
                    Some(before) => waited.histogram.since(&before.histogram),
                    None => waited.histogram.clone(),
                },
            };
            (row.count > 0 || row.ns > 0).then_some(row)
        };
        let blamed = |((victim, occupant, rule), ns): (&(String, String, &'static str), &u64)| {
            let before = then.blame.get(&(victim.clone(), occupant.clone(), *rule)).copied().unwrap_or(0);
            let kind = now.waits.get(victim)?.kind;
            let ns = ns.checked_sub(before).filter(|ns| *ns > 0)?;
            Some(BlameRow { victim: victim.clone(), kind, occupant: occupant.clone(), rule, ns })
        };
        Interval {
            at: self.wall,
            span: now.mono.since(self.mono),
            waits: now.waits.iter().filter_map(|(name, waited)| since(name, waited)).collect(),
            blame: now.blame.iter().filter_map(blamed).collect(),
        }
    }
}

#[cfg(test)]
#[path = "interval_tests.rs"]
mod tests;
