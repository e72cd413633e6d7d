//! The ideal fair share: what a processor that runs all runnable tasks at once would give each of them.

use unstarve_model::{Nanos, Time};

/// The virtual time of an ideal processor that serves all runnable tasks of one CPU at once, each by its share: in `dt`
/// nanoseconds it advances by `dt / total weight`, and a task of weight `w` is due `w` times the advance. Each task has a share
/// of its own, only nice counts as weight, and real-time tasks count as nice 0. This is the basis of *owed time*. It ignores
/// class and cgroup weights on purpose: they are the rules that make owed time grow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fairness {
    virtual_time: f64,
    weight: u64,
    now: Time,
}

/// A task's state on the ideal processor of the CPU where it is runnable. Twelve bytes, so that it fits into the cache line
/// that every event of a task reads.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, packed(4))]
pub struct Account {
    /// Its weight; 0 while it is not runnable.
    pub weight: u32,
    /// The virtual time up to which its share is computed.
    pub mark: f64,
}

impl Fairness {
    #[inline]
    fn advance(&mut self, now: Time) {
        // Several tasks are updated at the same time, and a division is expensive.
        if now <= self.now {
            return;
        }
        if self.weight > 0 {
            // A sum of 32-bit weights stays far below 2^63.
            self.virtual_time += as_f64(now.0 - self.now.0) / (self.weight as i64 as f64);
        }
        self.now = now;
    }

    /// The total weight of the runnable tasks.
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// The task becomes runnable on this CPU.
    #[inline]
    pub fn join(&mut self, now: Time, account: &mut Account, weight: u32) {
        self.advance(now);
        account.weight = weight;
        account.mark = self.virtual_time;
        self.weight += u64::from(account.weight);
    }

    /// Corrects the weight of a task that is runnable here, from its last update on.
    pub fn reweigh(&mut self, now: Time, account: &mut Account, weight: u32) {
        self.advance(now);
        self.weight = self.weight.saturating_sub(u64::from(account.weight)) + u64::from(weight);
        account.weight = weight;
    }

    /// The task's share since it joined or was last updated.
    #[inline]
    pub fn due(&mut self, now: Time, account: &mut Account) -> f64 {
        self.advance(now);
        let due = f64::from(account.weight) * (self.virtual_time - account.mark);
        account.mark = self.virtual_time;
        due.max(0.0)
    }

    /// The task is no longer runnable here; returns its share since its last update.
    #[inline]
    pub fn leave(&mut self, now: Time, account: &mut Account) -> f64 {
        let due = self.due(now, account);
        self.weight = self.weight.saturating_sub(u64::from(account.weight));
        account.weight = 0;
        due
    }
}

/// Like `as`, but through a signed integer, for which baseline x86-64 has a single instruction.
#[inline(always)]
fn as_f64(number: u64) -> f64 {
    if number > i64::MAX as u64 { huge(number) } else { number as i64 as f64 }
}

/// A function of its own, or the compiler merges both conversions into the expensive one.
#[cold]
#[inline(never)]
fn huge(number: u64) -> f64 {
    number as f64
}

/// Rounds to whole nanoseconds.
#[inline]
pub fn whole(due: f64) -> Nanos {
    // Not `round`, which calls the C library on baseline x86-64. The conversion goes through a signed integer, which takes one
    // instruction. The share is never negative.
    Nanos((due + 0.5) as i64 as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_are_due_half_each_and_nice_counts() {
        let mut cpu = Fairness::default();
        let (mut a, mut b) = (Account::default(), Account::default());
        cpu.join(Time(0), &mut a, 1024);
        cpu.join(Time(100), &mut b, 1024);
        assert_eq!(cpu.due(Time(200), &mut a).round(), 150.0);
        assert_eq!(cpu.leave(Time(300), &mut b).round(), 100.0);
        assert_eq!(cpu.leave(Time(400), &mut a).round(), 150.0);
        let (mut a, mut b) = (Account::default(), Account::default());
        cpu.join(Time(400), &mut a, 1024);
        cpu.join(Time(400), &mut b, 1024);
        assert_eq!(cpu.due(Time(500), &mut a).round(), 50.0);
        cpu.reweigh(Time(500), &mut b, 3072);
        assert_eq!(cpu.due(Time(600), &mut a).round(), 25.0, "b weighs three times as much by now");
    }
}
