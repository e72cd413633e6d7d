//! The actors named on the page.

use rustc_hash::FxHashMap;
use serde::Serialize;
use unstarve_diagnose::report::VictimKind;
use unstarve_facts::Snapshot;
use unstarve_model::Policy;
use unstarve_sched::KernelThread;
use unstarve_timeline::{ActorId, ActorKind, World};

use crate::blob::{Column, Columns};

/// The actors on the page, numbered in the order of their first use.
pub(crate) struct ActorTable<'a> {
    world: &'a World,
    snapshot: Option<&'a Snapshot>,
    ids: Vec<ActorId>,
    numbers: FxHashMap<ActorId, u16>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct ActorsData {
    name: Vec<String>,
    /// 0 task, 1 interrupt, 2 softirq, 3 idle, 4 unknown, 5 others.
    kind: Column<u8>,
    /// `fair`, `rt`, `deadline`; what the snapshot calls it, if there is one.
    policy: Vec<Option<String>>,
    /// The kernel's priority; `null` for what is not a task.
    prio: Vec<Option<i32>>,
    /// `kworker`, `ksoftirqd`, …
    kernel_thread: Vec<Option<&'static str>>,
    /// The first few.
    tids: Vec<Vec<u32>>,
    /// The processes of those, where the snapshot knows them.
    tgids: Vec<Vec<u32>>,
    members: Column<u32>,
    cgroup: Vec<Option<String>>,
    /// The CPUs that its tasks, or the interrupt, may use.
    affinity: Vec<Option<String>>,
}

/// Maximum thread ids listed for an actor.
const MAX_LISTED_TIDS: usize = 16;

impl<'a> ActorTable<'a> {
    pub fn new(world: &'a World, snapshot: Option<&'a Snapshot>) -> ActorTable<'a> {
        ActorTable { world, snapshot, ids: Vec::new(), numbers: FxHashMap::default() }
    }

    /// The actor's number on the page; there are at most [`unstarve_timeline::Actors::LIMIT`], so that it fits.
    pub fn index(&mut self, id: ActorId) -> u16 {
        *self.numbers.entry(id).or_insert_with(|| {
            self.ids.push(id);
            (self.ids.len() - 1) as u16
        })
    }

    pub fn finish(self, columns: &mut Columns) -> ActorsData {
        let actor = |id: &ActorId| self.world.actors.get(*id);
        let kind = |id: &ActorId| match actor(id).kind {
            ActorKind::Tasks { .. } => 0,
            ActorKind::Irq { .. } | ActorKind::Vector(_) => 1,
            ActorKind::Softirq { .. } => 2,
            ActorKind::Idle => 3,
            ActorKind::Unknown | ActorKind::Stopped => 4,
            ActorKind::Others => 5,
        };
        ActorsData {
            name: self.ids.iter().map(|id| super::cleaned(&self.world.name(*id))).collect(),
            kind: columns.u8(self.ids.iter().map(kind)),
            policy: self.ids.iter().map(|id| self.policy(*id)).collect(),
            prio: self.ids.iter().map(|id| actor(id).prio().map(|prio| prio.0)).collect(),
            kernel_thread: self.ids.iter().map(|id| actor(id).kernel_thread.map(kind_word)).collect(),
            tids: self
                .ids
                .iter()
                .map(|id| actor(id).tids.iter().take(MAX_LISTED_TIDS).map(|tid| tid.0).collect())
                .collect(),
            tgids: self.ids.iter().map(|id| self.tgids(*id)).collect(),
            members: columns.u32(self.ids.iter().map(|id| actor(id).members)),
            cgroup: self.ids.iter().map(|id| self.cgroup(*id)).collect(),
            affinity: self.ids.iter().map(|id| self.affinity(*id)).collect(),
        }
    }

    fn policy(&self, id: ActorId) -> Option<String> {
        let actor = self.world.actors.get(id);
        let class = actor.policy().filter(|policy| *policy != Policy::Idle)?;
        let told = actor.tids.first().and_then(|tid| self.snapshot?.policy_of(*tid));
        // A task may have changed its policy after the snapshot: the trace overrules it.
        let told = told.filter(|policy| policy.class() == Some(class) && class != Policy::Fair);
        Some(told.map_or_else(|| class.to_string(), |policy| policy.word().to_owned()))
    }

    fn cgroup(&self, id: ActorId) -> Option<String> {
        let tid = self.world.actors.get(id).tids.first()?;
        Some(super::cleaned(self.snapshot?.cgroup_of(*tid)?))
    }

    fn tgids(&self, id: ActorId) -> Vec<u32> {
        let tids = self.world.actors.get(id).tids.iter().take(MAX_LISTED_TIDS);
        let mut tgids: Vec<u32> = tids.filter_map(|tid| Some(self.snapshot?.process_of(*tid)?.0)).collect();
        tgids.sort_unstable();
        tgids.dedup();
        tgids
    }

    fn affinity(&self, id: ActorId) -> Option<String> {
        let snapshot = self.snapshot?;
        let actor = self.world.actors.get(id);
        if let ActorKind::Irq { irq, .. } = actor.kind {
            return snapshot.irq_affinity(irq).map(ToString::to_string);
        }
        let mut known = actor.tids.iter().filter_map(|tid| snapshot.allowed_cpus(*tid));
        let first = known.next()?;
        Some(if known.all(|other| other == first) { first.to_string() } else { "differs".to_owned() })
    }
}

fn kind_word(thread: KernelThread) -> &'static str {
    VictimKind::from(Some(thread)).word()
}
