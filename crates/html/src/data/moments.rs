//! Moments around the longest waits, in detail.

use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;
use unstarve_diagnose::report::Report;
use unstarve_model::{CpuId, Nanos, Tid, Time};

use super::actors::ActorTable;
use crate::blob::{Column, Columns};
use crate::collect::density::{CpuScope, Density, share};
use crate::collect::detail::{Detail, Kept, Kind, Record, Spot};
use crate::collect::lanes::Lanes;
use crate::collect::scale::Scale;

/// Moments in detail, and the waits that they show.
#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct MomentsData {
    list: Vec<MomentData>,
    /// Waits that were looked at, longest first: which moment shows them, and where.
    spots: SpotsData,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct SpotsData {
    moment: Column<u16>,
    actor: Column<u16>,
    tid: Column<u32>,
    cpu: Column<u16>,
    start: Column<f64>,
    end: Column<f64>,
    rule: Column<u8>,
}

/// Everything that happened between two times. Starts and lengths count `unit_ns` from `from`; what began before `from`
/// or ended after `to` is cut there.
#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Moment"))]
struct MomentData {
    from: u64,
    to: u64,
    unit_ns: u64,
    /// Runs, wakeups and interrupts left out because there were too many, and how long the longest of them was.
    left_out: usize,
    left_out_ns: u64,
    kind: Column<u8>,
    cpu: Column<u16>,
    actor: Column<u16>,
    tid: Column<u32>,
    start: Column<u32>,
    length: Column<u32>,
    detail: Column<u32>,
}

/// Start and end of the waits in the report, in its order.
pub(crate) struct ReportedWaits(Vec<(u64, u64)>);

impl ReportedWaits {
    pub fn of(report: &Report) -> ReportedWaits {
        let mut list = Vec::new();
        for rank in 0..3 {
            let of_rank = report.findings.iter().filter_map(|finding| finding.worst.get(rank));
            list.extend(of_rank.map(|worst| (worst.start_ns, worst.end_ns)));
        }
        list.extend(report.worst_waits.iter().map(|wait| (wait.start_ns, wait.end_ns)));
        ReportedWaits(list)
    }
}

/// Maximum moments on a page.
const MAX_MOMENTS: usize = 48;
/// Maximum records in a moment.
const MAX_MOMENT_RECORDS: usize = 6000;
/// Maximum records in all moments.
const ALL_RECORDS: usize = 120_000;

pub(crate) fn moments(
    detail: Detail,
    (lanes, scale): (&Lanes, Scale),
    wanted: &ReportedWaits,
    zero: Time,
    actors: &mut ActorTable<'_>,
    columns: &mut Columns,
) -> MomentsData {
    let kept = detail.finish();
    let spots = &kept.spots;
    let mut ordered: Vec<Spot> = Vec::with_capacity(spots.len());
    for &(start, end) in &wanted.0 {
        ordered.extend(spots.iter().filter(|spot| (spot.start.0, spot.end.0) == (start, end)));
    }
    // Then the longest wait of each actor and rule, so that every chart and cause has a moment to open.
    let mut seen = rustc_hash::FxHashSet::default();
    ordered.extend(spots.iter().filter(|spot| seen.insert((spot.actor, spot.rule))));
    ordered.extend(spots);

    let mut scenes: Vec<Scene> = Vec::new();
    let mut shown: Vec<(u16, Spot)> = Vec::new();
    let mut used = 0;
    for spot in ordered {
        if shown.iter().any(|(_, known)| *known == spot) {
            continue;
        }
        let known = scenes.iter().position(|scene| scene.from <= spot.start && spot.end <= scene.to);
        let index = match known {
            Some(index) => index,
            None if scenes.len() < MAX_MOMENTS && used < ALL_RECORDS => {
                let mut scene = Scene::around(&spot, &kept);
                scene.fill_up(lanes, scale, zero);
                used += scene.records.len();
                scenes.push(scene);
                scenes.len() - 1
            }
            None => continue,
        };
        shown.push((index as u16, spot));
    }
    shown.sort_by_key(|(_, spot)| (std::cmp::Reverse(spot.length()), spot.start, spot.tid));
    let list = scenes.iter().map(|scene| scene.data(zero, actors, columns)).collect();
    let since = |time: Time| time.since(zero).0;
    let spots = SpotsData {
        moment: columns.u16(shown.iter().map(|(moment, _)| *moment)),
        actor: columns.u16(shown.iter().map(|(_, spot)| actors.index(spot.actor))),
        tid: columns.u32(shown.iter().map(|(_, spot)| spot.tid.0)),
        cpu: columns.u16(shown.iter().map(|(_, spot)| spot.cpu.0 as u16)),
        start: columns.f64(shown.iter().map(|(_, spot)| since(spot.start))),
        end: columns.f64(shown.iter().map(|(_, spot)| since(spot.end))),
        rule: columns.u8(shown.iter().map(|(_, spot)| spot.rule as u8)),
    };
    MomentsData { list, spots }
}

/// A moment under construction.
struct Scene {
    from: Time,
    to: Time,
    records: Vec<Record>,
    left_out: usize,
    longest_left_out: Nanos,
}

impl Scene {
    /// The records around a wait; if there are too many, the shortest are dropped first, but none of the wait itself.
    fn around(spot: &Spot, kept: &Kept) -> Scene {
        let (from, to) = spot.window();
        let records = &kept.records;
        let thinned = || kept.thinned.iter().filter(|thinned| thinned.from <= to && from <= thinned.to);
        let first = records.partition_point(|record| record.end < from);
        let mut scene = Scene {
            from,
            to,
            records: records[first..].iter().filter(|record| record.start <= to).copied().collect(),
            left_out: thinned().map(|thinned| thinned.count).sum(),
            longest_left_out: thinned().map(|thinned| thinned.longest).max().unwrap_or(Nanos::ZERO),
        };
        if scene.records.len() > MAX_MOMENT_RECORDS {
            scene.thin_out(spot);
        }
        scene
    }

