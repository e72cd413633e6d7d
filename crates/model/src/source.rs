use std::error::Error;

use crate::{ClockPair, Comm, Coverage, Event, EventSet, Loss, Names, Tid};

/// What a source knows before its first event, and what it read on the way.
#[derive(Clone, Debug, Default)]
pub struct TraceInfo {
    /// The format in words: `trace.dat v7`, `perf.data`, `perf script text`.
    pub format: String,
    /// The clock's name (`local`, `mono`), where the file names it.
    pub clock: Option<String>,
    /// CPUs of the recorded machine, where the file says so.
    pub cpus: Option<u32>,
    /// How many of them were recorded, where the file says so.
    pub cpus_recorded: Option<u32>,
    /// The event types that were enabled (whether or not one fired), where the file says so.
    pub recorded: Option<EventSet>,
    /// Names of tasks that the file keeps besides its events.
    pub tasks: Vec<SavedTask>,
    /// The host snapshot that `unstarve record` put into the file: JSON, see `unstarve_facts::Snapshot`.
    pub snapshot: Option<String>,
    /// The recorded kernel's release (`6.1.0-32-cloud-amd64`), where the file says so.
    pub kernel_release: Option<String>,
    /// The name of the recorded machine, where the file says so.
    pub host: Option<String>,
    /// Moments on the trace's clock and on the wall's, where the file has them: the first and the last, in this order.
    pub clocks: Vec<ClockPair>,
    /// Whether the file says that no event from the recording's beginning was overwritten.
    pub nothing_overwritten: bool,
    /// How far the recording is proved to go on, by CPU; complete once everything was read.
    pub coverage: Coverage,
}

impl TraceInfo {
    /// Notes a moment on both clocks; of all, the first and the last stay.
    pub fn note_clocks(&mut self, pair: ClockPair) {
        self.clocks.truncate(1);
        if self.clocks.first() != Some(&pair) {
            self.clocks.push(pair);
        }
    }
}

/// A task's name from a table in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SavedTask {
    /// Its id.
    pub tid: Tid,
    /// Its name when the recording ended.
    pub comm: Comm,
}

/// Events in time order, and the names that they newly use.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The events; times never decrease, within a batch and from one to the next.
    pub events: Vec<Event>,
    /// Names that no earlier batch brought, in the order of their ids.
    pub names: Vec<Box<str>>,
}

impl Batch {
    /// Readers aim at this many events a batch: enough to spread the cost of handing it over, small enough to stay in
    /// the cache.
    pub const TARGET: usize = 4096;

    /// An empty one that need not grow while it is filled.
    pub fn with_room() -> Batch {
        Batch { events: Vec::with_capacity(Batch::TARGET + 1), names: Vec::new() }
    }

    /// Empties it, keeping its memory.
    pub fn clear(&mut self) {
        self.events.clear();
        self.names.clear();
    }
}

/// What went wrong while reading; the reader's own error type inside.
pub type SourceError = Box<dyn Error + Send + Sync>;

/// A stream of events: a trace file, a live recording, a simulator.
pub trait EventSource: Send {
    /// What is known so far. Formats that keep their tables at the end complete it while they are read.
    fn info(&self) -> &TraceInfo;

    /// Fills `batch` (cleared first) with the next events; `false` when there are none left.
    ///
    /// Damage that leaves earlier events usable is not an error: it ends the stream and is told by [`Self::losses`].
    fn read(&mut self, batch: &mut Batch) -> Result<bool, SourceError>;

    /// What the source could not give; complete once [`Self::read`] has returned `false`.
    fn losses(&self) -> Vec<Loss>;
}

/// A source in memory, for tests and simulators.
#[derive(Clone, Debug, Default)]
pub struct MemorySource {
    info: TraceInfo,
    events: Vec<Event>,
    names: Names,
    given: bool,
}

impl MemorySource {
    /// A source of `events`, which must be in time order, and the names that they use.
    pub fn new(info: TraceInfo, events: Vec<Event>, names: Names) -> MemorySource {
        MemorySource { info, events, names, given: false }
    }
}

impl EventSource for MemorySource {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn read(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        if self.given {
            return Ok(false);
        }
        self.given = true;
        batch.events.append(&mut self.events);
        batch.names.extend_from_slice(self.names.since(0));
        Ok(true)
    }

    fn losses(&self) -> Vec<Loss> {
        Vec::new()
    }
}
