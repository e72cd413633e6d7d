use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use unstarve_kernel::{Root, Snapshot};
use unstarve_model::{CpuId, EventType};
use unstarve_readers::trace_dat_write;

use crate::capture;
use crate::command::Running;
use crate::drain::Drain;
use crate::instance::{self, Instance, KernelNames};
use crate::output::Workshop;
use crate::signals::Signals;
use crate::stats::CpuStats;
use crate::tracefs::TraceFs;
use crate::{BlockEvents, BufferSize, Options, RecordError, Until, buffer};

/// What was recorded.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The file.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// How many events are in it.
    pub events: u64,
    /// Where events were lost, because a buffer was full; empty if none was.
    pub lost: Vec<Lost>,
    /// How long was recorded.
    pub duration: Duration,
    /// How many CPUs were recorded.
    pub cpus: usize,
    /// The clock of the events: `mono`, or `local` where the kernel has no other.
    pub clock: &'static str,
    /// Events that were asked for and that this kernel does not have.
    pub absent: Vec<EventType>,
    /// How the command ended, if one was recorded.
    pub command: Option<CommandEnd>,
}

/// Events that one CPU lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost {
    /// The CPU.
    pub cpu: CpuId,
    /// How many.
    pub count: u64,
}

/// How a recorded command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommandEnd {
    /// With this exit code.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// It did not: the recording was ended by a signal, and the command, told to end too, took longer than 5 seconds.
    StillRunning,
}

/// How far a recording is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Events are recorded.
    Recording {
        /// Since when.
        elapsed: Duration,
        /// Bytes fetched from the kernel.
        bytes: u64,
    },
    /// The file is put together.
    Writing {
        /// Bytes written.
        done: u64,
        /// Bytes to write.
        total: u64,
    },
}

/// How often [`record`] calls its listener.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// A recorded command's tasks are not there before it and may be gone after it, so the host is looked at while it runs
/// too: after this time, when a wrapper has mostly put them where they belong…
const FIRST_LOOK: Duration = Duration::from_millis(100);
/// …and again each time it has run this many times as long.
const LOOKS_SPREAD: u32 = 10;

/// Records until what [`Options::until`] says, or SIGINT, SIGTERM or SIGHUP, and writes the file.
///
/// While it runs, those signals are handled for the whole process. Without a `progress` listener nothing wakes this
/// thread in between.
pub fn record(options: &Options, mut progress: Option<&mut dyn FnMut(Progress)>) -> Result<Recording, RecordError> {
    let signals = Signals::install().map_err(RecordError::system("cannot handle signals"))?;
    let workshop = Workshop::beside(&options.output)?;
    let tracefs = Arc::new(TraceFs::open()?);
    instance::remove_leftovers(&tracefs);

    let host = Root::host();
    let begin = Snapshot::take(&host);
    let cpus = online(&begin);
    raise_file_limit(cpus.len());
    let instance = Instance::create(Arc::clone(&tracefs))?;
    let set_up = set_up(&instance, options.block, options.buffer, cpus.len())?;

    let drain = Drain::start(&instance, &cpus, workshop.directory(), set_up.interval, &signals)?;
    let started = Instant::now();
    instance.set("tracing_on", "1")?;
    let mut between = Vec::new();
    let command = run(options, &signals, &drain, started, &mut between, &mut progress)?;
    instance.set("tracing_on", "0")?;
    let duration = started.elapsed();

    // Before our own threads end, which are in the trace too.
    let snapshot = begin.finished_by(Snapshot::take(&host));
    let snapshot = between.into_iter().fold(snapshot, Snapshot::joined_by);
    let pages = drain.finish()?;
    let statistics: Vec<CpuStats> = cpus.iter().filter_map(|&cpu| CpuStats::read(&instance, cpu)).collect();
    let capture = capture::gather(&tracefs, &instance, pages, &set_up, &statistics, &snapshot)?;
    // The kernel gets its memory back before the file is put together, which takes a while.
    drop(instance);
    let mut listener = |done, total| {
        if let Some(listener) = progress.as_mut() {
            listener(Progress::Writing { done, total });
        }
    };
    trace_dat_write::write(&capture, &workshop.file(), &mut listener).map_err(RecordError::written(&options.output))?;
    Ok(Recording {
        path: options.output.clone(),
        size: workshop.deliver()?,
        events: statistics.iter().map(|cpu| cpu.read).sum(),
        lost: statistics.iter().filter(|cpu| cpu.lost > 0).map(CpuStats::loss).collect(),
        duration,
        cpus: cpus.len(),
        clock: set_up.clock,
        absent: set_up.absent,
        command,
    })
}

