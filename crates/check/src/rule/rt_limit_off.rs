//! Rule `rt-throttling-off`: nothing limits real-time tasks.

use unstarve_facts::Holds;
use unstarve_sched::setting::tunable::fair_server as fair_server_file;

use super::Rule;
use crate::case::AuditInput;
use crate::fix;
use crate::hit::{Draft, Fix, FixNotes, Hit, Severity};

pub(super) const RULE: Rule = Rule {
    id: "rt-throttling-off",
    title: "Nothing takes the CPU from a real-time task that does not stop: RT throttling or the fair server is off",
    about: "The last resort of the kernel: 5 % of each second for everybody else. Without it one real-time loop stops the \
            kernel threads of its CPU for good, and soon the machine.",
    source: "update_curr_rt() in kernel/sched/rt.c (commit 5f6bd380c7bd, 6.12); fair_server_init() in kernel/sched/fair.c",
    check,
    upgrade: None,
};

fn check(case: &AuditInput<'_>) -> Vec<Hit> {
    throttling(case).into_iter().chain(fair_server(case)).collect()
}

/// More severe the more real-time CPU use there is.
fn severity(case: &AuditInput<'_>) -> Severity {
    case.real_time
        .iter()
        .map(|group| group.severity())
        .max()
        .map_or(Severity::Info, |worst| worst.max(Severity::Warning))
}

fn real_time_tasks(case: &AuditInput<'_>) -> String {
    match case.real_time.iter().max_by(|a, b| a.cpu_use.unwrap_or(0.0).total_cmp(&b.cpu_use.unwrap_or(0.0))) {
        Some(group) => format!("there are real-time tasks, for example {}", group.named()),
        None if !case.knows_threads() => "whether there are real-time tasks was not collected".to_owned(),
        None => "there is no real-time task now".to_owned(),
    }
}

fn throttling(case: &AuditInput<'_>) -> Option<Hit> {
    let (path, value) = case.snapshot.setting("sched_rt_runtime_us")?;
    let runtime: i64 = value.trim().parse().ok()?;
    let period: i64 = case
        .snapshot
        .setting("sched_rt_period_us")
        .and_then(|(_, value)| value.trim().parse().ok())
        .unwrap_or(1_000_000);
    let off = runtime < 0 || runtime >= period;
    // Without RT_GROUP_SCHED the setting has no effect since 6.12: there the fair server counts.
    let would_throttle = case.facts.would_throttle_rt();
    if !off || would_throttle == Holds::No {
        return None;
    }
    let certain = would_throttle == Holds::Yes;
    let severity = if certain { severity(case) } else { Severity::Info };
    let places = case.snapshot.configured.iter().filter(|setting| setting.key.ends_with("sched_rt_runtime_us"));
    Some(
        Draft::new(RULE.id, severity, "sched_rt_runtime_us")
            .says("RT throttling is off: a real-time task that does not sleep keeps its CPU for ever.")
            .brief(format!("{runtime}, so that RT throttling is off"))
            .because(format!("{path} is {runtime}, the period {period}"))
            .because(real_time_tasks(case))
            .would(
                "ksoftirqd, kernel workers and every normal task of that CPU stop; RCU stalls, and the machine hangs with it.",
            )
            .fix(Fix::of(
                FixNotes {
                    text: "Turn it on: 95 % for real-time tasks, as the kernel's default up to 7.1.",
                    risk: "A real-time task that needs more than 95 % of a CPU is stopped for 50 ms of each second.",
                    valid_on: "up to 6.11; later only with CONFIG_RT_GROUP_SCHED",
                },
                vec![fix::setting(case.snapshot, path, &(period / 20 * 19).to_string())],
            ))
            .set_at(places)
            .done(),
    )
}

fn fair_server(case: &AuditInput<'_>) -> Option<Hit> {
    if case.facts.would_throttle_rt() == Holds::Yes {
        return None;
    }
    let off = case.snapshot.settings.iter().filter(|(_, value)| value.trim() == "0");
    let off = off.filter_map(|(path, _)| match fair_server_file(path)? {
        (cpu, "runtime") => Some((path.as_str(), cpu)),
        _ => None,
    });
    let (files, cpus): (Vec<&str>, Vec<&str>) = off.unzip();
    let first = files.first()?;
    Some(
        Draft::new(RULE.id, severity(case), "fair_server")
            .says(format!("The fair server is off on {}: real-time tasks may starve everybody else there.", named(&cpus)))
            .brief(format!("off on {}", named(&cpus)))
            .because(format!("{first} is 0"))
            .because(real_time_tasks(case))
            .would("RT throttling does not exist on this kernel, so nothing takes the CPU from a real-time task that does not sleep.")
            .fix(Fix::of(
                FixNotes {
                    text: "Turn it on: 50 ms of each second for starved normal tasks, as the kernel's default.",
                    risk: "A real-time task that never sleeps loses 5 % of its CPU.",
                    valid_on: "6.12 and later, with debugfs",
                },
                files.iter().map(|path| fix::setting(case.snapshot, path, "50000000")).collect(),
            ))
            .done(),
    )
}

fn named(cpus: &[&str]) -> String {
    match cpus {
        [one] => format!("CPU {one}"),
        many => format!("{} CPUs", many.len()),
    }
}
