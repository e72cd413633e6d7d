//! `PERF_RECORD_SWITCH_CPU_WIDE`: the switches that perf records itself (`perf record --switch-events -a`), beside its events
//! or instead of `sched_switch`.
//!
//! Two records are written for each switch: one when the previous task leaves the CPU, which names both tasks, and one when
//! the next one has it, which adds nothing. Neither has a priority. `PERF_RECORD_SWITCH`, of a recording of single
//! programs, names no other task and cannot say who had the CPU.
//! Source: `enum perf_event_type` in `include/uapi/linux/perf_event.h`, `perf_event_switch` in `kernel/events/core.c`.

use std::collections::BTreeMap;

use unstarve_model::{Comm, CpuId, EventKind, Loss, LossKind, PrevState, TaskRef, Tid};

/// Makes switches of such records.
#[derive(Debug, Default)]
pub struct SwitchRecords {
    /// Who got each CPU last.
    current: BTreeMap<CpuId, TaskRef>,
    count: u64,
}

/// A task as a record names it: without its priority.
pub fn task(tid: Tid, comm: Option<Comm>) -> TaskRef {
    TaskRef::new(tid, comm.unwrap_or_default(), None)
}

impl SwitchRecords {
    /// `prev` leaves the CPU to `next`. A task that has been reaped already has no id any longer: then it is the one that
    /// got the CPU last, and dead. `None` if nobody knows that one.
    pub fn leave(
        &mut self,
        cpu: CpuId,
        prev: Option<TaskRef>,
        prev_state: PrevState,
        next: TaskRef,
    ) -> Option<EventKind> {
        let before = self.current.insert(cpu, next);
        let (prev, prev_state) = match prev {
            // It never sleeps, and other records than the newest do not say so.
            Some(prev) if prev.tid().is_idle() => (prev, PrevState::Runnable),
            Some(prev) => (prev, prev_state),
            None => (before?, PrevState::Dead),
        };
        self.count += 1;
        Some(EventKind::Switch { prev, prev_state, next })
    }

    /// Whether any record was of use.
    pub fn any(&self) -> bool {
        self.count > 0
    }

    /// What such records leave out.
    pub fn loss(&self) -> Option<Loss> {
        let detail = "PERF_RECORD_SWITCH: who is real-time is known only of tasks that a wakeup names; record with \
                      `perf sched record`, or add -e sched:sched_switch";
        self.any().then(|| Loss::new(LossKind::NoPriorities, self.count).with_detail(detail))
    }
}
