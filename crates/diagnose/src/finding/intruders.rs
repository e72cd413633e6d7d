//! Real-time tasks that belong together: what one of them takes is little, the sum may be a CPU.
//!
//! A cron job that starts one FIFO process after the other, each with its own name, is one intruder. So are the threads
//! of a row (`rx-0`, `rx-1`), a task before and after it took another name, and the holder of a lock that a real-time task wants
//! and is lifted to its priority.

use rustc_hash::{FxHashMap, FxHashSet};
use unstarve_model::{Nanos, Policy, Tid};
use unstarve_timeline::{ActorId, Ancestor, Birth};

use super::stem;
use crate::case::Case;

/// More than a few with a parent, an ancestor or a cgroup in common are its doing. Below that they are programs of one
/// administrator.
const MANY: usize = 4;

/// Children of one parent, of all those born in the recording.
const NEARLY_ALL: f64 = 0.9;

/// Tasks that are one intruder.
#[derive(Clone, Debug, Default)]
pub(super) struct Family {
    pub actors: Vec<ActorId>,
    pub tie: Option<Tie>,
}

/// What tasks of different names have in common.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Tie {
    /// Who created them.
    Creator(Tid),
    /// Who created those that created them.
    Ancestor(Tid),
    /// The cgroup in which they are.
    Group(String),
}

/// The families among these real-time and deadline tasks.
pub(super) fn families(case: &Case<'_>, occupants: &[ActorId]) -> Vec<Family> {
    let mut families = by_name_and_thread(case, occupants);
    for ties in [creators as fn(&Case<'_>, &Family) -> Vec<Tie>, ancestors, groups] {
        families = tied(case, families, ties);
    }
    families
}

/// Tasks of one name or of numbered names; a task with its earlier and later names; a lock's holder with the task that lifts it.
fn by_name_and_thread(case: &Case<'_>, occupants: &[ActorId]) -> Vec<Family> {
    let mut order = occupants.to_vec();
    // The name under which a task ran most is its name: `chrt` and the fork of a shell are others' for a moment.
    order.sort_by_key(|id| (std::cmp::Reverse(ran(case, *id)), *id));
    let mut families: Vec<Family> = Vec::new();
    let mut by_stem: FxHashMap<String, usize> = FxHashMap::default();
    let mut by_tid: FxHashMap<Tid, usize> = FxHashMap::default();
    let boosters: Vec<(ActorId, ActorId)> =
        order.iter().filter_map(|id| Some((*id, booster(case, *id, occupants)?))).collect();
    let is_boosted = |id: ActorId| boosters.iter().any(|(boosted, _)| *boosted == id);
    for id in order.iter().copied().filter(|id| !is_boosted(*id)) {
        let name = stem(&case.name(id)).to_owned();
        let known = by_stem.get(&name).or_else(|| case.actor(id).tids.iter().find_map(|tid| by_tid.get(tid))).copied();
        let index = known.unwrap_or_else(|| {
            families.push(Family::default());
            families.len() - 1
        });
        families[index].actors.push(id);
        by_stem.entry(name).or_insert(index);
        for tid in &case.actor(id).tids {
            by_tid.entry(*tid).or_insert(index);
        }
    }
    for (boosted, booster) in boosters {
        match families.iter_mut().find(|family| family.actors.contains(&booster)) {
            Some(family) => family.actors.push(boosted),
            // The booster itself kept nobody waiting.
            None => families.push(Family { actors: vec![boosted, booster], tie: None }),
        }
    }
    families
}

pub(super) fn ran(case: &Case<'_>, id: ActorId) -> Nanos {
    case.ledger.account(id).map_or(Nanos::ZERO, |account| account.runs.total)
}

/// Who lifted this one by priority inheritance: an ordinary task that is real-time for a moment, and in the end wakes one
/// of just that priority, which waited for its lock.
pub(super) fn booster(case: &Case<'_>, id: ActorId, occupants: &[ActorId]) -> Option<ActorId> {
    let actor = case.actor(id);
    let same_task = |other: &ActorId| {
        case.actor(*other).comm() == actor.comm() && case.actor(*other).tids.iter().any(|tid| actor.tids.contains(tid))
    };
    let ordinary: Vec<ActorId> =
        case.actors_named(actor.comm()?).filter(|other| case.is_fair(*other)).filter(same_task).collect();
    if ordinary.is_empty() || actor.policy() != Some(Policy::Rt) {
        return None;
    }
    let lifts = |other: &ActorId| {
        case.actor(*other).prio() == actor.prio()
            && case.actor(*other).comm() != actor.comm()
            && ordinary.iter().chain([&id]).any(|waker| case.wakes(*waker, *other) > 0)
    };
    occupants.iter().copied().find(lifts).or_else(|| case.real_time().find(lifts))
}

/// Puts families together of which many have the same tie.
fn tied(case: &Case<'_>, families: Vec<Family>, ties: impl Fn(&Case<'_>, &Family) -> Vec<Tie>) -> Vec<Family> {
    let mut members: FxHashMap<Tie, Vec<usize>> = FxHashMap::default();
    for (index, family) in families.iter().enumerate() {
        for tie in ties(case, family) {
            members.entry(tie).or_default().push(index);
        }
    }
    let mut many: Vec<(Tie, Vec<usize>)> = members.into_iter().filter(|(_, list)| list.len() >= MANY).collect();
    many.sort_by_key(|(_, list)| (std::cmp::Reverse(list.len()), list.first().copied()));
    let mut taken: FxHashSet<usize> = FxHashSet::default();
    let mut result = Vec::new();
    for (tie, list) in many {
        let fresh: Vec<usize> = list.into_iter().filter(|index| taken.insert(*index)).collect();
        let actors: Vec<ActorId> = fresh.iter().flat_map(|index| families[*index].actors.iter().copied()).collect();
        if !actors.is_empty() {
            result.push(Family { actors, tie: Some(tie) });
        }
    }
    result
        .extend(families.into_iter().enumerate().filter(|(index, _)| !taken.contains(index)).map(|(_, family)| family));
    result
}

