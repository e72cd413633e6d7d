//! Reads the context switches of `perf record --switch-events`.

use unstarve_model::{Context, CpuId, Event, EventKind, EventType, Issuer, PrevState, Tid, Time};

use super::records::Record;
use super::sample::{NO_ID, SampleLayout, Written};
use super::session::Session;
use crate::switch_records::{SwitchRecords, task};

/// `PERF_RECORD_MISC_SWITCH_OUT` and `PERF_RECORD_MISC_SWITCH_OUT_PREEMPT`; the latter means that the task is still
/// runnable.
const SWITCH_OUT: u16 = 1 << 13;
const STILL_RUNNABLE: u16 = 1 << 14;

/// What is needed to read switch records.
#[derive(Default)]
pub struct Switches {
    /// The layout of the ids and times at their end, if requested.
    pub layout: Option<SampleLayout>,
    pub records: SwitchRecords,
}

impl Switches {
    pub fn may_come(&self) -> bool {
        self.layout.is_some()
    }
}

impl Session {
    /// A task leaves a CPU: `process and thread of the next task`. Ignored if there is `sched_switch`, which says more.
    pub(super) fn context_switch(&mut self, record: Record<'_>) {
        let misc = record.endian.u16([record.bytes[4], record.bytes[5]]);
        let recorded = self.info.recorded.is_some_and(|recorded| recorded.contains(EventType::Switch));
        if recorded && !self.switches.records.any() || misc & SWITCH_OUT == 0 {
            return;
        }
        let Some((Written { tid, .. }, time, cpu)) = self.written(record) else { return };
        let Some(next) = record.u32_at(12).filter(|&next| next != NO_ID) else { return };
        let named = |tid: Tid| task(tid, self.tasks.get(tid));
        let state = match misc & STILL_RUNNABLE {
            0 if self.tells_preemptions() => PrevState::Sleeping,
            0 => PrevState::Unknown,
            _ => PrevState::Runnable,
        };
        let kind = self.switches.records.leave(cpu, tid.map(named), state, named(Tid(next)));
        if let Some(kind) = kind {
            let current = if let EventKind::Switch { prev, .. } = kind { Some(prev.tid()) } else { tid };
            self.push_own(Event { time, cpu, issuer: Issuer::new(current, Context::Task), kind });
            self.info.recorded = self.info.recorded.map(|recorded| recorded.with(EventType::Switch));
        }
    }

    /// `process, its parent, thread, its parent, time`. Shows which of the switches without a task state was the task's
    /// exit.
    pub(super) fn task_exit(&mut self, record: Record<'_>) {
        if !self.switches.records.any() {
            return;
        }
        let Some((_, time, cpu)) = self.written(record) else { return };
        if let Some(tid) = record.u32_at(16).filter(|&tid| tid != NO_ID).map(Tid) {
            let comm = self.tasks.get(tid).unwrap_or_default();
            let kind = EventKind::Exit { tid, comm };
            self.push_own(Event { time, cpu, issuer: Issuer::new(None, Context::Task), kind });
        }
    }

    fn written(&self, record: Record<'_>) -> Option<(Written, Time, CpuId)> {
        let written = self.switches.layout.as_ref()?.trailer(record.bytes, record.endian);
        Some((written, written.time.filter(|time| time.0 > 0)?, written.cpu?))
    }

    fn push_own(&mut self, event: Event) {
        self.reorder.push(event);
        self.latest = self.latest.max(event.time);
    }

    /// Whether the kernel marks tasks that leave the CPU while runnable (4.17 and later).
    fn tells_preemptions(&self) -> bool {
        let release = self.info.kernel_release.as_deref();
        let version = release.and_then(|release| {
            let mut parts = release.split(|letter: char| !letter.is_ascii_digit()).map(str::parse::<u32>);
            Some((parts.next()?.ok()?, parts.next()?.ok()?))
        });
        version.is_none_or(|version| version >= (4, 17))
    }
}
