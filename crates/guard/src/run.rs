//! The guard as a service: waits for news, deals with it, and takes everything back at its end.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use unstarve_files::TargetError;
use unstarve_model::Tid;

use crate::births::{self, Interest, Programs, Source, SourceName, WorkDetail};
use crate::keeper::{Keeper, KeeperError};
use crate::metrics::{self, Outlet};
use crate::notify::{Manager, watchdog_interval};
use crate::policy::Policy;
use unstarve_change::Place;
use unstarve_executor::act::Undone;
use unstarve_executor::audit::{Audit, Entry, Event};
use unstarve_executor::deadman::{Canary, DeadMan};
use unstarve_executor::host::{ThisHost, Watched};
use unstarve_executor::journal::Step;
use unstarve_executor::registry::Registry;
use unstarve_executor::sched;
use unstarve_executor::state::{self, State, StateError};

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
    /// What starts the dead-man, given its real-time priority.
    pub dead_man: Box<dyn Fn(u32) -> Command>,
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
    /// Metrics have no place to go to.
    #[error("the metrics cannot be written")]
    Metrics(#[from] TargetError),
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
    /// There is no dead-man any more, and no new one can be started.
    #[error("the dead-man process ended and none could be started for {0} s; everything was taken back")]
    NoDeadMan(u64, #[source] io::Error),
    /// What was set starves the machine, or something else does.
    #[error("ordinary tasks did not run for {0} s; everything was taken back")]
    Starving(u64),
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
const VERY_LONG_JOURNAL: u64 = 32 << 20;
/// News in a second; fewer is quiet.
const QUIET: u64 = 100;
/// For how many times its interval a look at everything may wait for a quiet moment.
const PATIENCE: u32 = 10;

/// What a look because of lost news takes at most, as a reciprocal of a CPU.
const REST_AFTER_LOSS: u32 = 20;
/// How often children born meanwhile are looked for while everything is taken back.
const LAST_ROUNDS: usize = 20;

/// Runs until told to end, or for the time given; then takes everything back.
///
/// # Errors
/// See [`RunError`]; what was changed was taken back as far as the system lets us.
pub fn run(policy: Policy, options: Options, audit: Audit) -> Result<Undone, RunError> {
    let mut guard = Guard::begin(policy, options, audit, "guard run")?;
    let result = guard.first_look().and_then(|()| guard.turn(None));
    // Whatever happened: take it back.
    let undone = guard.finish();
    result?;
    Ok(undone)
}

/// Has the kernel note the births from these tasks, until everything was taken back: for who changes them and then ends.
///
/// # Errors
/// Why it cannot.
pub fn note_births(policy: &Policy, changes: &[Step]) -> Result<(), String> {
    let interest = interest(policy);
    let tids = changes.iter().filter_map(|change| match &change.target {
        Place::Task(key) => Some(key.tid),
        _ => None,
    });
    if interest.programs == Programs::None {
        // Kernel threads pass nothing on.
        return Ok(());
    }
    if let Some(earlier) = Registry::pinned() {
        return tids.into_iter().try_for_each(|tid| earlier.follow(tid)).map_err(|error| error.to_string());
    }
    let (source, gaps) = births::open(interest, Some(SourceName::Ebpf));
    let Some((registry, follow)) = source.as_ref().and_then(|source| source.registry().zip(source.follower())) else {
        return Err(gaps.join("; "));
    };
    tids.for_each(follow);
    registry.pin().map_err(|error| error.to_string())
}

/// `1 task`, `2 tasks`.
fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn interest(policy: &Policy) -> Interest {
    use crate::task::Kind;
    let rules = &policy.rules;
    let of_programs: Vec<_> = rules
        .iter()
        .map(|rule| &rule.selector)
        .filter(|selector| !selector.asks_for_work() && selector.kind.is_none_or(|kind| kind == Kind::User))
        .collect();
    let beginning = |selector: &&crate::Selector| {
        let beginning = selector.comm.as_ref()?.beginning();
        (!beginning.is_empty()).then_some(beginning)
    };
    let programs = if of_programs.is_empty() {
        Programs::None
    } else {
        // One rule that is not about a name is enough to have to look at everybody.
        of_programs.iter().map(beginning).collect::<Option<_>>().map_or(Programs::All, Programs::Named)
    };
    let work = if rules.iter().any(|rule| rule.selector.work.is_some()) {
        WorkDetail::Function
    } else if rules.iter().any(|rule| rule.selector.workqueue.is_some()) {
        WorkDetail::Workqueue
    } else {
        WorkDetail::None
    };
    Interest { programs, work }
}

/// Why a turn is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Over {
    /// The guard was told to end, or its time is over.
    Told,
    /// What it waited for beside is done.
    Awaited,
}

/// A guard at work: it has the lock, a dead-man and a priority above all that it sets.
pub(crate) struct Guard {
    keeper: Keeper<Watched>,
    source: Option<Box<dyn Source>>,
    gaps: Vec<String>,
    state: State,
    options: Options,
    manager: Manager,
    ends_at: Option<Instant>,
    dead_man: Option<DeadMan>,
    canary: Canary,
    metrics: Option<Outlet>,
    metrics_trouble: Option<String>,
    /// The dead-man's.
    priority: u32,
    /// For how long the guard and its dead-man may be silent.
    patience: Duration,
    without_dead_man: Option<Instant>,
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
    /// Takes back what an earlier one left, and gets everything ready. Nothing is set yet.
    pub(crate) fn begin(policy: Policy, options: Options, mut audit: Audit, doing: &str) -> Result<Guard, RunError> {
        raise_limits();
        if std::process::id() == 1 {
            (options.say)(
                "this is process 1 of its PID namespace: if it is killed, the kernel kills its dead-man, too, and what is changed \
                 outside of the namespace (tunables, groups, interrupts) stays",
            );
        }
        let mut state = State::lock(&options.state, doing)?;
        let outlet = options.metrics.as_deref().map(Outlet::open).transpose()?;
        // What an earlier guard left behind.
        let (left, _) = state.undo_left(&mut audit)?;
        if left.restored + left.inherited > 0 {
            let changes = counted((left.restored + left.inherited) as u64, "change");
            (options.say)(&format!("reverted {changes} left by an earlier guard or apply"));
        }
        let priority = policy.highest_rt_priority().unwrap_or(0) + 1;
        let journal = state.journal()?;
        let canary = Canary::start().map_err(RunError::DeadMan)?;
        let start = |priority| DeadMan::start((options.dead_man)(priority), priority, &state, &journal, &audit);
        let dead_man = start(priority + 1).map_err(RunError::DeadMan)?;
        if let Err(error) = sched::become_realtime(priority) {
            if let Some(highest) = policy.highest_rt_priority() {
                dead_man.dismiss();
                return Err(RunError::Below(highest, error));
            }
            (options.say)(&format!("the guard runs with ordinary priority ({error}): under load it is late"));
        }
        if births::pid_namespace().is_some() {
            (options.say)("this is a PID namespace: only its own tasks are seen, and no kernel threads");
        }
        let interest = interest(&policy);
        let may_be_programs = interest.programs != Programs::None;
        let (source, mut gaps) = births::open(interest, options.source);
        gaps.extend(source.iter().flat_map(|source| source.gaps().to_vec()));
        state.name_dead_man(dead_man.pid());
        audit.log(&Entry::of(Event::Started));
        let own = vec![Tid(std::process::id()), Tid(dead_man.pid())];
        let patience = Duration::from_secs(u64::from(policy.limits.dead_man));
        let registry = source.as_ref().and_then(|source| source.registry());
        if let Some(registry) = &registry {
            dead_man.give_registry(registry).map_err(RunError::DeadMan)?;
            if may_be_programs && let Err(error) = registry.pin() {
                (options.say)(&format!(
                    "births cannot be noted beyond the guard and its dead-man ({error}): if both are killed, children whose \
                     parents have ended are not found"
                ));
            }
        }
        let mut keeper = Keeper::new(policy, own, Watched { registry, at_work: true }, journal, audit);
        keeper.follow_by(source.as_ref().and_then(|source| source.follower()));
        let mut guard = Guard {
            keeper,
            source,
            gaps,
            state,
            manager: Manager::of_environment(),
            ends_at: options.time.and_then(|time| Instant::now().checked_add(time)),
            options,
            dead_man: Some(dead_man),
            canary,
            metrics: outlet,
            metrics_trouble: None,
            priority: priority + 1,
            patience,
            without_dead_man: None,
            last_pulse: Instant::now(),
            last_look: Instant::now(),
            look_takes: Duration::ZERO,
            events: 0,
            shortest: 0,
            last_status: None,
        };
        guard.sign();
        Ok(guard)
    }

    /// Takes everything back and ends.
    pub(crate) fn finish(mut self) -> Undone {
        self.manager.tell("STOPPING=1");
        let undone = self.take_back();
        self.depart();
        if let Some(dead_man) = self.dead_man.take() {
            // It tries again what the system refused.
            if undone.is_complete() { dead_man.dismiss() } else { dead_man.leave_to_it() }
        }
        if undone.is_complete() {
            Registry::unpin();
        }
        undone
    }

    /// Takes everything back and stays, with nothing set, until [`Guard::first_look`].
    pub(crate) fn rest(&mut self) -> Result<Undone, RunError> {
        let undone = self.take_back();
        if undone.is_complete() {
            self.keeper.rest();
            let journal = self.state.journal()?;
            self.use_journal(journal)?;
        }
        Ok(undone)
    }

    /// Ends and leaves everything as it is, for `guard undo`.
    pub(crate) fn leave(mut self) {
        self.depart();
        if let Some(dead_man) = self.dead_man.take() {
            dead_man.dismiss();
        }
    }

    /// What does the work.
    pub(crate) fn keeper(&mut self) -> &mut Keeper<Watched> {
        &mut self.keeper
    }

    fn source_name(&self) -> SourceName {
        self.source.as_ref().map_or(SourceName::Scan, |source| source.name())
    }

    /// Sets what the policy says, from now on.
    pub(crate) fn first_look(&mut self) -> Result<(), RunError> {
        self.keeper.open();
        self.keeper.for_taking_back().0.at_work = true;
        self.keeper.look_at_all()?;
        let counts = &self.keeper.metrics.counts;
        let text = format!(
            "{} set on {}; news by {}",
            counted(counts.applied, "value"),
            counted(counts.managed, "task"),
            self.source_name()
        );
        (self.options.say)(&text);
        for gap in &self.gaps {
            (self.options.say)(gap);
        }
        self.write_status();
        self.manager.tell(&format!("READY=1\nSTATUS={text}"));
        Ok(())
    }

    /// Deals with news until told to end, or until `awaited` becomes readable.
    pub(crate) fn turn(&mut self, awaited: Option<&UnixStream>) -> Result<Over, RunError> {
        let mut signals = Vec::new();
        let mut last_sign = Instant::now();
        // The dead-man must hear from us well before its patience ends.
        let sign_every = (self.patience / 4).min(PULSE);
        let watchdog = watchdog_interval().unwrap_or(PULSE * 5);
        let mut last_watchdog = Instant::now();
        loop {
            if let Some(over) = self.wait(awaited)? {
                return Ok(over);
            }
            if let Some(source) = &mut self.source {
                source.drain(&mut signals).map_err(RunError::Wait)?;
                self.keeper.hear(&mut signals)?;
            }
            let now = Instant::now();
            if self.keeper.next_look().is_some_and(|at| at <= now) {
                self.keeper.look_again()?;
            }
            if now.duration_since(last_sign) >= sign_every {
                last_sign = now;
                self.sign();
                self.watch_dead_man()?;
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

    /// A sign of life, if ordinary tasks have run since the last.
    fn sign(&mut self) {
        if self.canary.has_run()
            && let Some(dead_man) = &mut self.dead_man
        {
            dead_man.sign();
        }
    }

    /// Starts another dead-man where there is none, or none that answers.
    fn watch_dead_man(&mut self) -> Result<(), RunError> {
        if self.canary.silent_for() > self.patience {
            return Err(RunError::Starving(self.patience.as_secs()));
        }
        // It answers signs, and there are none while ordinary tasks do not run.
        let patience = self.patience + self.canary.silent_for();
        let reason = match &mut self.dead_man {
            Some(dead_man) => dead_man.failure(patience),
            None => Some("there was none".to_owned()),
        };
        match reason {
            None => Ok(()),
            Some(reason) => self.replace_dead_man(&reason),
        }
    }

    fn replace_dead_man(&mut self, reason: &str) -> Result<(), RunError> {
        self.dead_man = None;
        let since = *self.without_dead_man.get_or_insert_with(Instant::now);
        let command = (self.options.dead_man)(self.priority);
        let (host, journal, audit) = self.keeper.for_taking_back();
        let started = DeadMan::start(command, self.priority, &self.state, journal, audit).and_then(|dead_man| {
            host.registry.as_ref().map_or(Ok(()), |registry| dead_man.give_registry(registry))?;
            Ok(dead_man)
        });
        match started {
            Ok(dead_man) => {
                audit.log(&Entry { reason: Some(reason), ..Entry::of(Event::DeadMan) });
                audit.flush();
                self.keeper.own(vec![Tid(std::process::id()), Tid(dead_man.pid())]);
                self.keeper.metrics.counts.dead_man_restarts += 1;
                self.state.name_dead_man(dead_man.pid());
                self.dead_man = Some(dead_man);
                self.without_dead_man = None;
                (self.options.say)(&format!("{reason}; another one was started"));
                self.sign();
                Ok(())
            }
            // Tried again with the next sign, but not for ever: nothing would put things right after us.
            Err(_) if since.elapsed() <= self.patience => Ok(()),
            Err(error) => Err(RunError::NoDeadMan(since.elapsed().as_secs(), error)),
        }
    }

    fn pulse(&mut self, elapsed: Duration) -> Result<(), RunError> {
        if self.keeper.has_realtime() {
            self.keeper.watch_budget(elapsed);
        } else {
            self.keeper.forget_burned();
        }
        let every = match self.source_name() {
            SourceName::Ebpf if self.gaps.is_empty() => LOOK_WITH_NEWS,
            _ => LOOK_WITHOUT,
        };
        let events = self.keeper.metrics.counts.events;
        let quiet = events - std::mem::replace(&mut self.events, events) < QUIET;
        let every = every.max(self.look_takes * REST_AFTER_LOOK);
        self.heal_state()?;
        self.shorten_journal(if quiet { LONG_JOURNAL } else { VERY_LONG_JOURNAL })?;
        let every = if quiet { every } else { every * PATIENCE };
        let after_loss = self.keeper.must_look() && self.last_look.elapsed() >= self.look_takes * REST_AFTER_LOSS;
        if !self.keeper.is_closed() && (after_loss || self.last_look.elapsed() >= every) {
            let began = Instant::now();
            self.keeper.look_at_all()?;
            self.last_look = Instant::now();
            self.look_takes = began.elapsed();
        }
        self.write_status();
        self.keeper.audit().flush();
        Ok(())
    }

    /// Waits for news, a look that is due, or the next pulse; says if the turn is over.
    fn wait(&self, awaited: Option<&UnixStream>) -> Result<Option<Over>, RunError> {
        let now = Instant::now();
        let mut until = self.last_pulse + PULSE;
        until = self.keeper.next_look().map_or(until, |at| until.min(at));
        until = self.ends_at.map_or(until, |end| until.min(end));
        if self.ends_at.is_some_and(|end| now >= end) {
            return Ok(Some(Over::Told));
        }
        let left = until.saturating_duration_since(now);
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let end = &self.options.end;
        let mut fds = vec![PollFd::new(end, PollFlags::IN)];
        fds.extend(awaited.map(|awaited| PollFd::new(awaited, PollFlags::IN)));
        if let Some(source) = &self.source {
            // SAFETY: the source outlives this call and keeps its descriptor open.
            let fd = unsafe { BorrowedFd::borrow_raw(source.fd()) };
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        }
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {
                let is_ready = |at: usize| !fds[at].revents().is_empty();
                Ok(match (is_ready(0), awaited.is_some() && is_ready(1)) {
                    (true, _) => Some(Over::Told),
                    (false, true) => Some(Over::Awaited),
                    (false, false) => None,
                })
            }
            Err(error) => Err(RunError::Wait(error.into())),
        }
    }

    /// Files that cannot be written are no reason to stop: the journal is what undoes.
    fn write_status(&mut self) {
        let (source, policy) = (self.source_name(), self.options.policy_path.clone());
        let mut gaps = self.gaps.clone();
        let (_, _, audit) = self.keeper.for_taking_back();
        let (lost, trouble) = (audit.lost(), audit.trouble().map(ToString::to_string));
        self.keeper.metrics.counts.audit_lost = lost;
        gaps.extend(trouble.map(|error| format!("the audit cannot be written: {error}")));
        gaps.extend(self.metrics_trouble.as_ref().map(|error| format!("the metrics cannot be written: {error}")));
        if self.dead_man.is_none() {
            gaps.push("there is no dead-man process now: nothing puts things right if this one is killed".to_owned());
        }
        let dead_man = self.dead_man.as_ref().map(DeadMan::pid);
        let mut status = self.keeper.metrics.status(&policy, source, &gaps, dead_man);
        // A restful guard writes nothing.
        let counts = std::mem::take(&mut status.counts);
        let last = (format!("{}{dead_man:?}{gaps:?}", policy.display()), counts.clone());
        if self.last_status.as_ref() == Some(&last) {
            return;
        }
        status.counts = counts;
        if let Ok(text) = serde_json::to_string_pretty(&status) {
            self.state.write_status(&text);
        }
        if let Some(outlet) = &mut self.metrics {
            self.metrics_trouble = outlet.write(&self.keeper.metrics.prometheus()).err().map(|error| error.to_string());
        }
        self.last_status = Some(last);
    }

    fn shorten_journal(&mut self, limit: u64) -> Result<(), RunError> {
        // One that cannot be made much shorter is not tried again and again.
        if self.keeper.journal().length() > limit.max(2 * self.shortest) {
            let journal = self.state.shorten(&ThisHost, self.keeper.journal())?;
            self.shortest = journal.length();
            self.use_journal(journal)?;
        }
        Ok(())
    }

    /// The dead-man first: what is written into the new one must be known to it.
    fn use_journal(&mut self, journal: unstarve_executor::journal::Journal) -> Result<(), RunError> {
        let given = self.dead_man.as_ref().map_or(Ok(()), |dead_man| dead_man.give_journal(&journal));
        self.keeper.continue_in(journal);
        match given {
            Ok(()) => Ok(()),
            Err(error) => self.replace_dead_man(&format!("the dead-man took no journal ({error})")),
        }
    }

    /// Makes anew what somebody has removed. Until that is possible, what is open is known to this process and its dead-man.
    fn heal_state(&mut self) -> Result<(), RunError> {
        if !self.state.is_lost(self.keeper.journal()) {
            return Ok(());
        }
        let text = format!("{} was removed", self.state.directory().display());
        self.keeper.audit().log(&Entry { reason: Some(&text), ..Entry::of(Event::StateLost) });
        match self.state.heal(self.keeper.journal()) {
            Ok(journal) => {
                (self.options.say)(&format!("{text}, and was made anew with everything that is changed now"));
                self.last_status = None;
                self.use_journal(journal)?;
                let given = self.dead_man.as_ref().map_or(Ok(()), |dead_man| dead_man.give_lock(&self.state));
                given.or_else(|error| self.replace_dead_man(&format!("the dead-man took no lock ({error})")))
            }
            // The lock is another guard's by now: two would fight.
            Err(error @ StateError::Busy { .. }) => Err(error.into()),
            Err(error) => {
                (self.options.say)(&format!(
                    "{text}: {error}; only this process and its dead-man know what is changed"
                ));
                Ok(())
            }
        }
    }

    fn take_back(&mut self) -> Undone {
        self.keeper.close();
        self.keeper.for_taking_back().0.at_work = false;
        let mut undone = Undone::default();
        for _ in 0..LAST_ROUNDS {
            let (host, journal, audit) = self.keeper.for_taking_back();
            let round = self.state.undo_known(host, journal, audit);
            undone = Undone { racing: false, failed: Vec::new(), ..undone }.and(round);
            // Children that were born meanwhile of tasks that are gone by now.
            let before = self.keeper.metrics.counts.inherited;
            let mut signals = Vec::new();
            if let Some(source) = &mut self.source
                && source.drain(&mut signals).is_ok()
            {
                let _ = self.keeper.hear(&mut signals);
            }
            if self.keeper.metrics.counts.inherited == before {
                break;
            }
        }
        self.keeper.metrics.counts.restored += (undone.restored + undone.inherited) as u64;
        undone
    }

    fn depart(&mut self) {
        self.keeper.audit().log(&Entry::of(Event::Stopped));
        self.keeper.audit().flush();
        self.write_status();
        self.state.remove_status();
    }
}

/// Limits of whoever started us must not end us, or our dead-man, in the middle of something.
fn raise_limits() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    for resource in [Resource::Cpu, Resource::Fsize, Resource::Rttime] {
        let maximum = getrlimit(resource).maximum;
        // Beyond the hard limit with CAP_SYS_RESOURCE alone.
        if setrlimit(resource, Rlimit { current: None, maximum: None }).is_err() {
            let _ = setrlimit(resource, Rlimit { current: maximum, maximum });
        }
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
///
/// # Errors
/// If it cannot be read or believed.
pub fn status(directory: &Path) -> Result<Option<metrics::Status>, StateError> {
    let fail = |error| StateError::Io {
        path: directory.join(unstarve_executor::state::STATUS),
        source: io::Error::other(error),
    };
    state::status_text(directory)?.map(|text| serde_json::from_str(&text).map_err(fail)).transpose()
}
