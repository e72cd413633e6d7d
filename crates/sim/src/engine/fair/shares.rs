//! The weight of a cgroup on each of several CPUs: by the part of its load that is there.
//!
//! The load is a decaying mean, with a half-life of 32 ms, of the weights that are queued, as the kernel's load tracking has it
//! for tasks that are always runnable. What a task contributed on another CPU stays there and decays.

use unstarve_sched::fair::{calc_group_shares, decay_load, eevdf, scale_by_weight};

use super::super::FairRules;
use super::{EntityId, FairClass, QueueId};

/// `cfs_rq->avg.load_avg`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MeanLoad {
    mean: f64,
    /// The weight since `updated`.
    weight: f64,
    updated: u64,
}

impl MeanLoad {
    fn at(&self, now: u64) -> f64 {
        self.weight + decay_load(self.mean - self.weight, now.saturating_sub(self.updated))
    }

    fn set(&mut self, weight: f64, now: u64) {
        *self = MeanLoad { mean: self.at(now), weight, updated: now };
    }
}

impl FairClass {
    /// `update_cfs_group()`: the weight of a group's entity on this CPU. On one CPU it is that of the group.
    pub(super) fn update_cfs_group(&mut self, id: EntityId, now: u64) {
        let Some(below) = self.entity(id).below else { return };
        let group = self.queue(below).group;
        if !group.is_some_and(|group| self.spreads[group]) {
            return;
        }
        let queue = self.queue_mut(below);
        let load = queue.load as f64;
        queue.mean_load.set(load, now);
        let cpu = queue.cpu;
        let here = load.max(queue.mean_load.at(now));
        let others = (0..self.cpus).filter(|other| *other != cpu);
        let elsewhere = others.map(|other| self.queue(self.queue_of(group, other)).mean_load.at(now)).sum();
        let weight = calc_group_shares(self.entity(id).group_weight, here, elsewhere);
        self.reweight_entity(id, weight);
    }

    /// The groups above a queue whose tasks changed: their weights, and the slices for which they ask.
    pub(super) fn propagate(&mut self, from: QueueId, now: u64) {
        let mut level = self.queue(from).owner;
        while let Some(id) = level {
            self.update_cfs_group(id, now);
            self.ask_for_shortest_slice(id);
            level = self.parent(id);
        }
    }

    /// A group asks for the shortest slice of its tasks at a time.
    pub(super) fn ask_for_shortest_slice(&mut self, id: EntityId) {
        let Some(below) = self.entity(id).below.filter(|_| self.has_own_slices) else { return };
        if let Some(shortest) = self.min_slice(below) {
            self.entity_mut(id).set_slice_of_group(shortest);
        }
    }

    /// `reweight_entity()`.
    fn reweight_entity(&mut self, id: EntityId, weight: u32) {
        let old = self.entity(id).weight;
        if old == weight {
            return;
        }
        let (queue, on_rq) = (self.entity(id).queue, self.entity(id).on_rq);
        let is_queued = on_rq && self.queue(queue).curr != Some(id);
        let FairRules::Eevdf(tunables) = self.rules else {
            self.entity_mut(id).weight = weight;
            if on_rq {
                let queue = self.queue_mut(queue);
                queue.load = queue.load - u64::from(old) + u64::from(weight);
            }
            return;
        };
        let rescale = |value: i64| scale_by_weight(value, old, weight);
        if on_rq {
            let avg = self.avg_vruntime(queue);
            let entity = self.entity_mut(id);
            entity.vlag = entity.lag(avg, &tunables);
            entity.rel_deadline = Some(entity.deadline - entity.vruntime);
            if is_queued {
                self.unlink(id);
            }
            let queue = self.queue_mut(queue);
            queue.load -= u64::from(old);
        }
        let entity = self.entity_mut(id);
        // It is not part of the average into which it is put.
        entity.on_rq = false;
        entity.vlag = rescale(entity.vlag);
        entity.rel_deadline = entity.rel_deadline.map(rescale);
        entity.weight = weight;
        if on_rq {
            self.put_back_reweighted(id, queue, is_queued, &tunables);
        }
    }

    fn put_back_reweighted(&mut self, id: EntityId, queue: QueueId, is_queued: bool, tunables: &eevdf::Tunables) {
        let rest = self.entity_mut(id).rel_deadline.take();
        self.place_entity(id, tunables);
        let entity = self.entity_mut(id);
        entity.deadline = rest.map_or(entity.deadline, |rest| entity.vruntime + rest);
        entity.on_rq = true;
        let weight = u64::from(entity.weight);
        self.queue_mut(queue).load += weight;
        if is_queued {
            self.link(id);
        }
    }
}
