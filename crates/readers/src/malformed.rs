//! Counts events that are in the file but cannot be decoded.

use unstarve_model::{EventSet, EventType, Loss, LossKind};

/// Undecodable events: how many of each type, and where and what the first one is.
///
/// A type whose events are all malformed was recorded nevertheless. To report it as "not recorded" would make people
/// record again.
#[derive(Clone, Debug, Default)]
pub struct Malformed(Vec<(EventType, u64, String)>);

impl Malformed {
    /// Counts one. `place` describes where it is and what it looks like; it is called only for the first one of each
    /// type.
    #[cold]
    pub fn note(&mut self, event: EventType, place: impl FnOnce() -> String) {
        match self.0.iter_mut().find(|(known, ..)| *known == event) {
            Some((_, count, _)) => *count = count.saturating_add(1),
            None => self.0.push((event, 1, place())),
        }
    }

    /// Adds the types with malformed events to `seen`.
    pub fn and(&self, seen: EventSet) -> EventSet {
        self.0.iter().fold(seen, |events, &(event, ..)| events.with(event))
    }

    /// One loss per event type.
    pub fn losses(&self) -> impl Iterator<Item = Loss> {
        let loss = |(event, count, first): &(EventType, u64, String)| {
            Loss::new(LossKind::Malformed(*event), *count).with_detail(format!("the first is {first}"))
        };
        self.0.iter().map(loss)
    }
}
