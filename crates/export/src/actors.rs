//! Names and properties of actors, looked up once.

use unstarve_diagnose::report::VictimKind;
use unstarve_model::{Tid, clean};
use unstarve_timeline::{Actor, ActorId, ActorKind, World};

/// An actor, described as in the report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ActorInfo {
    /// `fio`, `idle`, `irq 33 virtio0`, …; escaped for terminals.
    pub name: String,
    /// `task`, `kworker`, `ksoftirqd`, …, `irq`, `softirq`, `idle`, `unknown`, `others`.
    pub kind: &'static str,
    /// `fair`, `rt`, `deadline`, `idle`; `None` if it is not a task.
    pub policy: Option<String>,
    /// The kernel's priority.
    pub prio: Option<i32>,
    /// The load weight of its top-level cgroup, if known and not the root.
    pub group_weight: Option<u32>,
    /// The ids of its first threads, separated by spaces; `None` if it is not a task.
    pub tids: Option<String>,
    /// The ids of their processes, if known.
    pub tgids: Option<String>,
    /// The paths of their cgroups, if known, separated by commas.
    pub cgroups: Option<String>,
    /// The number of its tasks when it was looked up.
    members: u32,
}

/// How many threads of an actor are listed.
const MAX_TIDS: usize = 16;

impl ActorInfo {
    fn of(world: &World, id: ActorId) -> ActorInfo {
        let actor = world.actors.get(id);
        ActorInfo {
            name: clean(&world.name(id)).into_owned(),
            kind: kind(actor),
            policy: actor.policy().map(|policy| policy.to_string()),
            prio: actor.prio().map(|prio| prio.0),
            group_weight: actor.group_weight(),
            tids: joined(actor.tids.iter().take(MAX_TIDS).map(|tid| tid.0), " "),
            tgids: joined(of_threads(actor, |tid| world.settings().process_of(tid)).iter().map(|tgid| tgid.0), " "),
            cgroups: joined(
                of_threads(actor, |tid| world.settings().cgroup_of(tid)).iter().map(|path| clean(path)),
                ",",
            ),
            members: actor.members,
        }
    }

    /// Whether more threads have joined since, whose ids should be listed.
    fn is_stale(&self, world: &World, id: ActorId) -> bool {
        self.members < MAX_TIDS as u32 && world.actors.get(id).members != self.members
    }

    /// The name, with the priority if that is why it wins: `wl RT 10`.
    pub fn label(&self) -> String {
        match (self.policy.as_deref(), self.prio) {
            // As chrt shows it: larger is more urgent.
            (Some("rt"), Some(prio)) => format!("{} RT {}", self.name, 99 - prio),
            (Some("deadline"), _) => format!("{} DL", self.name),
            _ => self.name.clone(),
        }
    }
}

/// A property of the first threads of an actor, without duplicates, sorted.
fn of_threads<T: Ord>(actor: &Actor, of: impl Fn(Tid) -> Option<T>) -> Vec<T> {
    let mut all: Vec<T> = actor.tids.iter().take(MAX_TIDS).filter_map(|tid| of(*tid)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The parts joined; `None` if there are none.
fn joined<T: ToString>(parts: impl Iterator<Item = T>, between: &str) -> Option<String> {
    let parts: Vec<String> = parts.map(|part| part.to_string()).collect();
    (!parts.is_empty()).then(|| parts.join(between))
}

fn kind(actor: &Actor) -> &'static str {
    match actor.kind {
        ActorKind::Unknown | ActorKind::Stopped => "unknown",
        ActorKind::Idle => "idle",
        ActorKind::Others => "others",
        ActorKind::Irq { .. } | ActorKind::Vector(_) => "irq",
        ActorKind::Softirq { .. } => "softirq",
        ActorKind::Tasks { .. } => VictimKind::from(actor.kernel_thread).word(),
    }
}

/// All actors seen so far, each looked up once.
#[derive(Default)]
pub(crate) struct ActorCache(Vec<Option<ActorInfo>>);

impl ActorCache {
    /// The actor with this id.
    pub fn who(&mut self, world: &World, id: ActorId) -> &ActorInfo {
        if self.0.len() <= id.index() {
            self.0.resize_with(id.index() + 1, || None);
        }
        let slot = &mut self.0[id.index()];
        if slot.as_ref().is_some_and(|who| who.is_stale(world, id)) {
            *slot = None;
        }
        slot.get_or_insert_with(|| ActorInfo::of(world, id))
    }

    /// The actor with this id, if it has been looked up before.
    pub fn known(&self, id: ActorId) -> Option<&ActorInfo> {
        self.0.get(id.index())?.as_ref()
    }
}
