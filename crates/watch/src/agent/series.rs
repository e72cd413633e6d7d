//! What series there are: one for each name, and which combinations of victim, occupant and rule have one of their own.

use std::collections::{BTreeMap, BTreeSet};

use unstarve_model::Nanos;
use unstarve_sched::Rule;

use crate::engine::reading::{Histogram, Reading, Role};

/// The most of them; with those of 32 roles all series together stay below 2,000.
pub const MAX_SERIES: usize = 1200;

/// The names of a series.
pub type Key = (String, String, Rule);

/// Combinations that were admitted. Who is in stays in as long as both roles live, so that no counter ever falls because
/// another one has grown.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Admitted(BTreeSet<Key>);

impl Admitted {
    /// Forgets combinations of roles that are gone, and admits new ones while there is room. `None`: nothing changes.
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

    /// Whether it has a series of its own.
    pub fn has(&self, key: &Key) -> bool {
        self.0.contains(key)
    }
}

/// Waits by the name that they have in the series: of two groups whose names become the same when they are cleaned, together.
#[derive(Default)]
pub struct Named {
    /// All of them.
    pub waited: Nanos,
    /// Those that are over.
    pub histogram: Histogram,
    /// Tasks that wait now.
    pub waiting: u32,
    /// The longest wait that lasts.
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

/// The occupant of those that have no series of their own.
const REST: &str = "rest";

/// All blame by the names of its series: each once.
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
