use unstarve_model::{Nanos, Time};

use crate::{ActorId, Price};

/// Recent waits that a task will pass on to those whom it wakes: its own, and those of tasks that it waited for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Debts {
    /// The latest [`Debts::KEPT`], a ring in the order of their ends: what is handed on to a sleeper ends after it fell
    /// asleep, and its own waits ended before.
    list: Vec<Debt>,
    /// Which one the next replaces, once they are so many.
    oldest: usize,
    /// The latest end of all.
    latest: Time,
}

#[derive(Clone, Copy, Debug)]
struct Debt {
    victim: ActorId,
    start: Time,
    end: Time,
}

impl Debts {
    /// A task that waited more often than this in one sleep of its wakee passes the latest on: prices are lower bounds.
    const KEPT: usize = 16;

    /// A wait of `victim` is over.
    pub fn push(&mut self, victim: ActorId, start: Time, end: Time) {
        let debt = Debt { victim, start, end };
        self.latest = self.latest.max(end);
        if self.list.len() < Debts::KEPT {
            self.list.push(debt);
        } else {
            self.list[self.oldest] = debt;
            self.oldest = (self.oldest + 1) % Debts::KEPT;
        }
    }

    /// Whether nothing here reaches beyond `time`.
    pub fn is_settled(&self, time: Time) -> bool {
        self.latest <= time
    }

    /// What `waker`'s debts cost a wakee that slept since `sleep_start`: adds to `prices`, and hands the debts on to
    /// the wakee's own, cut to its sleep.
    pub fn pass_on(&mut self, waker: &Debts, sleep_start: Time, wakee: ActorId, prices: &mut Vec<Price>) {
        let (newer, older) = (&waker.list[..waker.oldest], &waker.list[waker.oldest..]);
        let newest_first = newer.iter().rev().chain(older.iter().rev());
        let open = newest_first.take_while(|debt| debt.end > sleep_start).count();
        let oldest_first = older.iter().chain(newer);
        for debt in oldest_first.skip(waker.list.len() - open) {
            let start = debt.start.max(sleep_start);
            let length = debt.end.since(start);
            if length == Nanos::ZERO || debt.victim == wakee {
                continue;
            }
            match prices.iter_mut().find(|price| price.victim == debt.victim) {
                Some(price) => price.length += length,
                None => prices.push(Price { victim: debt.victim, length }),
            }
            self.push(debt.victim, start, debt.end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_pays_for_the_waits_within_its_sleep_and_passes_them_on() {
        //        0    10   20   30   40
        // V      wait 5..25, runs, wakes X at 30
        // X      sleeps from 10 to 30, then wakes Y (asleep since 20) at 35
        let (v, x, y) = (ActorId(5), ActorId(6), ActorId(7));
        let mut of_v = Debts::default();
        of_v.push(v, Time(5), Time(25));
        let (mut of_x, mut of_y) = (Debts::default(), Debts::default());
        let mut prices = Vec::new();
        of_x.pass_on(&of_v, Time(10), x, &mut prices);
        assert_eq!(prices, [Price { victim: v, length: Nanos(15) }]);
        prices.clear();
        of_y.pass_on(&of_x, Time(20), y, &mut prices);
        assert_eq!(prices, [Price { victim: v, length: Nanos(5) }]);
        assert!(of_x.is_settled(Time(25)));
    }
}
