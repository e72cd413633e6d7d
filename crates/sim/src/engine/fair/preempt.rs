//! Who takes the CPU from the running task of the fair class: a woken one, or the tick.

use unstarve_sched::fair::{calc_delta_fair, cfs, eevdf};

use super::super::FairRules;
use super::{EntityId, FairClass, QueueId};

impl FairClass {
    /// `clear_buddies()`.
    pub(super) fn clear_buddies(&mut self, id: EntityId) {
        let (mut level, mut was_next, mut was_last) = (Some(id), true, true);
        while let Some(id) = level.filter(|_| was_next || was_last) {
            let queue = self.entity(id).queue;
            let queue = self.queue_mut(queue);
            was_next &= queue.next == Some(id);
            was_last &= queue.last == Some(id);
            queue.next = queue.next.filter(|_| !was_next);
            queue.last = queue.last.filter(|_| !was_last);
            level = queue.owner;
        }
    }

    /// `set_next_buddy()`: the entity, and the groups above it, are preferred when picking.
    pub(super) fn set_next_buddy(&mut self, id: EntityId) {
        let mut level = Some(id).filter(|id| self.is_a_buddy(*id));
        while let Some(id) = level {
            let queue = self.entity(id).queue;
            self.queue_mut(queue).next = Some(id);
            level = self.parent(id).filter(|id| self.is_a_buddy(*id));
        }
    }

    /// `set_last_buddy()`.
    fn set_last_buddy(&mut self, id: EntityId) {
        let mut level = Some(id).filter(|id| self.is_a_buddy(*id));
        while let Some(id) = level {
            let queue = self.entity(id).queue;
            self.queue_mut(queue).last = Some(id);
            level = self.parent(id).filter(|id| self.is_a_buddy(*id));
        }
    }

    fn is_a_buddy(&self, id: EntityId) -> bool {
        let entity = self.entity(id);
        entity.on_rq && !entity.is_idle && !entity.is_delayed
    }

    /// `find_matching_se()`: the two entities above (or of) two tasks that share a queue.
    fn find_matching(&self, one: EntityId, other: EntityId) -> (EntityId, EntityId) {
        let (mut one, mut other) = (one, other);
        while self.entity(one).queue != self.entity(other).queue {
            let (depth, its) = (self.depth(one), self.depth(other));
            if depth >= its {
                one = self.parent(one).unwrap_or(one);
            }
            if its >= depth {
                other = self.parent(other).unwrap_or(other);
            }
        }
        (one, other)
    }

    /// `check_preempt_wakeup()` and `check_preempt_wakeup_fair()`: whether a woken task takes the CPU from the running one.
    /// `needs_resched`: the running task has to leave it anyway.
    pub(in super::super) fn check_preempt_wakeup(
        &mut self,
        curr: EntityId,
        woken: EntityId,
        needs_resched: bool,
    ) -> bool {
        match self.rules {
            FairRules::Cfs(tunables) => self.check_preempt_cfs(curr, woken, needs_resched, &tunables),
            FairRules::Eevdf(tunables) => self.check_preempt_eevdf(curr, woken, needs_resched, &tunables),
        }
    }

    fn check_preempt_cfs(
        &mut self,
        curr: EntityId,
        woken: EntityId,
        needs_resched: bool,
        tunables: &cfs::Tunables,
    ) -> bool {
        let is_crowded = i64::from(self.queue(self.entity(curr).queue).nr_running) >= tunables.nr_latency();
        let is_buddy = tunables.features.next_buddy && is_crowded;
        if is_buddy {
            self.set_next_buddy(woken);
        }
        if needs_resched {
            return false;
        }
        let policies = (self.entity(curr).is_idle, self.entity(woken).is_idle);
        let (se, pse) = match policies {
            (true, false) => (curr, woken),
            _ if !self.entity(woken).is_normal || !tunables.features.wakeup_preemption => return false,
            _ => self.find_matching(curr, woken),
        };
        let (running, its) = (self.entity(se), self.entity(pse));
        let preempts = match (running.is_idle, its.is_idle) {
            (true, false) => true,
            (false, true) => false,
            _ => {
                let preempts = cfs::wakeup_preempt_entity(running.vruntime, its.vruntime, its.weight, tunables);
                if preempts == cfs::Preempts::Yes && !is_buddy {
                    self.set_next_buddy(pse);
                }
                preempts == cfs::Preempts::Yes
            }
        };
        let se = self.entity(se);
        if preempts && tunables.features.last_buddy && is_crowded && se.on_rq && se.below.is_none() {
            self.set_last_buddy(curr);
        }
        preempts
    }

