//! Records to a file: prepares, waits, and writes.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use unstarve_facts::{Missing, Snapshot};
use unstarve_host::Root;
use unstarve_model::{ClockPair, CpuId, Tid, WallTime};
use unstarve_readers::trace_dat_write::Head;

use crate::command::Running;
use crate::cpus::{CpuAvoidance, PriorityBoost, SetUpSpeed};
use crate::disk_limit::DiskLimit;
use crate::drain::Drain;
use crate::instance::{self, Instance};
use crate::output::{Delivery, OutputDirectory};
use crate::redact::Redactor;
use crate::salvage::look_at_leftovers;
use crate::set_up::{Ready, Step};
use crate::signals::Signals;
use crate::stats::CpuStats;
use crate::tracefs::TraceFs;
use crate::{Full, Guess, Names, Notice, Options, RecordError, Until, capture, clocks, cpus, set_up};

/// The outcome of a recording.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The file.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// Number of events in the file.
    pub events: u64,
    /// CPUs whose buffers were full and lost events; empty if there are none.
    pub lost: Vec<Lost>,
    /// How long events were recorded.
    pub duration: Duration,
    /// Number of recorded CPUs.
    pub cpus: usize,
    /// The events' clock: `mono`, or `local` if the kernel has no other.
    pub clock: String,
    /// Requested events that this kernel does not have.
    pub absent: Vec<&'static str>,
    /// What predictions have to guess because of that.
    pub guesses: Vec<Guess>,
    /// Why it ended early, if it did.
    pub stopped: Option<Full>,
    /// How the command ended, if one was recorded.
    pub command: Option<CommandEnd>,
}

/// Events lost on one CPU.
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
    /// It did not end: a signal ended the recording, and the command took more than 5 seconds to react to it.
    StillRunning,
}

/// The progress of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Recording events.
    Recording {
        /// Since this long.
        elapsed: Duration,
        /// Bytes read from the kernel so far.
        bytes: u64,
    },
    /// Assembling the file.
    Writing {
        /// Bytes written so far.
        done: u64,
        /// Bytes to write in all.
        total: u64,
    },
}

/// How often [`record`] calls its listener.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// A recorded command's tasks do not exist before it and may be gone after it, so the host is also read while it runs:
/// after this time, when a wrapper has usually moved them to their cgroups…
const FIRST_HOST_READING: Duration = Duration::from_millis(100);
/// …and again each time it has run this many times as long.
const HOST_READING_FACTOR: u32 = 10;

/// After this time the data needed to complete a file is stored next to the pages, so that the recording can be
/// salvaged if this process is killed. Short recordings are not worth it.
const KEEP_AFTER: Duration = Duration::from_secs(2);

