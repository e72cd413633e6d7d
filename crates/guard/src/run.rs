//! The guard as a service: waits for news, deals with it, and takes everything back at its end.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use unstarve_model::Tid;

use crate::act::Undone;
use crate::audit::{Audit, Entry, Event};
use crate::births::{self, Interest, Source, SourceName, WorkDetail};
use crate::deadman::DeadMan;
use crate::host::ThisHost;
use crate::keeper::{Keeper, KeeperError};
use crate::metrics;
use crate::notify::{Manager, watchdog_interval};
use crate::policy::Policy;
use crate::sched;
use crate::state::{State, StateError};

/// How a guard is to run.
pub struct Options {
    /// The policy's file, for `guard status`.
    pub policy_path: PathBuf,
    /// Where the journal is.
    pub state: PathBuf,
    /// Where Prometheus metrics are written.
    pub metrics: Option<PathBuf>,
    /// A source to use and no other.
    pub source: Option<SourceName>,
    /// What starts the dead-man, given its real-time priority; `None` for none.
    pub dead_man: Option<Box<dyn Fn(u32) -> Command>>,
    /// Becomes readable when the guard is to end.
    pub end: UnixStream,
    /// For how long at most.
    pub time: Option<Duration>,
    /// Lines for people: how it began.
    pub say: Box<dyn Fn(&str)>,
}

