//! Entities (tasks, and cgroups on one CPU) and the queues in which they compete.

use unstarve_sched::IDLE_WEIGHT;
use unstarve_sched::fair::{MAX_SHARES, MIN_SHARES, eevdf};

use super::super::{ActorId, FairRules};
use super::shares::MeanLoad;
use crate::Cgroup;

/// An entity: a `sched_entity`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in super::super) struct EntityId(pub(super) u32);

/// A queue: a `cfs_rq`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct QueueId(pub(super) u32);

impl EntityId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

impl QueueId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }

    /// Queues are in order of groups, the root group first, and of CPUs within a group.
    pub(super) fn of(cgroup: Option<usize>, cpu: usize, cpus: usize) -> QueueId {
        QueueId((cgroup.map_or(0, |group| group + 1) * cpus + cpu) as u32)
    }
}

/// A task, or a cgroup on one CPU.
#[derive(Clone, Debug)]
pub(in super::super) struct Entity {
    /// Where it competes.
    pub(super) queue: QueueId,
    /// The queue inside a cgroup.
    pub(super) below: Option<QueueId>,
    /// Whose it is; `None` for a cgroup.
    pub(super) actor: Option<ActorId>,
    pub(super) weight: u32,
    /// The weight of the whole group, on all CPUs.
    pub(super) group_weight: u32,
    pub(super) vruntime: i64,
    pub(super) deadline: i64,
    pub(super) vlag: i64,
    pub(super) slice: i64,
    pub(super) has_own_slice: bool,
    pub(super) rel_deadline: Option<i64>,
    pub(super) protected_until: i64,
    pub(super) sum_exec: i64,
    pub(super) prev_sum_exec: i64,
    /// SCHED_IDLE, or an idle group.
    pub(super) is_idle: bool,
    /// Whether its wakeups may preempt: neither SCHED_BATCH nor SCHED_IDLE.
    pub(super) is_normal: bool,
    pub(super) on_rq: bool,
    /// It sleeps, but leaves the queue only when it is picked.
    pub(super) is_delayed: bool,
}

impl Entity {
    fn new(queue: QueueId, weight: u32, slice: Option<i64>, rules: FairRules) -> Entity {
        let base = match rules {
            FairRules::Cfs(_) => 0,
            FairRules::Eevdf(tunables) => tunables.base_slice,
        };
        Entity {
            queue,
            below: None,
            actor: None,
            weight,
            group_weight: weight,
            vruntime: 0,
            deadline: 0,
            vlag: 0,
            slice: slice.unwrap_or(base),
            has_own_slice: slice.is_some(),
            rel_deadline: None,
            protected_until: i64::MIN,
            sum_exec: 0,
            prev_sum_exec: 0,
            is_idle: weight == IDLE_WEIGHT,
            is_normal: true,
            on_rq: false,
            is_delayed: false,
        }
    }

    /// A cgroup on one CPU.
    pub(super) fn of_group(queue: QueueId, below: QueueId, cgroup: &Cgroup, rules: FairRules) -> Entity {
        let weight = cgroup.load_weight.clamp(MIN_SHARES, MAX_SHARES);
        Entity { below: Some(below), ..Entity::new(queue, weight, None, rules) }
    }

    /// A task.
    pub(in super::super) fn of_task(
        queue: QueueId,
        actor: ActorId,
        weight: u32,
        is_normal: bool,
        slice: Option<i64>,
        rules: FairRules,
    ) -> Entity {
        Entity { actor: Some(actor), is_normal, ..Entity::new(queue, weight, slice, rules) }
    }

    pub(super) fn point(&self) -> eevdf::Point {
        eevdf::Point { vruntime: self.vruntime, weight: self.weight }
    }

    pub(super) fn placed(&self) -> eevdf::Placed {
        eevdf::Placed { vruntime: self.vruntime, deadline: self.deadline }
    }

    pub(super) fn is_protected(&self, tunables: &eevdf::Tunables) -> bool {
        eevdf::protect_slice(self.placed(), self.protected_until, tunables)
    }

    /// `cancel_protect_slice()`.
    pub(super) fn cancel_protection(&mut self) {
        self.protected_until = i64::MIN;
    }

    pub(super) fn lag(&self, avg_vruntime: i64, tunables: &eevdf::Tunables) -> i64 {
        eevdf::entity_lag(avg_vruntime, self.vruntime, self.weight, self.slice, tunables)
    }

    /// A group asks for the shortest slice of its tasks at a time.
    pub(super) fn set_slice_of_group(&mut self, shortest: i64) {
        (self.slice, self.has_own_slice) = (shortest, true);
    }
}

/// The entities of a cgroup on one CPU.
#[derive(Clone, Debug)]
pub(in super::super) struct Queue {
    pub(super) cpu: usize,
    /// How many groups are above it.
    pub(super) depth: u32,
    /// The group's entity on this CPU; `None` for the root group.
    pub(super) owner: Option<EntityId>,
    pub(super) group: Option<usize>,
    /// Those that wait, in order of arrival.
    pub(super) queued: Vec<EntityId>,
    /// The one that runs. It may have left the queue, until the next task is set.
    pub(super) curr: Option<EntityId>,
    /// Who is preferred.
    pub(super) next: Option<EntityId>,
    pub(super) last: Option<EntityId>,
    /// The weights of all entities, with the running one.
    pub(super) load: u64,
    /// Their number.
    pub(super) nr_running: u32,
    /// The number of runnable tasks in it and below.
    pub(in super::super) h_nr_runnable: u32,
    pub(super) min_vruntime: i64,
    pub(super) average: eevdf::Average,
    pub(super) is_throttled: bool,
    pub(super) mean_load: MeanLoad,
}

impl Queue {
    pub(super) fn of_root(cpu: usize) -> Queue {
        Queue {
            cpu,
            depth: 0,
            owner: None,
            group: None,
            queued: Vec::new(),
            curr: None,
            next: None,
            last: None,
            load: 0,
            nr_running: 0,
            h_nr_runnable: 0,
            min_vruntime: 0,
            average: eevdf::Average::default(),
            is_throttled: false,
            mean_load: MeanLoad::default(),
        }
    }

    pub(super) fn of_group(cpu: usize, group: usize, owner: EntityId, depth: u32) -> Queue {
        Queue { depth, owner: Some(owner), group: Some(group), ..Queue::of_root(cpu) }
    }
}
