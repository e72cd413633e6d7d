//! Waits that fair sharing does not explain.

use unstarve_model::{Comm, Nanos, Policy, Tid, Time};
use unstarve_sched::Rule;
use unstarve_timeline::{ActorId, ActorKind, Piece, Wait, World};

use super::FAIR_PERIOD;
use crate::cgroup_competition::NICE_0;

/// A fair task had the CPU for this long while its equal waited. Equals alternate every few milliseconds, so either they are not
/// equal, or something else kept the waiting task off the CPU; the events do not show what.
pub(super) const TOO_LONG: Nanos = Nanos(FAIR_PERIOD.0 * 2);
/// One CPU hardly ever has enough equal tasks for their slices to add up to this.
const TOO_LONG_IN_ALL: Nanos = Nanos::from_millis(1000);

/// A wait behind equals that fair sharing does not explain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Unequal {
    /// The longest time that one task held the CPU at a time, among tasks of the kind that had it most. Determines the order.
    pub held_by_one: Nanos,
    /// The total time that this kind had the CPU.
    pub held: Nanos,
    /// The total time that all equals had the CPU.
    pub in_all: Nanos,
    pub length: Nanos,
    pub start: Time,
    pub tid: Tid,
    pub occupant: ActorId,
    pub comm: Comm,
}

/// While an occupant of another session or group ran, heavier tasks of the victim's own group had at least this part of that
/// time. Where groups alternate, those tasks used the share of the victim's group.
const OF_ITS_OWN: f64 = 0.25;

/// All such waits of one actor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnequalWaits {
    /// The wait that sharing explains least.
    pub worst: Unequal,
    /// Total time that equals had the CPU, over all of them.
    pub in_all: Nanos,
    /// The sum of [`Unequal::held_by_one`] over all of them.
    pub held_by_one: Nanos,
    /// The longest total time of equals in one wait.
    pub longest_in_all: Nanos,
    pub count: u64,
}

impl UnequalWaits {
    pub fn add(known: &mut Option<Box<UnequalWaits>>, wait: Unequal) {
        let new = UnequalWaits {
            worst: wait,
            in_all: Nanos::ZERO,
            held_by_one: Nanos::ZERO,
            longest_in_all: Nanos::ZERO,
            count: 0,
        };
        let known = known.get_or_insert_with(|| Box::new(new));
        known.worst = known.worst.max(wait);
        known.in_all += wait.in_all;
        known.held_by_one += wait.held_by_one;
        known.longest_in_all = known.longest_in_all.max(wait.in_all);
        known.count += 1;
    }
}

/// Whether the task was asked to run after others (by nice or SCHED_IDLE), and its group's CPU time therefore went to other tasks
/// of the group.
fn is_last(world: &World, wait: &Wait<'_>, piece: &Piece) -> bool {
    let weight = |id: ActorId| world.actors.get(id).own_weight();
    let lighter = weight(wait.actor).zip(weight(piece.occupant)).is_some_and(|(its, mine)| its < mine && its < NICE_0);
    let before_it =
        wait.pieces.iter().filter(|other| other.rule == Rule::Weight).map(|other| other.length).sum::<Nanos>();
    lighter && before_it.share_of(piece.length) >= OF_ITS_OWN
}

impl Unequal {
    /// `longest_stay` returns the longest run of one task of an actor within the wait, if known.
    pub fn of(world: &World, wait: &Wait<'_>, longest_stay: impl Fn(ActorId) -> Option<Nanos>) -> Option<Unequal> {
        let task = world.tasks.get(wait.task);
        // A known quota explains the wait.
        if wait.length() <= TOO_LONG || task.prio.policy() != Policy::Fair || task.may_be_throttled() == Some(true) {
            return None;
        }
        let is_turn = |rule: Rule| matches!(rule, Rule::Fair | Rule::Count | Rule::WakeupPreemption);
        let equals = || wait.pieces.iter().filter(|piece| is_turn(piece.rule) && !is_last(world, wait, piece));
        let most = equals().max_by_key(|piece| piece.length)?;
        let actor = world.actors.get(most.occupant);
        let members = u64::from(actor.members.max(1));
        // An actor with several tasks: count the longest time that one had at once, because several may have alternated fairly.
        let of_one = || longest_stay(most.occupant).map_or(Nanos::ZERO, |stay| stay.min(most.length));
        let by_one = if members == 1 { most.length } else { of_one().max(Nanos(most.length.0 / members)) };
        let in_all: Nanos = equals().map(|piece| piece.length).sum();
        let is_task = matches!(actor.kind, ActorKind::Tasks { .. });
        (is_task && by_one > TOO_LONG || in_all > TOO_LONG_IN_ALL).then(|| Unequal {
            held: most.length,
            held_by_one: if is_task { by_one } else { Nanos::ZERO },
            in_all,
            length: wait.length(),
            start: wait.start,
            tid: task.tid,
            occupant: most.occupant,
            comm: task.comm,
        })
    }
}
