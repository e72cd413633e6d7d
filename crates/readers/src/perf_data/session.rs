//! Interprets the records of a recording; the same for files and pipes.

mod damage;
mod samples;

use unstarve_model::{
    ClockPair, Comm, Context, CpuId, Event, EventKind, EventSet, Issuer, ProvedBy, Tid, Time, TraceInfo, Until,
    WallTime,
};

use super::attr::{Attr, MIN_ATTR, clock_name};
use super::error::PerfDataError;
use super::event_ids::EventIds;
use super::header::{ClockData, MAX_ATTRS, feature, online_cpus, string, words};
use super::records::Record;
use super::sample::{SampleLayout, Written};
use super::stacks::Stacks;
use super::switches::Switches;
use super::tracing_data::{self, TracingData};
use crate::decode::{Decoder, FastDecoder};
use crate::endian::Endian;
use crate::interner::Interner;
use crate::reorder::Reorder;
use crate::symbols::Symbols;
use crate::task_names::TaskNames;

use damage::Damage;
use samples::event_of;

/// The record types that are used. Source: `enum perf_event_type` in `include/uapi/linux/perf_event.h` and `enum
/// perf_user_event_type` in `tools/lib/perf/include/perf/event.h`.
pub mod kind {
    pub const MMAP: u32 = 1;
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const EXIT: u32 = 4;
    pub const THROTTLE: u32 = 5;
    pub const FORK: u32 = 7;
    pub const SAMPLE: u32 = 9;
    pub const LOST_SAMPLES: u32 = 13;
    pub const SWITCH_CPU_WIDE: u32 = 15;
    pub const HEADER_ATTR: u32 = 64;
    pub const HEADER_TRACING_DATA: u32 = 66;
    pub const FINISHED_ROUND: u32 = 68;
    pub const AUXTRACE: u32 = 71;
    pub const HEADER_FEATURE: u32 = 80;
    pub const COMPRESSED: u32 = 81;
    pub const COMPRESSED2: u32 = 83;
}

/// Reordering window. A round holds the content of all CPUs' buffers, and a buffer of 512 KiB, the default, holds fewer
/// than 16 Ki events.
const WINDOW_PER_CPU: usize = 1 << 14;
const MIN_WINDOW: usize = 1 << 18;
const MAX_WINDOW: usize = 1 << 22;

/// Stands for an offset that a sample does not have.
const NO_OFFSET: usize = usize::MAX;

/// How many decoded samples between two checks for events that can be given out: a quarter of a batch.
const CHECK_RELEASE_EVERY: u32 = 1024;

/// Whether events may be ready to be given out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    Not,
    Perhaps,
}

/// Turns records into events.
pub struct Session {
    pub info: TraceInfo,
    pub names: Interner,
    pub reorder: Reorder,
    decoder: Decoder,
    events: Vec<Recorded>,
    ids: EventIds,
    /// Offset of the event id in samples; [`NO_OFFSET`] if there is only one event, whose samples need not have an id.
    id_at: usize,
    endian: Endian,
    stacks: Stacks,
    pub(super) tasks: TaskNames,
    /// The latest time seen, and its value when the last round ended.
    pub(super) latest: Time,
    round_end: Time,
    rounds: Rounds,
    /// Whether the samples of all events are little-endian and have the usual layout.
    all_usual: bool,
    /// Decoded samples since the last check for events that can be given out.
    samples_since_check: u32,
    /// How often each event was opened; `None` if the events differ in that.
    openings: Option<usize>,
    kernel_text: Option<u64>,
    /// The clock of the tracepoints, if one was requested, and its time when the wall clock was read.
    clock: Option<i32>,
    clock_data: Option<ClockData>,
    pub(super) switches: Switches,
    damage: Damage,
}

/// One event that was recorded.
struct Recorded {
    layout: SampleLayout,
    tracepoint: Option<u16>,
    /// Whether unstarve reads it.
    wanted: bool,
    /// Whether its samples are little-endian and have the usual layout.
    usual_samples: bool,
    /// The id of its records and the fast decoder, if both records and samples have the usual layout.
    usual: Option<(u16, FastDecoder)>,
}

impl Session {
    /// A session for records in this byte order.
    pub fn new(format: &str, endian: Endian) -> Session {
        Session {
            info: TraceInfo { format: format.to_owned(), ..TraceInfo::default() },
            names: Interner::new(),
            reorder: Reorder::new(MIN_WINDOW),
            decoder: Decoder::new(endian),
            events: Vec::new(),
            ids: EventIds::default(),
            id_at: NO_OFFSET,
            endian,
            stacks: Stacks::default(),
            tasks: TaskNames::default(),
            latest: Time(0),
            round_end: Time(0),
            rounds: Rounds::default(),
            all_usual: false,
            samples_since_check: 0,
            openings: None,
            kernel_text: None,
            clock: None,
            clock_data: None,
            switches: Switches::default(),
            damage: Damage::default(),
        }
    }

