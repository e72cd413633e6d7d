use unstarve_model::{EventSet, EventType, Loss, LossKind};

/// Events that are in the file and cannot be read: how many of each type, and what the first looks like.
///
/// A type that is malformed throughout was recorded all the same: "not recorded" would send people to record again.
#[derive(Clone, Debug, Default)]
pub struct Malformed(Vec<(EventType, u64, String)>);

impl Malformed {
    /// Counts one; `place` says where it is and what it looks like, and is asked of the first of its type only.
    #[cold]
    pub fn note(&mut self, event: EventType, place: impl FnOnce() -> String) {
        match self.0.iter_mut().find(|(known, ..)| *known == event) {
            Some((_, count, _)) => *count = count.saturating_add(1),
            None => self.0.push((event, 1, place())),
        }
    }

    /// `seen` and the types that occurred so.
    pub fn and(&self, seen: EventSet) -> EventSet {
        self.0.iter().fold(seen, |events, &(event, ..)| events.with(event))
    }

    /// One for each type.
    pub fn losses(&self) -> impl Iterator<Item = Loss> {
        let loss = |(event, count, first): &(EventType, u64, String)| {
            Loss::new(LossKind::Malformed(*event), *count).with_detail(format!("the first is {first}"))
        };
        self.0.iter().map(loss)
    }
}
