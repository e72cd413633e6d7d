//! Decides which QEMU thread runs: one at a time, in an order independent of the host.

/// QEMU's threads that affect virtual time, by precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    /// All virtual CPUs, which take turns in one thread.
    Cpus,
    /// Frees memory that virtual CPUs no longer use, and kicks one that delays this.
    Rcu,
    /// The main loop. While all virtual CPUs are idle it advances the clock and runs due timers.
    Main,
}

const TURN_ORDER: [Side; 3] = [Side::Cpus, Side::Rcu, Side::Main];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Absent.
    #[default]
    Absent,
    Running,
    /// In a waiting system call.
    Blocked,
    /// In a waiting system call that will return: it was woken.
    Coming,
    /// Returned, stopped until its turn.
    Held,
}

/// Which side has the turn. A side keeps it until it blocks; then it goes to the first side that can run. A woken side
/// counts as able to run even if the host has not run it: that makes the order independent of the host.
#[derive(Debug, Default)]
pub(super) struct Turns {
    states: [State; 3],
    holder: Option<Side>,
    free: bool,
}

/// What a side does when it returns from waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Run,
    Hold,
}

impl Turns {
    fn state(&mut self, side: Side) -> &mut State {
        &mut self.states[side as usize]
    }

    /// A side has started and runs.
    pub(super) fn appears(&mut self, side: Side) {
        *self.state(side) = State::Running;
        self.holder.get_or_insert(side);
    }

    /// A side blocks. Returns the stopped side that runs now.
    pub(super) fn blocks(&mut self, side: Side) -> Option<Side> {
        *self.state(side) = State::Blocked;
        if self.holder == Some(side) { self.pass_on() } else { None }
    }

    /// A side has ended. Returns the stopped side that runs now.
    pub(super) fn ends(&mut self, side: Side) -> Option<Side> {
        *self.state(side) = State::Absent;
        if self.holder == Some(side) { self.pass_on() } else { None }
    }

    /// A side that waits is woken.
    pub(super) fn wakes(&mut self, side: Side) {
        if *self.state(side) == State::Blocked {
            *self.state(side) = State::Coming;
        }
    }

    /// A side returns from waiting.
    pub(super) fn returns(&mut self, side: Side) -> Verdict {
        let verdict =
            if self.free || self.holder.is_none_or(|holder| holder == side) { Verdict::Run } else { Verdict::Hold };
        *self.state(side) = if verdict == Verdict::Run { State::Running } else { State::Held };
        if verdict == Verdict::Run {
            self.holder = Some(side);
        }
        verdict
    }

    /// Called after a long standstill. If the side with the turn does not come, passes the turn to the first stopped
    /// side.
    pub(super) fn unstick(&mut self) -> Option<Side> {
        let comes = self.holder.is_some_and(|holder| *self.state(holder) == State::Coming);
        if !comes {
            return None;
        }
        self.first(State::Held).inspect(|&side| self.run(side))
    }

    /// Stops holding sides; returns those that are stopped one by one.
    pub(super) fn let_go(&mut self) -> Option<Side> {
        self.free = true;
        self.first(State::Held).inspect(|&side| self.run(side))
    }

    fn pass_on(&mut self) -> Option<Side> {
        let held = self.first(State::Held);
        let coming = self.first(State::Coming);
        match (held, coming) {
            (Some(held), coming) if coming.is_none_or(|coming| held < coming) => {
                self.run(held);
                Some(held)
            }
            (_, coming) => {
                self.holder = coming;
                None
            }
        }
    }

    fn run(&mut self, side: Side) {
        *self.state(side) = State::Running;
        self.holder = Some(side);
    }

    fn first(&self, state: State) -> Option<Side> {
        TURN_ORDER.into_iter().find(|&side| self.states[side as usize] == state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Side::{Cpus, Main, Rcu};
    use Verdict::{Hold, Run};

    fn at_work() -> Turns {
        let mut turns = Turns::default();
        turns.appears(Main);
        turns.appears(Cpus);
        assert_eq!(turns.blocks(Cpus), None);
        turns.wakes(Cpus);
        assert_eq!(turns.blocks(Main), None);
        assert_eq!(turns.returns(Cpus), Run);
        turns
    }

    #[test]
    fn the_main_loop_runs_only_while_the_cpus_wait() {
        let mut turns = at_work();
        assert_eq!(turns.returns(Main), Hold);
        assert_eq!(turns.blocks(Cpus), Some(Main));
        turns.wakes(Cpus);
        assert_eq!(turns.returns(Cpus), Hold);
        assert_eq!(turns.blocks(Main), Some(Cpus));
    }

    #[test]
    fn who_was_woken_goes_first_however_late_the_host_lets_it_run() {
        for main_is_early in [true, false] {
            let mut turns = at_work();
            assert_eq!(turns.returns(Main), Hold);
            assert_eq!(turns.blocks(Cpus), Some(Main));
            turns.wakes(Cpus);
            assert_eq!(turns.blocks(Main), None);
            if main_is_early {
                assert_eq!(turns.returns(Main), Hold);
                assert_eq!(turns.returns(Cpus), Run);
            } else {
                assert_eq!(turns.returns(Cpus), Run);
                assert_eq!(turns.returns(Main), Hold);
            }
        }
    }

    #[test]
    fn memory_is_freed_before_the_main_loop_goes_on() {
        let mut turns = at_work();
        turns.appears(Rcu);
        assert_eq!(turns.blocks(Rcu), None);
        assert_eq!((turns.returns(Main), turns.returns(Rcu)), (Hold, Hold));
        assert_eq!(turns.blocks(Cpus), Some(Rcu));
        assert_eq!(turns.blocks(Rcu), Some(Main));
    }

    #[test]
    fn when_all_wait_the_first_to_come_runs() {
        let mut turns = at_work();
        assert_eq!(turns.blocks(Cpus), None);
        assert_eq!(turns.returns(Main), Run);
        assert_eq!(turns.blocks(Main), None);
        assert_eq!(turns.returns(Main), Run);
    }

    #[test]
    fn a_turn_that_nobody_takes_goes_on() {
        let mut turns = at_work();
        assert_eq!((turns.returns(Main), turns.unstick()), (Hold, None));
        assert_eq!(turns.blocks(Cpus), Some(Main));
        turns.wakes(Cpus);
        assert_eq!((turns.blocks(Main), turns.returns(Main)), (None, Hold));
        assert_eq!(turns.unstick(), Some(Main));
        assert_eq!(turns.ends(Main), None);
        assert_eq!(turns.returns(Cpus), Run);
    }
}
