//! Priority inheritance: ordinary tasks that run as real-time because a real-time task wants a lock that they hold.

use rustc_hash::{FxHashMap, FxHashSet};
use unstarve_model::{Policy, Tid};
use unstarve_timeline::ActorId;

use crate::case::Case;

/// Boosted task → the task whose priority it inherited.
pub(super) struct Boosters(FxHashMap<ActorId, ActorId>);

impl Boosters {
    /// Finds the boosters of these occupants; prefers boosters that are among them.
    pub fn of(case: &Case<'_>, occupants: &[ActorId]) -> Boosters {
        let mut real_time: FxHashMap<ActorId, Vec<ActorId>> = FxHashMap::default();
        for ((waker, wakee), _) in case.ledger.wakes.iter() {
            if case.actor(wakee).policy() == Some(Policy::Rt) {
                real_time.entry(waker).or_default().push(wakee);
            }
        }
        let among: FxHashSet<ActorId> = occupants.iter().copied().collect();
        let find = |id: &ActorId| Some((*id, booster(case, *id, &real_time, &among)?));
        Boosters(occupants.iter().filter_map(find).collect())
    }

    pub fn of_task(&self, id: ActorId) -> Option<ActorId> {
        self.0.get(&id).copied()
    }
}

/// The booster of this task: an ordinary task that is real-time for a moment, and at the end wakes a task of exactly that
/// priority, which waited for its lock.
fn booster(
    case: &Case<'_>,
    id: ActorId,
    real_time: &FxHashMap<ActorId, Vec<ActorId>>,
    among: &FxHashSet<ActorId>,
) -> Option<ActorId> {
    let actor = case.actor(id);
    if actor.policy() != Some(Policy::Rt) {
        return None;
    }
    let tids: FxHashSet<Tid> = actor.tids.iter().copied().collect();
    let same_task = |other: &ActorId| case.actor(*other).tids.iter().any(|tid| tids.contains(tid));
    let ordinary: Vec<ActorId> =
        case.actors_named(actor.comm()?).filter(|other| case.is_fair(*other)).filter(same_task).collect();
    if ordinary.is_empty() {
        return None;
    }
    let lifts =
        |other: &ActorId| case.actor(*other).prio() == actor.prio() && case.actor(*other).comm() != actor.comm();
    let wakees = ordinary.iter().chain([&id]).filter_map(|waker| real_time.get(waker)).flatten();
    wakees.copied().filter(lifts).min_by_key(|other| (!among.contains(other), *other))
}
