//! Which combinations of victim, occupant and rule have a series of their own.

use std::collections::BTreeSet;

use unstarve_timeline::Rule;

use crate::{Reading, Role};

/// The most of them; with those of 32 roles all series together stay below 2,000.
pub const MOST: usize = 1200;

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
            if next.len() >= MOST {
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
