//! Maps sample ids to events.

use rustc_hash::FxHashMap;

/// An event has one id per CPU; this limit allows 128 events on the largest machines.
const MAX_IDS: usize = 1 << 20;

/// Maps each sample id to its event. The kernel counts ids upwards, so those of one recording are close together: an
/// array that takes a single load to read holds them, and a map holds all of them.
#[derive(Default)]
pub struct EventIds {
    all: FxHashMap<u64, u16>,
    first: u64,
    /// Event indices, some with the flag [`UNREAD_FLAG`].
    near: Vec<u16>,
}

/// Enough for 18 events on 500 CPUs on either side of the first id seen.
const NEAR_IDS: u64 = 1 << 14;
const NO_EVENT: u16 = u16::MAX;
/// Flag of an event that unstarve does not read: its samples are skipped at once. There are never enough events for an
/// index to reach this bit.
const UNREAD_FLAG: u16 = 1 << 15;

/// What the array says about an id.
pub enum Near {
    Event(u16),
    Unread,
}

impl EventIds {
    pub fn insert(&mut self, id: u64, event: u16) {
        if self.all.len() >= MAX_IDS {
            return;
        }
        if self.near.is_empty() {
            self.first = id.saturating_sub(NEAR_IDS / 2);
            self.near.resize(NEAR_IDS as usize, NO_EVENT);
        }
        if let Some(slot) = self.near.get_mut(id.wrapping_sub(self.first) as usize) {
            *slot = event;
        }
        self.all.insert(id, event);
    }

    /// Flags the events that unstarve does not read.
    pub fn choose(&mut self, is_read: impl Fn(u16) -> bool) {
        for slot in self.near.iter_mut().filter(|slot| **slot != NO_EVENT) {
            let event = *slot & !UNREAD_FLAG;
            *slot = if is_read(event) { event } else { event | UNREAD_FLAG };
        }
    }

    /// The event of this id, if the array has it.
    #[inline(always)]
    pub fn near(&self, id: u64) -> Option<Near> {
        match *self.near.get(id.wrapping_sub(self.first) as usize)? {
            event @ 0..UNREAD_FLAG => Some(Near::Event(event)),
            NO_EVENT => None,
            _ => Some(Near::Unread),
        }
    }

    #[inline]
    pub fn get(&self, id: u64) -> Option<u16> {
        match self.near.get(id.wrapping_sub(self.first) as usize) {
            Some(&event) => (event != NO_EVENT).then_some(event & !UNREAD_FLAG),
            None => self.all.get(&id).copied(),
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}
