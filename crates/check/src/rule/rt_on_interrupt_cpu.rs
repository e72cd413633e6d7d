//! Rule `rt-on-interrupt-cpu`: real-time tasks on CPUs that serve interrupts.

use unstarve_facts::{Holds, TaskFacts};
use unstarve_model::{CpuId, CpuSet};

use super::Rule;
use crate::case::{AuditInput, common, counted, cpus, is_above_fair};
use crate::fix;
use crate::hit::{Draft, Hit, Severity};
use crate::interrupts::Device;
use crate::real_time::RtGroup;

pub(super) const RULE: Rule = Rule {
    id: "rt-on-interrupt-cpu",
    title: "Real-time tasks may run on CPUs that serve network or block interrupts while ksoftirqd there is normal",
    about: "The second half of an interrupt often runs in ksoftirqd. A real-time task on the same CPU goes first for as \
            long as it likes, and packets and completed I/O wait.",
    source: "ksoftirqd_running() in kernel/softirq.c up to 6.4, commit d15121be7485 (6.5); case A2: Nutanix, \
             nutanix.dev/2021/12/09/latencies-schedulers-interrupts-oh-my-the-epic-story-of-a-linux-kernel-upgrade",
    check,
    upgrade: None,
};

fn check(case: &AuditInput<'_>) -> Vec<Hit> {
    super::quiet_together(
        &RULE,
        "may run on CPUs that serve interrupts, ahead of ksoftirqd",
        case.real_time.iter().filter_map(|group| hit(case, group)),
    )
}

/// The CPUs of `device` on which the group would precede ksoftirqd.
fn exposed(case: &AuditInput<'_>, group: &RtGroup<'_>, device: Device) -> CpuSet {
    let serving = case.interrupts.cpus(device);
    let allowed = group.allowed.map_or_else(CpuSet::default, |allowed| common(&serving, allowed));
    allowed.iter().filter(|&cpu| case.ksoftirqd(cpu).is_none_or(|thread| group.is_above(thread))).collect()
}

fn hit(case: &AuditInput<'_>, group: &RtGroup<'_>) -> Option<Hit> {
    let net = exposed(case, group, Device::Net);
    let block = exposed(case, group, Device::Block);
    let all: CpuSet = net.iter().chain(block.iter()).collect();
    if all.is_empty() {
        return None;
    }
    let kinds = match (net.is_empty(), block.is_empty()) {
        (false, false) => "network and block",
        (false, true) => "network",
        _ => "block",
    };
    let served = |device: Device, set: &CpuSet| {
        set.iter().take(2).filter_map(|cpu| case.interrupts.evidence(device, cpu)).collect::<Vec<_>>()
    };
    Some(
        Draft::new(RULE.id, severity(case, group, &all), group.subject())
            .says(format!(
                "{} may run on {}, which {} {kinds} interrupts, ahead of ksoftirqd there.",
                group.named(),
                cpus(&all),
                if all.len() == 1 { "serves" } else { "serve" },
            ))
            .brief("ahead of ksoftirqd")
            .because(group.allowed.map_or_else(String::new, |allowed| format!("its affinity is {allowed}")))
            .because_of(group.evidence_of_use())
            .because_of(served(Device::Net, &net))
            .because_of(served(Device::Block, &block))
            .because(ksoftirqd_is(case, &all))
            .would(consequence(case, group))
            .priced(
                "On a storage controller of 8 CPUs (Linux 5.10) one I/O in every 10 s took more than 100 ms: a short \
                 real-time helper ran ahead of ksoftirqd, and received packets waited about 90 ms (Nutanix, 2021).",
            )
            .fix(fix::keep_off(case, group, &all))
            .fix(fix::raise_ksoftirqd(case, group, &all))
            .fix(fix::threaded_napi(case, group, &net))
            .done(),
    )
}

/// By the group's CPU use so far; only a warning for a busy group that hardly any interrupt meets.
fn severity(case: &AuditInput<'_>, group: &RtGroup<'_>, cpus: &CpuSet) -> Severity {
    let rate = |cpu: CpuId| {
        let of = |device| case.interrupts.rate(device, cpu);
        match (of(Device::Net), of(Device::Block)) {
            (Some(net), Some(block)) => Some(net + block),
            (known, other) => known.or(other),
        }
    };
    let rates: Option<f64> = cpus.iter().filter_map(rate).reduce(|a, b| a + b);
    let rare = rates.is_some_and(|rate| rate < 1.0);
    match group.severity() {
        Severity::Critical if rare => Severity::Warning,
        severity => severity,
    }
}

fn ksoftirqd_is(case: &AuditInput<'_>, set: &CpuSet) -> String {
    let threads: Vec<&TaskFacts> = set.iter().filter_map(|cpu| case.ksoftirqd(cpu)).collect();
    let Some(first) = threads.first() else {
        return "ksoftirqd cannot be seen from here; it is normal unless somebody changed it".to_owned();
    };
    let name = if threads.len() == 1 { first.comm.clone() } else { counted(threads.len() as u64, "ksoftirqd thread") };
    let is = if threads.len() == 1 { "is" } else { "are" };
    if is_above_fair(first.policy) {
        format!("{name} {is} {} {}, which is not above it", first.policy.word(), first.rt_priority)
    } else {
        format!("{name} {is} SCHED_OTHER, nice {}", first.nice)
    }
}

fn consequence(case: &AuditInput<'_>, group: &RtGroup<'_>) -> String {
    let facts = &case.facts;
    let defers = match facts.softirqs_wait_for_ksoftirqd() {
        Holds::Yes => format!(
            "On {} all softirqs of a CPU but HI and TASKLET wait once its ksoftirqd is runnable, so every packet and block \
             completion there waits for {}.",
            facts.name(),
            group.name
        ),
        Holds::No => format!(
            "{} runs softirqs at the end of an interrupt also while ksoftirqd is runnable; what does not fit into that (2 ms \
             or 10 rounds) waits for {}.",
            facts.name(),
            group.name
        ),
        Holds::Depends(what) => {
            format!("Softirqs that are left to ksoftirqd wait for {} ({what} would show more).", group.name)
        }
    };
    format!("{defers} {}", limit(case))
}

/// What ends the wait.
pub(super) fn limit(case: &AuditInput<'_>) -> &'static str {
    match (case.facts.rt_throttling(), case.facts.fair_server()) {
        (Holds::Yes, _) => "RT throttling ends it after at most 950 ms of each second.",
        (_, Holds::Yes) => {
            "The fair server steps in after about 950 ms, with 50 ms for all fair tasks of the CPU together."
        }
        (Holds::No, Holds::No) => "Nothing ends it: RT throttling is off and there is no fair server.",
        _ => "The snapshot does not show whether RT throttling or a fair server ends it.",
    }
}
