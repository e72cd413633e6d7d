//! Converts the collected data to the page's data.

mod actors;
mod lanes;
mod moments;
mod tables;

use serde::Serialize;
use serde_json::Value;
use unstarve_diagnose::report::{Report, Verdict, in_words};
use unstarve_diagnose::{Driven, Explained};
use unstarve_model::EventType;
use unstarve_timeline::{ActorId, World};

use crate::blob::{Column, Columns};
use crate::collect::course::Course;
use crate::collect::{Collector, Totals};
use actors::{ActorTable, ActorsData};
use lanes::LanesData;
use moments::{MomentsData, ReportedWaits};
use tables::{BlameData, InterruptsData, PlacesData};

/// An analysed trace, ready for a page.
pub struct Trace {
    name: String,
    report: Report,
    driven: Driven,
    collector: Collector,
}

/// What the page gets of one trace. Times count from the trace's start.
#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Trace"))]
pub(crate) struct TraceData {
    name: String,
    /// The trace's start on its own clock, in nanoseconds; text, for a number in JavaScript has 53 bits.
    zero: String,
    span_ns: u64,
    verdict: Verdict,
    #[cfg_attr(test, ts(as = "Report"))]
    report: Value,
    /// What the trace cannot say, for people.
    losses: Vec<String>,
    recording: RecordingData,
    /// The time of day at the trace's start, in nanoseconds since 1970; text, as above. Nothing where it is not known.
    wall: Option<String>,
    /// How much further the wall's clock went than the trace's, from start to end.
    wall_drift_ns: i64,
    intervals: IntervalsData,
    lanes: LanesData,
    courses: Vec<CourseData>,
    blame: BlameData,
    places: PlacesData,
    interrupts: InterruptsData,
    moments: MomentsData,
    /// For each finding: its course.
    findings: Vec<usize>,
    actors: ActorsData,
    functions: Vec<String>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct RecordingData {
    clock: Option<String>,
    /// Kinds of events with whether they were recorded; nothing if the file does not say.
    recorded: Option<Vec<(String, bool)>>,
    totals: Totals,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct IntervalsData {
    width_ns: u64,
    count: usize,
    voluntary: Column<u32>,
    involuntary: Column<u32>,
    wakeups: Column<u32>,
    migrations: Column<u32>,
    waiting: Column<f32>,
    running: Column<f32>,
    rt: Column<f32>,
    irq: Column<f32>,
    softirq: Column<f32>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Course"))]
struct CourseData {
    /// Whose waits; empty for all tasks together.
    actors: Vec<u16>,
    waits: u64,
    total_ns: u64,
    max_ns: u64,
    /// Intervals in which a wait ended, and of those:
    interval: Column<u16>,
    count: Column<u32>,
    p50: Column<f32>,
    p99: Column<f32>,
    max: Column<f64>,
}

/// Maximum courses beside those of findings.
const MAX_SHOWN_COURSES: usize = 40;

impl Trace {
    /// Combines the report with the collector's data. `name` is the recording's name for people.
    pub fn new(name: String, explained: Explained, collector: Collector) -> Trace {
        Trace { name: cleaned(&name), report: explained.report, driven: explained.driven, collector }
    }

    /// The recording's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The report.
    pub fn report(&self) -> &Report {
        &self.report
    }

    pub(crate) fn verdict(&self) -> &Verdict {
        &self.report.verdict
    }

    pub(crate) fn into_data(self, columns: &mut Columns) -> TraceData {
        let Trace { name, mut report, driven, collector } = self;
        let world = driven.timeline.world();
        let zero = world.start;
        let mut actors = ActorTable::new(world, driven.snapshot.as_deref());
        let (courses, findings) = courses(&report, &collector, world, &mut actors, columns);
        let functions = collector.functions.iter().map(|name| cleaned(world.names.get(*name))).collect();
        let intervals = intervals(&collector, columns);
        let blame = tables::blame(&collector, &report, world, &mut actors, columns);
        let places = tables::places(&collector, world, &mut actors, columns);
        let interrupts = tables::interrupts(&collector, world, &mut actors, columns);
        let recording = RecordingData {
            clock: driven.info.clock.clone(),
            recorded: driven.info.recorded.map(|recorded| {
                EventType::ALL.iter().map(|event| (event.name().to_owned(), recorded.contains(*event))).collect()
            }),
            totals: collector.counts,
        };
        let wanted = ReportedWaits::of(&report);
        let lanes = lanes::lanes(&collector.lanes, collector.scale, &report, columns);
        let surroundings = (&collector.lanes, collector.scale);
        let moments = moments::moments(collector.detail, surroundings, &wanted, zero, &mut actors, columns);
        let span = world.now.since(zero);
        let wall = driven.wall().map(|wall| (wall.at(zero).0, wall.at(world.now).0));
        rebase(&mut report, zero.0);
        TraceData {
            name,
            zero: zero.0.to_string(),
            span_ns: span.0,
            wall: wall.map(|(start, _)| start.to_string()),
            wall_drift_ns: wall.map_or(0, |(start, end)| end as i64 - start as i64 - span.0 as i64),
            verdict: report.verdict.clone(),
            losses: in_words(&report.missing),
            // A report consists of text and numbers, so this cannot fail.
            report: serde_json::to_value(&report).unwrap_or_default(),
            recording,
            intervals,
            lanes,
            courses,
            blame,
            places,
            interrupts,
            moments,
            findings,
            actors: actors.finish(columns),
            functions,
        }
    }
}

/// A name from the trace, escaped.
fn cleaned(text: &str) -> String {
    unstarve_model::clean(text).into_owned()
}

/// Converts times to times since the trace's start.
fn rebase(report: &mut Report, zero: u64) {
    let trace = [&mut report.trace.start_ns, &mut report.trace.end_ns];
    let findings = report.findings.iter_mut().flat_map(|finding| &mut finding.worst);
    let findings = findings.flat_map(|worst| [&mut worst.start_ns, &mut worst.end_ns]);
    let waits = report.worst_waits.iter_mut().flat_map(|wait| [&mut wait.start_ns, &mut wait.end_ns]);
    for time in trace.into_iter().chain(findings).chain(waits) {
        *time = time.saturating_sub(zero);
    }
}

/// The courses: all tasks, the findings' victims, then the tasks with most waiting; and the course of each finding.
fn courses(
    report: &Report,
    collector: &Collector,
    world: &World,
    actors: &mut ActorTable<'_>,
    columns: &mut Columns,
) -> (Vec<CourseData>, Vec<usize>) {
    let mut told: Vec<Vec<ActorId>> = vec![Vec::new()];
    let mut findings = Vec::new();
    for finding in &report.findings {
        let mut victims = finding.actors.clone();
        victims.sort_unstable();
        let known = told.iter().position(|actors| *actors == victims && !victims.is_empty());
        findings.push(known.unwrap_or_else(|| {
            told.push(victims);
            told.len() - 1
        }));
    }
    let mut others: Vec<(ActorId, &Course)> = world
        .actors
        .iter()
        .filter_map(|(id, _)| Some((id, collector.courses.get(id.index())?)))
        .filter(|(id, course)| course.waits > 0 && !told.contains(&vec![*id]))
        .collect();
    others.sort_by_key(|(id, course)| (std::cmp::Reverse(course.total), *id));
    told.extend(others.into_iter().take(MAX_SHOWN_COURSES).map(|(id, _)| vec![id]));
    let data = told.iter().map(|ids| {
        let merged = match ids.as_slice() {
            [] => collector.everyone.clone(),
            ids => {
                let mut sum = Course::default();
                ids.iter().filter_map(|id| collector.courses.get(id.index())).for_each(|course| sum.merge(course));
                sum
            }
        };
        course(&merged, ids.iter().map(|id| actors.index(*id)).collect(), columns)
    });
    (data.collect(), findings)
}

fn course(course: &Course, actors: Vec<u16>, columns: &mut Columns) -> CourseData {
    let cells = || course.cells.iter().map(|(_, cell)| cell);
    CourseData {
        actors,
        waits: course.waits,
        total_ns: course.total.0,
        max_ns: course.longest.0,
        interval: columns.u16(course.cells.iter().map(|(index, _)| *index)),
        count: columns.u32(cells().map(|cell| cell.count)),
        p50: columns.f32(cells().map(|cell| cell.at(0.5) as f64)),
        p99: columns.f32(cells().map(|cell| cell.at(0.99) as f64)),
        max: columns.f64(cells().map(|cell| cell.longest)),
    }
}

fn intervals(collector: &Collector, columns: &mut Columns) -> IntervalsData {
    let (activity, width) = (&collector.activity, collector.scale.width);
    let [fair, rt, deadline] = &activity.running;
    let (fair, rt, deadline) = (fair.sums(width), rt.sums(width), deadline.sums(width));
    let (waiting, irq, softirq) =
        (activity.waiting.sums(width), activity.irq.sums(width), activity.softirq.sums(width));
    let each = [activity.counts.len(), fair.len(), rt.len(), deadline.len(), waiting.len(), irq.len(), softirq.len()];
    let count = each.into_iter().max().unwrap_or(0);
    let at = |sums: &[u64], index: usize| sums.get(index).copied().unwrap_or(0);
    // The average number at a time.
    let average = |sums: &[u64], index: usize| at(sums, index) as f64 / width.0 as f64;
    let counts = |of: fn(&crate::collect::activity::Counts) -> u32| {
        (0..count).map(move |index| activity.counts.get(index).map_or(0, of))
    };
    IntervalsData {
        width_ns: width.0,
        count,
        voluntary: columns.u32(counts(|counts| counts.voluntary)),
        involuntary: columns.u32(counts(|counts| counts.involuntary)),
        wakeups: columns.u32(counts(|counts| counts.wakeups)),
        migrations: columns.u32(counts(|counts| counts.migrations)),
        waiting: columns.f32((0..count).map(|index| average(&waiting, index))),
        running: columns.f32((0..count).map(|i| average(&fair, i) + average(&rt, i) + average(&deadline, i))),
        rt: columns.f32((0..count).map(|index| average(&rt, index) + average(&deadline, index))),
        irq: columns.f32((0..count).map(|index| average(&irq, index))),
        softirq: columns.f32((0..count).map(|index| average(&softirq, index))),
    }
}
