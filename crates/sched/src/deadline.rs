//! What the deadline class decides, as pure functions with the kernel's own names: reservations (the constant bandwidth server)
//! and, since 6.12, the server that gives fair tasks a part of a CPU which real-time tasks keep busy.
//!
//! Source: kernel/sched/deadline.c of 6.12.117; reservations are the same in 5.10 and 6.1.

use unstarve_model::{Nanos, Time};

/// What a reservation promises: so much CPU time within `deadline` of the beginning of each period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameters {
    /// CPU time.
    pub runtime: Nanos,
    /// Until when, from the beginning of the period.
    pub deadline: Nanos,
    /// The period.
    pub period: Nanos,
}

/// A reservation: its parameters, what is left of its runtime (below 0: it ran too long), and until when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reservation {
    parameters: Parameters,
    runtime: i64,
    deadline: Time,
}

fn signed(span: Nanos) -> i64 {
    i64::try_from(span.0).unwrap_or(i64::MAX)
}

impl Reservation {
    /// A reservation of which nothing was used, and whose deadline is past.
    pub fn new(parameters: Parameters) -> Reservation {
        Reservation { parameters, runtime: 0, deadline: Time(0) }
    }

    /// Until when the runtime is due. The earliest goes first (EDF).
    pub fn deadline(&self) -> Time {
        self.deadline
    }

    /// The CPU time that is left.
    pub fn left(&self) -> Nanos {
        Nanos(self.runtime.max(0) as u64)
    }

    /// Time was used; whether all of it is.
    pub fn use_up(&mut self, delta: Nanos) -> bool {
        self.runtime = self.runtime.saturating_sub(signed(delta));
        self.is_exceeded()
    }

    /// `dl_runtime_exceeded()`.
    pub fn is_exceeded(&self) -> bool {
        self.runtime <= 0
    }

    /// `replenish_dl_new_period()`.
    fn replenish_new_period(&mut self, now: Time) {
        self.deadline = now + self.parameters.deadline;
        self.runtime = signed(self.parameters.runtime);
    }

    /// `dl_entity_overflow()`: whether what is left until the deadline is more than was promised for this time.
    fn overflows(&self, now: Time) -> bool {
        let left = i128::from(self.parameters.deadline.0) * i128::from(self.runtime);
        let right = i128::from(self.deadline.since(now).0) * i128::from(self.parameters.runtime.0);
        right < left
    }

    /// `update_dl_entity()`: what is left when the task wakes up.
    pub fn wake(&mut self, now: Time) {
        if self.deadline > now && !self.overflows(now) {
            return;
        }
        let is_implicit = self.parameters.deadline == self.parameters.period;
        if is_implicit || self.deadline <= now {
            self.replenish_new_period(now);
        } else {
            // `update_dl_revised_wakeup()`
            let density = i128::from(self.parameters.runtime.0) * i128::from(self.deadline.since(now).0);
            self.runtime = (density / i128::from(self.parameters.deadline.0.max(1))) as i64;
        }
    }

    /// `dl_next_period()`: when a throttled task may run again.
    pub fn next_period(&self) -> Time {
        self.deadline - self.parameters.deadline + self.parameters.period
    }

    /// `dl_check_constrained_dl()`: a task that wakes up between its deadline and the next period has to wait for that.
    pub fn must_wait_for_period(&self, now: Time) -> bool {
        self.parameters.deadline < self.parameters.period && self.deadline < now && now < self.next_period()
    }

    /// `replenish_dl_entity()`: a throttled task gets the runtime of as many periods as its debt is long.
    pub fn replenish(&mut self, now: Time) {
        let runtime = signed(self.parameters.runtime).max(1);
        if self.runtime <= 0 {
            let periods = 1 + self.runtime.unsigned_abs() / runtime as u64;
            self.runtime = self.runtime.saturating_add(runtime.saturating_mul(periods as i64));
            self.deadline = self.deadline + Nanos(self.parameters.period.0.saturating_mul(periods));
        }
        if self.deadline < now {
            self.replenish_new_period(now);
        }
    }
}

