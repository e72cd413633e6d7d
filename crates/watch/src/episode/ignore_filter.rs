//! Drops findings about roles that the configuration ignores: they are neither an episode nor its headline.

use unstarve_diagnose::report::{Victim, VictimKind, Work};
use unstarve_model::Policy;

use crate::engine::reading::RoleKind;

/// Whether all tasks of a victim are of ignored roles.
pub(super) fn is_ignored(victim: &Victim, ignored: &[String]) -> bool {
    // Tasks with the name of a kernel thread, of which the trace does not show whether they are one, have no role.
    let is_unknown = victim.kernel_thread.is_none() && victim.kind.is_named_as_kernel_thread();
    if ignored.is_empty() || is_unknown {
        return false;
    }
    let is = |role: RoleKind| ignored.iter().any(|name| name == role.word());
    let is_group = |cgroup: &String| ignored.iter().any(|name| name.starts_with('/') && is_below(cgroup, name));
    // Tasks that are in the root cgroup, or in none.
    let is_other = |cgroup: &String| cgroup == "/" && is(RoleKind::Other);
    match role_of(victim) {
        Some(role) => is(role),
        // `explain` treats tasks of one name as one victim, even if they are in different groups.
        None if victim.cgroups.is_empty() => is(RoleKind::Other),
        None => victim.cgroups.iter().all(|cgroup| is_group(cgroup) || is_other(cgroup)),
    }
}

/// The role of a victim, except groups. Any program can take a kernel thread's name, so that the name alone is not enough.
pub(super) fn role_of(victim: &Victim) -> Option<RoleKind> {
    let is_real_time = matches!(victim.policy, Some(Policy::Rt | Policy::Deadline));
    match victim.kind {
        VictimKind::Cgroup => None,
        kind if victim.kernel_thread != Some(true) => {
            (kind == VictimKind::Task && is_real_time).then_some(RoleKind::RealTime)
        }
        VictimKind::Kworker => Some(victim.work.as_ref().map_or(RoleKind::Kworker, role_of_work)),
        VictimKind::Ksoftirqd => Some(RoleKind::Ksoftirqd),
        VictimKind::Rcu => Some(RoleKind::Rcu),
        VictimKind::Storage => Some(RoleKind::Storage),
        VictimKind::Nfsd => Some(RoleKind::Nfsd),
        VictimKind::Task | VictimKind::Migration | VictimKind::IrqThread | VictimKind::Ktimers => {
            Some(RoleKind::Kernel)
        }
    }
}

/// Whether a cgroup is this group or below it.
pub(super) fn is_below(cgroup: &str, group: &str) -> bool {
    cgroup.strip_prefix(group).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn role_of_work(work: &Work) -> RoleKind {
    let is_direct_io = work.workqueue.as_ref().is_some_and(|queue| queue.starts_with("dio/"));
    let by_queue = if is_direct_io { RoleKind::DirectIo } else { RoleKind::Kworker };
    RoleKind::of_work(&work.function).unwrap_or(by_queue)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn victim(kind: &str, comm: &str) -> Victim {
        let kernel_thread = Some(kind != "task");
        Victim {
            kind: kind.parse().expect("a kind"),
            comm: comm.into(),
            policy: Some(Policy::Fair),
            kernel_thread,
            ..Victim::default()
        }
    }

    fn of(victim: &Victim, ignored: &[&str]) -> bool {
        is_ignored(victim, &ignored.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn workers_are_what_they_work_on() {
        let worker = victim("kworker", "kworker/0:1");
        let work = |function: &str, queue: &str| Work { function: function.into(), workqueue: Some(queue.into()) };
        let direct_io = Victim { work: Some(work("iomap_dio_complete_work", "dio/sda")), ..worker.clone() };
        let writeback = Victim { work: Some(work("wb_workfn", "writeback")), ..worker.clone() };
        let which = |victim: &Victim| {
            let roles = ["kworker", "direct-io", "storage", "kernel", "other"];
            roles.into_iter().filter(|role| of(victim, &[role])).collect::<Vec<_>>()
        };
        assert_eq!([which(&worker), which(&direct_io), which(&writeback)], [["kworker"], ["direct-io"], ["storage"]]);
        assert_eq!(
            [which(&victim("irq-thread", "irq/30-eth0")), which(&victim("rcu", "rcu_preempt"))],
            [vec!["kernel"], vec![]]
        );
        assert_eq!(which(&Victim { kernel_thread: Some(true), ..victim("task", "khugepaged") }), ["kernel"]);
        // A program with this name belongs to its group.
        for kernel_thread in [Some(false), None] {
            assert_eq!(which(&Victim { kernel_thread, ..victim("task", "khugepaged") }), ["other"]);
        }
        assert_eq!(which(&Victim { kernel_thread: Some(false), ..worker }), ["other"]);
    }

    #[test]
    fn what_may_be_a_kernel_thread_is_ignored_by_no_role() {
        for kind in ["kworker", "ksoftirqd", "rcu", "storage", "nfsd", "irq-thread"] {
            let gone = Victim { kernel_thread: None, ..victim(kind, "kworker/0:1") };
            let all: Vec<&str> = ["other", "kernel", "kworker", "real-time", "/"].into();
            assert!(!of(&gone, &all), "{kind}");
            assert!(!of(&Victim { cgroups: vec!["/".into()], ..gone }, &all), "{kind}");
        }
    }

    #[test]
    fn programs_are_those_of_their_groups() {
        let build = Victim { cgroups: vec!["/batch.slice/build".into()], ..victim("task", "cc1") };
        assert!(of(&build, &["/batch.slice"]));
        assert!(!of(&build, &["/batch"]) && !of(&build, &["other"]) && !of(&build, &[]));
        // Some of its tasks are in other groups.
        let both = Victim { cgroups: vec!["/batch.slice/build".into(), "/user.slice".into()], ..build.clone() };
        assert!(!of(&both, &["/batch.slice"]) && of(&both, &["/batch.slice", "/user.slice"]));
        // Real-time tasks have their role in any group.
        let real_time = Victim { policy: Some(Policy::Rt), ..build };
        assert!(of(&real_time, &["real-time"]) && !of(&real_time, &["/batch.slice"]));
        let nowhere = Victim { cgroups: vec!["/".into()], ..victim("task", "cc1") };
        assert!(of(&nowhere, &["other"]) && of(&victim("task", "cc1"), &["other"]));
    }
}
