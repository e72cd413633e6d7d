//! Shutdown of a watch: writes and delivers as much as possible before a deadline.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Event, Watch};
use crate::agent::outputs::Message;
use crate::agent::store::{Logbook, Outbox, Unsent};
use crate::engine::error_chain;
use crate::episode::EndReason;

/// Maximum time for the shutdown. The systemd unit allows 20 s.
const LAST_WORDS: Duration = Duration::from_secs(16);
/// The part of it for episodes; tables are written afterwards.
const LAST_EPISODES: Duration = Duration::from_secs(10);
/// End of deliveries: afterwards, what is left must be saved.
const LAST_DELIVERIES: Duration = Duration::from_secs(14);

/// Time for the disk, if everything else has used up the limit.
const SHORTEST: Duration = Duration::from_millis(500);

impl Watch {
    /// Writes and delivers what is pending, with one deadline for all. Tables are written last, because the trace writer decides which episodes
    /// they contain. What is not delivered by then is reported, and saved for the next watch.
    pub(super) fn end(mut self, writing: Vec<JoinHandle<()>>, inbox: &Receiver<Event>) {
        let begun = Instant::now();
        let before = self.board.read().counts.undelivered.clone();
        self.deliveries.end(begun + LAST_DELIVERIES);
        let ended = self.detector.end_all(EndReason::WatchEnded);
        self.end_episodes(ended);
        self.keep_last(inbox, begun + LAST_EPISODES);
        let (rollups, board) = (self.rollups.take(), Arc::clone(&self.board));
        let (deliveries, pushes, say) = (self.deliveries.clone(), self.next_push.is_some(), self.say);
        let (outbox, logbook) = (self.outbox.take(), self.logbook.take());
        let mut threads = std::mem::take(&mut self.recorders);
        threads.extend(writing);
        // The threads end when their senders are dropped.
        drop((self.jobs, self.alerts, self.events, self.flight, self.next_flight, self.serving));
        finish(&threads, inbox, begun + LAST_EPISODES);
        if pushes {
            // Metrics since the last push.
            self.outputs.send(&Message::Metrics(Arc::new(board.read().to_push())));
        }
        if let Some(rollups) = rollups {
            rollups.finish(&board, LAST_WORDS.saturating_sub(begun.elapsed()));
        }
        let left = deliveries.finish(begun + LAST_DELIVERIES);
        let unsent = super::unsent::of(left, &grown(&board.read().counts.undelivered, &before));
        if let Some(text) = super::unsent::words(&unsent) {
            say(&text);
        }
        write_last(outbox, logbook, unsent, begun + LAST_WORDS, &say);
    }
}

/// Writes what waits for the disk, which may be stalled: never waits beyond `end`. Reports what is missing.
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
    // The number of missing lines is queried below.
    let _ = next();
    if let Some(book) = logbook.filter(|book| book.waiting() > 0) {
        let (count, path) = (book.waiting(), book.path().display());
        let entries = if count == 1 { "entry" } else { "entries" };
        say(&format!("{count} {entries} missing from {path}: the disk could not be written"));
    }
}

/// Growth of the counts since then.
fn grown(now: &BTreeMap<&'static str, u64>, before: &BTreeMap<&'static str, u64>) -> BTreeMap<&'static str, u64> {
    let since = |(output, count): (&&'static str, &u64)| {
        (*output, count - before.get(output).copied().unwrap_or(0).min(*count))
    };
    now.iter().map(since).filter(|(_, count)| *count > 0).collect()
}

/// Waits for an episode that is being written, and for buffers that are being created or removed.
fn finish(threads: &[JoinHandle<()>], inbox: &Receiver<Event>, end: Instant) {
    while !threads.iter().all(JoinHandle::is_finished) && Instant::now() < end {
        // Instances that are returned are removed here.
        let pause = Duration::from_millis(20);
        if let Err(RecvTimeoutError::Disconnected) = inbox.recv_timeout(pause) {
            std::thread::sleep(pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::agent::store::{Limits, read_log};
    use crate::episode::Episode;

    #[test]
    fn a_line_that_waited_has_a_last_try_and_what_is_missing_is_said() {
        let (place, store) = crate::testing::store(Limits { bytes: 1, episodes: 1 });
        let path = place.path().join("store");
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