/// What the fair server of a CPU does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// No fair task is queued.
    Off,
    /// Fair tasks are queued, and may get their part by themselves.
    ZeroLaxityWait,
    /// Fair tasks go before real-time tasks.
    Running,
    /// They had their part of this period.
    ReplenishWait,
}

/// The fair server of a CPU (`rq->fair_server`): if fair tasks did not get the runtime by themselves until shortly before the end
/// of the period, they get it before real-time tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FairServer {
    reservation: Reservation,
    phase: Phase,
    /// Whether fair tasks starved in the last period (`dl_defer_running`).
    was_needed: bool,
}

impl FairServer {
    /// A server that gives this much of each period.
    pub fn new(runtime: Nanos, period: Nanos) -> FairServer {
        let reservation = Reservation::new(Parameters { runtime, deadline: period, period });
        FairServer { reservation, phase: Phase::Off, was_needed: false }
    }

    /// Whether fair tasks go before real-time tasks now.
    pub fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    /// Its deadline among those of deadline tasks.
    pub fn deadline(&self) -> Time {
        self.reservation.deadline
    }

    /// What is left of its runtime.
    pub fn left(&self) -> Nanos {
        self.reservation.left()
    }

    /// When it has to be asked again: [`FairServer::timer`]. A later call of any method may move it.
    pub fn timer_at(&self) -> Option<Time> {
        match self.phase {
            Phase::ZeroLaxityWait => Some(self.zero_laxity()),
            Phase::ReplenishWait => Some(self.reservation.next_period()),
            Phase::Off | Phase::Running => None,
        }
    }

    fn zero_laxity(&self) -> Time {
        self.reservation.deadline - self.reservation.left()
    }

    /// `dl_server_start()`: the first fair task is queued.
    pub fn start(&mut self, now: Time) {
        if self.phase != Phase::Off || self.reservation.parameters.runtime == Nanos::ZERO {
            return;
        }
        let may_go_on = self.reservation.deadline > now && !self.reservation.overflows(now);
        if !may_go_on {
            self.was_needed = false;
            self.reservation.replenish_new_period(now);
        }
        self.phase = if self.was_needed { Phase::Running } else { Phase::ZeroLaxityWait };
        if self.phase == Phase::ZeroLaxityWait && self.zero_laxity() < now {
            self.phase = Phase::Running;
        }
    }

    /// `dl_server_stop()`: no fair task is queued.
    pub fn stop(&mut self) {
        self.phase = Phase::Off;
    }

    /// `dl_server_update()`: a fair task ran. Whether the server stops for this period.
    pub fn update(&mut self, now: Time, delta: Nanos) -> bool {
        if self.phase == Phase::Off || !self.reservation.use_up(delta) {
            return false;
        }
        match self.phase {
            Phase::Running => {
                self.phase = Phase::ReplenishWait;
                true
            }
            _ => {
                // Fair tasks had their part by themselves: a new period.
                self.was_needed = false;
                self.reservation.replenish_new_period(now);
                self.phase = Phase::ZeroLaxityWait;
                false
            }
        }
    }

