//! Writes traces to the disk, one after another, in a thread of its own: at once, for the buffers that they come from fill up again. What
//! takes longer, the [`explainer`](crate::agent::explainer) does.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use unstarve_record::{Frozen, RecordError, Roll};

use crate::agent::board::Board;
use crate::agent::config::Store as StoreConfig;
use crate::agent::episode_publisher::{EpisodePublisher, Written};
use crate::agent::explainer::{PipelineSettings, Task};
use crate::agent::memory;
use crate::agent::outputs::{Message, Outputs};
use crate::agent::priority_boost::PriorityBoostInTurns;
use crate::agent::run::Event;
use crate::agent::store::{ExpectedByRank, Left, Outbox, Rank, Store, StoreError, TRACE, Unsent};
use crate::engine::error_chain;
use crate::episode::{Begun, Episode};

/// What a trace may take before one was written.
pub(crate) const FIRST_EXPECTED: u64 = 4 << 20;
/// No trace is larger than all buffers together, of which nothing is known here.
const MOST_EXPECTED: u64 = 1 << 30;

/// How soon a store that could not be written is tried again; where that helps for a moment only, less often each time.
const FIRST_RETRY: Duration = Duration::from_secs(5);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// Episodes beside which one more does not wait to be explained, that which is being explained included: each may take minutes, and keeps
/// its room until then. Any user can bring about episodes of programs: they have places of their own.
fn most_unexplained(rank: Rank) -> usize {
    match rank {
        Rank::Kernel => 8,
        Rank::Programs => 4,
    }
}

/// The name of the problem that the store is full of what counts more: it can be written all the same.
const RESERVED: &str = "store-reserved";

/// Causes that are remembered until the store can be written again.
const MOST_BEGUN: usize = 32;

/// What is to be written.
pub(crate) enum Job {
    /// A new episode.
    Keep(Box<Keep>),
    /// One whose trace is there: it was not explained yet when its watch was killed.
    Explain(Box<Left>),
    /// What a new configuration says.
    Configure(PipelineSettings),
    /// Something that the system's log is to have.
    Warn(String),
    /// All has been delivered that the watch before had left.
    Sent,
}

pub(crate) struct Keep {
    pub(crate) episode: Box<Episode>,
    /// Others that began before it was written: they are in its trace.
    pub(crate) along: Vec<Episode>,
    /// What the counters saw of each of them: what cannot be kept begins again once it can.
    pub(crate) begun: Vec<Begun>,
    /// What the flight recorder held; nothing if it is off.
    pub(crate) frozen: Option<Frozen>,
    /// When the episode was seen.
    pub(crate) seen: Instant,
    /// Gets the outcome of a dump on demand.
    pub(crate) reply: Option<Sender<String>>,
}

pub(crate) struct TraceWriter {
    pub(crate) store: Arc<Store>,
    pub(crate) outbox: Outbox,
    pub(crate) outputs: Outputs,
    pub(crate) board: Arc<Board>,
    pub(crate) events: Sender<Event>,
    pub(crate) tasks: Sender<Task>,
    /// What the next trace may take: as much as the latest one of its rank.
    pub(crate) expected: ExpectedByRank,
    pub(crate) retry: Retry,
}

/// What could not be kept, and when that is tried again.
pub(crate) struct Retry {
    begun: Vec<Begun>,
    pause: Duration,
    next: Instant,
    /// When it is looked whether there is room for episodes of programs again.
    next_look: Instant,
}

impl Default for Retry {
    fn default() -> Retry {
        let now = Instant::now();
        Retry { begun: Vec::new(), pause: FIRST_RETRY, next: now, next_look: now }
    }
}

impl Retry {
    /// Whose traces there has to be room for: of programs only where nothing else waits.
    fn rank(&self) -> Rank {
        self.begun.iter().map(|begun| Rank::of_role(begun.victim.kind)).max().unwrap_or(Rank::Kernel)
    }
}

/// Why an episode has no trace.
enum NotKept {
    /// The store is full, or cannot be written: that may pass.
    Now(String),
    /// It would push out what counts more.
    Reserved(String),
}

impl From<StoreError> for NotKept {
    fn from(error: StoreError) -> NotKept {
        let why = error_chain(&error);
        if matches!(error, StoreError::Reserved(_)) { NotKept::Reserved(why) } else { NotKept::Now(why) }
    }
}

