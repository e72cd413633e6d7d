//! Which event a sample is of.

use rustc_hash::FxHashMap;

/// An event has an id per CPU; this many are 128 events on the largest machines.
const MAX_IDS: usize = 1 << 20;

/// Which event has which id. The kernel counts ids upwards, so those of one recording are neighbours: they are kept in
/// an array that one load reads, and all of them in a map besides.
#[derive(Default)]
pub struct EventIds {
    all: FxHashMap<u64, u16>,
    first: u64,
    /// Events, some with [`UNREAD`] beside their number.
    near: Vec<u16>,
}

/// 18 events on 500 CPUs on either side of the first id seen.
const NEAR: u64 = 1 << 14;
const NOBODY: u16 = u16::MAX;
/// Nobody reads this event: its samples are passed over without another look. There are never so many events.
const UNREAD: u16 = 1 << 15;

/// An event as one load finds it.
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
            self.first = id.saturating_sub(NEAR / 2);
            self.near.resize(NEAR as usize, NOBODY);
        }
        if let Some(slot) = self.near.get_mut(id.wrapping_sub(self.first) as usize) {
            *slot = event;
        }
        self.all.insert(id, event);
    }

    /// Notes which events are read.
    pub fn choose(&mut self, is_read: impl Fn(u16) -> bool) {
        for slot in self.near.iter_mut().filter(|slot| **slot != NOBODY) {
            let event = *slot & !UNREAD;
            *slot = if is_read(event) { event } else { event | UNREAD };
        }
    }

    /// The event of this id, if the id is that of an event and near the others.
    #[inline(always)]
    pub fn near(&self, id: u64) -> Option<Near> {
        match *self.near.get(id.wrapping_sub(self.first) as usize)? {
            event @ 0..UNREAD => Some(Near::Event(event)),
            NOBODY => None,
            _ => Some(Near::Unread),
        }
    }

    #[inline]
    pub fn get(&self, id: u64) -> Option<u16> {
        match self.near.get(id.wrapping_sub(self.first) as usize) {
            Some(&event) => (event != NOBODY).then_some(event & !UNREAD),
            None => self.all.get(&id).copied(),
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}