/// What was chosen for this kernel.
pub(crate) struct SetUp {
    pub(crate) clock: &'static str,
    pub(crate) names: KernelNames,
    pub(crate) events: Vec<EventType>,
    pub(crate) absent: Vec<EventType>,
    interval: Duration,
}

pub(crate) fn set_up(
    instance: &Instance,
    block: BlockEvents,
    buffer: BufferSize,
    cpus: usize,
) -> Result<SetUp, RecordError> {
    instance.set("tracing_on", "0")?;
    let clock = instance.choose_clock()?;
    instance.reset_options()?;
    let names = instance.stop_noting_names();
    let interval = buffer::fetch_interval(buffer::size(instance, buffer, cpus)?);
    let (events, absent): (Vec<_>, Vec<_>) = wanted(block).into_iter().partition(|&event| instance.has(event));
    if absent.contains(&EventType::Switch) {
        return Err(RecordError::NoSwitchEvent);
    }
    for &event in &events {
        instance.enable(event)?;
    }
    Ok(SetUp { clock, names, events, absent, interval })
}

fn wanted(block: BlockEvents) -> Vec<EventType> {
    let is_block = |event: EventType| matches!(event, EventType::BlockIssue | EventType::BlockComplete);
    EventType::ALL.iter().copied().filter(|&event| block == BlockEvents::On || !is_block(event)).collect()
}

/// The CPUs to record. One that comes online later is not recorded: its switches would have no beginning.
pub(crate) fn online(snapshot: &Snapshot) -> Vec<u32> {
    match &snapshot.cpus.online {
        Some(cpus) => cpus.iter().map(|cpu| cpu.0).collect(),
        None => (0..std::thread::available_parallelism().map_or(1, |count| count.get() as u32)).collect(),
    }
}

/// Two files for each CPU: the usual limit of 1024 is too low for 512 of them.
pub(crate) fn raise_file_limit(cpus: usize) {
    let needed = 2 * cpus as u64 + 128;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        let raised = limit.maximum.map_or(needed, |maximum| maximum.min(needed));
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limit.maximum });
    }
}

/// Waits for the end of the recording.
fn run(
    options: &Options,
    signals: &Signals,
    drain: &Drain,
    started: Instant,
    between: &mut Vec<Snapshot>,
    progress: &mut Option<&mut dyn FnMut(Progress)>,
) -> Result<Option<CommandEnd>, RecordError> {
    let mut command = match &options.until {
        Until::CommandEnds(words) => Some(Running::start(words)?),
        _ => None,
    };
    let deadline = match options.until {
        Until::Elapsed(limit) => Some(limit),
        _ => None,
    };
    let mut next_look = command.is_some().then_some(FIRST_LOOK);
    loop {
        if let Some(end) = command.as_mut().and_then(Running::ended) {
            return Ok(Some(end));
        }
        if let Some(signal) = signals.received() {
            return Ok(command.as_mut().map(|command| command.end_after(signal)));
        }
        let left = deadline.map(|limit| limit.saturating_sub(started.elapsed()));
        if left == Some(Duration::ZERO) || drain.has_failed() {
            return Ok(None);
        }
        let until_look = next_look.map(|at| at.saturating_sub(started.elapsed()));
        if until_look == Some(Duration::ZERO) {
            between.push(Snapshot::take(&Root::host()));
            next_look = next_look.map(|at| at * LOOKS_SPREAD);
            continue;
        }
        let tick = progress.is_some().then_some(PROGRESS_INTERVAL);
        wait(signals, command.as_ref(), [left, until_look, tick].into_iter().flatten().min())?;
        if let Some(listener) = progress.as_mut() {
            listener(Progress::Recording { elapsed: started.elapsed(), bytes: drain.moved() });
        }
    }
}

/// Sleeps until a signal, the end of the command, a failure of the drain, or the limit.
fn wait(signals: &Signals, command: Option<&Running>, limit: Option<Duration>) -> Result<(), RecordError> {
    let mut sources = vec![PollFd::new(signals.descriptor(), PollFlags::IN)];
    sources.extend(command.map(|command| PollFd::new(&command.descriptor, PollFlags::IN)));
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    match poll(&mut sources, limit.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {
            signals.acknowledge();
            Ok(())
        }
        Err(errno) => Err(RecordError::System { action: "cannot wait", source: errno.into() }),
    }
}
