//! Writes traces to disk immediately, in its own thread, because the buffers they come from fill up again. The
//! [`explainer`](crate::agent::explainer) does what takes longer.

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

/// Expected size of the first trace.
pub(crate) const FIRST_EXPECTED: u64 = 4 << 20;
/// Maximum expected size of a trace.
const MOST_EXPECTED: u64 = 1 << 30;

/// First and longest pause before a store that could not be written is tried again.
const FIRST_RETRY: Duration = Duration::from_secs(5);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// Maximum episodes waiting for, or in, explanation: each may take minutes, and cannot be removed until then. Any user can cause episodes
/// of programs, so these have a limit of their own.
fn most_unexplained(rank: Rank) -> usize {
    match rank {
        Rank::Dump | Rank::Kernel => 8,
        Rank::Programs => 4,
    }
}

/// The problem that the store is full of more important episodes; it is writable.
const RESERVED: &str = "store-reserved";

/// Maximum causes remembered until the store can be written again.
const MOST_BEGUN: usize = 32;

/// Work for the trace writer.
pub(crate) enum Job {
    /// A new episode.
    Keep(Box<Keep>),
    /// An episode that an earlier watch wrote and did not explain.
    Explain(Box<Left>),
    /// A new configuration.
    Configure(PipelineSettings),
    /// A warning for the system's log.
    Warn(String),
    /// What the previous run had left is delivered.
    Sent,
}

pub(crate) struct Keep {
    pub(crate) episode: Box<Episode>,
    /// Episodes in the same trace.
    pub(crate) along: Vec<Episode>,
    /// What the counters saw of each: an episode that cannot be kept now can begin again later.
    pub(crate) begun: Vec<Begun>,
    /// The contents of the flight recorder, if it is on.
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
    /// Expected size of the next trace: that of the latest one of its rank.
    pub(crate) expected: ExpectedByRank,
    pub(crate) retry: Retry,
}

/// Episodes that could not be kept, and when the store is tried again.
pub(crate) struct Retry {
    begun: Vec<Begun>,
    pause: Duration,
    next: Instant,
    /// When to look for room for episodes of programs again.
    next_look: Instant,
}

impl Default for Retry {
    fn default() -> Retry {
        let now = Instant::now();
        Retry { begun: Vec::new(), pause: FIRST_RETRY, next: now, next_look: now }
    }
}

impl Retry {
    /// The rank that needs room: programs only if nothing else waits.
    fn rank(&self) -> Rank {
        self.begun.iter().map(|begun| Rank::of_role(begun.victim.kind)).max().unwrap_or(Rank::Kernel)
    }
}

/// Why an episode has no trace.
enum NotKept {
    /// The store is full or not writable: may pass.
    Now(String),
    /// It would displace more important episodes.
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
        // Other programs must not delay this, because the old buffers fill up. It takes long enough to starve other tasks on this CPU, so in turns.
        let boost = PriorityBoostInTurns::raise();
        let saved = match frozen {
            Some(frozen) => self.save(&mut episode, &along, frozen, seen),
            None => Ok(()),
        };
        drop(boost);
        if let Err(NotKept::Now(problem) | NotKept::Reserved(problem)) = &saved {
            match &saved {
                // Who asked for a dump is answered.
                Err(NotKept::Reserved(_)) if episode.trigger.is_none() => {}
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

    /// Passes it to the explainer; publishes it unexplained, with its trace, if too many of its rank wait.
    fn hand_on(&self, mut written: Written) {
        let rank = written.rank();
        let others = self.store.unexplained_now(rank).saturating_sub(1);
        if written.episode.trace_bytes.is_none() || others < most_unexplained(rank) {
            let _ = self.tasks.send(Task::Publish(Box::new(written)));
            return;
        }
        let id = written.episode.id.clone();
        let why = format!("not explained: too many wait ({others}); its trace is kept: unstarve watch show {id}");
        written.episode.problem = Some(why);
        let (store, board) = (Arc::clone(&self.store), Arc::clone(&self.board));
        EpisodePublisher { store, outputs: self.outputs.clone(), board }.publish(written, None);
        self.store.is_explained(&id);
    }

    /// Remembers causes: those that persist until there is room begin again.
    fn put_off(&mut self, begun: Vec<Begun>) {
        self.retry.begun.extend(begun);
        let more = self.retry.begun.len().saturating_sub(MOST_BEGUN);
        self.retry.begun.drain(..more);
        self.retry.next = Instant::now() + self.retry.pause;
        self.retry.pause = (self.retry.pause * 2).min(LONGEST_RETRY);
    }

    /// Tries a store that could not be written. On success the problem is removed, waiting lines are in the log, and persistent causes begin again.
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

    /// Records that there is no room for episodes of programs.
    fn reserved(&mut self, problem: &str) {
        self.retry.next_look = Instant::now() + LONGEST_RETRY;
        self.board.write(|published| {
            published.counts.store_errors += 1;
            published.problems.insert(RESERVED, format!("store: {problem}"));
        });
    }

    /// Looks again for room for episodes of programs, if there was none; other episodes may be written meanwhile.
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

    /// Writes the trace to disk. The recorder gets its instance back as soon as it is empty.
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

    /// Expects more of the next trace if the disk was full although the expected size had fit. Other errors do not concern the size.
    fn note_failure(&mut self, rank: Rank, error: &RecordError) {
        if is_full(error) {
            let expected = self.expected.of_mut(rank);
            expected.on_disk = expected.on_disk.saturating_mul(2).min(MOST_EXPECTED);
        }
    }

    fn give_back(&self, roll: Roll) {
        // At shutdown there is no receiver.
        let _ = self.events.send(Event::Roll(roll));
    }
}

/// Whether a disk or a quota is full.
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

/// The trace in an episode's directory.
pub fn trace_in(directory: &Path) -> std::path::PathBuf {
    directory.join(TRACE)
}

/// Opens the store; also returns the episodes that were not explained.
pub(crate) fn open(config: &StoreConfig) -> Result<(Arc<Store>, Vec<Left>), StoreError> {
    let store = Store::open(&config.directory, config.limits())?;
    let unexplained = store.unexplained()?;
    Ok((Arc::new(store), unexplained))
}

#[cfg(test)]
#[path = "trace_writer_tests.rs"]
mod tests;
