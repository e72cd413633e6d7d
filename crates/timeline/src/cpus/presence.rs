//! When a CPU issued events, and what other CPUs show of it before and between them.

use unstarve_model::Time;

/// What is known of a CPU's own events.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    /// Whether it has issued any event.
    issued: bool,
    /// Whether an event has shown what it does.
    heard: bool,
    /// When another CPU first put a task on its run queue, before its own first event that shows what it does.
    arrival: Option<Time>,
    /// Whether a task left it before that event: its first events are missing.
    was_left: bool,
    /// Its last event.
    last_event: Time,
    /// Its last event before its task turned up elsewhere: from then on it is unknown what it did.
    lost_track: Option<Time>,
}

impl Presence {
    #[inline(always)]
    pub fn note_issued(&mut self) {
        self.issued = true;
    }

    /// Whether it has issued any event.
    #[inline(always)]
    pub fn has_issued(&self) -> bool {
        self.issued
    }

    /// An event shows what the CPU does. Returns whether it is the first one.
    pub fn note_heard(&mut self) -> bool {
        !std::mem::replace(&mut self.heard, true)
    }

    /// Its last event.
    #[inline(always)]
    pub fn last_event(&self) -> Time {
        self.last_event
    }

    #[inline(always)]
    pub fn set_last_event(&mut self, now: Time) {
        self.last_event = now;
    }

    /// Another CPU puts a task on its run queue.
    #[inline]
    pub fn note_arrival(&mut self, now: Time) {
        if !self.heard {
            self.arrival.get_or_insert(now);
        }
    }

    /// When another CPU first put a task on its run queue, before its own first event that shows what it does.
    pub fn first_arrival(&self) -> Option<Time> {
        self.arrival
    }

    /// A task from its run queue is woken again: it has run and slept, and no event of the CPU shows that.
    pub fn note_left(&mut self) {
        self.was_left |= !self.heard;
    }

    /// Whether a task left it before its own first event that shows what it does.
    pub fn was_left(&self) -> bool {
        self.was_left
    }

    /// Its task turned up elsewhere: from `since`, its last event, it is unknown what it did.
    pub fn lose_track(&mut self, since: Time) {
        self.lost_track = Some(since);
    }

    /// Whether its task turned up elsewhere since its last event.
    pub fn has_lost_track(&self, last_event: Time) -> bool {
        self.lost_track == Some(last_event)
    }
}
