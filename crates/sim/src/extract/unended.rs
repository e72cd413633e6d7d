//! Runs that the end of the recording cuts off.
//!
//! A thread that is runnable at the end wanted more CPU time than it got. Were its program to end there, a replay in which it gets
//! the CPU earlier would have an idle CPU that the host had not, and everybody's waits would be too short.

use unstarve_model::Nanos;

use super::report::Inference;
use crate::{Op, Program};

/// Lets the last run of each actor go on for as long as the recording lasts, if the actor is runnable at its end and never
/// computed for so long between two sleeps. A shorter run was about to end, as far as anybody can see.
pub(super) fn extend(program: &mut Program, is_runnable_at_end: impl Iterator<Item = bool>) -> Option<Inference> {
    let length = program.length;
    let mut extended = 0;
    for (actor, _) in program.actors.iter_mut().zip(is_runnable_at_end).filter(|(_, is_runnable)| *is_runnable) {
        let is_longest = is_last_burst_longest(&actor.ops);
        if let Some(Op::Run(run)) = actor.ops.last_mut().filter(|_| is_longest) {
            *run += length;
            extended += 1;
        }
    }
    Inference::of_threads(extended, "compute on after the end of the recording", extended as u64)
}

fn is_last_burst_longest(ops: &[Op]) -> bool {
    let sleeps = |op: &Op| matches!(op, Op::Block | Op::Take | Op::SleepUntil(_) | Op::SleepFor(_));
    let run = |op: &Op| if let Op::Run(time) = op { *time } else { Nanos::ZERO };
    let mut bursts = ops.split(sleeps).map(|burst| burst.iter().map(run).sum::<Nanos>());
    let last = bursts.next_back();
    bursts.all(|burst| Some(burst) <= last)
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
        Actor { tid: Tid(1), process: None, comm, is_kernel_thread: false, placement, costs, ops: ops.to_vec() }
    }

    #[test]
    fn only_a_cut_run_that_is_longer_than_all_before_goes_on() {
        let (run, sleep) = (|ms| Op::Run(Nanos::from_millis(ms)), Op::SleepFor(Nanos::from_millis(1)));
        // What it did, whether it is runnable at the end, the last operation.
        let table: [(&str, &[Op], bool, Option<Op>); 6] = [
            ("a hog", &[run(40)], true, Some(run(140))),
            ("it exited or sleeps", &[run(40)], false, Some(run(40))),
            ("longer than before", &[run(5), sleep, run(6)], true, Some(run(106))),
            ("a usual run", &[run(5), sleep, run(2)], true, Some(run(2))),
            ("as long with a wake", &[run(5), sleep, run(3), Op::Wake(crate::ActorId(0)), run(2)], true, Some(run(102))),
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
