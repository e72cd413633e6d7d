//! Context switches from `PERF_RECORD_SWITCH_CPU_WIDE`, which perf records itself (`perf record --switch-events -a`),
//! in addition to its events or instead of `sched_switch`.
//!
//! Each switch has two records. The first is written when the previous task leaves the CPU and names both tasks; the
//! second, when the next one runs, adds nothing. Neither has a priority. `PERF_RECORD_SWITCH`, in recordings of single
//! programs, names no other task, so it cannot show which task had the CPU. Source: `enum perf_event_type` in
//! `include/uapi/linux/perf_event.h`, `perf_event_switch` in `kernel/events/core.c`.

use std::collections::BTreeMap;

use unstarve_model::{Comm, CpuId, EventKind, Loss, LossKind, PrevState, TaskRef, Tid};

/// Builds switch events from such records.
#[derive(Debug, Default)]
pub struct SwitchRecords {
    /// The task that last got each CPU.
    current: BTreeMap<CpuId, TaskRef>,
    count: u64,
}

/// A task as such a record names it, without a priority.
pub fn task(tid: Tid, comm: Option<Comm>) -> TaskRef {
    TaskRef::new(tid, comm.unwrap_or_default(), None)
}

impl SwitchRecords {
    /// `prev` leaves the CPU to `next`. `prev` is `None` if the task has been reaped and has no id any more; then it is
    /// the task that last got this CPU, and dead. Returns `None` if that task is unknown.
    pub fn leave(
        &mut self,
        cpu: CpuId,
        prev: Option<TaskRef>,
        prev_state: PrevState,
        next: TaskRef,
    ) -> Option<EventKind> {
        let before = self.current.insert(cpu, next);
        let (prev, prev_state) = match prev {
            // The idle task never sleeps, but older records do not mark it as preempted.
            Some(prev) if prev.tid().is_idle() => (prev, PrevState::Runnable),
            Some(prev) => (prev, prev_state),
            None => (before?, PrevState::Dead),
        };
        self.count += 1;
        Some(EventKind::Switch { prev, prev_state, next })
    }

    /// Whether any switch came from such records.
    pub fn any(&self) -> bool {
        self.count > 0
    }

    /// The loss to report for what such records lack.
    pub fn loss(&self) -> Option<Loss> {
        let detail = "PERF_RECORD_SWITCH: who is real-time is known only of tasks that a wakeup names; record with \
                      `perf sched record`, or add -e sched:sched_switch";
        self.any().then(|| Loss::new(LossKind::NoPriorities, self.count).with_detail(detail))
    }
}
