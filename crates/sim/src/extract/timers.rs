//! Which timer ended a sleep, and what its thread had asked for.
//!
//! A thread arms a timer before it sleeps, and the timer's interrupt wakes that thread: so an expiry that is followed by the wakeup of
//! the thread that armed the timer is the end of a sleep of known kind. The kernel's own call says whether a length was asked for or a
//! time, whatever the sleeps' lengths are.

use std::collections::HashMap;

use unstarve_model::{CpuId, Nanos, Time};
use unstarve_timeline::TimerStart;

use super::{MAX_OPERATIONS, ThreadId};

/// An expiry calls its thread's wakeup at once; a slow console or host may be in between.
const FOLLOWS_WITHIN: Nanos = Nanos(50_000);

/// What a thread asked a timer for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    /// A length: nanosleep, a driver's timeout.
    Length,
    /// A time, with when it was asked, by the recording's clock and by the timer's own. poll, select, epoll and futexes make a time of a length.
    Time { armed: Time, due: Time, due_on_its_clock: i64 },
    /// Nothing: another thread, or an interrupt, had armed the timer.
    Nothing,
}

/// Armed timers, and those that have just expired.
#[derive(Debug, Default)]
pub(super) struct Timers {
    armed: HashMap<u64, Armed>,
    expired: HashMap<CpuId, Expired>,
    /// Whether starts and expiries are recorded.
    pub are_recorded: bool,
    /// Whether ends of timeouts are recorded.
    pub has_timeouts: bool,
}

#[derive(Clone, Copy, Debug)]
struct Armed {
    /// `None`: an interrupt.
    by: Option<ThreadId>,
    at: Time,
    start: TimerStart,
}

#[derive(Clone, Copy, Debug)]
struct Expired {
    at: Time,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// `None`: it was armed before the recording.
    Timer(Option<Armed>, i64),
    Timeout,
}

impl Timers {
    pub fn start(&mut self, start: TimerStart, by: Option<ThreadId>, now: Time) {
        self.are_recorded = true;
        // An address that is used again is another timer, or the same one.
        if self.armed.len() < MAX_OPERATIONS || self.armed.contains_key(&start.timer) {
            self.armed.insert(start.timer, Armed { by, at: now, start });
        }
    }

    pub fn expire(&mut self, cpu: CpuId, timer: u64, on_its_clock: i64, now: Time) {
        self.are_recorded = true;
        let kind = Kind::Timer(self.armed.remove(&timer), on_its_clock);
        self.expired.insert(cpu, Expired { at: now, kind });
    }

    pub fn time_out(&mut self, cpu: CpuId, now: Time) {
        self.has_timeouts = true;
        self.expired.insert(cpu, Expired { at: now, kind: Kind::Timeout });
    }

    /// An interrupt ended on this CPU: what happens next is by nobody's timer.
    pub fn interrupt_ends(&mut self, cpu: CpuId) {
        self.expired.remove(&cpu);
    }

    /// What the woken thread had asked for itself, if its own timer has just expired on this CPU.
    pub fn own(&mut self, cpu: CpuId, now: Time, woken: ThreadId) -> Option<Asked> {
        let asked = match self.just_expired(cpu, now)? {
            // Its timer is on the sleeper's own stack (`schedule_timeout`).
            Expired { kind: Kind::Timeout, .. } => Asked::Length,
            Expired { kind: Kind::Timer(Some(armed), on_its_clock), at } if armed.by == Some(woken) => {
                asked_of(armed, on_its_clock, at)
            }
            _ => return None,
        };
        self.expired.remove(&cpu);
        Some(asked)
    }

    /// Whether another's timer has just expired on this CPU.
    pub fn others(&mut self, cpu: CpuId, now: Time) -> Option<Asked> {
        let expired = self.just_expired(cpu, now);
        self.expired.remove(&cpu);
        // Who armed a timer that the recording does not show being armed is not known: it may be the thread's own.
        let is_others = expired.is_some_and(|expired| !matches!(expired.kind, Kind::Timer(None, _)));
        is_others.then_some(Asked::Nothing)
    }

    fn just_expired(&self, cpu: CpuId, now: Time) -> Option<Expired> {
        self.expired.get(&cpu).copied().filter(|expired| now.since(expired.at) <= FOLLOWS_WITHIN)
    }
}

fn asked_of(armed: Armed, on_its_clock: i64, expired: Time) -> Asked {
    if armed.start.is_relative {
        return Asked::Length;
    }
    // How late it expired is about the same on both clocks: the time on its own is that of the interrupt, a few microseconds before.
    let late = u64::try_from(on_its_clock.saturating_sub(armed.start.due)).unwrap_or(0);
    let due = Time(expired.0.saturating_sub(late));
    Asked::Time { armed: armed.at, due, due_on_its_clock: armed.start.due }
}