/// Records until [`Options::until`], SIGINT, SIGTERM or SIGHUP, and writes the file.
///
/// While it runs, those signals are handled for the whole process. Without a `progress` listener this thread sleeps
/// until the end.
///
/// Events are recorded before the host is read, and `notices` gets what delays them at once.
///
/// # Errors If nothing could be recorded, or the file could not be written.
pub fn record(
    options: &Options,
    notices: &mut dyn FnMut(Notice),
    mut progress: Option<&mut dyn FnMut(Progress)>,
) -> Result<Recording, RecordError> {
    let signals = Signals::install().map_err(RecordError::system("cannot handle signals"))?;
    let boost = PriorityBoost::raise();
    // Opened first: missing root rights are reported before anything else.
    let tracefs = Arc::new(TraceFs::open()?);
    let output_dir = OutputDirectory::beside(&options.output)?;
    let room = room(options, &output_dir)?;
    instance::remove_leftovers(&tracefs);
    let cpus = cpus::online();
    raise_file_limit(cpus.len());
    let ready = set_up::prepare(&tracefs, options.events, options.buffer, &cpus, SetUpSpeed::Fast, notices)?;
    let Ready { instance, set_up, away } = &ready;
    let redactor = match options.names {
        Names::Real => None,
        Names::Redacted => Some(Redactor::new(&tracefs, instance, &set_up.recorded)?),
    };

    let drain = Drain::start(instance, &cpus, &output_dir, room, set_up.interval, redactor.as_ref(), &signals)?;
    let started = Instant::now();
    instance.set("tracing_on", "1")?;
    let begin = HostAtStart::look(clocks::now(instance, &set_up.clock, &cpus));
    announce(options, notices);
    ordinarily(boost.as_ref(), || look_at_leftovers(output_dir.place(), notices));
    let mut session = Session {
        options,
        signals: &signals,
        drain: &drain,
        instance,
        away: away.as_ref(),
        boost: boost.as_ref(),
        started,
        ended: None,
        begin,
        between: Vec::new(),
    };
    let keep = |begin: &Snapshot| {
        let salvage_snapshot = salvage_snapshot(begin, redactor.as_ref());
        let capture = capture::gather(&tracefs, instance, &cpus, set_up, &[], &salvage_snapshot, redactor.as_ref())?;
        let (head, _) = Head::of(capture).map_err(RecordError::Write)?;
        output_dir.keep(&head).map_err(RecordError::output(&options.output))
    };
    let command = session.run(&keep, &mut progress)?;
    let stopped = drain.full();
    if session.ended.is_none() {
        instance.set("tracing_on", "0")?;
    }
    let duration = session.ended.unwrap_or_else(|| started.elapsed());
    let end = clocks::now(instance, &set_up.clock, &cpus);

    // Before our own threads end, which are in the trace too.
    let Session { mut begin, between, .. } = session;
    let snapshot = begin.snapshot().clone().finished_by(unstarve_host::take(&Root::host()));
    // The file is written at an ordinary program's priority.
    drop(boost);
    let mut snapshot = between.into_iter().fold(snapshot, Snapshot::joined_by);
    snapshot.clock_pairs.extend(end);
    let snapshot = redacted(snapshot, redactor.as_ref());
    let pages = drain.finish()?;
    let statistics: Vec<CpuStats> = cpus.iter().filter_map(|&cpu| CpuStats::read(instance, cpu)).collect();
    let capture = capture::gather(&tracefs, instance, &cpus, set_up, &statistics, &snapshot, redactor.as_ref())?;
    let Ready { instance, set_up: chosen, away } = ready;
    // Removed while the file is assembled: it frees memory, and may take long.
    let removal = std::thread::Builder::new().name("unstarve-record".into());
    let removal = removal.spawn(move || drop(instance)).map_err(RecordError::system("cannot start a thread"))?;
    drop(away);
    let mut listener = |done, total| {
        if let Some(listener) = progress.as_mut() {
            listener(Progress::Writing { done, total });
        }
    };
    let (head, _) = Head::of(capture).map_err(RecordError::Write)?;
    let size = output_dir.deliver(&head, &pages, Delivery::OnDisk, &mut listener);
    let step = Step::default();
    step.is(format!("{} is written, and the tracing instance is being removed", options.output.display()));
    set_up::watched(&step, notices, move || {
        removal.join().map_err(|_| RecordError::System {
            action: "cannot remove the tracing instance",
            source: io::Error::other("its thread ended early"),
        })
    })?;
    Ok(Recording {
        path: options.output.clone(),
        size: size?,
        events: statistics.iter().map(|cpu| cpu.read).sum(),
        lost: statistics.iter().filter(|cpu| cpu.lost > 0).map(CpuStats::loss).collect(),
        duration,
        cpus: cpus.len(),
        clock: chosen.clock,
        absent: chosen.absent,
        guesses: chosen.guesses,
        stopped,
        command,
    })
}

/// Announces that the recording does not end by itself, and which file gets another name.
fn announce(options: &Options, notices: &mut dyn FnMut(Notice)) {
    let path = options.output.clone();
    let previous = std::fs::metadata(&path).ok().and_then(|found| {
        let written = found.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        let written = WallTime(u64::try_from(written.as_nanos()).ok()?);
        Some(Notice::KeepsPrevious { path: path.clone(), bytes: found.len(), written })
    });
    previous.into_iter().for_each(&mut *notices);
    if matches!(options.until, Until::Signal) {
        notices(Notice::UntilSignal { path });
    }
}

fn room(options: &Options, output_dir: &OutputDirectory) -> Result<DiskLimit, RecordError> {
    let room = DiskLimit::new(output_dir.hidden(), options.max_size).map_err(RecordError::output(&options.output))?;
    match room.lacks() {
        Some((free, needed)) => Err(RecordError::NoRoom { path: options.output.clone(), free, needed }),
        None => Ok(room),
    }
}

fn redacted(snapshot: Snapshot, redactor: Option<&Redactor>) -> Snapshot {
    match redactor {
        Some(redactor) => redactor.snapshot(snapshot),
        None => snapshot,
    }
}

/// The snapshot stored in case this process is killed. It says so.
fn salvage_snapshot(begin: &Snapshot, redactor: Option<&Redactor>) -> Snapshot {
    let mut snapshot = redacted(begin.clone(), redactor);
    snapshot.missing.push(Missing {
        what: "the host when the recording ended, and how many events were lost".into(),
        why: "the recorder was killed; the recording was salvaged".into(),
    });
    snapshot
}

/// Two files per CPU: the usual limit of 1024 is too low for 512 CPUs.
pub(crate) fn raise_file_limit(cpus: usize) {
    let needed = 2 * cpus as u64 + 128;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        let raised = limit.maximum.map_or(needed, |maximum| maximum.min(needed));
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limit.maximum });
    }
}

