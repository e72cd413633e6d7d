//! Wake chains: waits that a task passes on to the tasks that it wakes, and their cost for a sleeper.

use unstarve_model::{Nanos, Time};

use crate::{ActorId, Price};

/// Recent waits that a task passes on to the tasks that it wakes: its own, and those of tasks that it waited for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Debts {
    /// The latest [`Debts::KEPT`], a ring ordered by their ends: what is passed to a sleeper ends after it fell asleep, and its
    /// own waits ended before.
    list: Vec<Debt>,
    /// The index that the next one replaces, once the ring is full.
    oldest: usize,
    /// The latest end of all.
    latest: Time,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Debt {
    victim: ActorId,
    start: Time,
    end: Time,
    basis: Basis,
}

/// How it is known that one task woke the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Basis {
    /// By the event.
    Seen,
    /// By how often one is current when the other is woken.
    Inferred,
    /// By events, some of them of a block device request.
    SeenThroughDevice,
    /// The same, with an inferred step.
    InferredThroughDevice,
}

impl Basis {
    #[inline(always)]
    fn is_seen(self) -> bool {
        matches!(self, Basis::Seen | Basis::SeenThroughDevice)
    }

    #[inline(always)]
    fn is_through_device(self) -> bool {
        matches!(self, Basis::SeenThroughDevice | Basis::InferredThroughDevice)
    }

    /// The basis of a debt that is passed on by an inferred wakeup.
    fn made_inferred(self) -> Basis {
        if self.is_through_device() { Basis::InferredThroughDevice } else { Basis::Inferred }
    }
}

impl Debts {
    /// Maximum waits kept; if a task waited more often during one sleep of its wakee, it passes on the latest: prices are lower
    /// bounds.
    pub const KEPT: usize = 16;

    /// A wait of `victim` ended.
    #[inline]
    pub fn push(&mut self, victim: ActorId, start: Time, end: Time) {
        self.keep(Debt { victim, start, end, basis: Basis::Seen });
    }

    #[inline]
    fn keep(&mut self, debt: Debt) {
        self.latest = self.latest.max(debt.end);
        if self.list.len() < Debts::KEPT {
            self.list.push(debt);
        } else {
            self.list[self.oldest] = debt;
            self.oldest = (self.oldest + 1) % Debts::KEPT;
        }
    }

    /// Whether no debt ends after `time`.
    #[inline]
    pub fn is_settled(&self, time: Time) -> bool {
        self.latest <= time
    }

    /// Adds debts that end after `time` to `open`, the latest first. `basis` is that of the wakeup that passes them on.
    #[inline]
    pub fn open_since(&self, time: Time, basis: Basis, open: &mut Vec<Debt>) {
        if !self.is_settled(time) {
            self.add_open(time, basis, open);
        }
    }

    fn add_open(&self, time: Time, basis: Basis, open: &mut Vec<Debt>) {
        let (newer, older) = (&self.list[..self.oldest], &self.list[self.oldest..]);
        for part in [newer, older] {
            for debt in part.iter().rev() {
                if debt.end <= time {
                    return;
                }
                let basis = if basis.is_seen() { debt.basis } else { debt.basis.made_inferred() };
                open.push(Debt { basis, ..*debt });
            }
        }
    }

    /// Computes what the debts that led to a wakeup cost a wakee that slept since `sleep_start`: adds to `prices`, and passes
    /// the debts, cut to its sleep, on to the wakee. `open` is ordered by end, the latest first. Each moment of the sleep
    /// counts once: if two waited at the same time, it counts for the wait that ended last, which the wakeup had to wait for.
    pub fn take_over(&mut self, open: &mut Vec<Debt>, sleep_start: Time, wakee: ActorId, prices: &mut Vec<Price>) {
        let mut counted_from = Time(u64::MAX);
        open.retain_mut(|debt| {
            debt.start = debt.start.max(sleep_start);
            debt.end = debt.end.min(counted_from);
            if debt.end <= debt.start || debt.victim == wakee {
                return false;
            }
            counted_from = debt.start;
            true
        });
        for debt in open.drain(..).rev() {
            let length = debt.end.since(debt.start);
            let certain = if debt.basis.is_seen() { length } else { Nanos::ZERO };
            match prices.iter_mut().find(|price| price.victim == debt.victim) {
                Some(price) => {
                    price.length += length;
                    price.certain += certain;
                }
                None => prices.push(Price { victim: debt.victim, length, certain, through_device: Nanos::ZERO }),
            }
            if debt.basis.is_through_device() {
                note_through_device(prices, debt.victim, length);
            }
            self.keep(debt);
        }
    }
}