    /// `dl_server_timer()`: the time of [`FairServer::timer_at`] has come. Whether the server runs from now on.
    pub fn timer(&mut self, now: Time) -> bool {
        /// `dl_server_min_res`
        const WORTH_WAITING: Nanos = Nanos(1_000_000);
        match self.phase {
            Phase::ZeroLaxityWait if now >= self.zero_laxity() - WORTH_WAITING => {
                self.was_needed = true;
                if self.reservation.overflows(now) {
                    self.reservation.replenish_new_period(now);
                } else {
                    self.reservation.replenish(now);
                }
                self.phase = Phase::Running;
            }
            Phase::ReplenishWait if now >= self.reservation.next_period() => {
                self.reservation.replenish(now);
                self.phase = Phase::Running;
            }
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Time {
        Time(ms * MS)
    }

    fn reservation(runtime: u64, deadline: u64, period: u64) -> Reservation {
        let [runtime, deadline, period] = [runtime, deadline, period].map(Nanos::from_millis);
        Reservation::new(Parameters { runtime, deadline, period })
    }

    #[test]
    fn an_overrun_postpones_the_deadline() {
        let mut task = reservation(10, 100, 100);
        task.wake(at(1000));
        assert_eq!((task.left(), task.deadline()), (Nanos::from_millis(10), at(1100)));
        assert!(!task.use_up(Nanos::from_millis(9)));
        assert!(task.use_up(Nanos::from_millis(4)), "3 ms too long: it was seen at a tick");
        assert_eq!(task.next_period(), at(1100));
        task.replenish(at(1100));
        assert_eq!((task.left(), task.deadline()), (Nanos::from_millis(7), at(1200)));
        assert!(task.use_up(Nanos::from_millis(37)));
        task.replenish(at(1200));
        assert_eq!(
            (task.left(), task.deadline()),
            (Nanos::from_millis(10), at(1600)),
            "four periods for 30 ms of debt"
        );
    }

    #[test]
    fn a_wakeup_keeps_what_is_left_if_it_fits() {
        let mut task = reservation(10, 100, 100);
        task.wake(at(1000));
        task.use_up(Nanos::from_millis(6));
        task.wake(at(1050));
        assert_eq!((task.left(), task.deadline()), (Nanos::from_millis(4), at(1100)), "4 of 50 is less than 10 of 100");
        task.wake(at(1080));
        assert_eq!((task.left(), task.deadline()), (Nanos::from_millis(10), at(1180)), "4 of 20 is more");
        let mut constrained = reservation(10, 50, 100);
        constrained.wake(at(1000));
        constrained.use_up(Nanos::from_millis(2));
        constrained.wake(at(1030));
        assert_eq!((constrained.left(), constrained.deadline()), (Nanos::from_millis(4), at(1050)), "20 ms of a fifth");
        assert!(constrained.must_wait_for_period(at(1060)) && !constrained.must_wait_for_period(at(1101)));
    }

    #[test]
    fn starved_fair_tasks_get_50_ms_after_950() {
        let mut server = FairServer::new(Nanos::from_millis(50), Nanos::from_millis(1000));
        server.start(at(0));
        assert_eq!((server.timer_at(), server.is_running()), (Some(at(950)), false));
        assert!(server.timer(at(950)) && server.is_running());
        assert!(!server.update(at(999), Nanos::from_millis(49)));
        assert!(server.update(at(1000), Nanos::from_millis(1)) && !server.is_running());
        assert_eq!(server.timer_at(), Some(at(1950)));
        assert!(server.timer(at(1950)) && server.is_running(), "each period from now on, without a delay");
    }

    #[test]
    fn who_gets_it_without_the_server_does_not_need_it() {
        let mut server = FairServer::new(Nanos::from_millis(50), Nanos::from_millis(1000));
        server.start(at(0));
        assert!(!server.update(at(400), Nanos::from_millis(30)));
        assert_eq!(server.timer_at(), Some(at(980)), "20 ms are missing");
        assert!(!server.timer(at(950)), "the timer of before");
        assert!(!server.update(at(600), Nanos::from_millis(20)));
        assert_eq!(server.timer_at(), Some(at(1550)), "a new period");
        server.stop();
        assert_eq!(server.timer_at(), None);
        server.start(at(700));
        assert_eq!(server.timer_at(), Some(at(1650)), "50 of 900 ms is more than 50 of 1000: a new period");
        let mut off = FairServer::new(Nanos::ZERO, Nanos::from_millis(1000));
        off.start(at(0));
        assert_eq!(off.timer_at(), None);
    }
}
