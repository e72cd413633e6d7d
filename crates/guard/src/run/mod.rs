//! The guard as a service: waits for task events, handles them, and reverts everything at its end.

mod dead_man;
mod error;
mod interest;
mod journal;
mod options;
mod process;
mod status;

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use unstarve_model::Tid;

pub use self::error::RunError;
use self::interest::interest;
pub use self::interest::note_births;
pub use self::options::Options;
pub use self::process::on_signals;
use self::process::raise_limits;
pub use self::status::status;
use crate::metrics::Outlet;
use crate::notify::{Manager, watchdog_interval};
use crate::policy::Policy;
use crate::reconciler::Reconciler;
use crate::scan::Scanner;
use crate::task_events::{self, Programs, Source, SourceName};
use unstarve_executor::act::Undone;
use unstarve_executor::audit::{Audit, Entry, Event};
use unstarve_executor::deadman::{Canary, DeadMan};
use unstarve_executor::host::Watched;
use unstarve_executor::registry::Registry;
use unstarve_executor::sched;
use unstarve_executor::state::State;

/// How often settings and tasks are scanned, with and without an event source.
const LOOK_WITH_NEWS: Duration = Duration::from_secs(30);
const LOOK_WITHOUT: Duration = Duration::from_secs(1);
/// Scans use at most the reciprocal of this of a CPU, however many tasks there are.
const REST_AFTER_LOOK: u32 = 200;
/// The interval of the periodic work: budget, dead-man process, status.
const PULSE: Duration = Duration::from_secs(1);
/// A journal of this length is rewritten without settled changes and exited tasks. That takes time for each line, so it waits
/// for a quiet moment, unless the journal is very long.
const LONG_JOURNAL: u64 = 1 << 20;
const VERY_LONG_JOURNAL: u64 = 32 << 20;
/// Events per second below which the guard is quiet.
const QUIET: u64 = 100;
/// How many times its interval a scan may wait for a quiet moment.
const MAX_DEFERRED_INTERVALS: u32 = 10;

/// Scans because of lost events use at most the reciprocal of this of a CPU.
const REST_AFTER_LOSS: u32 = 20;
/// How often to look for children forked while everything is being reverted.
const LAST_ROUNDS: usize = 20;

/// Runs until a signal, or for the given time; then reverts everything.
///
/// # Errors
/// See [`RunError`]; what was changed was reverted as far as the kernel allows.
pub fn run(policy: Policy, options: Options, audit: Audit) -> Result<Undone, RunError> {
    let mut guard = Guard::begin(policy, options, audit, "guard run")?;
    let result = guard.first_look().and_then(|()| guard.turn(None));
    // Reverts everything, also after an error.
    let undone = guard.finish();
    result?;
    Ok(undone)
}

/// `1 task`, `2 tasks`.
fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Why [`Guard::turn`] returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Over {
    /// A signal came, or the time is over.
    Told,
    /// The other descriptor that it waited for became readable.
    Awaited,
}

/// A running guard: it holds the lock, and has a dead-man process and a priority above all that it sets.
pub(crate) struct Guard {
    keeper: Reconciler<Watched>,
    source: Option<Box<dyn Source>>,
    gaps: Vec<String>,
    /// Why forks are not recorded in the kernel, so that only this process and its dead-man know them.
    unpinned: Option<String>,
    state: State,
    options: Options,
    manager: Manager,
    ends_at: Option<Instant>,
    dead_man: Option<DeadMan>,
    canary: Canary,
    metrics: Option<Outlet>,
    metrics_trouble: Option<String>,
    /// The dead-man process's priority.
    priority: u32,
    /// How long the guard and its dead-man process may be silent.
    patience: Duration,
    without_dead_man: Option<Instant>,
    last_pulse: Instant,
    last_look: Instant,
    look_takes: Duration,
    /// Events counted at the last periodic work.
    events: u64,
    /// The journal's length after it was last rewritten.
    shortest: u64,
    last_status: Option<(String, crate::metrics::Counts)>,
}