    /// Drops the shortest records: runs become blocks, so that no busy CPU looks idle; others are removed.
    fn thin_out(&mut self, spot: &Spot) {
        let rank = |record: &Record| {
            let is_interrupt = matches!(record.kind, Kind::Irq | Kind::Softirq);
            let matters = record.tid == spot.tid && !is_interrupt && record.kind != Kind::Piece;
            let here = record.cpu == spot.cpu && record.kind != Kind::Wake;
            // A piece has its wait's ends, and so the same rank; it follows it directly.
            (matters, record.end.since(record.start).0.saturating_mul(if here { 8 } else { 1 }))
        };
        let mut ranks: Vec<(bool, u64)> = self.records.iter().map(rank).collect();
        ranks.sort_unstable_by(|a, b| b.cmp(a));
        let limit = ranks[MAX_MOMENT_RECORDS];
        let before = self.records.len();
        let mut longest = self.longest_left_out;
        let mut keeps_wait = true;
        let cpus: FxHashSet<CpuId> = self.records.iter().map(|record| record.cpu).collect();
        let mut density = Density::new((self.from, self.to), cpus.len(), 1);
        let mut merged = 0;
        self.records.retain(|record| {
            let keep = if record.kind == Kind::Piece { keeps_wait } else { rank(record) > limit };
            if record.kind == Kind::Wait {
                keeps_wait = keep;
            }
            if keep {
                return true;
            }
            let place = if record.cpu == spot.cpu { CpuScope::Near } else { CpuScope::Far };
            if density.add(record, place) {
                merged += 1;
            } else {
                longest = longest.max(record.end.since(record.start));
            }
            false
        });
        self.left_out += before - self.records.len() - merged;
        self.longest_left_out = longest;
        self.records.extend(density.into_records());
        self.records.sort_by_key(|record| record.end);
    }

    /// A wait may have begun before records were kept for it. CPU use by interval is known for that time: what the
    /// records do not cover becomes a block.
    fn fill_up(&mut self, lanes: &Lanes, scale: Scale, zero: Time) {
        let width = scale.width.0;
        let (from, to) = (self.from.max(zero).since(zero).0, self.to.since(zero).0);
        let first = from / width;
        let kept = self.busy_by_interval(scale, zero);
        let mut blocks = Vec::new();
        for (cpu, lane) in lanes.iter() {
            for (index, busy) in (0..).zip(lane.busy.sums(scale.width)).skip(first as usize) {
                let (start, end) = ((index * width).max(from), ((index + 1) * width).min(to));
                if start >= end {
                    break;
                }
                let part = Nanos(end - start);
                let expected = (busy as f64 * part.share_of(scale.width)) as u64;
                let known = kept.get(&(cpu, index)).copied().unwrap_or_default();
                let missing = expected.saturating_sub(known);
                // Intervals at the window's ends are divided in proportion, which is only approximate.
                if missing.saturating_mul(20) < part.0 || missing.saturating_mul(10) < expected {
                    continue;
                }
                let Some(actor) = lane.leader(index as usize) else { continue };
                let (start, end) = (zero + Nanos(start), zero + Nanos(end));
                // The number of runs is unknown here.
                let detail = share(missing, part);
                blocks.push(Record { start, end, kind: Kind::Block, cpu, tid: Tid(0), actor, detail });
            }
        }
        self.records.extend(blocks);
        self.records.sort_by_key(|record| record.end);
    }

    /// How long each CPU was busy in each interval according to the records.
    fn busy_by_interval(&self, scale: Scale, zero: Time) -> FxHashMap<(CpuId, u64), u64> {
        let (width, from, to) = (scale.width.0, self.from.max(zero), self.to);
        let mut kept: FxHashMap<(CpuId, u64), u64> = FxHashMap::default();
        for record in &self.records {
            let busy = match record.kind {
                Kind::Run => 1.0,
                Kind::Block => f64::from(record.detail) / f64::from(u32::MAX),
                _ => continue,
            };
            let (start, end) = (record.start.max(from).since(zero).0, record.end.min(to).since(zero).0);
            for index in start / width..=end / width {
                let overlap = ((index + 1) * width).min(end).saturating_sub((index * width).max(start));
                *kept.entry((record.cpu, index)).or_default() += (overlap as f64 * busy) as u64;
            }
        }
        kept
    }

    fn data(&self, zero: Time, actors: &mut ActorTable<'_>, columns: &mut Columns) -> MomentData {
        let (from, to, records) = (self.from.max(zero), self.to, &self.records);
        // Starts must fit in 32 bits: a unit of one nanosecond up to four seconds.
        let unit = ((to.since(from).0 >> 32) + 1).next_power_of_two();
        let units = |time: Time| (time.max(from).min(to).since(from).0 / unit) as u32;
        MomentData {
            from: from.since(zero).0,
            to: to.since(zero).0,
            unit_ns: unit,
            left_out: self.left_out,
            left_out_ns: self.longest_left_out.0,
            kind: columns.u8(records.iter().map(|record| record.kind as u8)),
            cpu: columns.u16(records.iter().map(|record| record.cpu.0 as u16)),
            actor: columns.u16(records.iter().map(|record| actors.index(record.actor))),
            tid: columns.u32(records.iter().map(|record| record.tid.0)),
            start: columns.u32(records.iter().map(|record| units(record.start))),
            length: columns.u32(records.iter().map(|record| units(record.end) - units(record.start))),
            detail: columns.u32(records.iter().map(|record| record.detail)),
        }
    }
}
