//! What an ideal processor, which runs all runnable tasks at once, would have given each of them.

use unstarve_model::{Nanos, Time};

/// The virtual time of an ideal processor that serves all runnable tasks of one CPU at once, each by its share: in
/// `dt` nanoseconds it advances by `dt / total weight`, and a task of weight `w` is due `w` times the advance.
///
/// One task, one share; nice is the only weight; real-time tasks count as nice 0. This is the yardstick for *owed
/// time*, deliberately blind to class and cgroup weights: those are the rules by which it grows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fairness {
    virtual_time: f64,
    weight: u64,
    now: Time,
}

/// A task's place in the ideal processor of the CPU on which it is runnable. Twelve bytes, so that it fits into the line of a
/// cache that every event of a task looks at.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, packed(4))]
pub struct Account {
    /// Its weight there; 0 when it is not runnable.
    pub weight: u32,
    /// The virtual time up to which it has been reckoned.
    pub mark: f64,
}

impl Fairness {
    #[inline]
    fn advance(&mut self, now: Time) {
        // Several tasks are reckoned at one moment, and a division is dear.
        if now <= self.now {
            return;
        }
        if self.weight > 0 {
            // The sum of weights of 32 bits stays far below 2^63.
            self.virtual_time += as_f64(now.0 - self.now.0) / (self.weight as i64 as f64);
        }
        self.now = now;
    }

    /// What the runnable tasks weigh together.
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// The task becomes runnable here.
    #[inline]
    pub fn join(&mut self, now: Time, account: &mut Account, weight: u32) {
        self.advance(now);
        account.weight = weight;
        account.mark = self.virtual_time;
        self.weight += u64::from(account.weight);
    }

    /// The task, runnable here, has another weight than was thought; it counts from when the task was last reckoned.
    pub fn reweigh(&mut self, now: Time, account: &mut Account, weight: u32) {
        self.advance(now);
        self.weight = self.weight.saturating_sub(u64::from(account.weight)) + u64::from(weight);
        account.weight = weight;
    }

    /// What the task was due since it joined or was last reckoned.
    #[inline]
    pub fn due(&mut self, now: Time, account: &mut Account) -> f64 {
        self.advance(now);
        let due = f64::from(account.weight) * (self.virtual_time - account.mark);
        account.mark = self.virtual_time;
        due.max(0.0)
    }

    /// The task is no longer runnable here; what it was due since it was last reckoned.
    #[inline]
    pub fn leave(&mut self, now: Time, account: &mut Account) -> f64 {
        let due = self.due(now, account);
        self.weight = self.weight.saturating_sub(u64::from(account.weight));
        account.weight = 0;
        due
    }
}

/// The same as `as`, by way of a signed integer, from which the baseline x86-64 converts by one instruction.
#[inline(always)]
fn as_f64(number: u64) -> f64 {
    if number > i64::MAX as u64 { huge(number) } else { number as i64 as f64 }
}

/// Apart, or the two would be made one again, the dear one.
#[cold]
#[inline(never)]
fn huge(number: u64) -> f64 {
    number as f64
}

/// To whole nanoseconds.
#[inline]
pub fn whole(due: f64) -> Nanos {
    // Not `round`, which is a call into the C library on the baseline x86-64, and through a signed integer, to which that
    // converts by one instruction. What is due is never negative.
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
