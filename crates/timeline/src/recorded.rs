//! Which types of events the source records, and which have been seen.

use unstarve_model::{EventSet, EventType};

/// What is recorded, as the source declares or its events show.
#[derive(Debug)]
pub(crate) struct Recorded {
    migrations: bool,
    waking: bool,
    wakeup: bool,
    /// Whether events show on which queue a woken task is put.
    places: bool,
    /// Number of switches. Without any, no wait has an end.
    switches: u64,
    /// The types of events so far, except switches.
    seen: EventSet,
}

impl Recorded {
    /// Starts with what the source declares; if it declares nothing, everything is assumed to be recorded.
    pub fn new(recorded: Option<EventSet>) -> Recorded {
        let has = |event| recorded.is_none_or(|set| set.contains(event));
        Recorded {
            migrations: recorded.is_some_and(|set| set.contains(EventType::Migrate)),
            waking: has(EventType::Waking),
            wakeup: has(EventType::Wakeup),
            // If the source declares nothing, the first such event decides.
            places: recorded.is_some() && (has(EventType::Wakeup) || has(EventType::Migrate)),
            switches: 0,
            seen: EventSet::default(),
        }
    }

    #[inline(always)]
    pub fn note_switch(&mut self) {
        self.switches += 1;
    }

    /// An event other than a switch came.
    #[inline(always)]
    pub fn note(&mut self, event: EventType) {
        self.seen.insert(event);
    }

    /// An event shows on which queue a woken task is put.
    #[inline(always)]
    pub fn note_place(&mut self) {
        self.places = true;
    }

    /// A task is moved to another CPU.
    pub fn note_migration(&mut self) {
        (self.migrations, self.places) = (true, true);
    }

    /// Number of switches so far.
    pub fn switches(&self) -> u64 {
        self.switches
    }

    /// The types of events so far.
    pub fn seen(&self) -> EventSet {
        if self.switches > 0 { self.seen.with(EventType::Switch) } else { self.seen }
    }

    /// Whether migrations are recorded: the source declares it, or one was seen.
    pub fn has_migrations(&self) -> bool {
        self.migrations
    }

    /// Whether `sched_waking` is recorded.
    #[inline(always)]
    pub fn has_waking(&self) -> bool {
        self.waking
    }

    /// Whether `sched_wakeup` is recorded.
    #[inline(always)]
    pub fn has_wakeup(&self) -> bool {
        self.wakeup
    }

    /// Whether events show on which queue a woken task is put.
    #[inline(always)]
    pub fn has_places(&self) -> bool {
        self.places
    }

    #[cfg(test)]
    pub fn assume_places(&mut self, recorded: bool) {
        self.places = recorded;
    }
}
