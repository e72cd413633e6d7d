//! What the player's own operations cost, and the program that measures it.

use serde::{Deserialize, Serialize};
use unstarve_model::{CpuId, CpuSet, Nanos, SchedPolicy, Tid, Time};
use unstarve_sim::{Actor, ActorId, Class, Op, Placement, Program, SwitchCosts};

use super::Played;

/// What the player's own operations cost, in ns: so much earlier a run has to end.
///
/// All zero: not measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Costs {
    /// From the end of a run to the trace's `sched_waking`.
    pub before_wake: u32,
    /// From the end of a run to the switch, where a thread blocks.
    pub before_block: u32,
    /// The same where it sleeps for a time.
    pub before_sleep: u32,
    /// A whole wake.
    pub wake: u32,
    /// A thread has so much more CPU time by the trace's switches than by the kernel's clock of the thread for each time that it
    /// is preempted: a switch is accounted from its beginning, and traced at its end.
    pub unseen_when_preempted: i32,
    /// The same for each time that it was woken by a timer, mostly by preempting another.
    pub unseen_when_timed: i32,
    /// The same for each time that it was woken by another thread.
    pub unseen_when_woken: i32,
}

/// How often each operation is measured.
const ROUNDS: u64 = 100;

/// From one round to the next.
const ROUND: u64 = 500_000;

/// The length of a run.
const RUN: u64 = 40_000;

const WAKER: ActorId = ActorId(0);
const BLOCKER: ActorId = ActorId(1);
const SLEEPER: ActorId = ActorId(2);
const PREEMPTED: ActorId = ActorId(3);

/// The program that measures costs: on the first of `cpus` CPUs a thread that wakes another and sleeps, the one that it wakes, one
/// that sleeps for a time, and one that these preempt.
pub(crate) fn calibration(cpus: u32) -> Program {
    let realtime = |priority| Class::Realtime { policy: SchedPolicy::Fifo, priority };
    let run = Op::Run(Nanos(RUN));
    let (mut waker, mut blocker, mut sleeper) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        // The second wake finds the blocker awake or its token untaken: only their distance counts.
        let rest = Op::SleepUntil(Nanos(round * ROUND));
        waker.extend([run, Op::Wake(BLOCKER), Op::Wake(SLEEPER), run, rest]);
        blocker.extend([Op::Block, run]);
        sleeper.extend([Op::Block, run, Op::SleepFor(Nanos(ROUND / 5))]);
    }
    let all = (0..cpus).map(CpuId).collect();
    let actor = |comm: &str, class, ops| Actor {
        tid: Tid(1),
        process: None,
        comm: comm.to_owned(),
        is_kernel_thread: false,
        placement: Placement { class, cpus: [CpuId(0)].into_iter().collect::<CpuSet>(), cgroup: None, slice: None },
        begins_on: None,
        is_born: false,
        costs: SwitchCosts::default(),
        ops,
    };
    let hog = vec![Op::Run(Nanos(ROUNDS * ROUND / 4)), Op::Block];
    Program {
        cpus: all,
        length: Nanos((ROUNDS + 2) * ROUND),
        actors: vec![
            actor("waker", realtime(30), waker),
            actor("blocker", realtime(20), blocker),
            actor("sleeper", realtime(10), sleeper),
            actor("preempted", Class::Fair { policy: SchedPolicy::Other, nice: 0 }, hog),
        ],
        ..Program::default()
    }
}

/// What the trace of the calibration shows of one actor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    /// Its wakes of others.
    pub(crate) wakes: Vec<Time>,
    /// The ends of its runs at which it went to sleep, and its CPU time since the last of them.
    pub(crate) sleeps: Vec<(Time, Nanos)>,
    /// How often it was preempted.
    pub(crate) preemptions: u64,
    /// Its CPU time.
    pub(crate) ran: Nanos,
}

