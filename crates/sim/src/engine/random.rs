//! Random programs: nothing panics, every nanosecond is accounted once, and the same program is played the same way.

use proptest::prelude::*;
use unstarve_model::SchedPolicy;

use super::builder::{Script, check_sums, deadline, fair, fifo, ms, nice, rr, us};
use super::*;
use crate::{Class, Op};

const ACTORS: u32 = 6;

fn span() -> impl Strategy<Value = Nanos> {
    prop_oneof![
        Just(Nanos(0)),
        (1_u64..2_000).prop_map(Nanos),
        (1_u64..3_000).prop_map(us),
        (1_u64..80).prop_map(ms),
        Just(Nanos(u64::MAX)),
    ]
}

fn operation() -> impl Strategy<Value = Op> {
    let actor = (0..ACTORS).prop_map(ActorId);
    prop_oneof![
        4 => span().prop_map(Op::Run),
        1 => span().prop_map(Op::RunByClock),
        2 => Just(Op::Block),
        1 => Just(Op::Take),
        2 => (0_u64..400).prop_map(|at| Op::SleepUntil(ms(at))),
        2 => span().prop_map(Op::SleepFor),
        4 => actor.clone().prop_map(Op::Wake),
        1 => (actor, span()).prop_map(|(actor, after)| Op::WakeAfter(actor, after)),
    ]
}

fn class() -> impl Strategy<Value = Class> {
    prop_oneof![
        6 => (-20..20).prop_map(nice),
        1 => Just(fair(SchedPolicy::Batch)),
        1 => Just(fair(SchedPolicy::Idle)),
        1 => (1_u32..100).prop_map(fifo),
        1 => (1_u32..4).prop_map(rr),
        1 => (1_u64..20, 20_u64..40, 40_u64..60).prop_map(|(runtime, until, period)| deadline(runtime, until, period)),
    ]
}

/// A class, places on four CPUs, a cgroup of four (the last is none), a slice, operations.
type ActorPlan = (Class, std::collections::BTreeSet<u32>, usize, Option<u64>, Vec<Op>);

/// A weight and, in percent, a quota.
type GroupPlan = (u32, Option<u64>);

fn plan() -> impl Strategy<Value = (u32, Vec<GroupPlan>, Vec<ActorPlan>)> {
    let group = (prop_oneof![Just(3_u32), Just(0), 1_u32..20_000], proptest::option::weighted(0.4, 1_u64..100));
    let places = proptest::collection::btree_set(0_u32..4, 1..4);
    let operations = proptest::collection::vec(operation(), 0..40);
    let actor = (class(), places, 0_usize..4, proptest::option::weighted(0.3, 50_u64..5_000), operations);
    (1_u32..4, proptest::collection::vec(group, 3), proptest::collection::vec(actor, ACTORS as usize))
}

fn script(cpus: u32, groups: &[(u32, Option<u64>)], actors: Vec<ActorPlan>) -> Script {
    let mut script = Script::new(cpus, ms(400));
    for (index, (weight, quota)) in groups.iter().enumerate() {
        // 0 and 1 are at the top, 2 is in 1.
        let quota = quota.map(|percent| (us(percent * 200), ms(20)));
        script.group((index == 2).then_some(1), *weight, quota);
    }
    for (class, places, group, slice, operations) in actors {
        let places: Vec<String> = places.iter().map(u32::to_string).collect();
        let id = script.actor(class, &places.join(","), (group < 3).then_some(group), operations);
        let actor = &mut script.program.actors[id.index()];
        actor.placement.slice = slice.map(us);
        actor.is_born = id.0.is_multiple_of(2);
        (actor.costs.wake, actor.costs.sleep) = (us(3), us(4));
    }
    script
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn sums_close_and_the_same_program_is_played_the_same_way(
        (cpus, groups, actors) in plan(),
        release in prop_oneof![Just("5.10.223"), Just("6.1.176"), Just("6.8.12"), Just("6.12.107"), Just("6.18.5"), Just("7.2.8")],
        costs in (0_u64..9, 0_u64..9, 0_u64..9),
        seed in any::<u64>(),
    ) {
        let script = script(cpus, &groups, actors);
        let mut model = SchedulerModel::of_kernel(release, cpus as usize, &[]).expect("a known kernel");
        model.costs = Costs { switch: us(costs.0), wake: us(costs.1), preemption: us(costs.2) };
        let played = play(&script.program, &model, Replica::seeded(seed)).expect("it comes to an end");
        check_sums(&script.program, &played);
        let again = play(&script.program, &model, Replica::seeded(seed));
        prop_assert_eq!(again, Ok(played));
    }
}
