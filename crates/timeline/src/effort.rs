//! How much work a trace may cause beside that of each event.
//!
//! Most events take a constant number of steps. A few have to look at every task that waits for a CPU, or at everything that
//! had the CPU during a wait. On real machines those are few. A trace in which each event asks for such a look, and each look
//! takes as long as the trace, would take time by the square of its length. So these steps are counted, and a trace may take a
//! number of them that grows with its length alone. Beyond that parts of waits are given to nobody (`unknown`), and a
//! loss says so. Sums stay exact.

use unstarve_model::{Loss, LossKind, grouped};

/// Steps that any trace may take. One is up to 60 ns, as it looks at an occupant that no cache has: two seconds of a processor.
const ANY: i64 = 1 << 25;

/// And so many more for each change of who has a CPU.
const BY_CHANGE: i64 = 16;

/// Each piece of a wait beyond a few counts as so many steps: it is looked up in tables of the ledger and of other sinks.
const BY_PIECE: usize = 16;

/// The steps that may still be taken.
#[derive(Clone, Debug)]
pub(crate) struct Effort {
    /// Below zero where the last look took more than was left.
    left: i64,
    /// Waits of which a part was given to nobody.
    cut_short: u64,
    /// Looks for tasks that a limit may stop that were not taken.
    not_looked: u64,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort::of(ANY)
    }
}

impl Effort {
    /// With so many steps to begin with.
    pub fn of(steps: i64) -> Effort {
        Effort { left: steps, cut_short: 0, not_looked: 0 }
    }

    /// Notes steps.
    #[inline]
    pub fn take(&mut self, steps: usize) {
        self.left = self.left.saturating_sub_unsigned(steps as u64);
    }

    /// Notes the pieces of a wait, given to a sink.
    #[inline]
    pub fn take_pieces(&mut self, pieces: usize) {
        if pieces > UNCOUNTED_STEPS {
            self.take(BY_PIECE * pieces);
        }
    }

    /// Whether no more may be taken.
    #[inline]
    pub fn is_spent(&self) -> bool {
        self.left <= 0
    }

    /// Whether a step may be taken for each of so many tasks that wait for a CPU; notes those steps, or that nobody looked.
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

    /// Notes a look that is not taken.
    pub fn skip_look(&mut self) {
        self.not_looked += 1;
    }

    /// Notes waits of which a part is given to nobody.
    pub fn cut_short(&mut self, waits: u64) {
        self.cut_short += waits;
    }

    /// So many changes of who has a CPU have come since the last time.
    pub fn grant(&mut self, changes: usize) {
        self.left = self.left.saturating_add(BY_CHANGE.saturating_mul(changes as i64));
    }
}

impl Effort {
    /// What was left out.
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
    /// Steps of loops whose length is not a constant.
    pub(crate) static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Notes steps where they are taken, whether or not they count as effort; tests limit them.
#[inline(always)]
pub(crate) fn count_steps(_steps: usize) {
    #[cfg(test)]
    STEPS.set(STEPS.get() + _steps);
}

/// What takes no more steps than this is not counted.
pub(crate) const UNCOUNTED_STEPS: usize = 16;

#[cfg(test)]
mod tests;
