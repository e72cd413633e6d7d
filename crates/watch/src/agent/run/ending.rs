//! The end of a watch: all is written and delivered that can be, within one time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Event, Watch};
use crate::agent::outputs::Message;
use crate::agent::store::{Logbook, Outbox, Unsent};
use crate::engine::error_chain;

/// How long all that is written at the end is waited for. The unit allows 20 s.
const LAST_WORDS: Duration = Duration::from_secs(16);
/// The part of it that episodes may take; tables come after them.
const LAST_EPISODES: Duration = Duration::from_secs(10);
/// Nothing is delivered after this: what is left by then has to be noted.
const LAST_DELIVERIES: Duration = Duration::from_secs(14);

/// For the disk, where everything else has taken all of the time.
const SHORTEST: Duration = Duration::from_millis(500);

impl Watch {
    /// Has everything written and delivered that is to be, within one time for all. Tables come last: the trace writer lists what they are to
    /// have. What is not delivered by then is said, and noted for the next watch.
    pub(super) fn end(mut self, writing: Vec<JoinHandle<()>>, inbox: &Receiver<Event>) {
        let begun = Instant::now();
        let before = self.board.read().counts.undelivered.clone();
        self.deliveries.end(begun + LAST_DELIVERIES);
        self.keep_last(inbox, begun + LAST_EPISODES);
        let (rollups, board) = (self.rollups.take(), Arc::clone(&self.board));
        let (deliveries, pushes, say) = (self.deliveries.clone(), self.next_push.is_some(), self.say);
        let (outbox, logbook) = (self.outbox.take(), self.logbook.take());
        let mut threads = std::mem::take(&mut self.recorders);
        threads.extend(writing);
        // Its senders are what the threads wait for.
        drop((self.jobs, self.words, self.events, self.flight, self.next_flight, self.serving));
        finish(&threads, inbox, begun + LAST_EPISODES);
        if pushes {
            // What has come since the latest one.
            self.outputs.send(&Message::Metrics(Arc::new(board.read().to_push())));
        }
        if let Some(rollups) = rollups {
            rollups.finish(&board.read(), LAST_WORDS.saturating_sub(begun.elapsed()));
        }
        let left = deliveries.finish(begun + LAST_DELIVERIES);
        let unsent = super::unsent::of(left, &grown(&board.read().counts.undelivered, &before));
        if let Some(text) = super::unsent::words(&unsent) {
            say(&text);
        }
        write_last(outbox, logbook, unsent, begun + LAST_WORDS, &say);
    }
}

/// Writes what waits for the disk, which may stand still: nothing is waited for after `end`. Says what is missing.
fn write_last(outbox: Option<Outbox>, logbook: Option<Logbook>, unsent: Unsent, end: Instant, say: &dyn Fn(&str)) {
    let (done, outcome) = channel();
    let book = logbook.clone();
    let write = move || {
        let _ = done.send(outbox.map_or(Ok(()), |outbox| outbox.note(&unsent)));
        let _ = done.send(book.map_or(Ok(()), |book| book.add_waiting()));
    };
    let started = std::thread::Builder::new().name("unstarve-last".into()).spawn(write);
    let next = || outcome.recv_timeout(end.saturating_duration_since(Instant::now()).max(SHORTEST));
    let missing = match next() {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error_chain(&error)),
        Err(RecvTimeoutError::Timeout) => Some("the disk does not answer".to_owned()),
        Err(RecvTimeoutError::Disconnected) => started.err().map(|error| error_chain(&error)),
    };
    if let Some(why) = missing {
        say(&format!("what was not delivered cannot be noted for the next start: {why}"));
    }
    // Which lines are missing is asked for.
    let _ = next();
    if let Some(book) = logbook.filter(|book| book.waiting() > 0) {
        let (count, path) = (book.waiting(), book.path().display());
        let entries = if count == 1 { "entry" } else { "entries" };
        say(&format!("{count} {entries} missing from {path}: the disk could not be written"));
    }
}

/// What has been counted since.
fn grown(now: &BTreeMap<&'static str, u64>, before: &BTreeMap<&'static str, u64>) -> BTreeMap<&'static str, u64> {
    let since = |(output, count): (&&'static str, &u64)| {
        (*output, count - before.get(output).copied().unwrap_or(0).min(*count))
    };
    now.iter().map(since).filter(|(_, count)| *count > 0).collect()
}

/// Gives an episode that is being written its time, and buffers that are being made or removed theirs.
fn finish(threads: &[JoinHandle<()>], inbox: &Receiver<Event>, end: Instant) {
    while !threads.iter().all(JoinHandle::is_finished) && Instant::now() < end {
        // Instances that come back are removed here.
        let pause = Duration::from_millis(20);
        if let Err(RecvTimeoutError::Disconnected) = inbox.recv_timeout(pause) {
            std::thread::sleep(pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::agent::store::{Limits, Store, read_log};
    use crate::episode::Episode;

    #[test]
    fn a_line_that_waited_has_a_last_try_and_what_is_missing_is_said() {
        let mode = std::fs::Permissions::from_mode(0o700);
        let place = tempfile::Builder::new().permissions(mode).tempdir().expect("a directory");
        let path = place.path().join("store");
        let store = Store::open(&path, Limits { bytes: 1, episodes: 1 }).expect("a store");
        let log = path.join("episodes.jsonl");
        std::fs::create_dir(&log).expect("made");
        let episode = Episode { id: "20261123-012345-678".into(), ..Episode::default() };
        store.logbook().add(&episode).expect_err("it cannot be written");
        let said = RefCell::new(Vec::new());
        let end = || {
            let say = |text: &str| said.borrow_mut().push(text.to_owned());
            let unsent = Unsent { words: vec![episode.clone()], ..Unsent::default() };
            let end = Instant::now() + Duration::from_secs(20);
            write_last(Some(store.outbox()), Some(store.logbook()), unsent, end, &say);
        };
        end();
        let missing = format!("1 entry missing from {}: the disk could not be written", log.display());
        assert_eq!(*said.borrow(), [missing]);
        assert_eq!(store.outbox().read().expect("noted").words, std::slice::from_ref(&episode));
        std::fs::remove_dir(&log).expect("removed");
        end();
        assert_eq!(said.borrow().len(), 1, "none is missing");
        assert_eq!(read_log(&path).expect("a log").episodes, [episode]);
    }
}