/// A guard could not run, or not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The state directory.
    #[error(transparent)]
    State(#[from] StateError),
    /// The journal or /proc.
    #[error(transparent)]
    Keeper(#[from] KeeperError),
    /// The guard cannot be above what it makes real-time.
    #[error(
        "this policy makes tasks real-time (up to {0}) and the guard itself may not be above them ({1}), so they could starve it; \
             run it with CAP_SYS_NICE. Nothing was changed"
    )]
    Below(u32, io::Error),
    /// The dead-man cannot be started.
    #[error("the dead-man process cannot be started; nothing was changed")]
    DeadMan(#[source] io::Error),
    /// Waiting for news failed.
    #[error("waiting for news of tasks")]
    Wait(#[source] io::Error),
}

/// How often settings and tasks are looked at with and without news of changes.
const LOOK_WITH_NEWS: Duration = Duration::from_secs(30);
const LOOK_WITHOUT: Duration = Duration::from_secs(1);
/// Looks take at most the reciprocal of this of a CPU, however many tasks there are.
const REST_AFTER_LOOK: u32 = 200;
/// The pulse: budget, dead-man, status.
const PULSE: Duration = Duration::from_secs(1);
/// A journal this long is begun anew, without what is settled and tasks that are gone. That takes a while for each line, so
/// it waits for a quiet moment, unless the journal is very long.
const LONG_JOURNAL: u64 = 1 << 20;
const VERY_LONG_JOURNAL: u64 = 128 << 20;
/// News in a second; fewer is quiet.
const QUIET: u64 = 100;
/// For how many times its interval a look at everything may wait for a quiet moment.
const PATIENCE: u32 = 10;

/// Runs until told to end, or for the time given; then takes everything back.
pub fn run(policy: Policy, options: Options, mut audit: Audit) -> Result<Undone, RunError> {
    let state = State::lock(&options.state)?;
    // What an earlier guard left behind.
    state.undo(&mut ThisHost, &mut audit)?;
    let priority = policy.highest_rt_priority().unwrap_or(0) + 1;
    let dead_man_limit = policy.limits.dead_man;
    let mut dead_man = match &options.dead_man {
        Some(command) => Some(DeadMan::start(command(priority + 1)).map_err(RunError::DeadMan)?),
        None => None,
    };
    if let Err(error) = sched::become_realtime(priority) {
        if let Some(highest) = policy.highest_rt_priority() {
            if let Some(dead_man) = dead_man {
                dead_man.dismiss();
            }
            return Err(RunError::Below(highest, error));
        }
        (options.say)(&format!("the guard runs with ordinary priority ({error}): under load it is late"));
    }
    let (source, mut gaps) = births::open(interest(&policy), options.source);
    gaps.extend(source.iter().flat_map(|source| source.gaps().to_vec()));
    let mut own = vec![Tid(std::process::id())];
    own.extend(dead_man.iter().map(|dead_man| Tid(dead_man.pid())));
    audit.log(&Entry::of(Event::Started));
    let keeper = Keeper::new(policy, own, ThisHost, state.journal().map_err(StateError::from)?, audit);
    let mut guard = Guard {
        keeper,
        source,
        gaps,
        state,
        options,
        manager: Manager::of_environment(),
        began: Instant::now(),
        last_pulse: Instant::now(),
        last_look: Instant::now(),
        look_takes: Duration::ZERO,
        events: 0,
        shortest: 0,
        last_status: None,
    };
    if let Some(dead_man) = &mut dead_man {
        dead_man.sign();
    }
    let result = guard.first_look().and_then(|()| guard.turn(dead_man.as_mut(), dead_man_limit));
    // Whatever happened: take it back.
    let undone = guard.take_back();
    if let Some(dead_man) = dead_man {
        match &undone {
            Ok(_) => dead_man.dismiss(),
            // It tries again.
            Err(_) => drop(dead_man),
        }
    }
    result?;
    Ok(undone?)
}

fn interest(policy: &Policy) -> Interest {
    use crate::task::Kind;
    let rules = &policy.rules;
    let programs = rules
        .iter()
        .any(|rule| !rule.selector.asks_for_work() && rule.selector.kind.is_none_or(|kind| kind == Kind::User));
    let work = if rules.iter().any(|rule| rule.selector.work.is_some()) {
        WorkDetail::Function
    } else if rules.iter().any(|rule| rule.selector.workqueue.is_some()) {
        WorkDetail::Workqueue
    } else {
        WorkDetail::None
    };
    Interest { programs, work }
}

struct Guard {
    keeper: Keeper<ThisHost>,
    source: Option<Box<dyn Source>>,
    gaps: Vec<String>,
    state: State,
    options: Options,
    manager: Manager,
    began: Instant,
    last_pulse: Instant,
    last_look: Instant,
    look_takes: Duration,
    /// News up to the last pulse.
    events: u64,
    /// The journal's length after it was last begun anew.
    shortest: u64,
    last_status: Option<(String, crate::metrics::Counts)>,
}

impl Guard {
    fn source_name(&self) -> SourceName {
        self.source.as_ref().map_or(SourceName::Scan, |source| source.name())
    }

    fn first_look(&mut self) -> Result<(), RunError> {
        self.keeper.look_at_all()?;
        let counts = &self.keeper.metrics.counts;
        let text = format!("{} values set on {} tasks; news by {}", counts.applied, counts.managed, self.source_name());
        (self.options.say)(&text);
        for gap in &self.gaps {
            (self.options.say)(gap);
        }
        self.write_status();
        self.manager.tell(&format!("READY=1\nSTATUS={text}"));
        Ok(())
    }

    fn turn(&mut self, mut dead_man: Option<&mut DeadMan>, dead_man_limit: u32) -> Result<(), RunError> {
        let mut signals = Vec::new();
        let mut last_sign = Instant::now();
        // The dead-man must hear from us well before its patience ends.
        let sign_every = Duration::from_secs(u64::from(dead_man_limit)) / 4;
        let watchdog = watchdog_interval().unwrap_or(PULSE * 5);
        let mut last_watchdog = Instant::now();
        loop {
            if self.wait()? {
                return Ok(());
            }
            if let Some(source) = &mut self.source {
                source.drain(&mut signals).map_err(RunError::Wait)?;
                self.keeper.hear(&mut signals)?;
            }
            let now = Instant::now();
            if self.keeper.next_look().is_some_and(|at| at <= now) {
                self.keeper.look_again()?;
            }
            if now.duration_since(last_sign) >= sign_every.min(PULSE) {
                last_sign = now;
                if let Some(dead_man) = dead_man.as_deref_mut() {
                    dead_man.sign();
                }
            }
            if now.duration_since(last_watchdog) >= watchdog {
                last_watchdog = now;
                self.manager.tell("WATCHDOG=1");
            }
            let pulse = now.duration_since(self.last_pulse);
            if pulse >= PULSE {
                self.last_pulse = now;
                self.pulse(pulse)?;
            }
        }
    }

    fn pulse(&mut self, elapsed: Duration) -> Result<(), RunError> {
        if self.keeper.has_realtime() {
            self.keeper.watch_budget(elapsed)?;
        }
        let every = match self.source_name() {
            SourceName::Ebpf if self.gaps.is_empty() => LOOK_WITH_NEWS,
            _ => LOOK_WITHOUT,
        };
        let events = self.keeper.metrics.counts.events;
        let quiet = events - std::mem::replace(&mut self.events, events) < QUIET;
        let every = every.max(self.look_takes * REST_AFTER_LOOK);
        self.shorten_journal(if quiet { LONG_JOURNAL } else { VERY_LONG_JOURNAL })?;
        if self.last_look.elapsed() >= if quiet { every } else { every * PATIENCE } {
            let began = Instant::now();
            self.keeper.look_at_all()?;
            self.last_look = Instant::now();
            self.look_takes = began.elapsed();
        }
        self.write_status();
        self.keeper.audit().flush();
        Ok(())
    }

    /// Waits for news, a look that is due, or the next pulse; `true` if the guard is to end.
    fn wait(&self) -> Result<bool, RunError> {
        let now = Instant::now();
        let mut until = self.last_pulse + PULSE;
        until = self.keeper.next_look().map_or(until, |at| until.min(at));
        let end = self.options.time.map(|time| self.began + time);
        until = end.map_or(until, |end| until.min(end));
        if end.is_some_and(|end| now >= end) {
            return Ok(true);
        }
        let left = until.saturating_duration_since(now);
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let end = &self.options.end;
        let mut fds = vec![PollFd::new(end, PollFlags::IN)];
        if let Some(source) = &self.source {
            // SAFETY: the source outlives this call and keeps its descriptor open.
            let fd = unsafe { BorrowedFd::borrow_raw(source.fd()) };
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        }
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(!fds[0].revents().is_empty()),
            Err(error) => Err(RunError::Wait(error.into())),
        }
    }

    /// Files that cannot be written are no reason to stop: the journal is what undoes.
    fn write_status(&mut self) {
        let (source, policy) = (self.source_name(), self.options.policy_path.clone());
        let mut status = self.keeper.metrics.status(&policy, source, &self.gaps);
        // A restful guard writes nothing.
        let counts = std::mem::take(&mut status.counts);
        let last = (policy.display().to_string(), counts.clone());
        if self.last_status.as_ref() == Some(&last) {
            return;
        }
        status.counts = counts;
        if let Ok(text) = serde_json::to_string_pretty(&status) {
            let _ = metrics::replace(&self.state.directory().join("guard.status"), &text);
        }
        if let Some(path) = &self.options.metrics {
            let _ = metrics::replace(path, &self.keeper.metrics.prometheus());
        }
        self.last_status = Some(last);
    }

    fn shorten_journal(&mut self, limit: u64) -> Result<(), RunError> {
        let length = std::fs::metadata(self.state.journal_path()).map_or(0, |meta| meta.len());
        // One that cannot be made much shorter is not tried again and again.
        if length > limit.max(2 * self.shortest) {
            let journal = self.state.shorten(&ThisHost)?;
            self.shortest = std::fs::metadata(self.state.journal_path()).map_or(0, |meta| meta.len());
            self.keeper.continue_in(journal);
        }
        Ok(())
    }

    fn take_back(&mut self) -> Result<Undone, StateError> {
        self.manager.tell("STOPPING=1");
        let (undone, _) = self.state.undo(&mut ThisHost, self.keeper.audit())?;
        self.keeper.metrics.counts.restored += undone.restored as u64;
        self.keeper.audit().log(&Entry::of(Event::Stopped));
        self.keeper.audit().flush();
        self.write_status();
        let _ = std::fs::remove_file(self.state.directory().join("guard.status"));
        Ok(undone)
    }
}

/// A stream that becomes readable when one of these signals comes.
pub fn on_signals(signals: &[i32]) -> io::Result<UnixStream> {
    let (read, write) = UnixStream::pair()?;
    for signal in signals {
        signal_hook::low_level::pipe::register(*signal, write.try_clone()?)?;
    }
    Ok(read)
}

/// The status that a running guard left in its directory; `None` if none is running.
pub fn status(directory: &Path) -> Result<Option<metrics::Status>, StateError> {
    let path = directory.join("guard.status");
    let fail = |source| StateError::Io { path: path.clone(), source };
    match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(fail(error)),
        Ok(text) => serde_json::from_str(&text).map(Some).map_err(|error| fail(io::Error::other(error))),
    }
}
