//! Limits the work that a trace can cause beyond a constant for each event.
//!
//! Most events take a constant number of steps. A few must visit every task that waits for a CPU, or every occupant during a
//! wait. Real machines have few of these. A trace in which each event causes such a visit, as long as the trace itself, would
//! take quadratic time. So these steps are counted, and their maximum grows linearly with the trace's length. Beyond it, parts
//! of waits become `unknown`, and a loss reports that. Sums stay exact.

use unstarve_model::{Loss, LossKind, grouped};

/// Steps that any trace may take. One takes up to 60 ns, for an occupant outside of all caches: two seconds of CPU time.
const ANY: i64 = 1 << 25;

/// Additional steps for each change of an occupant.
const BY_CHANGE: i64 = 16;

/// Steps for each piece of a wait beyond a few: the ledger and other sinks look it up in tables.
const BY_PIECE: usize = 16;

/// The steps that may still be taken.
#[derive(Clone, Debug)]
pub(crate) struct Effort {
    /// Negative if the last visit took more than was left.
    left: i64,
    /// Waits of which a part became unknown.
    cut_short: u64,
    /// Skipped searches for throttled tasks.
    not_looked: u64,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort::of(ANY)
    }
}

impl Effort {
    /// Starts with this many steps.
    pub fn of(steps: i64) -> Effort {
        Effort { left: steps, cut_short: 0, not_looked: 0 }
    }

    /// Counts steps.
    #[inline]
    pub fn take(&mut self, steps: usize) {
        self.left = self.left.saturating_sub_unsigned(steps as u64);
    }

    /// Counts the pieces of a wait passed to a sink.
    #[inline]
    pub fn take_pieces(&mut self, pieces: usize) {
        if pieces > UNCOUNTED_STEPS {
            self.take(BY_PIECE * pieces);
        }
    }

    /// Whether no steps are left.
    #[inline]
    pub fn is_spent(&self) -> bool {
        self.left <= 0
    }

    /// Whether a step may be taken for each of this many waiting tasks; counts those steps, or the skipped visit.
    pub fn may_look_at_all(&mut self, waits: usize) -> bool {
        if waits <= UNCOUNTED_STEPS {
            return true;
        }
        let may = !self.is_spent();
        if may {
            self.take(waits);
        } else {
            self.skip_look();
        }
        may
    }

    /// Counts a skipped visit.
    pub fn skip_look(&mut self) {
        self.not_looked += 1;
    }

    /// Counts waits of which a part becomes unknown.
    pub fn cut_short(&mut self, waits: u64) {
        self.cut_short += waits;
    }

    /// Adds steps for this many changes of occupants.
    pub fn grant(&mut self, changes: usize) {
        self.left = self.left.saturating_add(BY_CHANGE.saturating_mul(changes as i64));
    }
}

impl Effort {
    /// Reports what was left out.
    pub fn loss(&self) -> Option<Loss> {
        let parts = [
            (self.cut_short, "times a wait got no occupant for a part of it"),
            (self.not_looked, "times nobody looked which limits stop the tasks of a CPU"),
        ];
        let said = parts.iter().filter(|(count, _)| *count > 0);
        let detail = said.map(|(count, what)| format!("{} {what}", grouped(*count))).collect::<Vec<_>>().join(", ");
        let count = self.cut_short.saturating_add(self.not_looked);
        (count > 0).then(|| Loss::new(LossKind::TooMuchWork, count).with_detail(detail))
    }
}

#[cfg(test)]
thread_local! {
    /// Steps of loops without constant length.
    pub(crate) static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts steps where they are taken, also those that are not limited; tests check the sum.
#[inline(always)]
pub(crate) fn count_steps(_steps: usize) {
    #[cfg(test)]
    STEPS.set(STEPS.get() + _steps);
}

/// Up to this many steps are not counted.
pub(crate) const UNCOUNTED_STEPS: usize = 16;

#[cfg(test)]
mod tests;