/// The costs, from what the player says and what the trace shows of each actor of [`calibration`].
pub(crate) fn measure(played: &Played, shown: &[Shown]) -> Option<Costs> {
    let run_ends = |actor: ActorId| played.actors.get(actor.index()).map(|actor| actor.run_ends.as_slice());
    let shown = |actor: ActorId| shown.get(actor.index());
    let sleeps = |actor| Some(shown(actor)?.sleeps.iter().map(|(at, _)| *at).collect::<Vec<_>>());
    let wakes = &shown(WAKER)?.wakes;
    // Runs before wakes alternate with runs before sleeps.
    let before_wakes: Vec<Nanos> = run_ends(WAKER)?.iter().step_by(2).copied().collect();
    let distances = wakes.windows(2).map(|pair| pair[1].since(pair[0]).0);
    let unseen_of = |actor, expected: u64| {
        let stretches = shown(actor)?.sleeps.iter().map(|(_, ran)| ran.0).collect();
        i32::try_from(middle(stretches)? as i64 - expected as i64).ok()
    };
    let preempted = shown(PREEMPTED)?;
    let ordered = ROUNDS * ROUND / 4;
    let unseen = (preempted.ran.0 as i64 - ordered as i64) / (preempted.preemptions.max(1) as i64);
    Some(Costs {
        before_wake: lead(&before_wakes, wakes)?,
        before_block: lead(run_ends(BLOCKER)?, &sleeps(BLOCKER)?)?,
        before_sleep: lead(run_ends(SLEEPER)?, &sleeps(SLEEPER)?)?,
        wake: u32::try_from(middle(distances.filter(|distance| *distance < RUN).collect())?).ok()?,
        unseen_when_preempted: i32::try_from(unseen).ok()?,
        unseen_when_timed: unseen_of(WAKER, 2 * RUN)?,
        unseen_when_woken: unseen_of(BLOCKER, RUN)?,
    })
}

/// The middle of the times from each run's end to the next event.
fn lead(run_ends: &[Nanos], events: &[Time]) -> Option<u32> {
    let times = run_ends.iter().filter_map(|end| {
        let next = events.partition_point(|event| event.0 < end.0);
        Some(events.get(next)?.0 - end.0).filter(|time| *time < RUN)
    });
    u32::try_from(middle(times.collect())?).ok()
}

fn middle(mut times: Vec<u64>) -> Option<u64> {
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::player::PlayedActor;

    #[test]
    fn costs_are_the_middle_of_what_the_trace_shows() {
        let actor = |ends: &[u64]| PlayedActor {
            tid: Tid(1),
            finished: None,
            operations: 0,
            run_ends: ends.iter().copied().map(Nanos).collect(),
        };
        let played = Played {
            t0: Nanos(0),
            // The waker's runs end before a wake, before a sleep, …
            actors: vec![actor(&[100, 500, 1_000, 1_400]), actor(&[200, 300, 700]), actor(&[900]), actor(&[])],
        };
        let sleeps = |of: &[(u64, u64)]| of.iter().map(|(at, ran)| (Time(*at), Nanos(*ran))).collect::<Vec<_>>();
        let shown = [
            Shown {
                wakes: [110, 140, 1_012, 1_042].map(Time).into(),
                sleeps: sleeps(&[(510, 2 * RUN - 3)]),
                ..Shown::default()
            },
            Shown { sleeps: sleeps(&[(205, RUN + 9), (307, RUN + 7), (706, RUN + 8)]), ..Shown::default() },
            Shown { sleeps: sleeps(&[(908, RUN)]), ..Shown::default() },
            Shown { preemptions: 100, ran: Nanos(ROUNDS * ROUND / 4 + 2_000), ..Shown::default() },
        ];
        let costs = measure(&played, &shown).expect("measured");
        let expected = Costs {
            before_wake: 12,
            before_block: 6,
            before_sleep: 8,
            wake: 30,
            unseen_when_preempted: 20,
            unseen_when_timed: -3,
            unseen_when_woken: 8,
        };
        assert_eq!(costs, expected);
    }

    #[test]
    fn the_calibration_is_a_sound_program() {
        for cpus in 1..=4 {
            calibration(cpus).check().expect("sound");
        }
    }
}
