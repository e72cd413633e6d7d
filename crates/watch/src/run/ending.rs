//! The end of a watch: all is written and delivered that can be, within one time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Event, Watch};
use crate::scribe::chain;

/// How long all that is written at the end is waited for. The unit allows 20 s.
const LAST_WORDS: Duration = Duration::from_secs(16);
/// The part of it that episodes may take; tables come after them.
const LAST_EPISODES: Duration = Duration::from_secs(10);
/// Nothing is delivered after this: what is left by then has to be noted.
const LAST_DELIVERIES: Duration = Duration::from_secs(14);

impl Watch {
    /// Has everything written and delivered that is to be, within one time for all. Tables come last: the scribe lists what they are to
    /// have. What is not delivered by then is said, and noted for the next watch.
    pub(super) fn end(mut self, writing: Vec<JoinHandle<()>>, inbox: &Receiver<Event>) {
        let begun = Instant::now();
        let before = self.board.read().counts.undelivered.clone();
        self.deliveries.end(begun + LAST_DELIVERIES);
        self.keep_last(inbox, begun + LAST_EPISODES);
        let (rollups, board) = (self.rollups.take(), Arc::clone(&self.board));
        let (deliveries, push, say) = (self.deliveries.clone(), self.otlp.take(), self.say);
        let (outbox, logbook) = (self.outbox.take(), self.logbook.take());
        let mut threads = std::mem::take(&mut self.recorders);
        threads.extend(writing);
        // Its senders are what the threads wait for.
        drop((self.jobs, self.words, self.events, self.flight, self.next_flight, self.serving));
        finish(&threads, inbox, begun + LAST_EPISODES);
        if let Some(push) = push {
            // What has come since the latest one.
            push.courier.send(Arc::new(board.read().to_push()));
        }
        if let Some(rollups) = rollups {
            rollups.finish(&board.read(), LAST_WORDS.saturating_sub(begun.elapsed()));
        }
        let left = deliveries.finish(begun + LAST_DELIVERIES);
        let lines = logbook.map_or(0, |logbook| logbook.waiting());
        if lines > 0 {
            say(&format!("{lines} lines on episodes could not be written to the log of the store"));
        }
        let unsent = super::unsent::of(left, &grown(&board.read().counts.undelivered, &before));
        if let Some(text) = super::unsent::words(&unsent) {
            say(&text);
        }
        if let Some(Err(error)) = outbox.map(|outbox| outbox.note(&unsent)) {
            say(&format!("what was not delivered cannot be noted for the next watch: {}", chain(&error)));
        }
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
