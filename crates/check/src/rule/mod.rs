//! The rules of `check`, one module each: a pure function from a host and the facts about its kernel to hits.

mod autogroup;
mod bpf_scheduler;
mod busy_poller;
mod crowded_pool;
mod heavy_cgroup;
mod interrupt_on_pinned_cpu;
mod knob_drift;
mod known_bug;
mod known_change;
mod preempt_mode;
mod rt_above_irq_thread;
mod rt_beside_worker;
mod rt_inherited;
mod rt_limit_off;
mod rt_on_interrupt_cpu;
mod stolen_time;
mod throttled_cgroup;

use unstarve_facts::{Holds, Row, Version};

use crate::case::AuditInput;
use crate::hit::{Draft, Hit, Severity};

/// The load weight of nice 0, which every normal kernel thread has.
const WORKER_WEIGHT: u32 = 1024;
/// Beside more than this weight a worker gets less than a third of the CPU: it is mentioned.
const MENTIONED_WEIGHT: u32 = 2 * WORKER_WEIGHT;
/// A worker with a smaller share of its CPU starves.
const STARVED_SHARE: f64 = 0.10;

/// A rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its id in kebab-case, never reused.
    pub id: &'static str,
    /// What it finds, in one line.
    pub title: &'static str,
    /// Why it is a problem.
    pub about: &'static str,
    /// The source of that.
    pub source: &'static str,
    pub(crate) check: fn(&AuditInput<'_>) -> Vec<Hit>,
    /// The hits of an upgrade, from the host as it is and under the other kernel.
    pub(crate) upgrade: Option<fn(&AuditInput<'_>, &AuditInput<'_>) -> Vec<Hit>>,
}

/// All rules, in the order of the documentation.
pub const RULES: [Rule; 17] = [
    rt_on_interrupt_cpu::RULE,
    rt_beside_worker::RULE,
    rt_above_irq_thread::RULE,
    rt_inherited::RULE,
    heavy_cgroup::RULE,
    busy_poller::RULE,
    crowded_pool::RULE,
    rt_limit_off::RULE,
    throttled_cgroup::RULE,
    interrupt_on_pinned_cpu::RULE,
    knob_drift::RULE,
    known_bug::RULE,
    known_change::RULE,
    autogroup::RULE,
    preempt_mode::RULE,
    stolen_time::RULE,
    bpf_scheduler::RULE,
];

/// The stable levels of a kernel that have what a row is about, if that depends on its level and the level is not known.
fn levels_of(row: Row, holds: Holds, version: Version) -> Option<String> {
    let Holds::Depends(_) = holds else { return None };
    let before = |level: Version| Version { patch: level.patch.map(|patch| patch.saturating_sub(1)), ..level };
    Some(match row.levels_in(version) {
        (Some(first), Some(fixed)) => format!("{first} to {}", before(fixed)),
        (Some(first), None) => format!("from {first} on"),
        (None, Some(fixed)) => format!("up to {}", before(fixed)),
        (None, None) => "levels not known".to_owned(),
    })
}

/// Combines hits about real-time programs that hardly ever run into one remark: every host has some.
fn quiet_together(rule: &Rule, doing: &str, hits: impl Iterator<Item = Hit>) -> Vec<Hit> {
    let (quiet, mut loud): (Vec<Hit>, Vec<Hit>) = hits.partition(|hit| hit.severity == Severity::Info);
    if quiet.len() <= 1 {
        loud.extend(quiet);
        return loud;
    }
    let together = Draft::new(rule.id, Severity::Info, "quiet real-time programs")
        .says(format!("{} real-time programs that use next to no CPU time {doing}.", quiet.len()))
        .brief(format!("{} {doing}", quiet.len()))
        .because_of(quiet.iter().take(8).map(|hit| hit.subject.clone()))
        .because_of((quiet.len() > 8).then(|| format!("and {} more", quiet.len() - 8)))
        .would("Nothing while they are quiet. If one of them loops, it goes first.");
    loud.push(together.done());
    loud
}
