//! The program with its timers moved against each other: replicas show whether an answer depends on their phases.

use unstarve_model::Nanos;

use crate::{Op, Program};

/// Absolute timers are moved by less than this.
const LARGEST_SHIFT: u64 = 2_000_000;

impl Program {
    /// The program with the absolute timers of each actor later by 0 to 2 ms, by the actor and the seed. Seed 0 changes nothing.
    pub fn shifted(&self, seed: u64) -> Program {
        let mut program = self.clone();
        if seed == 0 {
            return program;
        }
        for (index, actor) in (0..).zip(&mut program.actors) {
            let shift = Nanos(scattered(seed, index) % LARGEST_SHIFT);
            for op in &mut actor.ops {
                if let Op::SleepUntil(time) = op {
                    *time += shift;
                }
            }
        }
        program
    }
}

/// A number that depends on both in no visible way: SplitMix64's finaliser (Steele, Lea and Flood, 2014).
fn scattered(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(index.wrapping_mul(0xd1b5_4a32_d192_ed03));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
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
            assert_eq!((late - early, early.0 - 10 < LARGEST_SHIFT), (Nanos(20), true));
        }
    }
}
