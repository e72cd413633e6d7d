//! Collects the page's data beyond the report during the analysis: sums by interval, by pair and by place, and details
//! around the longest waits. Everything is bounded; nothing grows with the length of the trace.

pub(crate) mod activity;
pub(crate) mod course;
pub(crate) mod density;
pub(crate) mod detail;
pub(crate) mod lanes;
pub(crate) mod scale;
pub(crate) mod tables;

use rustc_hash::FxHashMap;
use unstarve_model::{CpuId, NameId, Nanos, Policy, Tid, Time};
use unstarve_timeline::{
    ActorId, ActorKind, Interrupt, Migration, Piece, Run, RunEnd, Sink, Wait, Wake, Waker, WorkItem, World,
};

use activity::{Activity, stretch};
use course::Course;
use detail::{Detail, Kind, Record, Spot};
use lanes::Lanes;
use scale::Scale;
use tables::{BlameTable, ByPlace, CpuUse, InterruptTime};

/// Collects what the page needs; a [`Sink`].
#[derive(Debug, Default)]
pub struct Collector {
    pub(crate) scale: Scale,
    pub(crate) everyone: Course,
    pub(crate) courses: Vec<Course>,
    pub(crate) activity: Activity,
    pub(crate) lanes: Lanes,
    pub(crate) blame: BlameTable,
    pub(crate) places: ByPlace<CpuUse>,
    pub(crate) interrupts: ByPlace<InterruptTime>,
    pub(crate) detail: Detail,
    pub(crate) counts: Totals,
    /// Work functions by the number in records.
    pub(crate) functions: Vec<NameId>,
    function_numbers: FxHashMap<NameId, u32>,
}

/// How much there was of each kind.
#[derive(Clone, Copy, Default, Debug, serde::Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Totals {
    pub runs: u64,
    pub waits: u64,
    pub wakeups: u64,
    pub migrations: u64,
    pub interrupts: u64,
    pub softirqs: u64,
    pub work_items: u64,
}

/// Maximum actors with a separate course; others count only among all tasks.
const MAX_COURSES: usize = 2048;
/// Intervals for which one longest wait is kept in detail.
const INTERVALS_PER_SPOT: usize = 16;

impl Collector {
    /// The interval of a time; lengthens the intervals until it exists.
    fn interval(&mut self, world: &World, at: Time) -> usize {
        let since = at.since(world.start);
        loop {
            if let Some(index) = self.scale.index(since) {
                return index;
            }
            let width = self.scale.width;
            self.activity.halve(width);
            self.lanes.halve(width);
            self.everyone.halve();
            self.courses.iter_mut().for_each(Course::halve);
            self.detail.halve();
            self.scale.grow();
        }
    }

    fn course(&mut self, actor: ActorId) -> Option<&mut Course> {
        let index = actor.index();
        if index >= MAX_COURSES {
            return None;
        }
        if self.courses.len() <= index {
            self.courses.resize_with(index + 1, Course::default);
        }
        Some(&mut self.courses[index])
    }

    fn function(&mut self, name: NameId) -> u32 {
        *self.function_numbers.entry(name).or_insert_with(|| {
            self.functions.push(name);
            self.functions.len() as u32 - 1
        })
    }

    fn wait_in_detail(&mut self, wait: &Wait<'_>, spot: Spot) {
        let record = Record {
            start: wait.start,
            end: wait.end,
            kind: Kind::Wait,
            cpu: wait.cpu,
            tid: spot.tid,
            actor: wait.actor,
            detail: wait.pieces.len() as u32,
        };
        self.detail.push(record);
        for piece in wait.pieces {
            self.detail.push(Record { kind: Kind::Piece, ..piece_of(record, piece) });
        }
    }
}

fn piece_of(wait: Record, piece: &Piece) -> Record {
    let share = piece.length.share_of(wait.end.since(wait.start));
    let part = (share * f64::from(u32::MAX)) as u32;
    Record { actor: piece.occupant, tid: Tid(piece.rule as u32), detail: part, ..wait }
}

