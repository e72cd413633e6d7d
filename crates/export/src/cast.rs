use unstarve_model::clean;
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
}

impl Who {
    fn of(world: &World, id: ActorId) -> Who {
        let actor = world.actors.get(id);
        Who {
            name: clean(&world.name(id)).into_owned(),
            kind: kind(actor),
            policy: actor.policy().map(|policy| policy.to_string()),
            prio: actor.prio().map(|prio| prio.0),
            group_weight: actor.group_weight(),
        }
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

fn kind(actor: &Actor) -> &'static str {
    match actor.kind {
        ActorKind::Unknown => "unknown",
        ActorKind::Idle => "idle",
        ActorKind::Others => "others",
        ActorKind::Irq { .. } => "irq",
        ActorKind::Softirq { .. } => "softirq",
        ActorKind::Tasks { .. } => actor.kernel_thread.map_or("task", |thread| thread.word()),
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
        self.0[id.index()].get_or_insert_with(|| Who::of(world, id))
    }

    /// Whom the id stands for, if it has been asked for before.
    pub fn known(&self, id: ActorId) -> Option<&Who> {
        self.0.get(id.index())?.as_ref()
    }
}
