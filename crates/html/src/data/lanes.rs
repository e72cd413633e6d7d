//! The page's chart of each CPU.

use serde::Serialize;
use unstarve_diagnose::report::Report;
use unstarve_model::{CpuId, Nanos};

use crate::blob::{Column, Columns};
use crate::collect::lanes::{Lane, Lanes};
use crate::collect::scale::Scale;

/// Each CPU over the whole recording: a row for each, one after the other, of `count` intervals.
#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct LanesData {
    width_ns: u64,
    count: usize,
    cpu: Column<u16>,
    /// The part of the interval in which it was busy, in 1/255.
    busy: Column<u8>,
    /// How many waited for it on average, in 1/16.
    waiting: Column<u16>,
    /// CPUs that have no row.
    hidden: usize,
}

/// Maximum rows on a page.
const MAX_LANES: usize = 128;
/// Maximum rows times intervals.
const MAX_LANE_CELLS: usize = 32 * 1024;

pub(crate) fn lanes(lanes: &Lanes, scale: Scale, report: &Report, columns: &mut Columns) -> LanesData {
    let mut shown: Vec<(CpuId, &Lane, Vec<u64>)> =
        lanes.iter().map(|(cpu, lane)| (cpu, lane, lane.waiting.sums(scale.width))).collect();
    let total = shown.len();
    if total > MAX_LANES {
        // CPUs of findings first, then those with most waiting.
        let told = |cpu: CpuId| report.findings.iter().any(|finding| finding.cpus.contains(&cpu.0));
        shown.sort_by_key(|(cpu, _, waiting)| {
            (!told(*cpu), std::cmp::Reverse(waiting.iter().copied().fold(0, u64::saturating_add)), *cpu)
        });
        shown.truncate(MAX_LANES);
        shown.sort_by_key(|(cpu, ..)| *cpu);
    }
    let longest = |(_, lane, waiting): &(CpuId, &Lane, Vec<u64>)| waiting.len().max(lane.busy.sums(scale.width).len());
    let intervals = shown.iter().map(longest).max().unwrap_or(0);
    let every = (shown.len() * intervals).div_ceil(MAX_LANE_CELLS).max(1);
    let count = intervals.div_ceil(every);
    let width = Nanos(scale.width.0.saturating_mul(every as u64));
    let (mut busy, mut waits) = (Vec::new(), Vec::new());
    for (_, lane, waiting) in &shown {
        let sums = lane.busy.sums(scale.width);
        let of = |sums: &[u64], index: usize| -> u64 {
            sums.iter().skip(index * every).take(every).copied().fold(0, u64::saturating_add)
        };
        for index in 0..count {
            let part = Nanos(of(&sums, index)).share_of(width).min(1.0);
            // A CPU that was busy at all must not look idle.
            busy.push(if part > 0.0 { (part * 255.0).round().max(1.0) as u8 } else { 0 });
            waits.push((Nanos(of(waiting, index)).share_of(width) * 16.0).round().min(f64::from(u16::MAX)) as u16);
        }
    }
    LanesData {
        width_ns: width.0,
        count,
        cpu: columns.u16(shown.iter().map(|(cpu, ..)| cpu.0 as u16)),
        busy: columns.u8(busy),
        waiting: columns.u16(waits),
        hidden: total - shown.len(),
    }
}
