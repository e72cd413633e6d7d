//! Which of QEMU's threads may run: one at a time, in an order that does not depend on the host.

/// The threads of QEMU that have to do with virtual time, those first that go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    /// All virtual CPUs, which take turns in it.
    Cpus,
    /// Frees memory that the virtual CPUs no longer look at, and kicks one if it looks for long.
    Rcu,
    /// The main loop. When all virtual CPUs are idle it advances the clock and runs the timers that are due.
    Main,
}

const TURN_ORDER: [Side; 3] = [Side::Cpus, Side::Rcu, Side::Main];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Not there (yet, or no more).
    #[default]
    Absent,
    Running,
    /// In a system call that waits.
    Blocked,
    /// In one that will return: somebody woke it.
    Coming,
    /// Back from it, stopped until its turn.
    Held,
}

/// Who has the turn. A side keeps it until it waits for something; then it goes to the first side that can run. A side
/// that was woken counts as one that can run, even if the host has not let it run so far: that is what makes the order
/// independent of the host.
#[derive(Debug, Default)]
pub(super) struct Turns {
    states: [State; 3],
    holder: Option<Side>,
    free: bool,
}

/// What happens to a side that comes back from waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Run,
    Hold,
}

impl Turns {
    fn state(&mut self, side: Side) -> &mut State {
        &mut self.states[side as usize]
    }

    /// A side is there and runs.
    pub(super) fn appears(&mut self, side: Side) {
        *self.state(side) = State::Running;
        self.holder.get_or_insert(side);
    }

    /// A side begins to wait. The result is the held side that runs now instead.
    pub(super) fn blocks(&mut self, side: Side) -> Option<Side> {
        *self.state(side) = State::Blocked;
        if self.holder == Some(side) { self.pass_on() } else { None }
    }

    /// A side is gone.
    pub(super) fn ends(&mut self, side: Side) -> Option<Side> {
        *self.state(side) = State::Absent;
        if self.holder == Some(side) { self.pass_on() } else { None }
    }

    /// Somebody wakes a side that waits.
    pub(super) fn wakes(&mut self, side: Side) {
        if *self.state(side) == State::Blocked {
            *self.state(side) = State::Coming;
        }
    }

    /// A side is back from waiting.
    pub(super) fn returns(&mut self, side: Side) -> Verdict {
        let verdict =
            if self.free || self.holder.is_none_or(|holder| holder == side) { Verdict::Run } else { Verdict::Hold };
        *self.state(side) = if verdict == Verdict::Run { State::Running } else { State::Held };
        if verdict == Verdict::Run {
            self.holder = Some(side);
        }
        verdict
    }

    /// Nothing has happened for long. If that is because the turn is with a side that does not come, it goes to the first
    /// that is held.
    pub(super) fn unstick(&mut self) -> Option<Side> {
        let comes = self.holder.is_some_and(|holder| *self.state(holder) == State::Coming);
        if !comes {
            return None;
        }
        self.first(State::Held).inspect(|&side| self.run(side))
    }

    /// No side is held any more; those that are come one by one.
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
