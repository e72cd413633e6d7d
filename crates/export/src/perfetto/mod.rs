//! Exports Perfetto traces: kernel events of what ran, and tracks of waits with their rules and culprits.

mod cpus;
mod findings;
pub mod proto;
mod stream;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;
use unstarve_diagnose::report::Report;
use unstarve_model::{Comm, Nanos, Tid, Time, clean};
use unstarve_sched::Rule;
use unstarve_timeline::{ActorId, Interrupt, Piece, Run, Selection, Sink, Wait, WaitEnd, Wake, WorkItem, World};

use self::cpus::Cpus;
use self::proto::{ClockSnapshot, DebugAnnotation, SystemInfo, TracePacket, TrackEvent, Utsname};
use self::stream::{Stream, TextKind, TrackId, TrackKind};
use crate::cast::Cast;
use crate::table::{begun, is_chosen, utc};
use crate::{Export, ExportError, Out};

/// Limit of counters. Later ones are added to `others`.
const MAX_COUNTERS: usize = 1 << 12;
/// How many waits of an actor a finding may point to: as many as the report keeps.
const POINTED_TO: usize = 16;

/// Writes a Perfetto trace.
pub struct Perfetto<W> {
    stream: Stream<W>,
    selection: Selection,
    cpus: Cpus,
    cast: Cast,
    groups: Groups,
    waits: FxHashMap<(Tid, Comm), Rows>,
    items: FxHashMap<(Tid, Comm), TrackId>,
    /// The track, its sum so far, and the time up to which it has been written.
    blame: FxHashMap<(ActorId, ActorId, Rule), (TrackId, Nanos, Time)>,
    /// The longest waits by actor and main rule, as in the report.
    longest: FxHashMap<(ActorId, Rule), BinaryHeap<Reverse<Nanos>>>,
}

/// The tracks of one task's waits, each with the end of its last slice; more than one only if waits come late.
///
/// A wait that is held back until a run has ended comes after waits that began later. Within a track, time must not go
/// backwards. Tracks with the same name are shown as one row.
#[derive(Default)]
struct Rows(Vec<(TrackId, Time)>);

impl Rows {
    /// The track for a slice of this interval; a new one if necessary.
    fn place(&mut self, start: Time, end: Time, new: impl FnOnce() -> TrackId) -> TrackId {
        if let Some((track, last)) = self.0.iter_mut().find(|(_, last)| *last <= start) {
            *last = end;
            return *track;
        }
        let track = new();
        self.0.push((track, end));
        track
    }
}

/// The parent tracks.
struct Groups {
    findings: TrackId,
    waits: TrackId,
    blame: TrackId,
    items: TrackId,
}

impl<W: Out> Perfetto<W> {
    /// Writes everything that ran and the waits in `selection` to `out`.
    pub fn new(out: W, selection: Selection) -> Perfetto<W> {
        let mut stream = Stream::new(out);
        let mut group = |name| stream.track(None, name, TrackKind::Slices);
        let groups = Groups {
            findings: group("Findings"),
            waits: group("Waits: who had the CPU, and by which rule"),
            blame: group("Blame: time waited so far"),
            items: group("Work items"),
        };
        Perfetto {
            stream,
            selection,
            cpus: Cpus::default(),
            cast: Cast::default(),
            groups,
            waits: FxHashMap::default(),
            items: FxHashMap::default(),
            blame: FxHashMap::default(),
            longest: FxHashMap::default(),
        }
    }

    fn wait_slice(&mut self, world: &World, wait: &Wait<'_>) {
        let task = world.tasks.get(wait.task);
        let rows = self.waits.entry((task.tid, task.comm)).or_default();
        let track = rows.place(wait.start, wait.end, || {
            let name = format!("{} {}", task.comm, task.tid);
            self.stream.track(Some(self.groups.waits), &name, TrackKind::Slices)
        });
        let first = wait.pieces.first();
        let name = match first {
            Some(piece) => format!("{} ({})", self.cast.who(world, piece.occupant).label(), piece.rule),
            None => "no time".to_owned(),
        };
        let rule = first.map_or("none", |piece| piece.rule.word());
        let event = TrackEvent {
            category_iids: vec![self.stream.text(TextKind::Category, rule)],
            name_iid: Some(self.stream.text(TextKind::EventName, &name)),
            debug_annotations: self.wait_annotations(world, wait),
            flow_ids: self.flow(wait).into_iter().collect(),
            ..TrackEvent::default()
        };
        self.stream.slice(track, (wait.start.0, wait.end.0), event);
    }

