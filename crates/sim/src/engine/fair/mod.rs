//! The fair class of all CPUs: entities in queues, a queue for each cgroup on each CPU, as the kernel keeps them.
//!
//! The decisions are those of [`unstarve_sched::fair`]; here is what they are about. Functions have the kernel's names
//! (kernel/sched/fair.c of 6.1.192 for CFS and of 6.12.117 for EEVDF). Queues are vectors in the order of arrival instead of
//! trees: few entities wait at a time, and of equals the first is picked in both.

mod bandwidth;
mod entity;
mod preempt;
mod shares;

use unstarve_sched::fair::{calc_delta_fair, cfs, eevdf};

use self::bandwidth::Bandwidth;
pub(super) use self::entity::{Entity, EntityId, Queue, QueueId};
use super::{ActorId, FairRules};
use crate::Cgroup;

/// How an entity comes to a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arriving {
    /// It slept (or is a group with its first task).
    Awake,
    /// It is new.
    Born,
    /// It waited on another CPU.
    Moved,
}

/// What becomes of a task that goes to sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Dequeued {
    /// It is gone from the queue.
    Gone,
    /// It stays queued until it is picked or woken (DELAY_DEQUEUE).
    Delayed,
}

/// The fair class of all CPUs.
pub(super) struct FairClass {
    rules: FairRules,
    entities: Vec<Entity>,
    queues: Vec<Queue>,
    /// By cgroup.
    bandwidths: Vec<Option<Bandwidth>>,
    /// By cgroup: whether its tasks may be on several CPUs.
    spreads: Vec<bool>,
    cpus: usize,
    /// Whether a task has a slice of its own.
    has_own_slices: bool,
}

impl FairClass {
    /// Empty queues of these CPUs and cgroups; `spreads`: whether a cgroup's tasks may be on several CPUs.
    pub(super) fn new(rules: FairRules, cpus: usize, cgroups: &[Cgroup], spreads: Vec<bool>) -> FairClass {
        let mut queues: Vec<Queue> = (0..cpus).map(Queue::of_root).collect();
        let mut entities = Vec::new();
        for (group, cgroup) in cgroups.iter().enumerate() {
            for cpu in 0..cpus {
                let above = QueueId::of(cgroup.parent, cpu, cpus);
                let entity = EntityId(entities.len() as u32);
                let depth = queues[above.index()].depth;
                entities.push(Entity::of_group(above, QueueId::of(Some(group), cpu, cpus), cgroup, rules));
                queues.push(Queue::of_group(cpu, group, entity, depth + 1));
            }
        }
        let bandwidths = cgroups.iter().map(|cgroup| cgroup.quota.map(Bandwidth::new)).collect();
        FairClass { rules, entities, queues, bandwidths, spreads, cpus, has_own_slices: false }
    }

    /// Adds a task's entity, which is not queued.
    pub(super) fn add_task(&mut self, entity: Entity) -> EntityId {
        self.has_own_slices |= entity.has_own_slice;
        self.entities.push(entity);
        EntityId(self.entities.len() as u32 - 1)
    }

    /// The queue of a cgroup on a CPU.
    pub(super) fn queue_of(&self, cgroup: Option<usize>, cpu: usize) -> QueueId {
        QueueId::of(cgroup, cpu, self.cpus)
    }

    pub(super) fn root(&self, cpu: usize) -> &Queue {
        &self.queues[cpu]
    }

    /// Whether a task sleeps, but has not left its queue.
    pub(super) fn is_delayed(&self, task: EntityId) -> bool {
        self.entity(task).is_delayed
    }

    /// Whose entity it is.
    pub(super) fn actor_of(&self, task: EntityId) -> Option<ActorId> {
        self.entity(task).actor
    }

    fn entity(&self, id: EntityId) -> &Entity {
        &self.entities[id.index()]
    }

    fn entity_mut(&mut self, id: EntityId) -> &mut Entity {
        &mut self.entities[id.index()]
    }