#[cold]
fn note_through_device(prices: &mut [Price], victim: ActorId, length: Nanos) {
    if let Some(price) = prices.iter_mut().find(|price| price.victim == victim) {
        price.through_device += length;
    }
}

impl Debt {
    /// The debt for tasks that wait for a request, passed on by an event of this basis, if it ends after `time`.
    pub fn through_device(self, time: Time, basis: Basis) -> Option<Debt> {
        let certain = basis.is_seen() && self.basis.is_seen();
        let basis = if certain { Basis::SeenThroughDevice } else { Basis::InferredThroughDevice };
        (self.end > time).then_some(Debt { basis, ..self })
    }

    /// Whether it began before this time.
    pub fn began_before(&self, time: Time) -> bool {
        self.start < time
    }
}

/// Sorts debts of several tasks as [`Debts::take_over`] expects.
pub(crate) fn latest_first(open: &mut [Debt]) {
    open.sort_by_key(|debt| std::cmp::Reverse(debt.end));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sure(victim: ActorId, length: u64) -> Price {
        Price { victim, length: Nanos(length), certain: Nanos(length), through_device: Nanos::ZERO }
    }

    fn unsure(victim: ActorId, length: u64) -> Price {
        Price { certain: Nanos::ZERO, ..sure(victim, length) }
    }

    fn pass_on(from: &Debts, to: &mut Debts, sleep_start: Time, wakee: ActorId) -> Vec<Price> {
        let (mut open, mut prices) = (Vec::new(), Vec::new());
        from.open_since(sleep_start, Basis::Seen, &mut open);
        to.take_over(&mut open, sleep_start, wakee, &mut prices);
        prices
    }

    #[test]
    fn a_sleeper_pays_for_the_waits_within_its_sleep_and_passes_them_on() {
        //        0    10   20   30   40
        // V      wait 5..25, runs, wakes X at 30
        // X      sleeps from 10 to 30, then wakes Y (asleep since 20) at 35
        let (v, x, y) = (ActorId(5), ActorId(6), ActorId(7));
        let mut of_v = Debts::default();
        of_v.push(v, Time(5), Time(25));
        let (mut of_x, mut of_y) = (Debts::default(), Debts::default());
        assert_eq!(pass_on(&of_v, &mut of_x, Time(10), x), [sure(v, 15)]);
        assert_eq!(pass_on(&of_x, &mut of_y, Time(20), y), [sure(v, 5)]);
        assert!(of_x.is_settled(Time(25)));
    }

    #[test]
    fn a_moment_of_a_sleep_is_paid_for_once() {
        // V waits 5..25, U waits 10..30 and then wakes X, asleep since 0, which gets both as debts of U.
        let (v, u, x) = (ActorId(5), ActorId(6), ActorId(7));
        let mut of_u = Debts::default();
        of_u.push(v, Time(5), Time(25));
        of_u.push(u, Time(10), Time(30));
        let prices = pass_on(&of_u, &mut Debts::default(), Time(0), x);
        assert_eq!(prices, [sure(v, 5), sure(u, 20)]);
    }

    #[test]
    fn what_an_inferred_wakeup_passes_on_stays_inferred() {
        // V waits 5..25 and perhaps wakes X, which certainly wakes Y. X waited itself, too.
        let (v, x, y) = (ActorId(5), ActorId(6), ActorId(7));
        let (mut of_v, mut of_x, mut of_y) = (Debts::default(), Debts::default(), Debts::default());
        of_v.push(v, Time(5), Time(25));
        let (mut open, mut prices) = (Vec::new(), Vec::new());
        of_v.open_since(Time(0), Basis::Inferred, &mut open);
        of_x.take_over(&mut open, Time(0), x, &mut prices);
        assert_eq!(prices, [unsure(v, 20)]);
        of_x.push(x, Time(30), Time(37));
        let prices = pass_on(&of_x, &mut of_y, Time(0), y);
        assert_eq!(prices, [unsure(v, 20), sure(x, 7)]);
    }
}
