//! Sums of blame by victim, occupant and rule.

use rustc_hash::FxHashMap;
use unstarve_model::Nanos;
use unstarve_sched::Rule;
use unstarve_timeline::{ActorId, Wait, World};

use crate::cast::{Cast, Who};

/// What one occupant cost one victim under one rule.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Sum {
    /// Number of waits.
    pub waits: u64,
    /// Total time.
    pub total: Nanos,
    /// Longest time in one wait.
    pub longest: Nanos,
}

/// Limit of separate sums. Later combinations are added to [`ActorId::OTHERS`], as in the report.
const MAX_SUMS: usize = 1 << 18;

/// Sums by victim, occupant and rule.
#[derive(Default)]
pub(crate) struct Blame {
    cast: Cast,
    sums: FxHashMap<(ActorId, ActorId, Rule), Sum>,
}

/// One sum with its victim and occupant.
pub(crate) struct Row<'a> {
    pub victim: &'a Who,
    pub occupant: &'a Who,
    pub rule: Rule,
    pub sum: Sum,
}

impl Blame {
    /// Adds a wait.
    pub fn add(&mut self, world: &World, wait: &Wait<'_>) {
        if wait.pieces.is_empty() {
            return;
        }
        self.cast.who(world, wait.actor);
        for piece in wait.pieces {
            let mut key = (wait.actor, piece.occupant, piece.rule);
            if self.sums.len() >= MAX_SUMS && !self.sums.contains_key(&key) {
                key.1 = ActorId::OTHERS;
            }
            self.cast.who(world, key.1);
            let sum = self.sums.entry(key).or_default();
            sum.waits += 1;
            sum.total += piece.length;
            sum.longest = sum.longest.max(piece.length);
        }
    }

    /// All sums, largest first.
    pub fn rows(&self) -> Vec<Row<'_>> {
        let mut rows: Vec<(&(ActorId, ActorId, Rule), &Sum)> = self.sums.iter().collect();
        rows.sort_unstable_by_key(|(key, sum)| (std::cmp::Reverse(sum.total), **key));
        let known = |id| self.cast.known(id);
        let row = |(&(victim, occupant, rule), sum): (&(ActorId, ActorId, Rule), &Sum)| {
            Some(Row { victim: known(victim)?, occupant: known(occupant)?, rule, sum: *sum })
        };
        rows.into_iter().filter_map(row).collect()
    }
}
