//! Limits the number of series in the metrics: one per name, and one for selected combinations of victim, occupant and rule.

use std::collections::{BTreeMap, BTreeSet};

use unstarve_model::Nanos;
use unstarve_sched::Rule;

use crate::engine::reading::{Histogram, Reading, Role};

/// Maximum number of these; with those of 32 roles, all series together stay below 2,000.
pub const MAX_SERIES: usize = 1200;

/// Victim, occupant and rule of a series.
pub type Key = (String, String, Rule);

/// Combinations with series of their own. They are kept as long as both roles exist, so that no counter decreases because another one has grown.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Admitted(BTreeSet<Key>);

impl Admitted {
    /// Drops combinations of removed roles, and adds new ones while there is room. `None` if nothing changes.
    pub fn next(&self, reading: &Reading) -> Option<Admitted> {
        let name = |id| reading.role(id).map(Role::name);
        let rows = reading.blame.iter().filter_map(|row| Some((name(row.victim)?, name(row.occupant)?, row.rule)));
        let present: BTreeSet<Key> = rows.collect();
        let mut next: BTreeSet<Key> = self.0.intersection(&present).cloned().collect();
        for key in present {
            if next.len() >= MAX_SERIES {
                break;
            }
            next.insert(key);
        }
        (next != self.0).then_some(Admitted(next))
    }

    /// Whether a combination has a series of its own.
    pub fn has(&self, key: &Key) -> bool {
        self.0.contains(key)
    }
}

/// Waits by name in the series: groups with the same name after escaping are merged.
#[derive(Default)]
pub struct Named {
    /// Total waiting time.
    pub waited: Nanos,
    /// Finished waits.
    pub histogram: Histogram,
    /// Number of tasks that wait now.
    pub waiting: u32,
    /// The longest wait in progress.
    pub oldest: Nanos,
}

/// The waits of all roles that can wait.
pub fn by_name(reading: &Reading) -> BTreeMap<String, Named> {
    let mut names: BTreeMap<String, Named> = BTreeMap::new();
    for (index, role) in reading.roles.iter().enumerate() {
        let (Some(role), Some(waits)) = (role.as_ref().filter(|role| role.kind.can_wait()), reading.waits.get(index))
        else {
            continue;
        };
        let sum = names.entry(role.name()).or_default();
        sum.waited = Nanos(sum.waited.0.saturating_add(waits.waited.0));
        sum.histogram.merge(&waits.histogram);
        sum.waiting += waits.waiting;
        let lasting = reading.oldest.iter().filter(|wait| wait.role.index() == index).map(|wait| wait.ns);
        sum.oldest = lasting.fold(sum.oldest, Nanos::max);
    }
    names
}

/// The occupant in the series of all other combinations.
const REST: &str = "rest";

/// All blame by the names of the series.
pub fn blame_by_name(reading: &Reading, admitted: &Admitted) -> BTreeMap<Key, Nanos> {
    let mut sums: BTreeMap<Key, Nanos> = BTreeMap::new();
    let name = |id| reading.role(id).map(Role::name);
    for row in &reading.blame {
        let (Some(victim), Some(occupant)) = (name(row.victim), name(row.occupant)) else { continue };
        let key = (victim, occupant, row.rule);
        let key = if admitted.has(&key) { key } else { (key.0, REST.to_owned(), key.2) };
        let sum = sums.entry(key).or_insert(Nanos::ZERO);
        *sum = Nanos(sum.0.saturating_add(row.ns.0));
    }
    sums
}