impl Guard {
    /// Reverts what an earlier guard left, and prepares everything. Sets nothing yet.
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
        // What an earlier guard left.
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
        if task_events::pid_namespace().is_some() {
            (options.say)("this is a PID namespace: only its own tasks are seen, and no kernel threads");
        }
        let interest = interest(&policy);
        let may_be_programs = interest.programs != Programs::None;
        let (source, mut gaps) = task_events::open(interest, options.source);
        gaps.extend(source.iter().flat_map(|source| source.gaps().to_vec()));
        state.name_dead_man(dead_man.pid());
        audit.log(&Entry::of(Event::Started));
        let own = vec![Tid(std::process::id()), Tid(dead_man.pid())];
        let patience = Duration::from_secs(u64::from(policy.limits.dead_man));
        let registry = source.as_ref().and_then(|source| source.registry());
        let mut pinned = Err("no eBPF".to_owned());
        if let Some(registry) = &registry {
            dead_man.give_registry(registry).map_err(RunError::DeadMan)?;
            if may_be_programs {
                pinned = registry.pin().map_err(|error| error.to_string());
            }
        }
        // Kernel threads have no children that inherit.
        let unpinned = pinned.err().filter(|_| may_be_programs).map(|why| {
            format!(
                "births cannot be noted beyond the guard and its dead-man ({why}): if both are killed, children whose parents have \
                 ended keep what they inherited"
            )
        });
        unpinned.iter().for_each(|text| (options.say)(text));
        let sight = Scanner::of(&policy);
        let host = Watched { registry, at_work: true };
        let mut keeper = Reconciler::new(policy, own, host, sight, journal, audit);
        keeper.follow_by(source.as_ref().and_then(|source| source.follower()));
        let mut guard = Guard {
            keeper,
            source,
            gaps,
            unpinned,
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

    /// Reverts everything and ends.
    pub(crate) fn finish(mut self) -> Undone {
        self.manager.tell("STOPPING=1");
        let undone = self.take_back();
        self.depart();
        if let Some(dead_man) = self.dead_man.take() {
            // The dead-man process retries what failed.
            if undone.is_complete() { dead_man.dismiss() } else { dead_man.leave_to_it() }
        }
        if undone.is_complete() {
            Registry::unpin();
        }
        undone
    }

    /// Reverts everything and stays, with nothing set, until [`Guard::first_look`].
    pub(crate) fn rest(&mut self) -> Result<Undone, RunError> {
        let undone = self.take_back();
        if undone.is_complete() {
            self.keeper.rest();
            let journal = self.state.journal()?;
            self.use_journal(journal)?;
        }
        Ok(undone)
    }

    /// Ends and leaves all changes in place, for `guard undo`.
    pub(crate) fn leave(mut self) {
        self.depart();
        if let Some(dead_man) = self.dead_man.take() {
            dead_man.dismiss();
        }
    }

    /// The reconciler.
    pub(crate) fn keeper(&mut self) -> &mut Reconciler<Watched> {
        &mut self.keeper
    }

    fn source_name(&self) -> SourceName {
        self.source.as_ref().map_or(SourceName::Scan, |source| source.name())
    }

    /// Carries out the policy from now on.
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

    /// Handles events until a signal, or until `awaited` becomes readable.
    pub(crate) fn turn(&mut self, awaited: Option<&UnixStream>) -> Result<Over, RunError> {
        let mut signals = Vec::new();
        let mut last_sign = Instant::now();
        // The dead-man process must get heartbeats well before its time limit.
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
        let every = if quiet { every } else { every * MAX_DEFERRED_INTERVALS };
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

    /// Waits for events, a due read of a task, or the next periodic work; returns why the turn is over, if it is.
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
            fds.push(PollFd::from_borrowed_fd(source.fd(), PollFlags::IN));
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

    fn take_back(&mut self) -> Undone {
        self.keeper.close();
        self.keeper.for_taking_back().0.at_work = false;
        let mut undone = Undone::default();
        for _ in 0..LAST_ROUNDS {
            let (host, journal, audit) = self.keeper.for_taking_back();
            let round = self.state.undo_known(host, journal, audit);
            undone = Undone { racing: false, failed: Vec::new(), ..undone }.and(round);
            // Counts children found in this round, forked by tasks that may have exited.
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
