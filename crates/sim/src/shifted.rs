//! The program with its timers moved against each other: replicas show whether an answer depends on their phases.

use unstarve_model::Nanos;

use crate::engine::Replica;
use crate::{ActorId, Op, Program};

impl Program {
    /// The program with the absolute timers of each actor later by 0 to 2 ms, by the actor and the seed. Seed 0 changes nothing.
    pub fn shifted(&self, seed: u64) -> Program {
        let mut program = self.clone();
        if seed == 0 {
            return program;
        }
        let replica = Replica::seeded(seed);
        for (id, actor) in (0..).map(ActorId).zip(&mut program.actors) {
            let shift = Nanos(replica.shift_of(id));
            for op in &mut actor.ops {
                if let Op::SleepUntil(time) = op {
                    *time += shift;
                }
            }
        }
        program
    }
}

#[cfg(test)]
mod tests {
    use unstarve_model::{CpuSet, SchedPolicy, Tid};

    use super::*;
    use crate::{Actor, Class, Placement, SwitchCosts};

    #[test]
    fn timers_of_one_actor_move_together_and_those_of_others_differently() {
        let class = Class::Fair { policy: SchedPolicy::Other, nice: 0 };
        let placement = Placement { class, cpus: CpuSet::default(), cgroup: None, slice: None };
        let ops = vec![Op::SleepUntil(Nanos(10)), Op::SleepFor(Nanos(20)), Op::SleepUntil(Nanos(30))];
        let (process, begins_on, is_kernel_thread, costs) = (None, None, false, SwitchCosts::default());
        let comm = "a".to_owned();
        let actor =
            Actor { tid: Tid(1), process, comm, is_kernel_thread, placement, begins_on, is_born: false, costs, ops };
        let program = Program { actors: vec![actor.clone(), actor], ..Program::default() };
        assert_eq!(program.shifted(0), program);
        let times = |seed| {
            let shifted = program.shifted(seed);
            shifted.actors.iter().map(|actor| actor.ops.clone()).collect::<Vec<_>>()
        };
        let (first, second) = (times(1), times(2));
        assert_ne!(first[0], first[1]);
        assert_ne!(first, second);
        for ops in first.iter().chain(&second) {
            let [Op::SleepUntil(early), Op::SleepFor(Nanos(20)), Op::SleepUntil(late)] = ops[..] else {
                panic!("{ops:?}")
            };
            assert_eq!((late - early, early.0 - 10 < 2_000_000), (Nanos(20), true));
        }
    }
}