    fn queue(&self, id: QueueId) -> &Queue {
        &self.queues[id.index()]
    }

    fn queue_mut(&mut self, id: QueueId) -> &mut Queue {
        &mut self.queues[id.index()]
    }

    /// The entity of the group in which this one is.
    fn parent(&self, id: EntityId) -> Option<EntityId> {
        self.queue(self.entity(id).queue).owner
    }

    /// `cfs_rq->curr`, as long as it is queued, as a point of the average.
    fn curr_point(&self, queue: QueueId) -> Option<eevdf::Point> {
        let curr = self.entity(self.queue(queue).curr?);
        curr.on_rq.then(|| curr.point())
    }

    fn avg_vruntime(&mut self, queue: QueueId) -> i64 {
        let curr = self.curr_point(queue);
        self.queue_mut(queue).average.avg_vruntime(curr)
    }

    fn is_eligible(&self, id: EntityId) -> bool {
        let entity = self.entity(id);
        self.queue(entity.queue).average.vruntime_eligible(entity.vruntime, self.curr_point(entity.queue))
    }

    fn leftmost(&self, queue: QueueId) -> Option<EntityId> {
        let queued = self.queue(queue).queued.iter().copied();
        queued.reduce(|first, id| if self.entity(id).vruntime < self.entity(first).vruntime { id } else { first })
    }

    fn update_min_vruntime(&mut self, queue: QueueId) {
        let curr = self.curr_point(queue).map(|curr| curr.vruntime);
        let leftmost = self.leftmost(queue).map(|id| self.entity(id).vruntime);
        let queue = self.queue_mut(queue);
        queue.min_vruntime = cfs::update_min_vruntime(queue.min_vruntime, curr, leftmost);
    }

    /// `update_curr()` for a running task and the groups above it. Whether the CPU has to look who is next.
    pub(super) fn update_curr(&mut self, task: EntityId, delta: i64) -> bool {
        let (mut resched, mut level) = (false, Some(task));
        while let Some(id) = level {
            let entity = self.entity_mut(id);
            entity.sum_exec += delta;
            entity.vruntime += calc_delta_fair(delta, entity.weight);
            let queue = entity.queue;
            resched |= match self.rules {
                FairRules::Cfs(_) => {
                    self.update_min_vruntime(queue);
                    false
                }
                FairRules::Eevdf(tunables) => self.update_deadline(id, &tunables),
            };
            resched |= self.account_cfs_rq_runtime(queue, delta);
            level = self.queue(queue).owner;
        }
        resched
    }

    /// `update_deadline()` and what follows it in `update_curr()`.
    fn update_deadline(&mut self, id: EntityId, tunables: &eevdf::Tunables) -> bool {
        let entity = self.entity_mut(id);
        let next = eevdf::update_deadline(entity.vruntime, entity.deadline, entity.weight, entity.slice);
        if let Some(deadline) = next {
            if !entity.has_own_slice {
                entity.slice = tunables.base_slice;
            }
            entity.deadline = deadline;
        }
        let (queue, protected) = (entity.queue, entity.is_protected(tunables));
        if self.queue(queue).nr_running == 1 {
            return false;
        }
        let is_due = match tunables.protection {
            _ if next.is_some() => true,
            eevdf::Protection::ShortestSlice => !protected,
            eevdf::Protection::Deadline => tunables.features.preempt_short && !protected && !self.is_eligible(id),
        };
        if is_due {
            self.clear_buddies(id);
        }
        is_due
    }

    /// How much CPU time the running task needs until one of the slices above it ends; for HRTICK.
    pub(super) fn until_slice_ends(&self, task: EntityId) -> Option<i64> {
        let mut level = Some(task);
        let mut least: Option<i64> = None;
        while let Some(id) = level {
            let entity = self.entity(id);
            if self.queue(entity.queue).nr_running > 1 {
                let virtual_rest = (entity.deadline - entity.vruntime).max(0);
                let rest = i128::from(virtual_rest) * i128::from(entity.weight) / 1024 + 1;
                let rest = rest.min(i128::from(i64::MAX)) as i64;
                least = Some(least.map_or(rest, |least| least.min(rest)));
            }
            level = self.queue(entity.queue).owner;
        }
        least
    }

