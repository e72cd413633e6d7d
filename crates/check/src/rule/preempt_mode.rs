//! Rule `preempt-mode`: the preemption mode is ignored, unsuitable or changes with an upgrade.

use unstarve_change::{Change, Value};
use unstarve_facts::{ConfiguredBy, Holds, PreemptMode};

use super::Rule;
use crate::case::{AuditInput, counted};
use crate::hit::{Draft, Fix, FixNotes, Hit, Severity};
use crate::part::{Kind, OnHost};

pub(super) const RULE: Rule = Rule {
    id: "preempt-mode",
    title: "A preempt= that the kernel ignores, lazy preemption beside vhost, or an upgrade that changes the mode",
    about: "The mode decides when a woken task gets the CPU from one that is inside the kernel. Linux 7.0 has only lazy and full on \
            most machines; lazy lets a task in the kernel go on until the next tick.",
    source: "sched_dynamic_mode() in kernel/sched/core.c of 6.12 and 7.2, kernel/Kconfig.preempt; commit 7dadeaa6e851 (7.0) (R13, R14)",
    check,
    upgrade: Some(flip),
};

const PRICE: &str = "Two guests over one vhost queue: 50 Gbit/s became 13, and a worker's wake latency 0.721 ms instead of 0.002 (s390, \
                     7.0, 2026). PostgreSQL with 1024 clients on 96 CPUs: 98,566 transactions a second became 50,752.";

fn check(case: &AuditInput<'_>) -> Vec<Hit> {
    ignored(case).into_iter().chain(lazy(case)).collect()
}

fn ignored(case: &AuditInput<'_>) -> Option<Hit> {
    let word = case.facts.boot_parameter("preempt")?;
    let heeded = PreemptMode::of_word(word).map(|mode| case.facts.preempt_parameter_is_heeded(mode));
    if !matches!(heeded, None | Some(Holds::No)) {
        return None;
    }
    let places =
        case.snapshot.configured.iter().filter(|setting| setting.by == ConfiguredBy::Boot && setting.key == "preempt");
    let mode = case.facts.preempt_mode();
    Some(
        Draft::new(RULE.id, Severity::Warning, format!("preempt={word}"))
            .says(format!("{} ignores preempt={word} and goes on as it was built.", case.facts.name()))
            .brief(match mode {
                Some(mode) => format!("ignored, the mode is {}", mode.word()),
                None => "ignored".to_owned(),
            })
            .kind(Kind::Gone, OnHost::Has)
            .setting("preempt", word, mode.map(|mode| mode.word()))
            .because_of(mode.map(|mode| format!("the mode is {}", mode.word())))
            .would(if case.facts.version().is_some_and(|version| version.is_at_least(7, 0)) {
                "Where the mode was none or voluntary it is lazy: woken tasks may wait for a tick longer, or preempt a lock holder in \
                 user space sooner, than intended."
            } else {
                "The parameter has no effect."
            })
            .priced(PRICE)
            .fix(Fix::advice(FixNotes {
                text: "Take the parameter out, or choose one that this kernel knows.",
                risk: "The boot line takes effect at the next boot.",
                valid_on: "7.0 and later: full, lazy; 5.12 to 6.19: none, voluntary, full",
            }))
            .set_at(places)
            .done(),
    )
}

/// The number of vhost threads: they stay in the kernel and queue work for a worker of their own CPU.
fn vhosts(case: &AuditInput<'_>) -> usize {
    case.snapshot.tasks.iter().filter(|task| task.comm.starts_with("vhost-")).count()
}

fn lazy(case: &AuditInput<'_>) -> Option<Hit> {
    let vhosts = vhosts(case);
    if case.facts.preempt_mode() != Some(PreemptMode::Lazy) || vhosts == 0 {
        return None;
    }
    Some(
        Draft::new(RULE.id, Severity::Warning, "lazy preemption beside vhost")
            .says("Preemption is lazy, and vhost threads keep kernel workers of their CPU waiting for up to a tick.")
            .brief(format!("{} can delay kernel workers by a tick", counted(vhosts as u64, "vhost thread")))
            .because(counted(vhosts as u64, "vhost thread"))
            .because_of(case.facts.tick().map(|tick| format!("a tick is {tick}")))
            .would("A worker that a vhost thread wakes on its own CPU runs only when that thread sleeps, or at the next tick.")
            .priced(PRICE)
            .fix(Fix::of(
                FixNotes {
                    text: "Full preemption.",
                    risk: "Some throughput. For good: preempt=full on the boot line.",
                    valid_on: "PREEMPT_DYNAMIC",
                },
                // The file lists all modes; the active one is known.
                vec![Change::file("/sys/kernel/debug/sched/preempt", "full").from(Value::content("lazy"))],
            ))
            .done(),
    )
}

fn flip(before: &AuditInput<'_>, after: &AuditInput<'_>) -> Vec<Hit> {
    let (Some(was), Some(will)) = (before.facts.preempt_mode(), after.facts.preempt_mode()) else { return Vec::new() };
    if was == will {
        return Vec::new();
    }
    let (was, will) = (was.word(), will.word());
    vec![
        Draft::new(RULE.id, Severity::Warning, "preempt mode")
            .says(format!("{} changes the preemption mode from {was} to {will}.", after.facts.name()))
            .brief(format!("{was} → {will}"))
            .kind(Kind::Default, OnHost::Default)
            .setting("preempt", was, Some(will))
            .because(format!("{} has only full and lazy on this machine", after.facts.name()))
            .would(
                "A wakeup inside the kernel takes effect at the next tick or return to user space; code in user space that was not \
                 preempted in page faults now is.",
            )
            .priced(PRICE)
            .fix(Fix::boot(
                FixNotes {
                    text: "Boot with preempt=full if kernel workers wait for the programs that they serve; measure both.",
                    risk: "Some throughput.",
                    valid_on: "5.12 and later with PREEMPT_DYNAMIC",
                },
                "preempt=full",
            ))
            .done(),
    ]
}
