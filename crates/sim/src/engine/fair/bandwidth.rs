//! CPU limits of cgroups (`cpu.max`).
//!
//! Simplified: a CPU takes from the group's pool what it uses, when it uses it, and not slices of 5 ms in advance
//! (`sched_cfs_bandwidth_slice_us`). So the last CPUs of a group with many stop a little later than in reality, where parts of
//! the pool are bound to idle CPUs. As in the kernel, the end of the pool is seen at ticks and switches, and what was used too
//! much is taken from the next periods.

use super::{Arriving, EntityId, FairClass, QueueId};
use crate::Quota;

/// The pool of a group: `cfs_bandwidth`.
#[derive(Clone, Debug)]
pub(super) struct Bandwidth {
    quota: Quota,
    left: i64,
}

impl Bandwidth {
    pub(super) fn new(quota: Quota) -> Bandwidth {
        Bandwidth { quota, left: runtime(quota) }
    }
}

fn runtime(quota: Quota) -> i64 {
    i64::try_from(quota.runtime.0).unwrap_or(i64::MAX)
}

impl FairClass {
    /// `account_cfs_rq_runtime()`: whether the group of this queue has to stop.
    pub(super) fn account_cfs_rq_runtime(&mut self, queue: QueueId, delta: i64) -> bool {
        let Some(group) = self.queue(queue).group else { return false };
        let Some(bandwidth) = &mut self.bandwidths[group] else { return false };
        bandwidth.left = bandwidth.left.saturating_sub(delta);
        bandwidth.left <= 0
    }

    /// `check_cfs_rq_runtime()`: throttles a queue whose group has used its time. Whether it did.
    pub(super) fn check_cfs_rq_runtime(&mut self, queue: QueueId) -> bool {
        let is_over = self
            .queue(queue)
            .group
            .and_then(|group| self.bandwidths[group].as_ref())
            .is_some_and(|bandwidth| bandwidth.left <= 0);
        match self.queue(queue).owner {
            Some(owner) if is_over => {
                self.throttle(queue, owner);
                true
            }
            _ => false,
        }
    }

    /// `throttle_cfs_rq()`.
    fn throttle(&mut self, queue: QueueId, owner: EntityId) {
        let runnable = self.queue(queue).h_nr_runnable as i32;
        let above = self.entity(owner).queue;
        self.count_runnable(above, -runnable);
        self.queue_mut(queue).is_throttled = true;
        if self.entity(owner).on_rq {
            self.clear_buddies(owner);
            self.entity_mut(owner).is_delayed = false;
            self.take_off(owner, true);
            self.dequeue_above(owner, true);
        }
    }

    /// A period of a group is over: `do_sched_cfs_period_timer()`. Calls `runnable` with each CPU that has tasks of it again.
    pub(in super::super) fn refill(&mut self, group: usize, now: u64, mut runnable: impl FnMut(usize)) {
        let Some(bandwidth) = &mut self.bandwidths[group] else { return };
        let whole = runtime(bandwidth.quota);
        bandwidth.left = bandwidth.left.saturating_add(whole).min(whole);
        if bandwidth.left <= 0 {
            return;
        }
        for cpu in 0..self.cpus {
            let queue = self.queue_of(Some(group), cpu);
            if self.queue(queue).is_throttled {
                self.unthrottle(queue, now);
                runnable(cpu);
            }
        }
    }

    /// `unthrottle_cfs_rq()`.
    fn unthrottle(&mut self, queue: QueueId, now: u64) {
        self.queue_mut(queue).is_throttled = false;
        let Some(owner) = self.queue(queue).owner.filter(|_| self.queue(queue).nr_running > 0) else { return };
        let mut level = Some(owner);
        while let Some(id) = level {
            if self.entity(id).on_rq {
                if self.entity(id).is_delayed {
                    self.requeue_delayed_entity(id);
                }
                break;
            }
            self.update_cfs_group(id, now);
            self.enqueue_entity(id, Arriving::Awake);
            let above = self.entity(id).queue;
            if self.queue(above).is_throttled {
                break;
            }
            level = self.queue(above).owner;
        }
        let runnable = self.queue(queue).h_nr_runnable as i32;
        let above = self.entity(owner).queue;
        self.count_runnable(above, runnable);
    }
}
