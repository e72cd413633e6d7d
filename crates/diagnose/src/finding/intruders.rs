//! Groups real-time tasks that belong together: each may take little, all together a whole CPU.
//!
//! A cron job that starts one FIFO process after the other, each with its own name, is one intruder. So are numbered threads
//! (`rx-0`, `rx-1`), a task before and after it changed its name, and a lock holder with the real-time task that boosts it.

use rustc_hash::{FxHashMap, FxHashSet};
use unstarve_model::{Nanos, Prio, Tid};
use unstarve_timeline::{ActorId, Ancestor, Birth};

use super::boosters::Boosters;
use super::stem;
use crate::case::Case;
use crate::claim::RealTimeClaim;

/// This many with a common parent, ancestor or cgroup are its doing; fewer may be separate programs of one administrator.
const MANY: usize = 4;

/// A creator must have created this part of all tasks that were born in the recording.
const NEARLY_ALL: f64 = 0.9;

/// Tasks that count as one intruder.
#[derive(Clone, Debug, Default)]
pub(super) struct Family {
    pub actors: Vec<ActorId>,
    pub tie: Option<Tie>,
}

/// What tasks of different names have in common.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Tie {
    /// The task that created them.
    Creator(Tid),
    /// The task that created their creators.
    Ancestor(Tid),
    /// Their cgroup.
    Group(String),
}

