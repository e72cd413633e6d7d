//! Reads an event source on one thread and feeds a timeline and a sink on another.

use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread;

use unstarve_facts::{Snapshot, TaskFacts};
use unstarve_model::{
    Batch, Comm, CpuId, EmptyBuffers, EventSet, EventSource, EventType, Loss, LossKind, SourceError, TaskRef,
    TraceInfo, WallClock, buffer_pool, prefetch,
};
use unstarve_timeline::{Sink, Timeline};

use crate::host_settings::HostSettings;
use crate::origin;

/// Why a trace cannot be analysed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExplainError {
    /// The source failed; the reader's error says where and what it expected.
    #[error(transparent)]
    Read(SourceError),
    /// There is nothing to analyse.
    #[error("no scheduler events in this {format}: record sched_switch and sched_waking (`unstarve record` does)")]
    NoEvents {
        /// The format that was read.
        format: String,
    },
    /// There are scheduler events, but none can be decoded.
    #[error("no scheduler event in this {format} can be read: {}", shown(malformed))]
    Malformed {
        /// The format that was read.
        format: String,
        /// Their kinds and counts, and the position of the first of each.
        malformed: Vec<Loss>,
    },
    /// There are none in the readable part; there may be some in the rest.
    #[error(
        "no scheduler events in what can be read of this {format}: {}. If the whole has none either, record sched_switch \
         and sched_waking (`unstarve record` does)",
        shown(damage)
    )]
    Damaged {
        /// The format that was read.
        format: String,
        /// What cannot be read.
        damage: Vec<Loss>,
    },
}

fn shown(losses: &[Loss]) -> String {
    losses.iter().map(Loss::to_string).collect::<Vec<_>>().join("; ")
}

/// The result of running a trace through a timeline.
#[derive(Debug)]
pub struct Driven {
    /// The timeline at the end of the trace, with its [`Timeline::world`].
    pub timeline: Timeline,
    /// The source's complete description of itself.
    pub info: TraceInfo,
    /// The host snapshot that came with the trace.
    pub snapshot: Option<Arc<Snapshot>>,
    /// Events read.
    pub events: u64,
    /// The number of switches among them.
    pub switches: u64,
    /// The kinds of events among them.
    pub seen: EventSet,
    /// Everything that the trace cannot show.
    pub losses: Vec<Loss>,
}

impl Driven {
    /// The state after no event at all, for a report that is not of a recording.
    pub fn nothing() -> Driven {
        let info = TraceInfo::default();
        let Analysis { timeline, snapshot, .. } = Analysis::begin(&info);
        Driven { timeline, info, snapshot, events: 0, switches: 0, seen: EventSet::default(), losses: Vec::new() }
    }

    /// The wall clock of the trace, if known.
    pub fn wall(&self) -> Option<WallClock> {
        origin::wall(&self.info, self.snapshot.as_deref())
    }

    /// The name of the recorded host, if known; safe to print on a terminal.
    pub fn host(&self) -> Option<String> {
        origin::host(&self.info, self.snapshot.as_deref())
    }
}