    /// Adds a recorded event, with the ids that its samples have.
    pub fn add_attr(&mut self, attr: &Attr, ids: &[u64]) {
        if self.events.len() as u64 >= MAX_ATTRS {
            return;
        }
        let index = self.events.len() as u16;
        self.openings = (self.events.is_empty() || self.openings == Some(ids.len())).then_some(ids.len());
        let opened = self.openings.filter(|&opened| opened > 0);
        self.info.cpus_recorded = opened.and_then(|opened| u32::try_from(opened).ok());
        ids.iter().for_each(|&id| self.ids.insert(id, index));
        if attr.tracepoint.is_some() {
            self.info.clock = Some(clock_name(attr.clock).to_owned());
            self.clock = attr.clock;
            self.settle_clocks();
        }
        if attr.context_switch {
            self.switches.layout = Some(SampleLayout::of(attr));
        }
        let layout = SampleLayout::of(attr);
        let usual_samples = self.endian == Endian::Little && layout.is_usual();
        self.events.push(Recorded { layout, tracepoint: attr.tracepoint, wanted: false, usual_samples, usual: None });
        self.choose_events();
    }

    /// Adds event formats.
    pub fn add_formats(&mut self, data: &[u8]) -> Result<(), PerfDataError> {
        let TracingData { decoder, symbols } = tracing_data::parse(data)?;
        self.decoder = decoder;
        if !symbols.is_empty() {
            self.names.set_symbols(Symbols::from_text(symbols));
        }
        self.choose_events();
        Ok(())
    }

    /// Takes what one feature of the header says.
    pub fn note_feature(&mut self, feature: u64, content: &[u8]) {
        match feature {
            feature::OS_RELEASE => self.info.kernel_release = string(content, self.endian),
            feature::HOSTNAME => self.info.host = string(content, self.endian),
            feature::NR_CPUS => self.set_cpus(online_cpus(content, self.endian)),
            feature::CLOCK_DATA => {
                self.clock_data = ClockData::parse(content, self.endian);
                self.settle_clocks();
            }
            _ => {}
        }
    }

    /// Resolves the clocks. Attributes and features come in any order.
    fn settle_clocks(&mut self) {
        /// The wall clock itself.
        const REALTIME: i32 = 0;
        let noted = self.clock_data.filter(|data| Some(data.clock) == self.clock).map(|data| data.pair);
        let same = (self.clock == Some(REALTIME)).then_some(ClockPair { trace: Time(0), wall: WallTime(0) });
        self.info.clocks = same.or(noted).into_iter().collect();
    }

    fn set_cpus(&mut self, cpus: Option<u32>) {
        self.info.cpus = cpus.or(self.info.cpus);
        let window = cpus.map_or(MIN_WINDOW, |cpus| cpus as usize * WINDOW_PER_CPU);
        self.reorder.set_limit(window.clamp(MIN_WINDOW, MAX_WINDOW));
    }

    /// Checks that events can be decoded, once all tables have been read.
    pub fn check(&self) -> Result<(), PerfDataError> {
        let mut wanted = self.events.iter().filter(|event| event.wanted).peekable();
        if wanted.peek().is_none() && !self.switches.may_come() {
            return Err(PerfDataError::NoSchedulerEvents);
        }
        match wanted.find_map(|event| event.layout.missing()) {
            Some(missing) => Err(PerfDataError::SampleType { missing }),
            None => Ok(()),
        }
    }

    fn choose_events(&mut self) {
        let mut recorded = EventSet::default();
        for event in &mut self.events {
            let event_type = event.tracepoint.and_then(|id| self.decoder.event_type(id));
            event.wanted = event_type.is_some();
            let id = event.tracepoint.filter(|_| event.usual_samples);
            event.usual = id.and_then(|id| Some((id, self.decoder.usual(id)?)));
            event_type.into_iter().for_each(|event_type| recorded.insert(event_type));
        }
        self.all_usual = self.events.iter().all(|event| event.usual_samples);
        let events = &self.events;
        if self.decoder.known() != EventSet::default() {
            self.ids.choose(|event| events.get(usize::from(event)).is_some_and(|event| event.wanted));
        }
        let several = events.len() > 1 && !self.ids.is_empty();
        self.id_at = events.first().filter(|_| several).and_then(|first| first.layout.id).unwrap_or(NO_OFFSET);
        self.info.recorded = Some(recorded);
    }

    /// Handles a record; `offset` is its position, for messages.
    #[inline]
    pub fn record(&mut self, record: Record<'_>, offset: u64) {
        match record.kind {
            kind::SAMPLE => {
                self.sample(record, offset);
            }
            kind::FINISHED_ROUND => {
                self.reorder.release(self.round_end);
                self.round_end = self.latest;
                self.rounds.end(self.latest);
            }
            _ => self.other(record),
        }
    }

    #[cold]
    fn undecodable(&mut self, offset: u64) {
        self.damage.undecodable += 1;
        self.damage.first_undecodable.get_or_insert(offset);
    }

