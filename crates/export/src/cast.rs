use unstarve_diagnose::report::VictimKind;
use unstarve_model::{Tid, clean};
use unstarve_timeline::{Actor, ActorId, ActorKind, World};

/// Who an actor is, in the words of the report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Who {
    /// `fio`, `idle`, `irq 33 virtio0`, …; harmless to terminals.
    pub name: String,
    /// `task`, `kworker`, `ksoftirqd`, …, `irq`, `softirq`, `idle`, `unknown`, `others`.
    pub kind: &'static str,
    /// `fair`, `rt`, `deadline`, `idle`; none for what is no task.
    pub policy: Option<String>,
    /// The kernel's priority.
    pub prio: Option<i32>,
    /// The load weight of its top-level cgroup, where known and not the root's.
    pub group_weight: Option<u32>,
    /// Its threads' ids, the first few, apart by blanks; none for what is no task.
    pub tids: Option<String>,
    /// The ids of their processes, where known.
    pub tgids: Option<String>,
    /// The paths of their cgroups, where known, apart by commas.
    pub cgroups: Option<String>,
    /// How many tasks it stood for when this was looked up.
    members: u32,
}

/// Threads that are named with an actor.
const TIDS: usize = 16;

impl Who {
    fn of(world: &World, id: ActorId) -> Who {
        let actor = world.actors.get(id);
        Who {
            name: clean(&world.name(id)).into_owned(),
            kind: kind(actor),
            policy: actor.policy().map(|policy| policy.to_string()),
            prio: actor.prio().map(|prio| prio.0),
            group_weight: actor.group_weight(),
            tids: joined(actor.tids.iter().take(TIDS).map(|tid| tid.0), " "),
            tgids: joined(of_threads(actor, |tid| world.settings().process_of(tid)).iter().map(|tgid| tgid.0), " "),
            cgroups: joined(
                of_threads(actor, |tid| world.settings().cgroup_of(tid)).iter().map(|path| clean(path)),
                ",",
            ),
            members: actor.members,
        }
    }

    /// Whether threads have joined it since, whose ids should be told.
    fn is_stale(&self, world: &World, id: ActorId) -> bool {
        self.members < TIDS as u32 && world.actors.get(id).members != self.members
    }

    /// The name, and the priority where that is what makes it win: `wl RT 10`.
    pub fn label(&self) -> String {
        match (self.policy.as_deref(), self.prio) {
            // As chrt shows it: the larger, the more urgent.
            (Some("rt"), Some(prio)) => format!("{} RT {}", self.name, 99 - prio),
            (Some("deadline"), _) => format!("{} DL", self.name),
            _ => self.name.clone(),
        }
    }
}

/// What the first few threads of an actor have, each once, in order.
fn of_threads<T: Ord>(actor: &Actor, of: impl Fn(Tid) -> Option<T>) -> Vec<T> {
    let mut all: Vec<T> = actor.tids.iter().take(TIDS).filter_map(|tid| of(*tid)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// One text of several, none of nothing.
fn joined<T: ToString>(parts: impl Iterator<Item = T>, between: &str) -> Option<String> {
    let parts: Vec<String> = parts.map(|part| part.to_string()).collect();
    (!parts.is_empty()).then(|| parts.join(between))
}

fn kind(actor: &Actor) -> &'static str {
    match actor.kind {
        ActorKind::Unknown | ActorKind::Stopped => "unknown",
        ActorKind::Idle => "idle",
        ActorKind::Others => "others",
        ActorKind::Irq { .. } => "irq",
        ActorKind::Softirq { .. } => "softirq",
        ActorKind::Tasks { .. } => VictimKind::from(actor.kernel_thread).word(),
    }
}

/// Everybody who has appeared, looked up once.
#[derive(Default)]
pub(crate) struct Cast(Vec<Option<Who>>);

impl Cast {
    /// Whom the id stands for.
    pub fn who(&mut self, world: &World, id: ActorId) -> &Who {
        if self.0.len() <= id.index() {
            self.0.resize_with(id.index() + 1, || None);
        }
        let slot = &mut self.0[id.index()];
        if slot.as_ref().is_some_and(|who| who.is_stale(world, id)) {
            *slot = None;
        }
        slot.get_or_insert_with(|| Who::of(world, id))
    }

    /// Whom the id stands for, if it has been asked for before.
    pub fn known(&self, id: ActorId) -> Option<&Who> {
        self.0.get(id.index())?.as_ref()
    }
}
