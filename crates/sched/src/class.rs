//! Decides which of two tasks always runs first: by class, and among real-time tasks by priority.

use unstarve_model::{Policy, Prio};

/// The first kernel priority of the fair class, which is nice −20 (`MAX_RT_PRIO` in `include/linux/sched/prio.h`).
pub const FIRST_FAIR_PRIO: i32 = 100;

/// The rank of a deadline task, above that of every real-time task.
pub const DEADLINE_RANK: u32 = 200;

/// Whether `one` always runs before `other`: it has a higher class, or a higher real-time priority.
#[inline]
pub fn precedes(one: Prio, other: Prio) -> bool {
    let (class, its) = (one.policy(), other.policy());
    class.is_above(its) || class == its && class == Policy::Rt && one < other
}

/// The precedence as one number, higher first: deadline tasks, then real-time tasks by priority, and 0 for all others.
pub fn rank(prio: Prio) -> u32 {
    match prio.policy() {
        Policy::Deadline => DEADLINE_RANK,
        Policy::Rt => (2 * FIRST_FAIR_PRIO - 1 - prio.0) as u32,
        Policy::Fair | Policy::Idle => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_larger_rank_goes_first() {
        for one in -1..140 {
            for other in -1..140 {
                let (one, other) = (Prio(one), Prio(other));
                assert_eq!(precedes(one, other), rank(one) > rank(other), "{one:?} {other:?}");
            }
        }
        assert_eq!([-1, 0, 50, 99, 100, 139].map(|prio| rank(Prio(prio))), [200, 199, 149, 100, 0, 0]);
    }
}
