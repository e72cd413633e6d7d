//! Rule `bpf-scheduler`: a scheduler of sched_ext is loaded.

use unstarve_model::clean;

use super::Rule;
use crate::case::AuditInput;
use crate::hit::{Draft, Fix, FixNotes, Hit, Severity};

pub(super) const RULE: Rule = Rule {
    id: "bpf-scheduler",
    title: "A BPF scheduler (sched_ext) decides about ordinary tasks",
    about: "While one is loaded, all tasks that are not real-time or deadline are its own, kernel workers included. Weights, slices \
            and the facts about the fair class do not hold; what it starves, it starves by its own rules. A task that it leaves for \
            30 s (its watchdog) ends it.",
    source: "Documentation/scheduler/sched-ext.rst; kernel/sched/ext.c",
    check,
    upgrade: None,
};

fn check(case: &AuditInput<'_>) -> Vec<Hit> {
    hit(case).into_iter().collect()
}

fn hit(case: &AuditInput<'_>) -> Option<Hit> {
    let scheduler = case.snapshot.ext_scheduler()?;
    let name = scheduler.name.map_or("one whose name is not shown".to_owned(), |name| clean(name).into_owned());
    let which = if scheduler.all_tasks { "all ordinary tasks, kernel workers included" } else { "tasks of SCHED_EXT" };
    let silent = if scheduler.all_tasks { "; the rules about weights say nothing meanwhile" } else { "" };
    Some(
        Draft::new(RULE.id, Severity::Info, "sched_ext")
            .says(format!("A BPF scheduler ({name}) schedules {which}{silent}."))
            .brief(format!("{name} schedules {which}"))
            .because("/sys/kernel/sched_ext/state is enabled")
            .would(
                "A worker that waits beside an idle CPU, or for long, waits by a rule of that scheduler. Its exit dump (dmesg, \
                 \"runnable task stall\") names the task and what ran meanwhile.",
            )
            .fix(Fix::advice(FixNotes {
                text: "If tasks starve, ask the scheduler (its options and statistics) or unload it: stop its service (often \
                       scx.service or scx_loader.service), or press SysRq-S.",
                risk: "Without it the host has the fair class's latencies.",
                valid_on: "6.12 and later",
            }))
            .done(),
    )
}
