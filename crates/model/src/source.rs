//! Sources of events.

use std::error::Error;

use crate::{ClockPair, Comm, Coverage, Event, EventSet, Loss, Names, Tid};

/// Facts about a trace, known before its first event or learned while reading.
#[derive(Clone, Debug, Default)]
pub struct TraceInfo {
    /// The format in words: `trace.dat v7`, `perf.data`, `perf script text`.
    pub format: String,
    /// The clock's name (`local`, `mono`), if the file contains it.
    pub clock: Option<String>,
    /// Number of CPUs of the recorded machine, if the file contains it.
    pub cpus: Option<u32>,
    /// Number of recorded CPUs, if the file contains it.
    pub cpus_recorded: Option<u32>,
    /// The event types that were enabled (whether or not any occurred), if the file contains them.
    pub recorded: Option<EventSet>,
    /// Task names that the file contains besides its events.
    pub tasks: Vec<SavedTask>,
    /// The host snapshot that `unstarve record` put into the file: JSON, see `unstarve_facts::Snapshot`.
    pub snapshot: Option<String>,
    /// The recorded kernel's release (`6.1.0-32-cloud-amd64`), if the file contains it.
    pub kernel_release: Option<String>,
    /// The name of the recorded machine, if the file contains it.
    pub host: Option<String>,
    /// Moments on both the trace clock and the wall clock, if the file contains them: the first and the last.
    pub clocks: Vec<ClockPair>,
    /// Whether the file says that no event since the beginning of the recording was overwritten.
    pub nothing_overwritten: bool,
    /// The coverage of each CPU; complete after the last event.
    pub coverage: Coverage,
}

impl TraceInfo {
    /// Whether the recording marks where events of a CPU were overwritten: pages of the ring buffer in a trace.dat hold the number of
    /// events lost before them. Text formats and the buffers of perf and Perfetto do not show it.
    pub fn marks_overwritten(&self) -> bool {
        self.format.starts_with("trace.dat")
    }

    /// Adds a moment on both clocks; the first and the last are kept.
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

/// Events in time order, and the names that are new in them.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The events. Times never decrease, within a batch and from one to the next.
    pub events: Vec<Event>,
    /// Names that no earlier batch contained, in the order of their ids.
    pub names: Vec<Box<str>>,
}

impl Batch {
    /// The number of events per batch that readers aim at: large enough to spread the cost of handing it over, small
    /// enough for the cache.
    pub const TARGET: usize = 4096;

    /// An empty batch that does not grow while it is filled.
    pub fn with_room() -> Batch {
        Batch { events: Vec::with_capacity(Batch::TARGET + 1), names: Vec::new() }
    }

    /// Empties the batch but keeps its memory.
    pub fn clear(&mut self) {
        self.events.clear();
        self.names.clear();
    }
}

/// An error while reading; contains the reader's own error.
pub type SourceError = Box<dyn Error + Send + Sync>;

/// A stream of events: a trace file, a live recording, a simulator.
pub trait EventSource: Send {
    /// Facts known so far. Formats with tables at the end complete them while reading.
    fn info(&self) -> &TraceInfo;

    /// Clears `batch` and fills it with the next events; returns `false` if there are none left.
    ///
    /// Damage that leaves earlier events usable is not an error: it ends the stream and is reported by
    /// [`Self::losses`].
    fn read(&mut self, batch: &mut Batch) -> Result<bool, SourceError>;

    /// What the source could not provide; complete after [`Self::read`] has returned `false`.
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
    /// A source of `events`, which must be in time order, with the names they use.
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
