//! Files are read on several threads, a few at a time, and their rows come in the order of the files.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, Scope};

use bytes::Bytes;
use unstarve_tables::Schema;

use super::parquet::DecodeLimits;
use super::sandboxed_decode::{Examine, Run};

/// What is to be read, and what becomes of it; both on the thread that calls [`run`].
pub(crate) trait Work {
    type Error;

    /// The next files; `None` if there are no more.
    fn next(&mut self) -> Option<Vec<Bytes>>;

    /// What came of the next of them, in their order: of some together, or of one that is refused.
    fn take(&mut self, answer: Result<Run, String>) -> Result<(), Self::Error>;

    /// What is wrong if a thread ended that should not.
    fn lost(&self) -> Self::Error;
}

/// More children would take more memory, and not be faster: this thread has to sort what they read.
const MAX_CHILDREN: usize = 4;
/// So many groups of files are on their way for each thread: one that is read, and one that is next.
const GROUPS_AHEAD: usize = 2;
/// No more files are loaded while those on their way have so many bytes. Small ones never have; of the largest, two are loaded.
const MAX_LOADED_BYTES: usize = 64 << 20;

/// Reads all files.
pub(crate) fn run<W: Work>(
    examine: &dyn Examine,
    table: &'static Schema,
    most: DecodeLimits,
    work: &mut W,
) -> Result<(), W::Error> {
    let count = thread::available_parallelism().map_or(1, usize::from).clamp(1, MAX_CHILDREN);
    let turns = Turns::default();
    thread::scope(|scope| {
        let _end = EndTurns(&turns);
        let threads: Vec<ReadThread> =
            (0..count).map(|_| ReadThread::start(scope, &turns, examine, table, most)).collect();
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

/// Which group's rows are taken. Only of that group files may be read that take much memory, and one at a time, so that the memory of all threads and children together
/// has a limit (docs/decisions/0431).
#[derive(Default)]
struct Turns {
    state: Mutex<Turn>,
    changed: Condvar,
}

#[derive(Default)]
struct Turn {
    group: usize,
    /// How many answers of it were taken, and what came of them is no longer on its way.
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

    /// Waits until it is a group's turn and all its answers so far were taken. Not if there is nobody any more who takes them.
    fn wait(&self, group: usize, answers: usize) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_early = |turn: &mut Turn| !turn.is_over && (turn.group, turn.taken) != (group, answers);
        let state = self.changed.wait_while(state, is_early).unwrap_or_else(PoisonError::into_inner);
        !state.is_over
    }
}

/// Whatever ends the work ends the waiting.
struct EndTurns<'a>(&'a Turns);

impl Drop for EndTurns<'_> {
    fn drop(&mut self) {
        self.0.change(|turn| turn.is_over = true);
    }
}

/// A thread.
struct ReadThread {
    /// The number of a group, and its files.
    files: SyncSender<(usize, Vec<Bytes>)>,
    /// What comes of files; `None` after each group.
    answers: Receiver<Option<Result<Run, String>>>,
}

impl ReadThread {
    fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        turns: &'scope Turns,
        examine: &'scope dyn Examine,
        table: &'static Schema,
        most: DecodeLimits,
    ) -> ReadThread {
        let (files, groups) = sync_channel::<(usize, Vec<Bytes>)>(GROUPS_AHEAD);
        // One answer waits and no more: what is read has to fit into memory.
        let (answer, answers) = sync_channel(1);
        scope.spawn(move || {
            for (number, group) in groups {
                let (mut is_heard, sent) = (true, Cell::new(0));
                examine.rows(table, &group, most, &|| turns.wait(number, sent.get()), &mut |run| {
                    is_heard &= answer.send(Some(run)).is_ok();
                    sent.set(sent.get() + 1);
                });
                if !is_heard || answer.send(None).is_err() {
                    return;
                }
            }
        });
        ReadThread { files, answers }
    }
}
