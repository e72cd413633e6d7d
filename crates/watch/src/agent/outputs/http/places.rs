//! The places for connections, and who has to give his up.

use std::net::Shutdown;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{MAX_CONNECTIONS, Stream};

/// Connections that are refused and hear so, beside [`MAX_CONNECTIONS`].
const MOST_REFUSED: usize = 16;

/// How long a new one waits for one of these to end.
const LONGEST: Duration = Duration::from_secs(2);

/// All places.
#[derive(Default)]
pub(super) struct Places {
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
    /// When it came, or what of its answer was last taken.
    progress: Instant,
    stream: Box<dyn Stream>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its head is not complete.
    Asking,
    /// Its answer is being made or sent.
    Answered,
    /// It has its answer.
    Drained,
    /// It had to go, or never had a place.
    Refused,
    /// It had to go in the middle of its answer.
    Ended,
}

/// One of the places.
pub(super) struct Place {
    places: Arc<Places>,
    id: u64,
}

impl Places {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// Makes room for one more: first goes who has his answer, then who has neither asked nor taken anything for longest.
    fn make_room(&mut self) -> bool {
        let is_served = |entry: &&mut Entry| !matches!(entry.state, State::Refused | State::Ended);
        let served = self.entries.iter_mut().filter(is_served);
        let (count, first) = served.fold((0, None), |(count, first): (usize, Option<&mut Entry>), entry| {
            let rank = |entry: &Entry| (entry.state != State::Drained, entry.progress);
            let goes = first.as_ref().is_none_or(|first| rank(entry) < rank(first));
            (count + 1, if goes { Some(entry) } else { first })
        });
        let Some(entry) = first.filter(|_| count >= MAX_CONNECTIONS) else { return count < MAX_CONNECTIONS };
        // Its thread, which reads, sees an end; one that writes cannot any more.
        let (state, how) = match entry.state {
            State::Answered => (State::Ended, Shutdown::Both),
            _ => (State::Refused, Shutdown::Read),
        };
        entry.state = state;
        let _ = entry.stream.close(how);
        true
    }
}

impl Place {
    /// For a new connection; `stream` is a second handle of it. `None` if too many are being refused.
    pub fn take(places: &Arc<Places>, stream: Box<dyn Stream>) -> Option<Place> {
        let full = |taken: &mut Taken| taken.entries.len() >= MAX_CONNECTIONS + MOST_REFUSED;
        let waited = places.freed.wait_timeout_while(places.taken(), LONGEST, full);
        let (mut taken, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return None;
        }
        let state = if taken.make_room() { State::Asking } else { State::Refused };
        let id = taken.next;
        taken.next += 1;
        taken.entries.push(Entry { id, state, progress: Instant::now(), stream });
        Some(Place { places: Arc::clone(places), id })
    }

    /// Whether it has to go.
    pub fn is_refused(&self) -> bool {
        self.places.taken().entries.iter().any(|entry| entry.id == self.id && entry.state == State::Refused)
    }

    /// Its head is complete: it keeps its place until it has its answer.
    pub fn answers(&self) {
        self.becomes(State::Answered);
    }

    /// A part of its answer was taken.
    pub fn progresses(&self) {
        self.change(|entry| entry.progress = Instant::now());
    }

    /// Whether it had to go in the middle of its answer.
    pub fn has_ended(&self) -> bool {
        self.places.taken().entries.iter().any(|entry| entry.id == self.id && entry.state == State::Ended)
    }

    /// It has its answer.
    pub fn drains(&self) {
        self.becomes(State::Drained);
    }

    fn becomes(&self, state: State) {
        self.change(|entry| (entry.state, entry.progress) = (state, Instant::now()));
    }

    /// Unless it had to go.
    fn change(&self, change: impl FnOnce(&mut Entry)) {
        let mut taken = self.places.taken();
        let own = taken.entries.iter_mut().find(|entry| entry.id == self.id);
        if let Some(entry) = own.filter(|entry| !matches!(entry.state, State::Refused | State::Ended)) {
            change(entry);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken().entries.retain(|entry| entry.id != self.id);
        self.places.freed.notify_one();
    }
}
