//! A program whose runs are corrected by what a replay of it ran too long or too short.

use unstarve_model::Nanos;

use crate::{ActorFelt, Felt, Op, Program};

impl Program {
    /// The program with runs made shorter or longer by what each actor's replay ran too long or too short for each of its
    /// wakeups.
    ///
    /// Without wakeups on both sides only a run that is too long is corrected: an actor that ran too little may as well have
    /// waited.
    pub fn corrected(&self, recorded: &Felt, replayed: &Felt) -> Program {
        let mut program = self.clone();
        for ((actor, recorded), replayed) in program.actors.iter_mut().zip(&recorded.actors).zip(&replayed.actors) {
            match Correction::of(recorded, replayed) {
                Some(Correction::EachStretch(change)) => change_stretches(&mut actor.ops, change),
                Some(Correction::Whole(share)) => scale(&mut actor.ops, share),
                None => {}
            }
        }
        program
    }
}

/// What is changed of an actor.
enum Correction {
    /// Each stretch between two sleeps by this many ns.
    EachStretch(f64),
    /// All runs together to this share of their length.
    Whole(f64),
}

impl Correction {
    fn of(recorded: &ActorFelt, replayed: &ActorFelt) -> Option<Correction> {
        match (recorded.cpu_per_item(), replayed.cpu_per_item()) {
            (Some(wanted), Some(came)) => Some(Correction::EachStretch(wanted - came)),
            _ if replayed.ran > recorded.ran && recorded.ran > Nanos::ZERO => {
                Some(Correction::Whole(recorded.ran.0 as f64 / replayed.ran.0 as f64))
            }
            _ => None,
        }
    }
}

/// Changes the runs of each stretch by `change` in total. What a stretch is too short to give, the next ones give.
fn change_stretches(ops: &mut [Op], change: f64) {
    let mut due = 0.0;
    for stretch in ops.split_inclusive_mut(|op| matches!(op, Op::Block | Op::SleepUntil(_) | Op::SleepFor(_))) {
        let work: u64 = stretch.iter().map(|op| if let Op::Run(time) = op { time.0 } else { 0 }).sum();
        if work == 0 {
            continue;
        }
        due += change;
        let share = ((work as f64 + due) / work as f64).max(0.0);
        due -= (share - 1.0) * work as f64;
        scale(stretch, share);
    }
}

fn scale(ops: &mut [Op], share: f64) {
    for op in ops {
        if let Op::Run(time) = op {
            time.0 = (time.0 as f64 * share).round() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use unstarve_model::{CpuSet, SchedPolicy, Tid};

    use super::*;
    use crate::{Actor, Class, Placement, SwitchCosts};

    fn corrected(ops: &[Op], recorded: (u64, u64), replayed: (u64, u64)) -> Vec<Op> {
        let felt = |(wakeups, ran)| Felt {
            length: Nanos(0),
            actors: vec![ActorFelt { wakeups, items: wakeups, ran: Nanos(ran), ..ActorFelt::default() }],
        };
        let class = Class::Fair { policy: SchedPolicy::Other, nice: 0 };
        let actor = Actor {
            tid: Tid(1),
            process: None,
            comm: "a".to_owned(),
            is_kernel_thread: false,
            placement: Placement { class, cpus: CpuSet::default(), cgroup: None, slice: None },
            begins_on: None,
            is_born: false,
            costs: SwitchCosts::default(),
            ops: ops.to_vec(),
        };
        let program = Program { actors: vec![actor], ..Program::default() };
        program.corrected(&felt(recorded), &felt(replayed)).actors.remove(0).ops
    }

    fn runs(ops: &[Op]) -> Vec<u64> {
        ops.iter().filter_map(|op| if let Op::Run(time) = op { Some(time.0) } else { None }).collect()
    }

    const PERIODS: [Op; 6] = [
        Op::Run(Nanos(1_000)),
        Op::Block,
        Op::Run(Nanos(3_000)),
        Op::Run(Nanos(1_000)),
        Op::SleepFor(Nanos(5)),
        Op::Run(Nanos(2_000)),
    ];

    #[test]
    fn each_stretch_is_changed_by_what_each_wakeup_cost_too_much() {
        // (wakeups, ran) recorded and replayed → runs
        let cases = [
            ((10, 20_000), (10, 20_000), [1_000, 3_000, 1_000, 2_000]),
            ((10, 20_000), (10, 24_000), [600, 2_700, 900, 1_600]),
            // A replay that reached only half of its wakeups.
            ((10, 20_000), (5, 12_000), [600, 2_700, 900, 1_600]),
            ((10, 20_000), (10, 16_000), [1_400, 3_300, 1_100, 2_400]),
            // 2,000 too much each: the first stretch has only 1,000 to give, the second gives the rest.
            ((10, 20_000), (10, 40_000), [0, 750, 250, 0]),
        ];
        for (recorded, replayed, expected) in cases {
            assert_eq!(runs(&corrected(&PERIODS, recorded, replayed)), expected, "{recorded:?} {replayed:?}");
        }
    }

    #[test]
    fn who_never_slept_is_only_made_shorter() {
        let ops = [Op::Run(Nanos(1_000))];
        assert_eq!(runs(&corrected(&ops, (0, 1_000), (0, 1_250))), [800]);
        assert_eq!(runs(&corrected(&ops, (0, 1_000), (0, 500))), [1_000], "it may have waited");
        assert_eq!(runs(&corrected(&ops, (0, 0), (0, 500))), [1_000]);
    }
}
