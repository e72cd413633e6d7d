//! Rule `throttled-cgroup`: a cgroup reaches its CPU limit.

use unstarve_facts::{CgroupFacts, Holds};
use unstarve_sched::setting::cgroup;

use super::Rule;
use crate::case::{AuditInput, grouped};
use crate::fix;
use crate::hit::{Draft, Fix, FixNotes, Hit, Severity};

pub(super) const RULE: Rule = Rule {
    id: "throttled-cgroup",
    title: "A cgroup with a limit on CPU time hits it",
    about: "A group that used up its quota stands still until the next period, also while CPUs are idle, and a task that holds a lock \
            in it keeps others waiting.",
    source: "Documentation/scheduler/sched-bwc.rst; tg_set_cfs_bandwidth() in kernel/sched/core.c; commits 512ac999d275 (4.18) and \
             de53fd7aedb1 (5.4) (R16)",
    check,
    upgrade: None,
};

/// Throttled periods as a fraction of the periods in which the group ran.
const OFTEN: f64 = 0.10;
const SOMETIMES: f64 = 0.01;
/// A few throttled periods are normal at a program's start.
const LEAST: u64 = 10;
const SHOWN: usize = 10;

fn check(case: &AuditInput<'_>) -> Vec<Hit> {
    let mut found: Vec<(f64, Hit)> = case.snapshot.cgroups.iter().filter_map(|group| hit(case, group)).collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().take(SHOWN).map(|(_, hit)| hit).collect()
}

fn hit(case: &AuditInput<'_>, group: &CgroupFacts) -> Option<(f64, Hit)> {
    let limit = group.limit?;
    let throttled = group.throttled.filter(|counters| counters.count >= LEAST && counters.periods > 0)?;
    let part = throttled.count as f64 / throttled.periods as f64;
    if part < SOMETIMES {
        return None;
    }
    let expires = case.facts.quota_expires() == Holds::Yes;
    let severity = if part >= OFTEN { Severity::Warning } else { Severity::Info };
    let cpus = limit.quota_us as f64 / limit.period_us.max(1) as f64;
    let each = throttled.ns.0 / throttled.count.max(1);
    let hit = Draft::new(RULE.id, severity, &group.path)
        .says(format!(
            "{} hit its limit of {cpus:.2} CPUs in {:.0} % of the periods in which it ran.",
            group.path,
            part * 100.0
        ))
        .brief(format!("hit its limit of {cpus:.2} CPUs in {:.0} % of its periods", part * 100.0))
        .because(format!(
            "{} of {} periods, {} each time, summed over CPUs",
            grouped(throttled.count),
            grouped(throttled.periods),
            unstarve_model::Nanos(each)
        ))
        .because(format!("{} µs in every {} µs", limit.quota_us, limit.period_us))
        .because_of(expires.then(|| {
            format!(
                "{} lets unused quota expire on each CPU, so that groups are stopped below their limit",
                case.facts.name()
            )
        }))
        .would(format!(
            "All its threads stand still for up to {:.0} ms, idle CPUs or not.",
            limit.period_us as f64 / 1000.0
        ))
        .fix(raise(case, group))
        .fix(expires.then(|| {
            Fix::advice(FixNotes { text: "Update the kernel: 5.4, or 5.3.9.", risk: "", valid_on: "4.18 to 5.3.8" })
        }))
        .done();
    Some((part, hit))
}

fn raise(case: &AuditInput<'_>, group: &CgroupFacts) -> Option<Fix> {
    let limit = group.limit?;
    let change = fix::of_group(case.snapshot, group, |version| {
        let of = |quota_us| cgroup::limit(version, quota_us, limit.period_us);
        (of(limit.quota_us), of(limit.quota_us.saturating_mul(2)))
    })?;
    Fix::of(
        FixNotes {
            text: "Give it more, or limit it by weight alone.",
            risk: "It may take that from others. Kubernetes and systemd write the limit again: change it there (limits.cpu, \
                   CPUQuota=).",
            valid_on: "all kernels",
        },
        vec![change],
    )
}
