//! Files are read on several threads, a few at a time, and their rows come in the order of the files.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, Scope};

use bytes::Bytes;
use unstarve_tables::Schema;

use crate::apart::Run;
use crate::{Examine, Most};

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
const MOST: usize = 4;
/// So many groups of files are on their way for each thread: one that is read, and one that is next.
const AHEAD: usize = 2;

/// Reads all files.
pub(crate) fn run<W: Work>(
    examine: &dyn Examine,
    table: &'static Schema,
    most: Most,
    work: &mut W,
) -> Result<(), W::Error> {
    let count = thread::available_parallelism().map_or(1, usize::from).clamp(1, MOST);
    thread::scope(|scope| {
        let lanes: Vec<Lane> = (0..count).map(|_| Lane::start(scope, examine, table, most)).collect();
        let (mut asked, mut answered, mut is_end) = (0_usize, 0_usize, false);
        loop {
            while !is_end && asked - answered < AHEAD * count {
                match work.next() {
                    None => is_end = true,
                    Some(files) => {
                        lanes[asked % count].files.send(files).map_err(|_| work.lost())?;
                        asked += 1;
                    }
                }
            }
            if asked == answered {
                return Ok(());
            }
            while let Some(answer) = lanes[answered % count].answers.recv().map_err(|_| work.lost())? {
                work.take(answer)?;
            }
            answered += 1;
        }
    })
}

/// A thread.
struct Lane {
    files: SyncSender<Vec<Bytes>>,
    /// What comes of files; `None` after each group.
    answers: Receiver<Option<Result<Run, String>>>,
}

impl Lane {
    fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        examine: &'scope dyn Examine,
        table: &'static Schema,
        most: Most,
    ) -> Lane {
        let (files, groups) = sync_channel::<Vec<Bytes>>(AHEAD);
        // One answer waits and no more: what is read has to fit into memory.
        let (answer, answers) = sync_channel(1);
        scope.spawn(move || {
            for group in groups {
                let mut is_heard = true;
                examine.rows(table, &group, most, &mut |run| is_heard &= answer.send(Some(run)).is_ok());
                if !is_heard || answer.send(None).is_err() {
                    return;
                }
            }
        });
        Lane { files, answers }
    }
}
