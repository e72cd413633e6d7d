//! Reads files on several threads, a few at a time, and returns their rows, or what is in them, in the order of the files.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, Scope};

use bytes::Bytes;
use unstarve_tables::Schema;

use super::parquet::DecodeLimits;
use super::sandboxed_decode::{Asked, Examine, Run};
use super::wire::Wants;

/// Provides files and takes their rows, on the thread that calls [`run`].
pub(crate) trait Work {
    type Error;

    /// The next files; `None` at the end.
    fn next(&mut self) -> Option<Vec<Bytes>>;

    /// Takes the next result: rows of some files, or why one is refused.
    fn take(&mut self, answer: Result<Run, String>) -> Result<(), Self::Error>;

    /// The error if a thread ended unexpectedly.
    fn lost(&self) -> Self::Error;
}

/// More children would need more memory and not be faster: this thread sorts their rows.
const MAX_CHILDREN: usize = 4;
/// Groups of files in flight for each thread: one that is read, and the next one.
const GROUPS_AHEAD: usize = 2;
/// No more files are loaded while those in flight have this many bytes. It limits only large files: two of the largest are loaded at once.
const MAX_LOADED_BYTES: usize = 64 << 20;

/// Reads all files.
pub(crate) fn run<W: Work>(
    examine: &dyn Examine,
    table: &'static Schema,
    most: DecodeLimits,
    wants: Wants,
    work: &mut W,
) -> Result<(), W::Error> {
    let count = thread::available_parallelism().map_or(1, usize::from).clamp(1, MAX_CHILDREN);
    let turns = Turns::default();
    thread::scope(|scope| {
        let _end = EndTurns(&turns);
        let threads: Vec<ReadThread> =
            (0..count).map(|_| ReadThread::start(scope, &turns, examine, (table, most, wants))).collect();
        let (mut asked, mut answered, mut is_end) = (0_usize, 0_usize, false);
        let mut loaded: VecDeque<usize> = VecDeque::new();
        loop {
            while !is_end && asked - answered < GROUPS_AHEAD * count && loaded.iter().sum::<usize>() < MAX_LOADED_BYTES
            {
                match work.next() {
                    None => is_end = true,
                    Some(files) => {
                        loaded.push_back(files.iter().map(Bytes::len).sum());
                        threads[asked % count].files.send((asked, files)).map_err(|_| work.lost())?;
                        asked += 1;
                    }
                }
            }
            if asked == answered {
                return Ok(());
            }
            turns.begin(answered);
            while let Some(answer) = threads[answered % count].answers.recv().map_err(|_| work.lost())? {
                work.take(answer)?;
                turns.taken();
            }
            loaded.pop_front();
            answered += 1;
        }
    })
}

/// The group whose rows are taken. Only its files may need much memory, and only one at a time: this limits the memory of all
/// threads and children together (docs/decisions/0431).
#[derive(Default)]
struct Turns {
    state: Mutex<Turn>,
    changed: Condvar,
}

#[derive(Default)]
struct Turn {
    group: usize,
    /// How many of its results were taken.
    taken: usize,
    is_over: bool,
}

impl Turns {
    fn change(&self, change: impl FnOnce(&mut Turn)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    fn begin(&self, group: usize) {
        self.change(|turn| (turn.group, turn.taken) = (group, 0));
    }

    fn taken(&self) {
        self.change(|turn| turn.taken += 1);
    }

    /// Waits until it is this group's turn and all its results so far were taken. `false` if results are no longer taken.
    fn wait(&self, group: usize, answers: usize) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_early = |turn: &mut Turn| !turn.is_over && (turn.group, turn.taken) != (group, answers);
        let state = self.changed.wait_while(state, is_early).unwrap_or_else(PoisonError::into_inner);
        !state.is_over
    }
}

/// Wakes all waiting threads when the work ends, for whatever reason.
struct EndTurns<'a>(&'a Turns);

impl Drop for EndTurns<'_> {
    fn drop(&mut self) {
        self.0.change(|turn| turn.is_over = true);
    }
}

/// A reading thread.
struct ReadThread {
    /// The number of a group, and its files.
    files: SyncSender<(usize, Vec<Bytes>)>,
    /// Results of files; `None` after each group.
    answers: Receiver<Option<Result<Run, String>>>,
}

impl ReadThread {
    fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        turns: &'scope Turns,
        examine: &'scope dyn Examine,
        (table, most, wants): (&'static Schema, DecodeLimits, Wants),
    ) -> ReadThread {
        let (files, groups) = sync_channel::<(usize, Vec<Bytes>)>(GROUPS_AHEAD);
        // At most one result is queued: rows must fit into memory.
        let (answer, answers) = sync_channel(1);
        scope.spawn(move || {
            for (number, group) in groups {
                let (mut is_heard, sent) = (true, Cell::new(0));
                examine.read(
                    &Asked { table, files: &group, most, wants },
                    &|| turns.wait(number, sent.get()),
                    &mut |run| {
                        is_heard &= answer.send(Some(run)).is_ok();
                        sent.set(sent.get() + 1);
                        is_heard
                    },
                );
                if !is_heard || answer.send(None).is_err() {
                    return;
                }
            }
        });
        ReadThread { files, answers }
    }
}
