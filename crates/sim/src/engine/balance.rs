//! On which CPU an actor runs that may use several.
//!
//! Simplified: the kernel also compares loads and caches (`select_task_rq_fair()`), looks at how long a CPU was idle before it
//! pulls (`sched_balance_newidle()`), and balances periodically.

use super::fair::QueueId;
use super::run::Engine;
use super::state::ClassState;
use crate::ActorId;

impl Engine<'_> {
    /// The CPU with the fewest runnable actors of those that an actor may use; for the beginning, when nothing is known.
    pub(super) fn least_loaded(&self, id: ActorId) -> usize {
        let actor = &self.actors[id.index()];
        let allowed = (0..self.cpus.len()).filter(|cpu| actor.allowed[*cpu]);
        let number = |cpu: &usize| {
            let of_cpu = &self.cpus[*cpu];
            self.fair.root(*cpu).h_nr_runnable as usize + of_cpu.realtime.len() + of_cpu.deadline.len()
        };
        allowed.min_by_key(number).unwrap_or(actor.cpu)
    }

    /// The CPU to which a woken actor goes.
    pub(super) fn cpu_for_wakeup(&self, id: ActorId) -> usize {
        let actor = &self.actors[id.index()];
        if actor.is_pinned {
            return actor.cpu;
        }
        match &actor.class {
            // `select_task_rq_fair()` of a fork looks for the idlest CPU; what the recorded kernel found counts.
            ClassState::Fair { .. } if actor.is_unborn => match self.program.actor(id).begins_on {
                Some(_) => actor.cpu,
                None => self.least_loaded(id),
            },
            // One that has not left its queue is just put back (`ttwu_runnable()`).
            ClassState::Fair { entity, .. } if self.fair.is_delayed(*entity) => actor.cpu,
            ClassState::Fair { .. } => self.idle_cpu_for(id).unwrap_or(actor.cpu),
            ClassState::Realtime { .. } | ClassState::Deadline { .. } => self.lowest_cpu_for(id),
        }
    }

    /// The last CPU of an actor if it is idle, else another idle one that it may use.
    fn idle_cpu_for(&self, id: ActorId) -> Option<usize> {
        let actor = &self.actors[id.index()];
        let cpus = self.cpus.len();
        let from_last = (0..cpus).map(|step| (actor.cpu + step) % cpus);
        from_last.filter(|cpu| actor.allowed[*cpu]).find(|cpu| self.is_idle(*cpu))
    }

    /// Whether a CPU has nothing to do, or nothing but one SCHED_IDLE actor.
    fn is_idle(&self, cpu: usize) -> bool {
        let (of_cpu, fair) = (&self.cpus[cpu], self.fair.root(cpu).h_nr_runnable);
        if !of_cpu.realtime.is_empty() || !of_cpu.deadline.is_empty() {
            return false;
        }
        match of_cpu.current {
            None => fair == 0,
            Some(id) => {
                let is_idle_policy =
                    matches!(self.actors[id.index()].class, ClassState::Fair { is_idle_policy: true, .. });
                is_idle_policy && fair <= 1
            }
        }
    }

    /// The precedence of who runs on a CPU; `None` if it is idle.
    fn rank_on(&self, cpu: usize) -> Option<u32> {
        let running = self.cpus[cpu].current.map(|id| self.actors[id.index()].rank());
        let waiting = self.cpus[cpu].realtime.first().map(|waiting| self.actors[waiting.actor.index()].rank());
        running.max(waiting)
    }

    /// `select_task_rq_rt()`: the last CPU, unless a real-time actor is there that does not give way; then the one with the least
    /// important current actor.
    fn lowest_cpu_for(&self, id: ActorId) -> usize {
        let actor = &self.actors[id.index()];
        match self.rank_on(actor.cpu) {
            Some(rank) if rank > 0 && rank >= actor.rank() => self.lower_cpu_for(id).unwrap_or(actor.cpu),
            _ => actor.cpu,
        }
    }

    /// `find_lowest_rq()`: the CPU that an actor may use with the least important current one, if that gives way.
    fn lower_cpu_for(&self, id: ActorId) -> Option<usize> {
        let actor = &self.actors[id.index()];
        let others = (0..self.cpus.len()).filter(|cpu| actor.allowed[*cpu] && *cpu != actor.cpu);
        let lowest = others.min_by_key(|cpu| self.rank_on(*cpu))?;
        (self.rank_on(lowest) < Some(actor.rank())).then_some(lowest)
    }

    /// `push_rt_task()`: the first real-time actor that waits here goes to a CPU where it need not.
    pub(super) fn push_realtime(&mut self, cpu: usize) {
        let movable = self.cpus[cpu].realtime.iter().map(|waiting| waiting.actor);
        let Some(id) = movable.into_iter().find(|id| !self.actors[id.index()].is_pinned) else { return };
        let Some(to) = self.lower_cpu_for(id) else { return };
        self.cpus[cpu].realtime.retain(|waiting| waiting.actor != id);
        self.actors[id.index()].cpu = to;
        self.enqueue(id);
    }

    /// `pull_rt_task()`: a real-time actor that waits elsewhere, and is more important than all here, comes here.
    pub(super) fn pull_realtime(&mut self, cpu: usize) {
        let here = self.cpus[cpu].realtime.first().map_or(0, |waiting| waiting.priority);
        let elsewhere = (0..self.cpus.len()).filter(|other| *other != cpu);
        let waiting =
            elsewhere.flat_map(|other| self.cpus[other].realtime.iter().map(move |waiting| (other, *waiting)));
        let movable = waiting.filter(|(_, waiting)| self.actors[waiting.actor.index()].allowed[cpu]);
        let best = movable.filter(|(_, waiting)| waiting.priority > here).max_by_key(|(_, waiting)| waiting.priority);
        if let Some((other, waiting)) = best {
            self.cpus[other].realtime.retain(|one| one.actor != waiting.actor);
            self.actors[waiting.actor.index()].cpu = cpu;
            self.cpus[cpu].queue_realtime(waiting, false);
        }
    }

    /// An idle CPU takes a waiting fair actor from the CPU with most of them. Whether it did.
    pub(super) fn pull_fair(&mut self, cpu: usize) -> bool {
        let mut others: Vec<usize> = (0..self.cpus.len()).filter(|other| *other != cpu).collect();
        others.retain(|other| self.fair.root(*other).h_nr_runnable > 0);
        others.sort_by_key(|other| std::cmp::Reverse(self.fair.root(*other).h_nr_runnable));
        others.into_iter().any(|other| self.pull_from(other, cpu))
    }

    fn pull_from(&mut self, other: usize, cpu: usize) -> bool {
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        self.fair.waiting_tasks(other, &mut found);
        let first = found.iter().copied().find(|id| self.actors[id.index()].allowed[cpu]);
        self.found = found;
        let Some((id, entity, to)) = first.and_then(|id| self.fair_place(id, cpu)) else { return false };
        self.account(other);
        self.fair.migrate_task(entity, to, self.now);
        self.actors[id.index()].cpu = cpu;
        self.update_server(other);
        self.update_server(cpu);
        true
    }

    fn fair_place(&self, id: ActorId, cpu: usize) -> Option<(ActorId, super::fair::EntityId, QueueId)> {
        match self.actors[id.index()].class {
            ClassState::Fair { entity, cgroup, .. } => Some((id, entity, self.fair.queue_of(cgroup, cpu))),
            _ => None,
        }
    }
}
