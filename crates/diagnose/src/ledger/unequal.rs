//! Waits that fair sharing does not explain.

use unstarve_model::{Comm, Nanos, Policy, Tid, Time};
use unstarve_sched::Rule;
use unstarve_timeline::{ActorId, ActorKind, Piece, Wait, World};

use super::FAIR_PERIOD;
use crate::cgroup_competition::NICE_0;

/// A fair task had the CPU for this long while its equal waited. Equals take turns of some milliseconds, so they are no equals,
/// or something else kept the waiting task off; the events do not say what.
pub(super) const TOO_LONG: Nanos = Nanos(FAIR_PERIOD.0 * 2);
/// So many equals that their turns add up to this are hardly found on one CPU.
const TOO_LONG_IN_ALL: Nanos = Nanos::from_millis(1000);

/// Such a wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Unequal {
    /// How long one task of the kind that had the CPU most had it at a time: the order is by this.
    pub held_by_one: Nanos,
    /// How long that kind had it in all.
    pub held: Nanos,
    /// How long equals had it in all.
    pub in_all: Nanos,
    pub length: Nanos,
    pub start: Time,
    pub tid: Tid,
    pub occupant: ActorId,
    pub comm: Comm,
}

/// Of the time that one of another session or group had, heavier ones of the task's own had at least this part meanwhile: where
/// groups take turns, they had the turns of its group.
const OF_ITS_OWN: f64 = 0.25;

/// All such waits of one actor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnequalWaits {
    /// The one that sharing explains least.
    pub worst: Unequal,
    /// How long equals had the CPU in all of them.
    pub in_all: Nanos,
    /// The same of the one task of each that had it longest at a time.
    pub held_by_one: Nanos,
    /// The longest in one of them.
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

/// Whether somebody asked that the task run after others (by nice or SCHED_IDLE), and that is why it got none of its group's
/// turns beside the occupant's.
fn is_last(world: &World, wait: &Wait<'_>, piece: &Piece) -> bool {
    let weight = |id: ActorId| world.actors.get(id).own_weight();
    let lighter = weight(wait.actor).zip(weight(piece.occupant)).is_some_and(|(its, mine)| its < mine && its < NICE_0);
    let before_it =
        wait.pieces.iter().filter(|other| other.rule == Rule::Weight).map(|other| other.length).sum::<Nanos>();
    lighter && before_it.share_of(piece.length) >= OF_ITS_OWN
}

impl Unequal {
    /// `longest_stay` is that of one task of an actor within the wait, where it is known.
    pub fn of(world: &World, wait: &Wait<'_>, longest_stay: impl Fn(ActorId) -> Option<Nanos>) -> Option<Unequal> {
        let task = world.tasks.get(wait.task);
        // A limit that is known explains it.
        if wait.length() <= TOO_LONG || task.prio.policy() != Policy::Fair || task.may_be_throttled() == Some(true) {
            return None;
        }
        let is_turn = |rule: Rule| matches!(rule, Rule::Fair | Rule::Count | Rule::WakeupPreemption);
        let equals = || wait.pieces.iter().filter(|piece| is_turn(piece.rule) && !is_last(world, wait, piece));
        let most = equals().max_by_key(|piece| piece.length)?;
        let actor = world.actors.get(most.occupant);
        let members = u64::from(actor.members.max(1));
        // Of several, what one had in one piece; what all had they may have had in turns.
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
