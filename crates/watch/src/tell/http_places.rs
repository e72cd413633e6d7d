//! The places for connections, and who has to give his up.

use std::net::Shutdown;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::http::{MOST, Stream};

/// Connections that are refused and hear so, beside [`MOST`].
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
    /// Makes room for one more, if somebody can go: first who has his answer, then who has been asking longest.
    fn make_room(&mut self) -> bool {
        let served = self.entries.iter().filter(|entry| entry.state != State::Refused).count();
        if served < MOST {
            return true;
        }
        let oldest = |state| self.entries.iter().position(|entry| entry.state == state);
        let Some(index) = oldest(State::Drained).or_else(|| oldest(State::Asking)) else { return false };
        let entry = &mut self.entries[index];
        entry.state = State::Refused;
        // Its thread, which reads, sees an end.
        let _ = entry.stream.close(Shutdown::Read);
        true
    }
}

impl Place {
    /// For a new connection; `stream` is a second handle of it. `None` if too many are being refused.
    pub fn take(places: &Arc<Places>, stream: Box<dyn Stream>) -> Option<Place> {
        let full = |taken: &mut Taken| taken.entries.len() >= MOST + MOST_REFUSED;
        let waited = places.freed.wait_timeout_while(places.taken(), LONGEST, full);
        let (mut taken, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return None;
        }
        let state = if taken.make_room() { State::Asking } else { State::Refused };
        let id = taken.next;
        taken.next += 1;
        taken.entries.push(Entry { id, state, stream });
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

    /// It has its answer.
    pub fn drains(&self) {
        self.becomes(State::Drained);
    }

    fn becomes(&self, state: State) {
        let mut taken = self.places.taken();
        let own = taken.entries.iter_mut().find(|entry| entry.id == self.id);
        if let Some(entry) = own.filter(|entry| entry.state != State::Refused) {
            entry.state = state;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken().entries.retain(|entry| entry.id != self.id);
        self.places.freed.notify_one();
    }
}