    /// `enqueue_task_fair()`. Whether the task may run: no group above it is throttled.
    pub(super) fn enqueue_task(&mut self, task: EntityId, how: Arriving, now: u64) -> bool {
        let queue = self.entity(task).queue;
        if self.entity(task).is_delayed {
            self.requeue_delayed_entity(task);
            return self.count_runnable(queue, 1);
        }
        let (mut level, mut how) = (Some(task), how);
        while let Some(id) = level {
            if self.entity(id).on_rq {
                if self.entity(id).is_delayed {
                    self.requeue_delayed_entity(id);
                }
                break;
            }
            self.update_cfs_group(id, now);
            self.ask_for_shortest_slice(id);
            self.enqueue_entity(id, how);
            let queue = self.entity(id).queue;
            if self.queue(queue).is_throttled {
                break;
            }
            level = self.queue(queue).owner;
            how = Arriving::Awake;
        }
        self.propagate(queue, now);
        self.count_runnable(queue, 1)
    }

    /// Adds to the number of runnable tasks, up to the first throttled group. Whether there is none.
    fn count_runnable(&mut self, from: QueueId, change: i32) -> bool {
        let mut level = Some(from);
        while let Some(id) = level {
            let queue = self.queue_mut(id);
            queue.h_nr_runnable = queue.h_nr_runnable.saturating_add_signed(change);
            if queue.is_throttled {
                return false;
            }
            level = queue.owner.map(|owner| self.entity(owner).queue);
        }
        true
    }

    /// `enqueue_entity()`.
    fn enqueue_entity(&mut self, id: EntityId, how: Arriving) {
        let queue = self.entity(id).queue;
        match self.rules {
            FairRules::Cfs(tunables) => {
                let min_vruntime = self.queue(queue).min_vruntime;
                let vslice = if how == Arriving::Born { self.sched_vslice(id, &tunables) } else { 0 };
                let entity = self.entity_mut(id);
                let (before, is_idle) = (entity.vruntime, entity.is_idle);
                entity.vruntime = match how {
                    Arriving::Awake => cfs::place_entity(before, min_vruntime, is_idle, &tunables),
                    Arriving::Born => cfs::place_new_entity(min_vruntime, vslice, &tunables),
                    Arriving::Moved => before,
                };
            }
            FairRules::Eevdf(tunables) => {
                self.place_entity(id, &tunables);
                if how == Arriving::Born {
                    let entity = self.entity_mut(id);
                    entity.deadline = eevdf::deadline_of_new(entity.placed(), &tunables);
                }
            }
        }
        let is_curr = self.queue(queue).curr == Some(id);
        let (point, weight) = (self.entity(id).point(), self.entity(id).weight);
        let queue = self.queue_mut(queue);
        queue.load += u64::from(weight);
        queue.nr_running += 1;
        if !is_curr {
            queue.queued.push(id);
            queue.average.add(point);
        }
        self.entity_mut(id).on_rq = true;
    }

    fn place_entity(&mut self, id: EntityId, tunables: &eevdf::Tunables) {
        let queue = self.entity(id).queue;
        let avg = self.avg_vruntime(queue);
        let load = self.queue(queue).average.load(self.curr_point(queue));
        let entity = self.entity_mut(id);
        let arrival = eevdf::Arrival {
            weight: entity.weight,
            slice: entity.slice,
            vlag: entity.vlag,
            rel_deadline: entity.rel_deadline.take(),
        };
        let placed = eevdf::place_entity(&arrival, avg, load, tunables);
        (entity.vruntime, entity.deadline) = (placed.vruntime, placed.deadline);
    }