/// Who has everything for a descendant, and who only runs the recording, ties nothing together.
fn ties_together(case: &Case<'_>, ancestor: &Ancestor) -> bool {
    const KTHREADD: Tid = Tid(2);
    ancestor.tid > KTHREADD && !case.actors_named(ancestor.comm).any(|id| case.is_observer(id))
}

fn births<'a>(case: &'a Case<'_>, family: &'a Family) -> impl Iterator<Item = &'a Birth> {
    family.actors.iter().flat_map(|id| &case.actor(*id).births)
}

fn each_once(mut ties: Vec<Tie>) -> Vec<Tie> {
    let mut seen = FxHashSet::default();
    ties.retain(|tie| seen.insert(tie.clone()));
    ties
}

fn creators(case: &Case<'_>, family: &Family) -> Vec<Tie> {
    let parents = births(case, family).map(|birth| birth.parent).filter(|parent| ties_together(case, parent));
    each_once(parents.map(|parent| Tie::Creator(parent.tid)).collect())
}

fn ancestors(case: &Case<'_>, family: &Family) -> Vec<Tie> {
    let roots = births(case, family).map(|birth| birth.root).filter(|root| ties_together(case, root));
    each_once(roots.map(|root| Tie::Ancestor(root.tid)).collect())
}

/// The cgroup in the snapshot, of tasks that it did not see that of the ancestor from which they inherited it.
fn groups(case: &Case<'_>, family: &Family) -> Vec<Tie> {
    let Some(snapshot) = case.snapshot else { return Vec::new() };
    let tids = family.actors.iter().filter_map(|id| case.first_tid(*id));
    let tids = tids.chain(births(case, family).map(|birth| birth.root.tid));
    let paths = tids.filter_map(|tid| snapshot.cgroup_of(tid)).filter(|path| *path != "/");
    each_once(paths.map(|path| Tie::Group(path.to_owned())).collect())
}

impl Family {
    /// Several as one.
    pub fn merged(families: impl IntoIterator<Item = Family>) -> Family {
        Family { actors: families.into_iter().flat_map(|family| family.actors).collect(), tie: None }
    }

    /// The one task that created nearly all of those whose creation was seen; it may be of the family itself.
    pub fn creator(&self, case: &Case<'_>) -> Option<Ancestor> {
        let mut children: FxHashMap<Tid, (u32, Ancestor)> = FxHashMap::default();
        let mut born = 0u32;
        for births in self.actors.iter().map(|id| &case.actor(*id).births).filter(|births| !births.is_empty()) {
            born += 1;
            for birth in births {
                children.entry(birth.parent.tid).or_insert((0, birth.parent)).0 += 1;
            }
        }
        let (count, creator) = children.into_values().max_by_key(|(count, creator)| (*count, creator.tid))?;
        (f64::from(count) >= NEARLY_ALL * f64::from(born) && ties_together(case, &creator)).then_some(creator)
    }

    /// How many names its tasks have.
    pub fn names(&self, case: &Case<'_>) -> usize {
        self.actors.iter().filter_map(|id| case.actor(*id).comm()).collect::<FxHashSet<_>>().len()
    }

    /// What its tasks have in common, for people.
    pub fn in_common(&self, case: &Case<'_>) -> Option<String> {
        let ancestor = |tid: Tid| births(case, self).flat_map(|b| [b.parent, b.root]).find(|known| known.tid == tid);
        let named = |tid| Some(format!("{} ({tid})", unstarve_model::clean(&ancestor(tid)?.comm.to_string())));
        Some(match (&self.tie, self.creator(case)) {
            (Some(Tie::Group(path)), _) => format!("all of them are in the cgroup {}", path.escape_debug()),
            (Some(Tie::Ancestor(tid)), None) => format!("all of them descend from {}", named(*tid)?),
            (Some(Tie::Creator(tid)), _) => format!("all of them were created by {}", named(*tid)?),
            (_, Some(creator)) if self.names(case) > 1 => {
                format!("all of them were created by {}", named(creator.tid)?)
            }
            _ => return None,
        })
    }
}