impl TraceWriter {
    pub(crate) fn run(mut self, jobs: &Receiver<Job>) {
        self.board.note_kept(&self.store);
        loop {
            match jobs.recv_timeout(FIRST_RETRY) {
                Ok(job) => self.take(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.try_again();
            self.look_for_room();
            if self.store.was_replaced() {
                let at = self.store.path().display();
                let text = format!("another directory has taken the place of {at}: episodes are kept in that one now");
                let _ = self.events.send(Event::Remark(text));
                self.board.note_kept(&self.store);
            }
        }
    }

    fn take(&mut self, job: Job) {
        match job {
            Job::Keep(keep) => self.keep(*keep),
            Job::Explain(left) => {
                let Left { episode, along } = *left;
                let _ = self.tasks.send(Task::Left(Box::new(Written { episode, along, reply: None })));
            }
            Job::Configure(settings) => {
                self.store.limit(settings.limits);
                self.retry.next_look = Instant::now();
                self.outputs = settings.outputs.clone();
                let _ = self.tasks.send(Task::Configure(settings));
            }
            Job::Warn(text) => self.outputs.send(&Message::Warning(text.into())),
            Job::Sent => {
                if let Err(error) = self.outbox.note(&Unsent::default()) {
                    self.board.store_problem(&error_chain(&error));
                }
            }
        }
    }

    fn keep(&mut self, keep: Keep) {
        let Keep { mut episode, along, begun, frozen, seen, reply } = keep;
        // The old buffers fill up again meanwhile, and ordinary load must not delay it. But a snapshot and a trace take long enough to
        // starve the tasks that wait for this CPU.
        let hurry = PriorityBoostInTurns::raise();
        let saved = match frozen {
            Some(frozen) => self.save(&mut episode, &along, frozen, seen),
            None => Ok(()),
        };
        drop(hurry);
        if let Err(NotKept::Now(problem) | NotKept::Reserved(problem)) = &saved {
            match &saved {
                Err(NotKept::Reserved(_)) => self.reserved(problem),
                _ => self.board.store_problem(problem),
            }
            episode.problem = Some(format!("no trace: {problem}"));
        }
        if let Err(NotKept::Now(_)) = saved {
            self.put_off(begun);
        }
        self.hand_on(Written { episode: *episode, along, reply });
        self.board.note_kept(&self.store);
        memory::give_back();
    }

    /// Has it explained and told; where too many of its rank wait for that it is told at once, and its trace stays like that of any other.
    fn hand_on(&self, mut written: Written) {
        let rank = written.rank();
        let others = self.store.unexplained_now(rank).saturating_sub(1);
        if written.episode.trace_bytes.is_none() || others < most_unexplained(rank) {
            let _ = self.tasks.send(Task::Tell(Box::new(written)));
            return;
        }
        let id = written.episode.id.clone();
        let why = format!("not explained: too many wait ({others}); its trace is kept: unstarve watch show {id}");
        written.episode.problem = Some(why);
        let (store, board) = (Arc::clone(&self.store), Arc::clone(&self.board));
        EpisodePublisher { store, outputs: self.outputs.clone(), board }.tell(written, None);
        self.store.is_explained(&id);
    }

    /// What is still going on once there is room again begins again then.
    fn put_off(&mut self, begun: Vec<Begun>) {
        self.retry.begun.extend(begun);
        let more = self.retry.begun.len().saturating_sub(MOST_BEGUN);
        self.retry.begun.drain(..more);
        self.retry.next = Instant::now() + self.retry.pause;
        self.retry.pause = (self.retry.pause * 2).min(LONGEST_RETRY);
    }

    /// Where the store could not be written, whether it can be now: then that is said no more, lines that waited are in the log, and what
    /// was not kept and goes on is.
    fn try_again(&mut self) {
        let is_broken = self.board.read().problems.contains_key("store");
        let is_needed = is_broken || !self.retry.begun.is_empty() || self.store.logbook().waiting() > 0;
        if !is_needed || Instant::now() < self.retry.next {
            return;
        }
        if let Err(error) = self.store.try_again(self.expected.of(self.retry.rank())) {
            self.retry.next = Instant::now() + FIRST_RETRY;
            let problem = format!("store: {}", error_chain(&error));
            return self.board.write(|published| drop(published.problems.insert("store", problem)));
        }
        self.board.write(|published| drop(published.problems.remove("store")));
        let begun = std::mem::take(&mut self.retry.begun);
        if !begun.is_empty() {
            let _ = self.events.send(Event::Room(begun));
        }
        self.board.note_kept(&self.store);
    }

    /// Notes that there is no room for episodes of programs.
    fn reserved(&mut self, problem: &str) {
        self.retry.next_look = Instant::now() + LONGEST_RETRY;
        self.board.write(|published| {
            published.counts.store_errors += 1;
            published.problems.insert(RESERVED, format!("store: {problem}"));
        });
    }

    /// Where there was no room for episodes of programs, whether there is now. That other episodes can be written says nothing about them.
    fn look_for_room(&mut self) {
        let now = Instant::now();
        if now < self.retry.next_look || !self.board.read().problems.contains_key(RESERVED) {
            return;
        }
        self.retry.next_look = now + LONGEST_RETRY;
        if self.store.has_room_for_programs(self.expected.of(Rank::Programs)) {
            self.board.write(|published| drop(published.problems.remove(RESERVED)));
        }
    }

    /// The trace, on the disk. The recorder's instance goes back as soon as it is empty.
    fn save(&mut self, episode: &mut Episode, along: &[Episode], frozen: Frozen, seen: Instant) -> Result<(), NotKept> {
        let rank = Rank::of_all(episode, along);
        let unfinished = match self.store.begin_with(episode, along, self.expected.of(rank)) {
            Ok(unfinished) => unfinished,
            Err(error) => {
                self.give_back(frozen.discard());
                return Err(error.into());
            }
        };
        let announced = std::mem::replace(&mut episode.id, unfinished.id().to_owned());
        episode.announced_as = Some(announced).filter(|announced| *announced != episode.id);
        episode.sequence = Some(unfinished.sequence());
        if !unfinished.removed().is_empty() {
            let removed = unfinished.removed().join(", ");
            let _ = self.events.send(Event::Remark(format!("removed to make room for {}: {removed}", episode.id)));
        }
        let (saved, roll) = frozen.save(&unfinished.trace());
        self.give_back(roll);
        let saved = saved.map_err(|error| {
            self.note_failure(rank, &error);
            NotKept::Now(error_chain(&error))
        })?;
        episode.trace_bytes = Some(saved.size);
        unfinished.finish(&self.store, episode, along).inspect_err(|_| episode.trace_bytes = None)?;
        self.note_size(rank, saved.size);
        self.retry.pause = FIRST_RETRY;
        let took = u64::try_from(seen.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.board.write(|published| published.counts.to_disk_ns = Some(took));
        Ok(())
    }

    fn note_size(&mut self, rank: Rank, bytes: u64) {
        *self.expected.of_mut(rank) = bytes.max(1 << 20).into();
    }

    /// Where a disk was full that had room for what was expected, more must be free for the next try. What else may fail says nothing about
    /// room, and what an earlier trace took stays what the limits of the store are compared with.
    fn note_failure(&mut self, rank: Rank, error: &RecordError) {
        if is_full(error) {
            let expected = self.expected.of_mut(rank);
            expected.on_disk = expected.on_disk.saturating_mul(2).min(MOST_EXPECTED);
        }
    }

    fn give_back(&self, roll: Roll) {
        // Nobody takes it where the watch is ending.
        let _ = self.events.send(Event::Roll(roll));
    }
}

/// Whether a disk, or what somebody may use of it, is full.
fn is_full(error: &RecordError) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        if matches!(kind, Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)) {
            return true;
        }
        cause = error.source();
    }
    matches!(error, RecordError::NoRoom { .. })
}

/// Of an episode's directory what the explanation reads.
pub fn trace_in(directory: &Path) -> std::path::PathBuf {
    directory.join(TRACE)
}

/// Opens the store, and gives the episodes that were not explained.
pub(crate) fn open(config: &StoreConfig) -> Result<(Arc<Store>, Vec<Left>), StoreError> {
    let store = Store::open(&config.directory, config.limits())?;
    let unexplained = store.unexplained()?;
    Ok((Arc::new(store), unexplained))
}

#[cfg(test)]
#[path = "trace_writer_tests.rs"]
mod tests;
