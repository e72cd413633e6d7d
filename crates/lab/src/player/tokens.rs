//! Wakes as tokens: given by one thread, taken by another, which sleeps while there is none.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::thread::futex;

/// The tokens of one thread.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    count: AtomicU32,
    /// When the owner was woken, on CLOCK_MONOTONIC; for those who give with a time.
    woken: AtomicU64,
}

/// In place of a number of tokens: the owner sleeps.
const ASLEEP: u32 = u32::MAX;

impl Tokens {
    /// As [`Tokens::give`], and keeps the time.
    pub(super) fn give_at(&self, now: u64) -> bool {
        self.woken.store(now, Ordering::Relaxed);
        self.give()
    }

    /// When the owner was last given a token with a time; 0 if never.
    pub(super) fn woken(&self) -> u64 {
        self.woken.load(Ordering::Relaxed)
    }

    /// Gives a token, and wakes the owner if it sleeps; returns whether it did.
    pub(super) fn give(&self) -> bool {
        // From ASLEEP to 0: the owner takes this one at once.
        let sleeps = self.count.fetch_add(1, Ordering::AcqRel) == ASLEEP;
        if sleeps {
            let _ = futex::wake(&self.count, futex::Flags::PRIVATE, 1);
        }
        sleeps
    }

    /// Takes a token, and sleeps until there is one; returns whether it slept. Only the owner takes.
    pub(super) fn take(&self) -> bool {
        // From 0 to ASLEEP.
        if self.count.fetch_sub(1, Ordering::AcqRel) != 0 {
            return false;
        }
        while self.count.load(Ordering::Acquire) == ASLEEP {
            let _ = futex::wait(&self.count, futex::Flags::PRIVATE, ASLEEP, None);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_wake_before_the_block_does_not_sleep() {
        let tokens = Tokens::default();
        tokens.give();
        tokens.give();
        assert_eq!([tokens.take(), tokens.take()], [false, false]);
        tokens.give();
        assert!(!tokens.take(), "the earlier ones were taken");
    }

    #[test]
    fn every_token_is_taken_once() {
        let tokens = Arc::new((Tokens::default(), Tokens::default()));
        let (mine, other) = (Arc::clone(&tokens), 10_000);
        let partner = std::thread::spawn(move || {
            for _ in 0..other {
                mine.0.take();
                mine.1.give();
            }
        });
        for _ in 0..other {
            tokens.0.give();
            tokens.1.take();
        }
        partner.join().expect("it took them all");
        assert_eq!((tokens.0.count.load(Ordering::Relaxed), tokens.1.count.load(Ordering::Relaxed)), (0, 0));
    }
}