    fn check_preempt_eevdf(
        &mut self,
        curr: EntityId,
        woken: EntityId,
        needs_resched: bool,
        tunables: &eevdf::Tunables,
    ) -> bool {
        if tunables.features.next_buddy {
            self.set_next_buddy(woken);
        }
        if needs_resched || !tunables.features.wakeup_preemption {
            return false;
        }
        let (se, pse) = self.find_matching(curr, woken);
        match (self.entity(se).is_idle, self.entity(pse).is_idle) {
            (true, false) => {
                self.entity_mut(se).cancel_protection();
                return true;
            }
            (false, true) => return false,
            _ => {}
        }
        if !self.entity(woken).is_normal {
            return false;
        }
        if eevdf::do_preempt_short(self.claim(pse), self.claim(se), tunables) {
            self.entity_mut(se).cancel_protection();
        }
        let queue = self.entity(se).queue;
        let curr = self.queue(queue).curr.filter(|curr| self.entity(*curr).on_rq);
        self.pick_eevdf(queue, curr, tunables) == Some(pse)
    }

    fn claim(&self, id: EntityId) -> eevdf::Claim {
        let entity = self.entity(id);
        eevdf::Claim { slice: entity.slice, deadline: entity.deadline, is_eligible: self.is_eligible(id) }
    }

    /// `task_tick_fair()`, after the running task's time is accounted: whether it has to let another one run. EEVDF decides
    /// that when it accounts.
    pub(in super::super) fn task_tick(&mut self, task: EntityId, now: u64) -> bool {
        let (mut resched, mut level) = (false, Some(task));
        while let Some(id) = level {
            self.update_cfs_group(id, now);
            let queue = self.entity(id).queue;
            if let FairRules::Cfs(tunables) = self.rules
                && self.queue(queue).nr_running > 1
            {
                resched |= self.check_preempt_tick(id, &tunables);
            }
            level = self.queue(queue).owner;
        }
        resched
    }

    fn check_preempt_tick(&mut self, id: EntityId, tunables: &cfs::Tunables) -> bool {
        let entity = self.entity(id);
        let Some(leftmost) = self.leftmost(entity.queue).map(|first| self.entity(first).vruntime) else {
            return false;
        };
        let ran = entity.sum_exec - entity.prev_sum_exec;
        let ideal = self.sched_slice(id, tunables);
        let preempts = cfs::check_preempt_tick(ran, ideal, entity.vruntime, leftmost, tunables);
        if ran > ideal {
            self.clear_buddies(id);
        }
        preempts
    }

    /// How many share a period: with the feature ALT_PERIOD all threads of the CPU, otherwise the entities of the queue.
    fn nr_running_of_period(&self, id: QueueId, tunables: &cfs::Tunables) -> u32 {
        let queue = self.queue(id);
        if tunables.features.alt_period { self.root(queue.cpu).h_nr_runnable } else { queue.nr_running }
    }

    fn sched_slice(&self, id: EntityId, tunables: &cfs::Tunables) -> i64 {
        let entity = self.entity(id);
        let nr_running = self.nr_running_of_period(entity.queue, tunables);
        let levels = std::iter::successors(Some(id), |id| self.parent(*id)).map(|id| {
            let entity = self.entity(id);
            cfs::Level { weight: entity.weight, load: self.queue(entity.queue).load }
        });
        let is_idle_beside_others = entity.is_idle && self.has_others_than_idle(entity.queue);
        cfs::sched_slice(nr_running, levels, is_idle_beside_others, tunables)
    }

    /// `sched_vslice()` of an entity that is not queued yet.
    pub(super) fn sched_vslice(&self, id: EntityId, tunables: &cfs::Tunables) -> i64 {
        let entity = self.entity(id);
        let nr_running = self.nr_running_of_period(entity.queue, tunables);
        let levels = std::iter::successors(Some(id), |id| self.parent(*id)).map(|id| {
            let entity = self.entity(id);
            let others = self.queue(entity.queue).load;
            let own = if entity.on_rq { 0 } else { u64::from(entity.weight) };
            cfs::Level { weight: entity.weight, load: others + own }
        });
        calc_delta_fair(cfs::sched_slice(nr_running + 1, levels, false, tunables), entity.weight)
    }

    fn has_others_than_idle(&self, queue: super::QueueId) -> bool {
        self.queue(queue).queued.iter().any(|id| !self.entity(*id).is_idle)
    }
}
