//! What bounds the real-time class, as pure functions with the kernel's own names.
//!
//! Source: kernel/sched/rt.c of 6.1.192. Since 6.12 a kernel without CONFIG_RT_GROUP_SCHED has no such limit; the fair server of
//! [`crate::deadline`] serves fair tasks instead.

use unstarve_model::Nanos;

/// How much real-time tasks may have of each period: `sched_rt_runtime_us` of `sched_rt_period_us`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    /// CPU time.
    pub runtime: Nanos,
    /// The period.
    pub period: Nanos,
}

/// The real-time queue of a CPU as the limit knows it: `rt_time` and `rt_throttled`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Budget {
    used: Nanos,
    is_throttled: bool,
}

impl Budget {
    /// Whether real-time tasks have to stop.
    pub fn is_throttled(&self) -> bool {
        self.is_throttled
    }

    /// `update_curr_rt()`: a real-time task ran. Whether the CPU's real-time tasks have to stop.
    ///
    /// The kernel looks at each tick and switch, so that more than the limit may be used; the rest is taken from the next
    /// period.
    pub fn update_curr_rt(&mut self, delta: Nanos, limit: Limit) -> bool {
        self.used += delta;
        self.is_throttled |= limit.runtime < limit.period && limit.runtime > Nanos::ZERO && self.used > limit.runtime;
        self.is_throttled
    }

    /// A deadline task ran: it uses the same budget, but is not stopped by it (`update_curr_dl()`).
    pub fn update_curr_dl(&mut self, delta: Nanos, limit: Limit) {
        if self.used < limit.runtime {
            self.used += delta;
        }
    }

    /// `do_sched_rt_period_timer()`: a period is over. Whether real-time tasks may run again that could not.
    pub fn do_sched_rt_period_timer(&mut self, limit: Limit) -> bool {
        self.used = self.used.saturating_sub(limit.runtime);
        let runs_again = self.is_throttled && self.used < limit.runtime;
        self.is_throttled &= !runs_again;
        runs_again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_time_tasks_stop_for_the_rest_of_a_period_in_which_they_had_their_part() {
        let limit = Limit { runtime: Nanos::from_millis(950), period: Nanos::from_millis(1000) };
        let mut budget = Budget::default();
        assert!(!budget.update_curr_rt(Nanos::from_millis(950), limit));
        assert!(budget.update_curr_rt(Nanos::from_millis(2), limit), "a tick later");
        assert!(budget.do_sched_rt_period_timer(limit));
        assert!(budget.update_curr_rt(Nanos::from_millis(949), limit), "2 ms were used of this period");
        for (runtime, period) in [(0, 1000), (1000, 1000), (2000, 1000)] {
            let off = Limit { runtime: Nanos::from_millis(runtime), period: Nanos::from_millis(period) };
            assert!(!Budget::default().update_curr_rt(Nanos::from_millis(5000), off), "{runtime} of {period}");
        }
    }

    #[test]
    fn a_debt_of_more_than_a_period_keeps_them_off_for_longer() {
        let limit = Limit { runtime: Nanos::from_millis(50), period: Nanos::from_millis(100) };
        let mut budget = Budget::default();
        assert!(budget.update_curr_rt(Nanos::from_millis(130), limit));
        assert!(!budget.do_sched_rt_period_timer(limit), "80 ms left");
        assert!(budget.do_sched_rt_period_timer(limit), "30 ms left");
        budget.update_curr_dl(Nanos::from_millis(70), limit);
        assert!(budget.update_curr_rt(Nanos::from_millis(1), limit), "a deadline task used it");
    }
}
