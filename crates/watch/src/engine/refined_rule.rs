//! Refines the rules counted by the BPF programs: they distinguish seven, and for some victims the role shows more.

use crate::engine::reading::{RoleId, RoleKind};
use unstarve_sched::Rule;

/// The rule by which an occupant had the CPU, as `explain` names it.
///
/// Of two real-time tasks, the one of higher priority runs first (or a deadline task, which has the same role). A program or a worker that has the
/// CPU while a real-time task waits is of a lower class and is not preempted: neither fairness nor weight decides between them.
pub(crate) fn refined_rule(victim: RoleId, occupant: RoleId, counted: Rule) -> Rule {
    if Some(victim) != RoleKind::RealTime.fixed_id() {
        return counted;
    }
    match counted {
        Rule::Class => Rule::Priority,
        Rule::Fair | Rule::Weight | Rule::WakeupPreemption if is_fair(occupant) => Rule::NotPreempted,
        counted => counted,
    }
}

/// Whether all tasks of a role are of the fair class. Interrupt threads and some RCU threads are not.
fn is_fair(role: RoleId) -> bool {
    match RoleKind::FIXED.get(role.index()) {
        Some(kind) => matches!(
            kind,
            RoleKind::Ksoftirqd
                | RoleKind::DirectIo
                | RoleKind::Kworker
                | RoleKind::Storage
                | RoleKind::Nfsd
                | RoleKind::Other
        ),
        // Groups consist of programs, and real-time programs have another role.
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_time_task_behind_others_waits_by_priority_or_is_not_preempted() {
        let id = |kind: RoleKind| kind.fixed_id().expect("a fixed role");
        let group = RoleId(RoleKind::FIXED.len() as u8);
        let of = |occupant, rule| refined_rule(id(RoleKind::RealTime), occupant, rule);
        for fair in [group, id(RoleKind::Other), id(RoleKind::Kworker), id(RoleKind::Storage)] {
            for rule in [Rule::Fair, Rule::Weight, Rule::WakeupPreemption] {
                assert_eq!(of(fair, rule), Rule::NotPreempted);
                assert_eq!(refined_rule(group, fair, rule), rule, "programs share");
            }
            assert_eq!(of(fair, Rule::Throttled), Rule::Throttled);
        }
        // These can be real-time tasks of the same priority.
        for unknown in [RoleKind::RealTime, RoleKind::Kernel, RoleKind::Rcu, RoleKind::Unknown] {
            assert_eq!(of(id(unknown), Rule::Fair), Rule::Fair);
        }
        assert_eq!(of(id(RoleKind::RealTime), Rule::Class), Rule::Priority);
        assert_eq!(refined_rule(id(RoleKind::Kworker), id(RoleKind::RealTime), Rule::Class), Rule::Class);
    }
}