    /// `requeue_delayed_entity()`: a task that was to leave the queue is woken before it did.
    fn requeue_delayed_entity(&mut self, id: EntityId) {
        self.entity_mut(id).is_delayed = false;
        let FairRules::Eevdf(tunables) = self.rules else { return };
        if !tunables.features.delay_zero {
            return;
        }
        let queue = self.entity(id).queue;
        let avg = self.avg_vruntime(queue);
        let entity = self.entity_mut(id);
        entity.vlag = entity.lag(avg, &tunables);
        if entity.vlag <= 0 || self.queue(queue).curr == Some(id) {
            return;
        }
        self.unlink(id);
        self.entity_mut(id).vlag = 0;
        self.place_entity(id, &tunables);
        self.link(id);
    }

    /// Takes a waiting entity out of its queue's order, `__dequeue_entity()`.
    fn unlink(&mut self, id: EntityId) {
        let (queue, point) = (self.entity(id).queue, self.entity(id).point());
        let queue = self.queue_mut(queue);
        if let Some(index) = queue.queued.iter().position(|queued| *queued == id) {
            queue.queued.remove(index);
            queue.average.sub(point);
        }
    }

    /// `__enqueue_entity()`.
    fn link(&mut self, id: EntityId) {
        let (queue, point) = (self.entity(id).queue, self.entity(id).point());
        let queue = self.queue_mut(queue);
        queue.queued.push(id);
        queue.average.add(point);
    }

    /// `dequeue_task_fair()` of a task that goes to sleep.
    pub(super) fn sleep_task(&mut self, task: EntityId, now: u64) -> Dequeued {
        let queue = self.entity(task).queue;
        self.count_runnable(queue, -1);
        let dequeued = if self.dequeue_entity(task, true) {
            self.dequeue_above(task, true);
            Dequeued::Gone
        } else {
            self.entity_mut(task).is_delayed = true;
            Dequeued::Delayed
        };
        self.propagate(queue, now);
        dequeued
    }

    /// Moves a waiting task to the queue of its group on another CPU.
    pub(super) fn migrate_task(&mut self, task: EntityId, to: QueueId, now: u64) -> bool {
        let from = self.entity(task).queue;
        self.count_runnable(from, -1);
        self.dequeue_entity(task, false);
        self.dequeue_above(task, false);
        self.propagate(from, now);
        self.set_queue(task, to);
        self.enqueue_task(task, Arriving::Moved, now)
    }

    /// Gives a task that is not queued another queue: `migrate_task_rq_fair()`.
    pub(super) fn set_queue(&mut self, task: EntityId, to: QueueId) {
        let from = self.entity(task).queue;
        if from == to {
            return;
        }
        let change = self.queue(to).min_vruntime - self.queue(from).min_vruntime;
        let is_cfs = matches!(self.rules, FairRules::Cfs(_));
        let entity = self.entity_mut(task);
        entity.queue = to;
        if is_cfs {
            entity.vruntime += change;
        }
    }

    /// `dequeue_entity()`; false if the entity stays until it is picked or woken.
    fn dequeue_entity(&mut self, id: EntityId, sleeps: bool) -> bool {
        self.clear_buddies(id);
        let delays = matches!(self.rules, FairRules::Eevdf(tunables) if tunables.features.delay_dequeue);
        if sleeps && delays && !self.is_eligible(id) {
            return false;
        }
        self.take_off(id, sleeps);
        true
    }

    /// The part of `dequeue_entity()` that takes an entity off its queue.
    fn take_off(&mut self, id: EntityId, sleeps: bool) {
        let queue = self.entity(id).queue;
        if let FairRules::Eevdf(tunables) = self.rules {
            let avg = self.avg_vruntime(queue);
            let entity = self.entity_mut(id);
            entity.vlag = entity.lag(avg, &tunables);
            if tunables.features.place_rel_deadline && !sleeps {
                entity.rel_deadline = Some(entity.deadline - entity.vruntime);
            }
        }
        if self.queue(queue).curr != Some(id) {
            self.unlink(id);
        }
        self.entity_mut(id).on_rq = false;
        let weight = u64::from(self.entity(id).weight);
        let of_queue = self.queue_mut(queue);
        of_queue.load -= weight;
        of_queue.nr_running -= 1;
        if matches!(self.rules, FairRules::Cfs(_)) {
            self.update_min_vruntime(queue);
        }
    }