/// The host at the beginning of the recording.
struct HostAtStart {
    coming: Option<JoinHandle<Snapshot>>,
    known: Option<Snapshot>,
    clocks: Option<ClockPair>,
}

impl HostAtStart {
    fn look(clocks: Option<ClockPair>) -> HostAtStart {
        let thread = std::thread::Builder::new().name("unstarve-record".into());
        HostAtStart { coming: thread.spawn(|| unstarve_host::take(&Root::host())).ok(), known: None, clocks }
    }

    fn snapshot(&mut self) -> &Snapshot {
        if let Some(thread) = self.coming.take() {
            self.known = match thread.join() {
                Ok(snapshot) => Some(snapshot),
                Err(panic) => std::panic::resume_unwind(panic),
            };
        }
        let known = self.known.get_or_insert_with(|| unstarve_host::take(&Root::host()));
        known.clock_pairs.extend(self.clocks.take());
        known.recorder = Some(Tid(std::process::id()));
        known
    }
}

/// A recording in progress.
struct Session<'a> {
    options: &'a Options,
    signals: &'a Signals,
    drain: &'a Drain,
    instance: &'a Instance,
    away: Option<&'a CpuAvoidance>,
    /// The host is read in time also beside what starves ordinary tasks.
    boost: Option<&'a PriorityBoost>,
    started: Instant,
    /// How long it recorded, if it ended early.
    ended: Option<Duration>,
    begin: HostAtStart,
    between: Vec<Snapshot>,
}

impl Session<'_> {
    /// Waits for the end of the recording.
    fn run(
        &mut self,
        keep: &dyn Fn(&Snapshot) -> Result<(), RecordError>,
        progress: &mut Option<&mut dyn FnMut(Progress)>,
    ) -> Result<Option<CommandEnd>, RecordError> {
        let mut command = self.start_command()?;
        let deadline = match self.options.until {
            Until::Elapsed(limit) => Some(limit),
            _ => None,
        };
        let mut next_reading = command.is_some().then_some(FIRST_HOST_READING);
        let mut keep_at = Some(KEEP_AFTER).filter(|at| deadline.is_none_or(|deadline| deadline > *at));
        loop {
            if let Some(end) = command.as_mut().and_then(Running::ended) {
                return Ok(Some(end));
            }
            if let Some(signal) = self.signals.received() {
                return Ok(command.as_mut().map(|command| command.end_after(signal)));
            }
            let left = deadline.map(|limit| limit.saturating_sub(self.started.elapsed()));
            if left == Some(Duration::ZERO) || self.drain.has_failed() {
                return Ok(None);
            }
            if self.drain.full().is_some() && self.ended.is_none() {
                self.instance.set("tracing_on", "0")?;
                self.ended = Some(self.started.elapsed());
                (next_reading, keep_at) = (None, None);
                // A full disk does not end the command: the user still wants it.
                if command.is_none() {
                    return Ok(None);
                }
            }
            let until = |at: Option<Duration>| at.map(|at| at.saturating_sub(self.started.elapsed()));
            let (until_reading, until_keep) = (until(next_reading), until(keep_at));
            if until_reading == Some(Duration::ZERO) {
                self.between.push(unstarve_host::take(&Root::host()));
                next_reading = next_reading.map(|at| at * HOST_READING_FACTOR);
                continue;
            }
            if until_keep == Some(Duration::ZERO) {
                // Without it the recording cannot be salvaged, which is no reason to stop.
                let begin = self.begin.snapshot();
                let _ = ordinarily(self.boost, || keep(begin));
                keep_at = None;
                continue;
            }
            let tick = progress.is_some().then_some(PROGRESS_INTERVAL);
            let limit = [left, until_reading, until_keep, tick].into_iter().flatten().min();
            wait(self.signals, command.as_ref(), limit)?;
            if let Some(listener) = progress.as_mut() {
                let done = Progress::Recording { elapsed: self.started.elapsed(), bytes: self.drain.moved() };
                ordinarily(self.boost, || listener(done));
            }
        }
    }

    /// Starts the command after the host has been read: tasks that are new afterwards belong to it.
    fn start_command(&mut self) -> Result<Option<Running>, RecordError> {
        let Until::CommandEnds(words) = &self.options.until else { return Ok(None) };
        self.begin.snapshot();
        let start = || Running::start(words);
        let start = || ordinarily(self.boost, start);
        self.away.map_or_else(start, |away| away.pause(start)).map(Some)
    }
}

/// At the priority that this program was started with.
fn ordinarily<T>(boost: Option<&PriorityBoost>, work: impl FnOnce() -> T) -> T {
    match boost {
        Some(boost) => boost.pause(work),
        None => work(),
    }
}

/// Sleeps until a signal, the end of the command, a failure of the drain, or the time limit.
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
