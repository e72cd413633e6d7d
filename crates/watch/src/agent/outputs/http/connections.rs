//! Limits the number of connections, and chooses which one to close when all slots are taken.

use std::net::Shutdown;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{MAX_CONNECTIONS, Stream};

/// Maximum connections that are being refused with an answer, in addition to [`MAX_CONNECTIONS`].
const MAX_REFUSED: usize = 16;

/// How long a new connection waits for one of these to end.
const LONGEST: Duration = Duration::from_secs(2);

/// All slots.
#[derive(Default)]
pub(super) struct ConnectionSlots {
    taken: Mutex<Taken>,
    freed: Condvar,
}

#[derive(Default)]
struct Taken {
    next: u64,
    /// Oldest first.
    entries: Vec<Entry>,
}

struct Entry {
    id: u64,
    state: State,
    /// When it was accepted, or when the client last read a part of the answer.
    progress: Instant,
    stream: Box<dyn Stream>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The head of the request is not complete.
    Asking,
    /// The answer is being made or sent.
    Answered,
    /// The answer is sent.
    Drained,
    /// Closed to make room, or never had a slot.
    Refused,
    /// Closed in the middle of the answer.
    Ended,
}

/// One of the slots.
pub(super) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    id: u64,
}

impl ConnectionSlots {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// Makes room for one more: closes first a connection whose answer is sent, then the one without progress for longest.
    fn make_room(&mut self) -> bool {
        let is_served = |entry: &&mut Entry| !matches!(entry.state, State::Refused | State::Ended);
        let served = self.entries.iter_mut().filter(is_served);
        let (count, first) = served.fold((0, None), |(count, first): (usize, Option<&mut Entry>), entry| {
            let rank = |entry: &Entry| (entry.state != State::Drained, entry.progress);
            let goes = first.as_ref().is_none_or(|first| rank(entry) < rank(first));
            (count + 1, if goes { Some(entry) } else { first })
        });
        let Some(entry) = first.filter(|_| count >= MAX_CONNECTIONS) else { return count < MAX_CONNECTIONS };
        // Its thread sees the end of the input if it reads, and an error if it writes.
        let (state, how) = match entry.state {
            State::Answered => (State::Ended, Shutdown::Both),
            _ => (State::Refused, Shutdown::Read),
        };
        entry.state = state;
        let _ = entry.stream.close(how);
        true
    }
}

impl ConnectionSlot {
    /// Takes a slot for a new connection; `stream` is a second handle of it. `None` if too many are being refused.
    pub fn take(slots: &Arc<ConnectionSlots>, stream: Box<dyn Stream>) -> Option<ConnectionSlot> {
        let full = |taken: &mut Taken| taken.entries.len() >= MAX_CONNECTIONS + MAX_REFUSED;
        let waited = slots.freed.wait_timeout_while(slots.taken(), LONGEST, full);
        let (mut taken, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return None;
        }
        let state = if taken.make_room() { State::Asking } else { State::Refused };
        let id = taken.next;
        taken.next += 1;
        taken.entries.push(Entry { id, state, progress: Instant::now(), stream });
        Some(ConnectionSlot { slots: Arc::clone(slots), id })
    }

    /// Whether the connection is refused.
    pub fn is_refused(&self) -> bool {
        self.slots.taken().entries.iter().any(|entry| entry.id == self.id && entry.state == State::Refused)
    }

    /// The head is complete: the connection keeps its slot until the answer is sent.
    pub fn answers(&self) {
        self.becomes(State::Answered);
    }

    /// The client has read a part of the answer.
    pub fn progresses(&self) {
        self.change(|entry| entry.progress = Instant::now());
    }

    /// Whether the connection was closed in the middle of its answer.
    pub fn has_ended(&self) -> bool {
        self.slots.taken().entries.iter().any(|entry| entry.id == self.id && entry.state == State::Ended)
    }

    /// The answer is sent.
    pub fn drains(&self) {
        self.becomes(State::Drained);
    }

    fn becomes(&self, state: State) {
        self.change(|entry| (entry.state, entry.progress) = (state, Instant::now()));
    }

    /// Changes the entry unless it was closed to make room.
    fn change(&self, change: impl FnOnce(&mut Entry)) {
        let mut taken = self.slots.taken();
        let own = taken.entries.iter_mut().find(|entry| entry.id == self.id);
        if let Some(entry) = own.filter(|entry| !matches!(entry.state, State::Refused | State::Ended)) {
            change(entry);
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.slots.taken().entries.retain(|entry| entry.id != self.id);
        self.slots.freed.notify_one();
    }
}
