//! Sends a whole recording through the analysis into a sink.

use unstarve_model::{Batch, EventSource, Loss, SourceError, TraceInfo};
use unstarve_timeline::{Sink, Timeline, Wait, World};

use crate::source_settings::SourceSettings;

/// What is known once a recording has been read to its end.
#[derive(Debug)]
#[non_exhaustive]
pub struct Analysis {
    /// What the recording says about itself, complete.
    pub info: TraceInfo,
    /// The number of events read; 0 if the recording has no scheduler events.
    pub events: u64,
    /// What the recording cannot say: dropped events, event types that were not recorded, damage.
    pub losses: Vec<Loss>,
    timeline: Option<Timeline>,
}

impl Analysis {
    /// Tasks, actors and names at the end of the recording; `None` if it has no events.
    pub fn world(&self) -> Option<&World> {
        self.timeline.as_ref().map(Timeline::world)
    }
}

/// Reads a recording to its end and calls `sink` for each wait, run, wakeup, migration, interrupt and work item.
///
/// Memory grows with the number of tasks, not with the length of the recording. Damage that leaves earlier events usable
/// is one of [`Analysis::losses`].
///
/// # Errors
/// If the source fails in a way that makes its events unusable.
///
/// ```
/// use unstarve_trace::{Nanos, Run, Sink, World, analyse, open};
///
/// /// CPU time of kernel workers.
/// #[derive(Default)]
/// struct WorkerTime(Nanos);
///
/// impl Sink for WorkerTime {
///     fn run(&mut self, world: &World, run: &Run) {
///         if world.tasks.get(run.task).comm.as_bytes().starts_with(b"kworker/") {
///             self.0 += run.length();
///         }
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/traces/linux-6.1-dio-weight.dat");
/// let mut workers = WorkerTime::default();
/// let analysis = analyse(open(path.as_ref())?, &mut workers)?;
/// assert!(workers.0 > Nanos::from_millis(1));
/// assert_eq!(analysis.info.format, "trace.dat v7");
/// # Ok(())
/// # }
/// ```
pub fn analyse(mut source: Box<dyn EventSource>, sink: &mut impl Sink) -> Result<Analysis, SourceError> {
    let mut timeline: Option<Timeline> = None;
    let mut events = 0;
    let mut batch = Batch::with_room();
    while source.read(&mut batch)? {
        // Some formats know their CPUs and event types only after the first batch.
        let timeline = timeline.get_or_insert_with(|| {
            let info = source.info();
            Timeline::of_recording(info, Box::new(SourceSettings::new(info)))
        });
        timeline.names(batch.names.drain(..));
        for event in &batch.events {
            timeline.push(event, sink);
        }
        events += batch.events.len() as u64;
    }
    let info = source.info().clone();
    let mut losses = source.losses();
    let mut timeline = timeline.filter(|_| events > 0);
    if let Some(timeline) = &mut timeline {
        timeline.covered_by(info.coverage.clone());
        timeline.finish(sink);
        losses.extend(timeline.losses());
    }
    Ok(Analysis { info, events, losses, timeline })
}

/// Reads a recording to its end and calls `on_wait` for each wait: the time from becoming runnable to running.
///
/// The pieces of a wait add up to its length exactly. Waits come in the order in which they become known, mostly that of
/// their ends.
///
/// # Errors
/// As for [`analyse`].
///
/// ```
/// use unstarve_trace::{Nanos, Rule, open, waits};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/traces/linux-5.10-net-rt.dat");
/// let mut longest = (Nanos::ZERO, String::new(), String::new());
/// waits(open(path.as_ref())?, |world, wait| {
///     let task = world.tasks.get(wait.task);
///     for piece in wait.pieces.iter().filter(|piece| piece.rule == Rule::Class) {
///         longest = longest.clone().max((piece.length, task.comm.to_string(), world.name(piece.occupant)));
///     }
/// })?;
/// let (length, victim, occupant) = longest;
/// assert_eq!((victim.as_str(), occupant.as_str()), ("ksoftirqd/1", "wl"));
/// assert_eq!(length.to_string(), "90.0 ms");
/// # Ok(())
/// # }
/// ```
pub fn waits(source: Box<dyn EventSource>, on_wait: impl FnMut(&World, &Wait<'_>)) -> Result<Analysis, SourceError> {
    analyse(source, &mut OnWait(on_wait))
}

struct OnWait<F>(F);

impl<F: FnMut(&World, &Wait<'_>)> Sink for OnWait<F> {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        (self.0)(world, wait);
    }
}
