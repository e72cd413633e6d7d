//! How busy each CPU was in the window.

use serde::Serialize;
use unstarve_model::{CpuId, Nanos, Time};
use unstarve_timeline::{OnCpu, Run, Timeline};

use crate::window::WINDOW_SLICES;

/// One more than the window has, so that the newest slice does not overwrite the oldest, which is half over.
const SLICE_RING_SIZE: usize = WINDOW_SLICES as usize + 1;

/// CPU time by slice of the window, for each CPU.
#[derive(Default, Debug)]
pub(crate) struct CpuBusyTime {
    /// For each CPU and position in the ring: the slice's index, and the time that tasks ran in it.
    rings: Vec<[(u64, Nanos); SLICE_RING_SIZE]>,
}

/// One CPU's activity.
#[derive(Clone, PartialEq, Debug, Serialize, schemars::JsonSchema)]
pub struct CpuView {
    /// Its number.
    pub cpu: u32,
    /// The fraction of the window in which tasks ran on it, including interrupts.
    pub busy: f64,
    /// Tasks that have waited for it for at least 10 ms now.
    pub waiting: u32,
}

impl CpuBusyTime {
    /// Adds a run; `slice` is a slice's length.
    pub fn add(&mut self, run: &Run, slice: Nanos) {
        self.add_span(run.cpu, run.start, run.end, slice);
    }

    fn add_span(&mut self, cpu: CpuId, start: Time, end: Time, slice: Nanos) {
        if self.rings.len() <= cpu.index() {
            self.rings.resize(cpu.index() + 1, [(0, Nanos::ZERO); SLICE_RING_SIZE]);
        }
        let ring = &mut self.rings[cpu.index()];
        let last = end.0 / slice.0;
        for index in (start.0 / slice.0).max(last.saturating_sub(WINDOW_SLICES))..=last {
            let from = Time(index * slice.0).max(start);
            let to = Time((index + 1) * slice.0).min(end);
            let place = &mut ring[index as usize % SLICE_RING_SIZE];
            if place.0 != index {
                *place = (index, Nanos::ZERO);
            }
            place.1 += to.since(from);
        }
    }

    /// Each CPU now, including runs in progress.
    pub fn view(&self, timeline: &Timeline, slice: Nanos, elapsed: Nanos) -> Vec<CpuView> {
        let now = timeline.world().now;
        let from = Time(now.0.saturating_sub(elapsed.0));
        let first = now.0 / slice.0 - (elapsed.0 / slice.0).min(now.0 / slice.0).min(WINDOW_SLICES - 1);
        let busy = |cpu: CpuId, on: OnCpu| {
            let ended: Nanos = self
                .rings
                .get(cpu.index())
                .into_iter()
                .flatten()
                .filter(|(index, _)| *index >= first && *index <= now.0 / slice.0)
                .map(|(_, ran)| *ran)
                .sum();
            let going_on = match on {
                OnCpu::Task { since, .. } => now.since(since.max(from)),
                OnCpu::Idle | OnCpu::Unknown => Nanos::ZERO,
            };
            (ended + going_on).share_of(elapsed).min(1.0)
        };
        timeline.on_cpus().map(|(cpu, on)| CpuView { cpu: cpu.0, busy: busy(cpu, on), waiting: 0 }).collect()
    }
}