/// Groups these real-time and deadline tasks into families.
pub(super) fn families(case: &Case<'_>, occupants: &[ActorId], boosters: &Boosters) -> Vec<Family> {
    let mut families = by_name_and_thread(case, occupants, boosters);
    for ties in [creators as fn(&Case<'_>, &Family) -> Vec<Tie>, ancestors, groups] {
        families = tied(case, families, ties);
    }
    families
}

/// What makes tasks of one name stem one program: the same process; or the same priority with the same cgroup or, outside of
/// cgroups, the same parent. If none of these is known, name and priority must do.
#[derive(PartialEq, Eq, Hash)]
enum Origin {
    Process(Tid),
    Group(String, Option<Prio>),
    Parent(Tid, Option<Prio>),
    /// Neither cgroup nor parent is known.
    Unknown(Option<Prio>),
    /// Of this priority, whatever else is known.
    Any(Option<Prio>),
}

/// Adopts all orphans and is the parent of all daemons.
const INIT: Tid = Tid(1);

/// The known origins of the actor's tasks. One common origin is enough to belong together.
fn origins(case: &Case<'_>, id: ActorId) -> Vec<Origin> {
    let actor = case.actor(id);
    let (tid, prio, birth) = (case.first_tid(id), actor.prio(), actor.births.first());
    let mut origins: Vec<Origin> = tid.and_then(|tid| case.process_of(tid)).map(Origin::Process).into_iter().collect();
    // A task that is not in the snapshot inherited its cgroup.
    let group = |tid: Tid| case.snapshot?.cgroup_of(tid).filter(|path| *path != "/");
    let path = tid.and_then(group).or_else(|| group(birth?.root.tid));
    let parent = birth.map(|birth| birth.parent.tid).or_else(|| case.parent_of(tid?));
    match (path, parent) {
        (Some(path), _) => origins.push(Origin::Group(path.to_owned(), prio)),
        (None, Some(INIT)) => {}
        (None, Some(parent)) => origins.push(Origin::Parent(parent, prio)),
        (None, None) => origins.push(Origin::Unknown(prio)),
    }
    origins
}

/// The families found so far, with indexes to find them.
#[derive(Default)]
struct Known {
    by_stem: FxHashMap<String, FxHashMap<Origin, usize>>,
    by_tid: FxHashMap<Tid, usize>,
}

impl Known {
    /// The family with this name and one of these origins, else the family of one of its tasks under another name.
    fn find(&self, case: &Case<'_>, id: ActorId, name: &str, origins: &[Origin]) -> Option<usize> {
        let actor = case.actor(id);
        let is_unknown = origins.iter().any(|origin| matches!(origin, Origin::Unknown(_)));
        let same = self.by_stem.get(name).and_then(|of_stem| {
            let by_origin = origins.iter().find_map(|origin| of_stem.get(origin));
            let otherwise = if is_unknown { Origin::Any(actor.prio()) } else { Origin::Unknown(actor.prio()) };
            by_origin.or_else(|| of_stem.get(&otherwise))
        });
        same.or_else(|| actor.tids.iter().find_map(|tid| self.by_tid.get(tid))).copied()
    }

    fn add(&mut self, case: &Case<'_>, id: ActorId, name: &str, mut origins: Vec<Origin>, family: usize) {
        origins.push(Origin::Any(case.actor(id).prio()));
        let of_stem = self.by_stem.entry(name.to_owned()).or_default();
        for origin in origins {
            of_stem.entry(origin).or_insert(family);
        }
        for tid in &case.actor(id).tids {
            self.by_tid.entry(*tid).or_insert(family);
        }
    }
}

/// Groups tasks of one program with one name or numbered names, a task with its earlier and later names, and a lock holder with
/// its booster.
fn by_name_and_thread(case: &Case<'_>, occupants: &[ActorId], boosters: &Boosters) -> Vec<Family> {
    let mut order = occupants.to_vec();
    // The name under which a task ran most is its name: a fork of a shell and `chrt` have other names for a moment.
    order.sort_by_key(|id| (std::cmp::Reverse(ran(case, *id)), *id));
    let mut families: Vec<Family> = Vec::new();
    let mut known = Known::default();
    let mut family_of: FxHashMap<ActorId, usize> = FxHashMap::default();
    for id in order.iter().copied().filter(|id| boosters.of_task(*id).is_none()) {
        let name = stem(&case.name(id)).to_owned();
        let origins = origins(case, id);
        let index = known.find(case, id, &name, &origins).unwrap_or_else(|| {
            families.push(Family::default());
            families.len() - 1
        });
        families[index].actors.push(id);
        family_of.insert(id, index);
        known.add(case, id, &name, origins, index);
    }
    let boosted = order.iter().filter_map(|id| Some((*id, boosters.of_task(*id)?)));
    for (boosted, booster) in boosted {
        match family_of.get(&booster) {
            Some(index) => families[*index].actors.push(boosted),
            // The booster itself kept no task waiting.
            None => {
                family_of.insert(booster, families.len());
                families.push(Family { actors: vec![boosted, booster], tie: None });
            }
        }
    }
    families
}

pub(super) fn ran(case: &Case<'_>, id: ActorId) -> Nanos {
    case.ledger.account(id).map_or(Nanos::ZERO, |account| account.runs.total)
}

/// Merges families if many of them share a tie.
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

/// Excludes ancestors that prove nothing: those of everything (init, kthreadd), and those that only run the recording.
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

/// The cgroup from the snapshot; for tasks not in it, that of the ancestor from which they inherited it.
fn groups(case: &Case<'_>, family: &Family) -> Vec<Tie> {
    let Some(snapshot) = case.snapshot else { return Vec::new() };
    let tids = family.actors.iter().filter_map(|id| case.first_tid(*id));
    let tids = tids.chain(births(case, family).map(|birth| birth.root.tid));
    let paths = tids.filter_map(|tid| snapshot.cgroup_of(tid)).filter(|path| *path != "/");
    each_once(paths.map(|path| Tie::Group(path.to_owned())).collect())
}

impl Family {
    /// Merges several families.
    pub fn merged(families: impl IntoIterator<Item = Family>) -> Family {
        Family { actors: families.into_iter().flat_map(|family| family.actors).collect(), tie: None }
    }

    /// The one task that created nearly all of those whose creation was recorded; it may be in the family itself.
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

    /// The number of different names of its tasks.
    pub fn names(&self, case: &Case<'_>) -> usize {
        self.actors.iter().filter_map(|id| case.actor(*id).comm()).collect::<FxHashSet<_>>().len()
    }

    /// What its tasks have in common, as evidence.
    pub fn in_common(&self, case: &Case<'_>) -> Option<RealTimeClaim> {
        let ancestor = |tid: Tid| births(case, self).flat_map(|b| [b.parent, b.root]).find(|known| known.tid == tid);
        let name = |tid| Some(unstarve_model::clean(&ancestor(tid)?.comm.to_string()).into_owned());
        Some(match (&self.tie, self.creator(case)) {
            (Some(Tie::Group(path)), _) => RealTimeClaim::InGroup(path.clone()),
            (Some(Tie::Ancestor(tid)), None) => RealTimeClaim::DescendFrom(name(*tid)?, *tid),
            (Some(Tie::Creator(tid)), _) => RealTimeClaim::CreatedBy(name(*tid)?, *tid),
            (_, Some(creator)) if self.names(case) > 1 => RealTimeClaim::CreatedBy(name(creator.tid)?, creator.tid),
            _ => return None,
        })
    }
}
