//! Real-time tasks of one priority that keep each other off the CPU: two sides of one problem, reported once.

use rustc_hash::{FxHashMap, FxHashSet};
use unstarve_model::Nanos;
use unstarve_sched::Rule;
use unstarve_timeline::ActorId;

use super::{Intrusion, Taken};
use crate::case::{Blame, Case};

/// Indexes of two families; the first kept the second off the CPU.
type Side = (usize, usize);

/// If two families of equals each held the CPU against the other, the one that lost more is the victim. The other's loss to it is
/// removed from `taken` and becomes no finding. Its losses to a higher priority stay, and so do losses of kernel workers: other
/// tasks wait with them and do not alternate.
pub(super) fn once_each(case: &Case<'_>, intrusions: Vec<Intrusion>, taken: &mut Taken) -> Vec<Intrusion> {
    let mut owners: FxHashMap<ActorId, usize> = FxHashMap::default();
    for (index, intrusion) in intrusions.iter().enumerate() {
        owners.extend(intrusion.family.actors.iter().map(|actor| (*actor, index)));
    }
    let side = |victim: ActorId, blame: &Blame| -> Option<Side> {
        let pair = (*owners.get(&blame.occupant)?, *owners.get(&victim)?);
        (blame.rule == Rule::Order && pair.0 != pair.1).then_some(pair)
    };
    // `taken` contains only more than the normal slices of equals.
    let mut took: FxHashMap<Side, Nanos> = FxHashMap::default();
    for (victim, blame) in taken.from.values().flatten() {
        if let Some(side) = side(*victim, blame) {
            *took.entry(side).or_default() += blame.length;
        }
    }
    let mut less: FxHashSet<Side> = FxHashSet::default();
    let mut returned: FxHashMap<usize, Nanos> = FxHashMap::default();
    for (&(one, other), &by_one) in &took {
        let Some(&by_other) = took.get(&(other, one)) else { continue };
        let rank = |index: usize, lost: Nanos| (intrusions[index].severity, lost, index);
        if rank(other, by_other) < rank(one, by_one) {
            less.insert((other, one));
            *returned.entry(one).or_default() += by_other;
        }
    }
    for list in taken.from.values_mut() {
        list.retain(|(victim, blame)| {
            case.is_kernel_worker(*victim) || side(*victim, blame).is_none_or(|side| !less.contains(&side))
        });
    }
    let changed: FxHashSet<usize> = less.iter().map(|(other, _)| *other).collect();
    let each = intrusions.into_iter().enumerate().map(|(index, intrusion)| {
        let left = if changed.contains(&index) { Intrusion::of(case, intrusion.family, taken) } else { intrusion };
        Intrusion { returned: returned.get(&index).copied(), ..left }
    });
    each.collect()
}