    /// The groups above an entity that left its queue: those that are empty leave theirs.
    fn dequeue_above(&mut self, id: EntityId, sleeps: bool) {
        let mut level = id;
        loop {
            let queue = self.queue(self.entity(level).queue);
            if queue.is_throttled {
                return;
            }
            let Some(owner) = queue.owner else { return };
            if queue.nr_running > 0 {
                if sleeps {
                    self.set_next_buddy(owner);
                }
                return;
            }
            if !self.entity(owner).on_rq {
                return;
            }
            if !self.dequeue_entity(owner, true) {
                self.entity_mut(owner).is_delayed = true;
                return;
            }
            level = owner;
        }
    }

    /// Takes off a delayed entity that was picked: `dequeue_entities()` with DEQUEUE_DELAYED.
    fn finish_delayed(&mut self, id: EntityId) {
        self.clear_buddies(id);
        self.take_off(id, true);
        let clears = matches!(self.rules, FairRules::Eevdf(tunables) if tunables.features.delay_zero);
        let entity = self.entity_mut(id);
        entity.is_delayed = false;
        if clears {
            entity.vlag = entity.vlag.min(0);
        }
        self.dequeue_above(id, true);
    }

    /// `pick_task_fair()`: the task that runs next on a CPU. The running one is still that of its queues.
    pub(super) fn pick_task(&mut self, cpu: usize) -> Option<EntityId> {
        'again: loop {
            let mut queue = QueueId(cpu as u32);
            loop {
                if self.queue(queue).nr_running == 0 {
                    return None;
                }
                if self.check_cfs_rq_runtime(queue) {
                    continue 'again;
                }
                let id = self.pick_next_entity(queue)?;
                if self.entity(id).is_delayed {
                    self.finish_delayed(id);
                    continue 'again;
                }
                match self.entity(id).below {
                    Some(below) => queue = below,
                    None => return Some(id),
                }
            }
        }
    }

    /// `pick_next_entity()`.
    fn pick_next_entity(&self, id: QueueId) -> Option<EntityId> {
        let queue = self.queue(id);
        let curr = queue.curr.filter(|curr| self.entity(*curr).on_rq);
        match self.rules {
            FairRules::Cfs(tunables) => self.pick_next_entity_cfs(id, curr, &tunables),
            FairRules::Eevdf(tunables) => {
                let prefers_buddy = tunables.features.pick_buddy || tunables.features.next_buddy;
                if let Some(next) = queue.next.filter(|next| prefers_buddy && self.is_eligible(*next)) {
                    return Some(next);
                }
                self.pick_eevdf(id, curr, &tunables)
            }
        }
    }

    fn pick_next_entity_cfs(&self, id: QueueId, curr: Option<EntityId>, tunables: &cfs::Tunables) -> Option<EntityId> {
        let queue = self.queue(id);
        let left = match (self.leftmost(id), curr) {
            (Some(left), Some(curr)) if self.entity(curr).vruntime < self.entity(left).vruntime => curr,
            (left, curr) => left.or(curr)?,
        };
        let is_fair = |buddy: &EntityId| {
            let (buddy, left) = (self.entity(*buddy), self.entity(left));
            let preempts = cfs::wakeup_preempt_entity(buddy.vruntime, left.vruntime, left.weight, tunables);
            preempts != cfs::Preempts::Yes
        };
        Some(queue.next.filter(is_fair).or(queue.last.filter(is_fair)).unwrap_or(left))
    }

    fn pick_eevdf(&self, id: QueueId, curr: Option<EntityId>, tunables: &eevdf::Tunables) -> Option<EntityId> {
        let queue = self.queue(id);
        let candidate = |id: EntityId| {
            let entity = self.entity(id);
            eevdf::Candidate { key: id, vruntime: entity.vruntime, deadline: entity.deadline }
        };
        let is_protected = curr.is_some_and(|curr| self.entity(curr).is_protected(tunables));
        let curr = curr.map(|curr| (candidate(curr), self.entity(curr).point()));
        eevdf::pick_eevdf(&queue.average, curr, is_protected, queue.queued.iter().map(|id| candidate(*id)))
    }

    /// Gives the CPU from one task of the class to another one; `None` is a task of another class, or idle. Only the levels
    /// that differ change (`put_prev_entity()` and `set_next_entity()` in `pick_next_task_fair()`).
    pub(super) fn switch(&mut self, prev: Option<EntityId>, next: Option<EntityId>) {
        let (mut prev, mut next) = (prev, next);
        loop {
            match (prev, next) {
                (None, None) => return,
                (Some(one), None) => {
                    self.put_prev_entity(one);
                    prev = self.parent(one);
                }
                (None, Some(other)) => {
                    self.set_next_entity(other);
                    next = self.parent(other);
                }
                (Some(one), Some(other)) => {
                    if one == other {
                        return;
                    }
                    let (depth, its) = (self.depth(one), self.depth(other));
                    let is_same_queue = self.entity(one).queue == self.entity(other).queue;
                    if depth >= its {
                        self.put_prev_entity(one);
                        prev = self.parent(one);
                    }
                    if its >= depth {
                        self.set_next_entity(other);
                        next = self.parent(other);
                    }
                    if is_same_queue {
                        return;
                    }
                }
            }
        }
    }

    fn depth(&self, id: EntityId) -> u32 {
        self.queue(self.entity(id).queue).depth
    }

    fn put_prev_entity(&mut self, id: EntityId) {
        let queue = self.entity(id).queue;
        if self.queue(queue).curr != Some(id) {
            return;
        }
        self.queue_mut(queue).curr = None;
        if self.entity(id).on_rq {
            self.link(id);
        }
    }

    fn set_next_entity(&mut self, id: EntityId) {
        self.clear_buddies(id);
        self.unlink(id);
        let queue = self.entity(id).queue;
        if let FairRules::Eevdf(tunables) = self.rules {
            let shortest = self.min_slice(queue).unwrap_or(i64::MAX).min(self.entity(id).slice);
            let entity = self.entity_mut(id);
            let placed = entity.placed();
            entity.protected_until = eevdf::set_protect_slice(placed, entity.weight, entity.slice, shortest, &tunables);
        }
        let entity = self.entity_mut(id);
        entity.prev_sum_exec = entity.sum_exec;
        self.queue_mut(queue).curr = Some(id);
    }

    /// `cfs_rq_min_slice()`: the shortest slice of a queue; `None` under CFS, or if it is empty.
    fn min_slice(&self, id: QueueId) -> Option<i64> {
        if matches!(self.rules, FairRules::Cfs(_)) {
            return None;
        }
        let queue = self.queue(id);
        let curr = queue.curr.filter(|curr| self.entity(*curr).on_rq);
        queue.queued.iter().copied().chain(curr).map(|id| self.entity(id).slice).min()
    }

    /// The waiting tasks of a CPU that may run: those of throttled groups and those that only wait to leave are left out.
    pub(super) fn waiting_tasks(&self, cpu: usize, found: &mut Vec<ActorId>) {
        let mut queues = vec![QueueId(cpu as u32)];
        while let Some(id) = queues.pop() {
            let queue = self.queue(id);
            let curr = queue.curr.filter(|curr| self.entity(*curr).below.is_some());
            for entity in queue.queued.iter().copied().chain(curr).map(|id| self.entity(id)) {
                match (entity.below, entity.actor) {
                    (Some(below), _) => queues.push(below),
                    (None, Some(actor)) if !entity.is_delayed => found.push(actor),
                    (None, _) => {}
                }
            }
        }
    }
}