    fn wait_annotations(&mut self, world: &World, wait: &Wait<'_>) -> Vec<DebugAnnotation> {
        let stream = &mut self.stream;
        let mut list = vec![stream.number("wait_ns", wait.length().0), stream.word("begun", begun(wait.kind))];
        if wait.ended == WaitEnd::TraceEnd {
            list.push(stream.word("ended", "with the trace"));
        }
        let group = |piece: &Piece| {
            let occupant = self.cast.who(world, piece.occupant).label();
            vec![
                stream.word("occupant", &occupant),
                stream.word("rule", piece.rule.word()),
                stream.number("ns", piece.length.0),
            ]
        };
        let groups = wait.pieces.iter().map(group).collect();
        list.push(stream.list("blame", groups));
        list.push(stream.number("cpu", u64::from(wait.cpu.0)));
        list.push(stream.number("owed_ns", wait.owed.0));
        list.extend(utc(world, wait).map(|utc| stream.word("start_utc", &utc)));
        list.extend(wait.idle_elsewhere.map(|idle| stream.number("idle_elsewhere_ns", idle.0)));
        if let Some((Some(function), _)) = world.tasks.get(wait.task).work {
            list.push(stream.word("work", &clean(world.names.get(function))));
        }
        list
    }

    /// The arrow id of this wait, if a finding may point to it: only the longest waits of an actor under each rule.
    fn flow(&mut self, wait: &Wait<'_>) -> Option<u64> {
        let heap = self.longest.entry((wait.actor, wait.main_rule())).or_default();
        if heap.len() >= POINTED_TO {
            if heap.peek().is_some_and(|least| least.0 >= wait.length()) {
                return None;
            }
            heap.pop();
        }
        heap.push(Reverse(wait.length()));
        Some(findings::flow_id(wait.cpu.0, wait.start.0, wait.end.0))
    }

    fn count_blame(&mut self, world: &World, wait: &Wait<'_>) {
        for piece in wait.pieces {
            let mut key = (wait.actor, piece.occupant, piece.rule);
            if self.blame.len() >= MAX_COUNTERS && !self.blame.contains_key(&key) {
                key = (ActorId::OTHERS, ActorId::OTHERS, piece.rule);
            }
            if !self.blame.contains_key(&key) {
                let victim = self.cast.who(world, key.0).label();
                let occupant = self.cast.who(world, key.1).label();
                let name = format!("{victim} waits for {occupant} ({})", key.2);
                let track = self.stream.track(Some(self.groups.blame), &name, TrackKind::Nanos);
                self.stream.counter(track, world.start.0, 0);
                self.blame.insert(key, (track, Nanos::ZERO, world.start));
            }
            if let Some((track, sum, last)) = self.blame.get_mut(&key) {
                *sum += piece.length;
                // A wait during a run that had to be corrected comes late, but a counter's time must not go backwards.
                *last = wait.end.max(*last);
                self.stream.counter(*track, last.0, sum.0);
            }
        }
    }
}

impl<W: Out> Sink for Perfetto<W> {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        if is_chosen(&self.selection, world, wait) {
            self.wait_slice(world, wait);
            self.count_blame(world, wait);
        }
    }

    fn run(&mut self, world: &World, run: &Run) {
        self.cpus.run(world, run);
        self.cpus.write_some(&mut self.stream);
    }

    fn wake(&mut self, world: &World, wake: &Wake<'_>) {
        self.cpus.wake(world, wake);
    }

    fn interrupt(&mut self, world: &World, interrupt: &Interrupt) {
        self.cpus.interrupt(world, interrupt);
        self.cpus.write_some(&mut self.stream);
    }

    fn work_item(&mut self, world: &World, item: &WorkItem) {
        let worker = world.tasks.get(item.worker);
        let cpu_chosen = worker.last_cpu().is_none_or(|cpu| self.selection.has_cpu(cpu));
        if !cpu_chosen
            || !self.selection.has_task(&worker.comm, worker.tid)
            || !self.selection.has_span(item.start, item.end, world.start)
        {
            return;
        }
        let track = *self.items.entry((worker.tid, worker.comm)).or_insert_with(|| {
            let name = format!("{} {}", worker.comm, worker.tid);
            self.stream.track(Some(self.groups.items), &name, TrackKind::Slices)
        });
        let text = |id| clean(world.names.get(id)).into_owned();
        let name = item.function.map_or_else(|| "unknown function".to_owned(), text);
        let stream = &mut self.stream;
        let mut list = vec![stream.number("preemptions", u64::from(item.preemptions))];
        list.extend(item.workqueue.map(|workqueue| stream.word("workqueue", &text(workqueue))));
        list.extend(item.queued.map(|queued| stream.number("queued_for_ns", item.start.since(queued).0)));
        let name_iid = Some(stream.text(TextKind::EventName, &name));
        let event = TrackEvent { name_iid, debug_annotations: list, ..TrackEvent::default() };
        stream.slice(track, (item.start.0, item.end.0), event);
    }
}

impl<W: Out> Export for Perfetto<W> {
    fn finish(mut self, report: &Report) -> Result<(), ExportError> {
        self.cpus.finish(&mut self.stream);
        findings::write(&mut self.stream, self.groups.findings, report);
        let info = SystemInfo {
            utsname: report.trace.kernel.clone().map(|release| Utsname { release: Some(release) }),
            num_cpus: Some(report.trace.cpus),
        };
        for pair in &report.trace.clock_pairs {
            let clock_snapshot = Some(ClockSnapshot::of(pair));
            self.stream.packet(TracePacket { clock_snapshot, ..TracePacket::default() });
        }
        self.stream.packet(TracePacket { system_info: Some(info), ..TracePacket::default() });
        self.stream.finish()?;
        Ok(())
    }
}