    fn other(&mut self, record: Record<'_>) {
        match record.kind {
            kind::COMM => {
                // pid, tid, name.
                if let Some(tid) = record.u32_at(12) {
                    self.tasks.note(Tid(tid), Comm::new(record.bytes.get(16..).unwrap_or_default()));
                }
            }
            kind::FORK => {
                // pid, parent pid, tid, parent tid: a new thread inherits its parent's name.
                if let (Some(tid), Some(parent)) = (record.u32_at(16), record.u32_at(20)) {
                    self.tasks.inherit(Tid(tid), Tid(parent));
                }
            }
            kind::LOST => {
                // id, count.
                let count = record.u64_at(16);
                let cpu = self.gap(record, count);
                let lost = self.damage.lost.entry(cpu).or_default();
                *lost = lost.saturating_add(count.unwrap_or(0));
            }
            kind::LOST_SAMPLES => {
                self.damage.lost_samples = self.damage.lost_samples.saturating_add(record.u64_at(8).unwrap_or(0));
            }
            kind::THROTTLE => {
                self.damage.throttled += 1;
                self.gap(record, None);
            }
            kind::SWITCH_CPU_WIDE => self.context_switch(record),
            kind::EXIT => self.task_exit(record),
            kind::MMAP => self.mapping(record),
            kind::HEADER_ATTR => self.pipe_attr(record),
            kind::HEADER_FEATURE => self.pipe_feature(record),
            _ => {}
        }
    }

    /// Inserts a gap, if the record says when and on which CPU. Returns the CPU.
    fn gap(&mut self, record: Record<'_>, count: Option<u64>) -> Option<CpuId> {
        // Records other than samples need not have an id even if samples do. Then their trailer is parsed with the
        // first event's layout.
        let known =
            event_of(&self.events, &self.ids, self.id_at, record).and_then(|event| self.events.get(usize::from(event)));
        let event = known.or(self.events.first())?;
        let Written { time, cpu, .. } = event.layout.trailer(record.bytes, record.endian);
        if let (Some(time), Some(cpu)) = (time.filter(|time| time.0 > 0), cpu) {
            let kind = EventKind::Lost { count };
            self.reorder.push(Event { time, cpu, issuer: Issuer::new(None, Context::Unknown), kind });
            self.latest = self.latest.max(time);
        }
        cpu
    }

    /// Address of the kernel's text, as perf records it: `pid, tid, start, length, offset = address of _text, name`.
    fn mapping(&mut self, record: Record<'_>) {
        let name = record.bytes.get(40..).unwrap_or_default();
        if self.kernel_text.is_none() && name.starts_with(b"[kernel.kallsyms]_text\0") {
            self.kernel_text = record.u64_at(32);
            if let (Some(text), Some(release)) = (self.kernel_text, self.info.kernel_release.clone()) {
                let load = move || super::running_kernel::symbols(text, &release);
                self.names.set_symbols(Symbols::lazily(Box::new(load)));
            }
        }
    }

    /// In a pipe attributes are records: the attribute, which begins with its own size, then ids.
    fn pipe_attr(&mut self, record: Record<'_>) {
        let payload = record.payload();
        let size = record.u32_at(12).map_or(0, |size| size as usize);
        let Some(attr) = payload.get(..size.max(MIN_ATTR)) else { return };
        if let Some(attr) = Attr::parse(attr, record.endian) {
            self.add_attr(&attr, &words(&payload[size.max(MIN_ATTR)..], record.endian));
        }
    }

    /// In a pipe features are records: the feature's number, then the content of its section.
    fn pipe_feature(&mut self, record: Record<'_>) {
        if let (Some(feature), Some(content)) = (record.u64_at(8), record.payload().get(8..)) {
            self.note_feature(feature, content);
        }
    }

    /// Notes that the rest of the file cannot be read.
    pub fn truncated(&mut self, what: String) {
        self.damage.truncated.get_or_insert(what);
    }

    /// Notes that no more records come.
    pub fn finish(&mut self) {
        self.reorder.release_all();
        self.info.tasks = self.tasks.saved();
        let damage = &self.damage;
        if let Some(time) = self.rounds.proved(self.latest, damage.truncated.is_some()) {
            self.info.coverage.prove_all(Until::At(time), ProvedBy::EmptiedBuffer);
        }
        // A full buffer may have dropped its last events.
        let lost = damage.lost.values().any(|count| *count > 0) || damage.lost_samples > 0 || damage.throttled > 0;
        if lost || damage.undecodable > 0 {
            self.info.coverage.void();
        }
    }
}

/// The times of the latest events of the last two rounds that had any.
///
/// In each round perf empties the buffers of all CPUs. Whatever a CPU recorded before the latest event of a round is in
/// that round or the next, because its buffer is read after that event.
#[derive(Default)]
struct Rounds {
    last: Time,
    before: Time,
}

impl Rounds {
    /// Ends a round.
    fn end(&mut self, latest: Time) {
        if latest > self.last {
            (self.before, self.last) = (self.last, latest);
        }
    }

    /// The time up to which the events of all CPUs are in the file.
    fn proved(&self, latest: Time, is_torn: bool) -> Option<Time> {
        // The records after the last end of a round are a round too, unless the file is cut within it.
        let time = if latest > self.last && !is_torn { self.last } else { self.before };
        (time > Time(0)).then_some(time)
    }
}
