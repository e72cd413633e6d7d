//! Rule `autogroup`: autogroup makes nice values ineffective between sessions.

use unstarve_facts::TaskFacts;

use super::Rule;
use crate::case::{AuditInput, counted};
use crate::fix;
use crate::hit::{Draft, Fix, FixNotes, Hit, Severity};
use crate::part::{Kind, OnHost};

pub(super) const RULE: Rule = Rule {
    id: "autogroup",
    title: "Autogroup is on, so that nice does nothing between sessions; or an upgrade turns it on or off",
    about: "With autogroup each session in the root cgroup competes as one entity: nice matters only inside a session, and kernel \
            threads gain against a session of many threads. Debian had it off up to 12 and has it on since 13.",
    source: "kernel/sched/autogroup.c; sched(7); Debian's changelog of linux 6.9.7-1 (R33)",
    check,
    upgrade: Some(flip),
};

/// Tasks of the root group with a nice value other than 0.
fn niced<'a>(case: &AuditInput<'a>) -> Vec<&'a TaskFacts> {
    let chosen = |task: &&TaskFacts| {
        !task.kernel_thread && task.tgid.is_none() && task.nice != 0 && task.cgroup.as_deref() == Some("/")
    };
    case.snapshot.tasks.iter().filter(chosen).collect()
}

fn check(case: &AuditInput<'_>) -> Vec<Hit> {
    let niced = niced(case);
    let Some(first) = niced.first().filter(|_| case.facts.autogroup() == Some(true)) else { return Vec::new() };
    vec![
        Draft::new(RULE.id, Severity::Info, "nice in sessions")
            .says(format!(
                "Autogroup is on: the nice of {} counts only inside a session.",
                counted(niced.len() as u64, "task")
            ))
            .brief(format!("autogroup limits the nice of {} to a session", counted(niced.len() as u64, "task")))
            .because(format!("for example {}[{}], nice {}, in the root cgroup", first.comm, first.tid, first.nice))
            .because("kernel.sched_autogroup_enabled is 1")
            .would("Against other sessions and against kernel threads such a task weighs as much as if it had nice 0.")
            .fix(off(case))
            .done(),
    ]
}

const SETTING: &str = "/proc/sys/kernel/sched_autogroup_enabled";

fn off(case: &AuditInput<'_>) -> Option<Fix> {
    Fix::of(
        FixNotes {
            text: "Turn autogroup off, or set the session's own nice in /proc/PID/autogroup.",
            risk: "A session of a hundred busy threads then weighs a hundred times as much as one.",
            valid_on: "2.6.38 and later with CONFIG_SCHED_AUTOGROUP",
        },
        vec![fix::setting(case.snapshot, SETTING, "0")],
    )
}

fn flip(before: &AuditInput<'_>, after: &AuditInput<'_>) -> Vec<Hit> {
    let (Some(was), Some(will)) = (before.facts.autogroup(), after.facts.autogroup()) else { return Vec::new() };
    if was == will {
        return Vec::new();
    }
    let now = if will { "on" } else { "off" };
    let in_root =
        before.snapshot.tasks.iter().filter(|task| !task.kernel_thread && task.cgroup.as_deref() == Some("/"));
    vec![
        Draft::new(RULE.id, Severity::Info, "default of autogroup")
            .says(format!("{} turns autogroup {now}.", after.facts.name()))
            .brief(format!("{} → {now}", if was { "on" } else { "off" }))
            .kind(Kind::Default, OnHost::Default)
            .setting("sched_autogroup_enabled", &u8::from(was).to_string(), Some(&u8::from(will).to_string()))
            .reported_as("R33")
            .because(format!("kernel.sched_autogroup_enabled is {} now and no file sets it", u8::from(was)))
            .because(format!("{} in the root cgroup, where it acts", counted(in_root.count() as u64, "thread")))
            .would(if will {
                "Each session becomes one entity: nice between sessions loses its effect, kernel threads gain against sessions of \
                 many threads."
            } else {
                "Threads of sessions compete one by one: sessions of many threads gain against others and against kernel threads."
            })
            .fix(Fix::kept(
                FixNotes {
                    text: "Keep what is now.",
                    risk: "none known",
                    valid_on: "kernels with CONFIG_SCHED_AUTOGROUP",
                },
                SETTING,
                &u8::from(was).to_string(),
            ))
            .done(),
    ]
}
