//! Rule `rt-inherited`: real-time processes whose children inherit the policy.

use std::collections::BTreeMap;

use unstarve_change::{Change, Value};
use unstarve_facts::{Holds, TaskFacts};
use unstarve_model::{SchedPolicy, Tid, clean};

use super::Rule;
use crate::case::{AuditInput, common, counted};
use crate::fix;
use crate::hit::{Draft, Fix, FixNotes, Hit, Severity};
use crate::interrupts::Device;
use crate::real_time::RtGroup;

pub(super) const RULE: Rule = Rule {
    id: "rt-inherited",
    title: "Real-time processes without reset-on-fork that start children",
    about: "A child inherits the real-time policy, though nobody chose it for the shell or the probe that it runs; and a \
            short-lived one is gone before anybody looks.",
    source: "sched(7), SCHED_RESET_ON_FORK; sched_fork() in kernel/sched/core.c; case A2: Nutanix, 2021",
    check,
    upgrade: None,
};

fn check(case: &AuditInput<'_>) -> Vec<Hit> {
    let real_time = case.real_time.iter().flat_map(|group| group.tasks.iter().map(move |task| (group, *task)));
    let mut heirs: BTreeMap<Tid, Vec<&TaskFacts>> = BTreeMap::new();
    for (_, task) in real_time.clone().filter(|(_, task)| task.tgid.is_none()) {
        if let Some(parent) = task.parent {
            heirs.entry(parent).or_default().push(task);
        }
    }
    let none = Vec::new();
    let leaders = real_time.filter(|(_, task)| task.tgid.is_none());
    leaders.filter_map(|(group, parent)| hit(case, group, parent, heirs.get(&parent.tid).unwrap_or(&none))).collect()
}

/// With fewer page faults than one `fork` and `exec` cost, the process had no child: a real-time shell pipeline is no
/// daemon.
const FAULTS_OF_A_CHILD: u64 = 50;

fn hit(case: &AuditInput<'_>, everywhere: &RtGroup<'_>, parent: &TaskFacts, children: &[&TaskFacts]) -> Option<Hit> {
    // A deadline task without the flag cannot fork.
    if parent.reset_on_fork == Some(true) || parent.policy == SchedPolicy::Deadline {
        return None;
    }
    let same = |task: &&&TaskFacts| task.policy == parent.policy && task.rt_priority == parent.rt_priority;
    let heirs: Vec<&TaskFacts> = children.iter().filter(same).copied().collect();
    let faults = parent.child_faults.filter(|&faults| faults >= FAULTS_OF_A_CHILD);
    if heirs.is_empty() && faults.is_none() {
        return None;
    }
    let known = parent.reset_on_fork.is_some();
    let serving = |device| everywhere.allowed.map(|allowed| common(&case.interrupts.cpus(device), allowed));
    let net = serving(Device::Net).filter(|set| !set.is_empty());
    let severity = if known && net.is_some() { Severity::Warning } else { Severity::Info };
    Some(
        Draft::new(RULE.id, severity, everywhere.subject())
            .says(format!(
                "{}[{}] is {} {} and starts children, which inherit that{}.",
                parent.comm,
                parent.tid,
                parent.policy.word(),
                parent.rt_priority,
                if known { "" } else { ", unless it has SCHED_RESET_ON_FORK, which this snapshot does not say" }
            ))
            .brief(if known { "children inherit its policy" } else { "children may inherit its policy" })
            .because_of(faults.map(|faults| {
                format!("it has had children: {} of those that ended are counted", counted(faults, "page fault"))
            }))
            .because_of(heirs.first().map(|heir| {
                format!("{} alive now, for example {}[{}]", counted(heirs.len() as u64, "heir"), heir.comm, heir.tid)
            }))
            .because_of(everywhere.allowed.map(|allowed| format!("they may run on {allowed}")))
            .would(consequence(case, parent, net.is_some()))
            .priced(
                "A monitor of a storage controller started a helper every 10 s; the helper inherited real-time priority, ran \
                 ahead of ksoftirqd, and one I/O took more than 100 ms each time (Nutanix, Linux 5.10, 2021).",
            )
            .fix(reset(parent))
            .done(),
    )
}

fn consequence(case: &AuditInput<'_>, parent: &TaskFacts, serves: bool) -> String {
    let where_to =
        if serves { " on CPUs that serve the network, ahead of ksoftirqd" } else { " ahead of everything normal" };
    let defers = case.facts.softirqs_wait_for_ksoftirqd() == Holds::Yes;
    format!(
        "Each child of {} runs{where_to} for as long as it likes{}.",
        clean(&parent.comm),
        if serves && defers {
            "; on this kernel all packets of that CPU wait once its ksoftirqd is runnable"
        } else {
            ""
        }
    )
}

fn reset(parent: &TaskFacts) -> Option<Fix> {
    let was = parent.reset_on_fork.map(Value::ResetOnFork);
    Fix::of(
        FixNotes {
            text: "Set reset-on-fork: children begin as SCHED_OTHER.",
            risk: "Threads that it starts later are normal, too: pools that count on inheriting lose real-time priority. In a \
                   unit: CPUSchedulingResetOnFork=yes. Taking the flag back needs CAP_SYS_NICE.",
            valid_on: "all kernels",
        },
        vec![Change::of(fix::thread(parent), Value::ResetOnFork(true)).from(was)],
    )
}