/// Reads a whole source through a timeline into `sink`.
///
/// The source is read and decoded on its own thread, a few batches ahead, so both cores of a small machine have work. `progress`
/// is called with the number of events so far, once per batch.
///
/// # Errors
/// If the source fails before its first event or in a way that makes its events unusable. Damage that leaves earlier events
/// usable is a loss instead.
pub fn drive<S: Sink>(
    source: Box<dyn EventSource>,
    sink: &mut S,
    mut progress: impl FnMut(u64),
) -> Result<Driven, ExplainError> {
    let (full, batches) = mpsc::channel();
    let (empties, mut returns) = buffer_pool(BATCHES, RETURNED_AT_ONCE);
    let reader = thread::spawn(move || read_all(source, &full, empties));

    let mut analysis: Option<Analysis> = None;
    let mut events = 0;
    while let Ok(message) = batches.recv() {
        match message {
            Message::Begin(info) => analysis = Some(Analysis::begin(&info)),
            Message::Batch(mut batch) => {
                let Some(analysis) = &mut analysis else {
                    returns.give(batch);
                    continue;
                };
                analysis.timeline.names(batch.names.drain(..));
                for (place, event) in batch.events.iter().enumerate() {
                    if let Some(later) = batch.events.get(place + EVENTS_AHEAD) {
                        prefetch(later);
                    }
                    analysis.timeline.push(event, sink);
                }
                events += batch.events.len() as u64;
                progress(events);
                returns.give(batch);
            }
        }
    }
    let (info, source_losses, error) = match reader.join() {
        Ok(end) => end,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    if let Some(error) = error {
        return Err(ExplainError::Read(error));
    }
    let Some(mut analysis) = analysis.filter(|_| events > 0) else {
        return Err(nothing(info.format, &source_losses));
    };
    let (switches, seen) = (analysis.timeline.switches(), analysis.timeline.seen());
    analysis.timeline.covered_by(info.coverage.clone());
    analysis.timeline.finish(sink);
    // Formats with their tables at the end may deliver the snapshot only now: too late for the rules of waits, but in time for
    // findings.
    let (snapshot, damage) = match analysis.snapshot {
        Some(snapshot) => (Some(snapshot), None),
        None => read_snapshot(&info),
    };
    let mut losses = source_losses;
    losses.extend(analysis.timeline.losses());
    losses.extend(damage);
    if snapshot.is_none() {
        losses.push(Loss::new(LossKind::NoSnapshot, 1));
    }
    add_unrecorded(&mut losses, info.recorded, seen, events);
    Ok(Driven { timeline: analysis.timeline, info, snapshot, events, switches, seen, losses })
}

/// Why there is no event: none was recorded, or none could be read.
fn nothing(format: String, losses: &[Loss]) -> ExplainError {
    let of =
        |is_so: fn(LossKind) -> bool| -> Vec<Loss> { losses.iter().filter(|loss| is_so(loss.kind)).cloned().collect() };
    let malformed = of(|kind| matches!(kind, LossKind::Malformed(_)));
    let damage = of(|kind| matches!(kind, LossKind::Undecodable | LossKind::Truncated));
    match (malformed.is_empty(), damage.is_empty()) {
        (false, _) => ExplainError::Malformed { format, malformed },
        (true, false) => ExplainError::Damaged { format, damage },
        (true, true) => ExplainError::NoEvents { format },
    }
}

/// Events to prefetch: another core has written them, so they are fetched while earlier ones are analysed.
const EVENTS_AHEAD: usize = 8;

/// Maximum batches in flight: enough to absorb a slow batch on either side, few enough for a shared cache.
const BATCHES: usize = 8;

/// Batches are returned in groups of this size: one of the rest is being analysed, and the others keep both sides busy.
const RETURNED_AT_ONCE: usize = 3;

enum Message {
    /// The source's description after its first batch; some sources learn it while reading.
    Begin(Box<TraceInfo>),
    Batch(Batch),
}

type End = (TraceInfo, Vec<Loss>, Option<SourceError>);

fn read_all(mut source: Box<dyn EventSource>, full: &Sender<Message>, mut empties: EmptyBuffers<Batch>) -> End {
    let mut begun = false;
    let error = loop {
        let Some(mut batch) = empties.next(Batch::with_room) else { break None };
        match source.read(&mut batch) {
            Ok(true) => {}
            Ok(false) => break None,
            Err(error) => break Some(error),
        }
        if !begun {
            begun = true;
            if full.send(Message::Begin(Box::new(source.info().clone()))).is_err() {
                break None;
            }
        }
        if full.send(Message::Batch(batch)).is_err() {
            break None;
        }
    };
    (source.info().clone(), source.losses(), error)
}

struct Analysis {
    timeline: Timeline,
    snapshot: Option<Arc<Snapshot>>,
}

impl Analysis {
    fn begin(info: &TraceInfo) -> Analysis {
        let (snapshot, _) = read_snapshot(info);
        Analysis { timeline: begin(info, snapshot.as_ref()), snapshot }
    }
}

/// A new timeline for a source with this description.
pub fn timeline(info: &TraceInfo) -> Timeline {
    begin(info, read_snapshot(info).0.as_ref())
}

fn begin(info: &TraceInfo, snapshot: Option<&Arc<Snapshot>>) -> Timeline {
    let mut timeline = Timeline::of_recording(info, Box::new(HostSettings::of(info, snapshot)));
    if let Some(snapshot) = snapshot {
        tell_before(&mut timeline, snapshot);
    }
    timeline
}

/// Passes tasks from the snapshot to the timeline that may have been runnable before the first event.
fn tell_before(timeline: &mut Timeline, snapshot: &Snapshot) {
    let knows = snapshot.tasks.iter().any(|task| task.seen.is_some());
    for task in &snapshot.tasks {
        let named = TaskRef::new(task.tid, Comm::from(task.comm.as_str()), task.prio());
        let runnable = task.seen.filter(|seen| seen.is_runnable()).and_then(|seen| seen.cpu);
        if let Some(cpu) = runnable {
            timeline.runnable_before(named, CpuId(cpu));
        } else if !knows && let Some(cpu) = only_cpu_of_idler(snapshot, task) {
            timeline.quiet_before(named, cpu);
        }
    }
}

/// The only CPU of a program that existed before the recording and has used at most 1/50 of its lifetime: asleep or starved. Not
/// for kernel threads, which sleep until they are needed.
fn only_cpu_of_idler(snapshot: &Snapshot, task: &TaskFacts) -> Option<CpuId> {
    let age = snapshot.uptime_ticks?.checked_sub(task.start_ticks)?;
    let allowed = task.allowed.as_ref().filter(|allowed| allowed.len() == 1)?;
    let hardly_ran = task.cpu_ticks?.saturating_mul(50) <= age;
    (hardly_ran && age > 0 && !task.kernel_thread).then(|| allowed.iter().next()).flatten()
}

pub(crate) fn read_snapshot(info: &TraceInfo) -> (Option<Arc<Snapshot>>, Option<Loss>) {
    match info.snapshot.as_deref().map(Snapshot::from_json) {
        Some(Ok(snapshot)) => (Some(Arc::new(snapshot)), None),
        Some(Err(error)) => (None, Some(Loss::new(LossKind::Undecodable, 1).with_detail(error.to_string()))),
        None => (None, None),
    }
}

/// Kinds of events without which something cannot be concluded.
const NEEDED: [EventType; 7] = [
    EventType::Switch,
    EventType::Waking,
    EventType::Wakeup,
    EventType::Migrate,
    EventType::IrqEntry,
    EventType::SoftirqEntry,
    EventType::WorkStart,
];

/// A trace of a running machine with this many events contains each recorded kind at least once.
const TELLING: u64 = 10_000;

fn add_unrecorded(losses: &mut Vec<Loss>, recorded: Option<EventSet>, seen: EventSet, events: u64) {
    for needed in NEEDED {
        let said = [LossKind::NotRecorded(needed), LossKind::Malformed(needed)];
        let told = losses.iter().any(|loss| said.contains(&loss.kind));
        let missing = match recorded {
            Some(recorded) => !recorded.contains(needed) && !seen.contains(needed),
            None => !seen.contains(needed) && events >= TELLING,
        };
        // A single CPU has no migrations, and one of the two wakeup events is enough.
        let unneeded = match needed {
            EventType::Waking => seen.contains(EventType::Wakeup),
            EventType::Wakeup => seen.contains(EventType::Waking),
            EventType::Migrate => recorded.is_none(),
            _ => false,
        };
        if missing && !told && !unneeded {
            losses.push(Loss::new(LossKind::NotRecorded(needed), 1));
        }
    }
}
