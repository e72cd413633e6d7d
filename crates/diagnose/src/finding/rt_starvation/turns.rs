//! Real-time tasks of one priority that keep each other off the CPU: two sides of one thing, reported once.

use rustc_hash::{FxHashMap, FxHashSet};
use unstarve_model::Nanos;
use unstarve_timeline::{ActorId, Rule};

use super::{Intrusion, Taken};
use crate::case::Case;

/// Of two families that keep each other waiting, the one that lost more is the victim. What the other lost to it is no finding
/// of its own.
pub(super) fn once_each(case: &Case<'_>, intrusions: Vec<Intrusion>, taken: &Taken) -> Vec<Intrusion> {
    let mut owners: FxHashMap<ActorId, usize> = FxHashMap::default();
    for (index, intrusion) in intrusions.iter().enumerate() {
        owners.extend(intrusion.family.actors.iter().map(|actor| (*actor, index)));
    }
    let mut took: FxHashMap<(usize, usize), Nanos> = FxHashMap::default();
    for (victim, owner) in &owners {
        for blame in case.blame(*victim).iter().filter(|blame| blame.rule == Rule::Order) {
            if let Some(index) = owners.get(&blame.occupant).filter(|index| *index != owner) {
                *took.entry((*index, *owner)).or_default() += blame.length;
            }
        }
    }
    let mut dropped: FxHashMap<usize, FxHashSet<usize>> = FxHashMap::default();
    let mut returned: FxHashMap<usize, Nanos> = FxHashMap::default();
    for (&(one, other), &by_one) in &took {
        let by_other = took.get(&(other, one)).copied().unwrap_or(Nanos::ZERO);
        if by_other > Nanos::ZERO && (by_other, other) < (by_one, one) {
            dropped.entry(other).or_default().insert(one);
            *returned.entry(one).or_default() += by_other;
        }
    }
    let each = intrusions.into_iter().enumerate().map(|(index, mut intrusion)| {
        intrusion.returned = returned.get(&index).copied();
        let Some(of) = dropped.get(&index) else { return intrusion };
        intrusion.hits.retain(|hit| owners.get(&hit.victim).is_none_or(|owner| !of.contains(owner)));
        intrusion.judged(case, taken)
    });
    each.collect()
}