impl Sink for Collector {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        self.counts.waits += 1;
        let index = self.interval(world, wait.end);
        let length = wait.length();
        self.everyone.record(index, length);
        if let Some(course) = self.course(wait.actor) {
            course.record(index, length);
        }
        for piece in wait.pieces {
            self.blame.add(wait.actor, piece.occupant, piece.rule, wait.cpu, piece.length);
        }
        let place = self.places.at(wait.actor, wait.cpu);
        place.waits += 1;
        place.waited += length;
        place.longest = place.longest.max(length);
        if length > Nanos::ZERO {
            let stretch = stretch(self.scale, world.start, wait.start, wait.end);
            self.activity.waiting.add(stretch);
            self.lanes.waited(wait.cpu, stretch);
            let tid = world.tasks.get(wait.task).tid;
            let (start, end) = (wait.start, wait.end);
            let rule = wait.main_rule();
            let spot = Spot { actor: wait.actor, tid, cpu: wait.cpu, start, end, margin: Nanos::ZERO, rule };
            self.detail.offer(spot, index / INTERVALS_PER_SPOT);
            self.wait_in_detail(wait, spot);
        }
    }

    fn run(&mut self, world: &World, run: &Run) {
        self.counts.runs += 1;
        let index = self.interval(world, run.end);
        let counts = self.activity.at(index);
        let ended = match run.ended {
            RunEnd::Slept | RunEnd::Died => {
                counts.voluntary += 1;
                0
            }
            RunEnd::Preempted { by_wakeup, .. } => {
                counts.involuntary += 1;
                1 + u32::from(by_wakeup)
            }
            RunEnd::Cut => 3,
        };
        let class = match world.actors.get(run.actor).policy() {
            Some(Policy::Deadline) => 2,
            Some(Policy::Rt) => 1,
            _ => 0,
        };
        let stretch = stretch(self.scale, world.start, run.start, run.end);
        self.activity.running[class].add(stretch);
        self.lanes.ran(run.cpu, run.actor, stretch, self.scale.width);
        let place = self.places.at(run.actor, run.cpu);
        place.runs += 1;
        place.ran += run.length().saturating_sub(run.irq + run.softirq);
        let tid = world.tasks.get(run.task).tid;
        self.detail.push(Record {
            start: run.start,
            end: run.end,
            kind: Kind::Run,
            cpu: run.cpu,
            tid,
            actor: run.actor,
            detail: ended,
        });
    }

    fn wake(&mut self, world: &World, wake: &Wake<'_>) {
        self.counts.wakeups += 1;
        let index = self.interval(world, wake.time);
        self.activity.at(index).wakeups += 1;
        let wakee = world.tasks.get(wake.wakee);
        let waker = match wake.waker {
            Waker::Task(task) => world.tasks.get(task).tid.0,
            Waker::Interrupt(_) | Waker::Unknown => 0,
        };
        self.detail.push(Record {
            start: wake.time,
            end: wake.time,
            kind: Kind::Wake,
            cpu: wake.cpu,
            tid: wakee.tid,
            actor: wakee.actor,
            detail: waker,
        });
    }

    fn migration(&mut self, world: &World, migration: &Migration) {
        self.counts.migrations += 1;
        let index = self.interval(world, migration.time);
        self.activity.at(index).migrations += 1;
    }

    fn interrupt(&mut self, world: &World, interrupt: &Interrupt) {
        self.interval(world, interrupt.end);
        let is_softirq = matches!(world.actors.get(interrupt.actor).kind, ActorKind::Softirq { .. });
        let length = interrupt.end.since(interrupt.start);
        let stays = self.interrupts.at(interrupt.actor, interrupt.cpu);
        stays.count += 1;
        stays.total += length;
        stays.longest = stays.longest.max(length);
        let stretch = stretch(self.scale, world.start, interrupt.start, interrupt.end);
        let kind = if is_softirq {
            self.counts.softirqs += 1;
            self.activity.softirq.add(stretch);
            Kind::Softirq
        } else {
            self.counts.interrupts += 1;
            self.activity.irq.add(stretch);
            Kind::Irq
        };
        self.detail.push(Record {
            start: interrupt.start,
            end: interrupt.end,
            kind,
            cpu: interrupt.cpu,
            tid: Tid(0),
            actor: interrupt.actor,
            detail: 0,
        });
    }

    fn work_item(&mut self, world: &World, item: &WorkItem) {
        self.counts.work_items += 1;
        let worker = world.tasks.get(item.worker);
        let detail = item.function.map_or(0, |name| self.function(name) + 1);
        self.detail.push(Record {
            start: item.start,
            end: item.end,
            kind: Kind::Work,
            cpu: worker.last_cpu().unwrap_or(CpuId(0)),
            tid: worker.tid,
            actor: worker.actor,
            detail,
        });
    }
}
