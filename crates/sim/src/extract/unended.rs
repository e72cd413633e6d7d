//! Runs that the end of the recording cuts off.
//!
//! A thread that is runnable at the end wanted more CPU time than it got. Were its program to end there, a replay in which it gets
//! the CPU earlier would have an idle CPU that the host had not, and everybody's waits would be too short.

use unstarve_model::Nanos;

use super::report::{Evidence, Inference};
use crate::{Op, Program};

/// The part of the recording that a cut run takes at least if it goes on. One that was starved got less, and may have needed
/// little more: to let a victim compute without end would spoil what a remedy does for it.
const LEAST_PART: u64 = 25;

/// Lets the last run of each actor go on for as long as the recording lasts, if the actor is runnable at its end and never
/// computed for so long between two sleeps. A shorter run was about to end, as far as anybody can see.
pub(super) fn extend(program: &mut Program, is_runnable_at_end: impl Iterator<Item = bool>) -> Option<Inference> {
    let length = program.length;
    let mut extended = 0;
    for (actor, _) in program.actors.iter_mut().zip(is_runnable_at_end).filter(|(_, is_runnable)| *is_runnable) {
        let goes_on = last_burst_if_longest(&actor.ops).is_some_and(|burst| burst.0 >= length.0 / LEAST_PART);
        if let Some(Op::Run(run)) = actor.ops.last_mut().filter(|_| goes_on) {
            *run += length;
            extended += 1;
        }
    }
    Inference::of_threads(extended, "compute on after the end of the recording", Evidence::Guess)
}

fn last_burst_if_longest(ops: &[Op]) -> Option<Nanos> {
    let sleeps = |op: &Op| matches!(op, Op::Block | Op::Take | Op::SleepUntil(_) | Op::SleepFor(_));
    let run = |op: &Op| if let Op::Run(time) = op { *time } else { Nanos::ZERO };
    let mut bursts = ops.split(sleeps).map(|burst| burst.iter().map(run).sum::<Nanos>());
    let last = bursts.next_back()?;
    bursts.all(|burst| burst <= last).then_some(last)
}

#[cfg(test)]
mod tests {
    use unstarve_model::{SchedPolicy, Tid};

    use super::*;
    use crate::{Actor, Class, Placement, SwitchCosts};

    fn actor(ops: &[Op]) -> Actor {
        let class = Class::Fair { policy: SchedPolicy::Other, nice: 0 };
        let placement = Placement { class, cpus: "0".parse().unwrap_or_default(), cgroup: None, slice: None };
        let (costs, comm) = (SwitchCosts::default(), "actor".to_owned());
        let (process, begins_on, ops) = (None, None, ops.to_vec());
        Actor { tid: Tid(1), process, comm, is_kernel_thread: false, placement, begins_on, is_born: false, costs, ops }
    }

    #[test]
    fn only_a_cut_run_that_is_longer_than_all_before_goes_on() {
        let (run, sleep) = (|ms| Op::Run(Nanos::from_millis(ms)), Op::SleepFor(Nanos::from_millis(1)));
        // What it did, whether it is runnable at the end, the last operation.
        let table: [(&str, &[Op], bool, Option<Op>); 7] = [
            ("a hog", &[run(40)], true, Some(run(140))),
            ("it exited or sleeps", &[run(40)], false, Some(run(40))),
            ("longer than before", &[run(5), sleep, run(6)], true, Some(run(106))),
            ("a usual run", &[run(5), sleep, run(2)], true, Some(run(2))),
            (
                "as long with a wake",
                &[run(5), sleep, run(3), Op::Wake(crate::ActorId(0)), run(2)],
                true,
                Some(run(102)),
            ),
            ("a starved one", &[run(3)], true, Some(run(3))),
            ("just woken", &[run(5), sleep], true, Some(sleep)),
        ];
        for (case, ops, is_runnable, last) in table {
            let mut program =
                Program { length: Nanos::from_millis(100), actors: vec![actor(ops)], ..Program::default() };
            extend(&mut program, [is_runnable].into_iter());
            assert_eq!(program.actors[0].ops.last().copied(), last, "{case}");
        }
    }
}
