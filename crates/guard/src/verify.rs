//! Did it help? The waits of the tasks that a rule is about, before and after, by the kernel's own sums (`schedstat`).

use std::time::Duration;

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::policy::Policy;
use crate::scan::{self, Scanner};
use crate::task::{Task, TaskKey};

/// How much less tasks have to wait, for each second that they run, for a rule to have helped.
pub const HELPED: f64 = 0.10;

/// How tasks of a rule fared for a while.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Fared {
    /// Tasks that ran or waited.
    pub tasks: usize,
    /// How long they ran, in ns.
    pub ran_ns: u64,
    /// How long they waited for a CPU, in ns.
    pub waited_ns: u64,
}

impl Fared {
    /// Waiting for each ns of running: what load alone does not change much. `None` if nothing ran.
    pub fn wait_ratio(&self) -> Option<f64> {
        (self.ran_ns > 0).then(|| self.waited_ns as f64 / self.ran_ns as f64)
    }
}

/// What became of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The waits are shorter by a tenth or more.
    Helped,
    /// They are not.
    DidNotHelp,
    /// Nothing of it ran on one side.
    Unknown,
}

/// Judges by the waits before and after.
pub fn judge(before: &Fared, after: &Fared) -> Verdict {
    match (before.wait_ratio(), after.wait_ratio()) {
        (Some(before), Some(after)) if after <= before * (1.0 - HELPED) && before > 0.0 => Verdict::Helped,
        (Some(_), Some(_)) => Verdict::DidNotHelp,
        _ => Verdict::Unknown,
    }
}

/// Watches all tasks for a while and sums up, for each rule, those that it selects. A worker counts for a rule from the
/// first look on at which it is known for the rule's work; tasks that live for less than `step` are not seen.
pub fn watch(policy: &Policy, time: Duration, step: Duration) -> std::io::Result<Vec<Fared>> {
    let scanner = Scanner::new(policy.wanted());
    let mut first: FxHashMap<TaskKey, (u64, u64)> = FxHashMap::default();
    let mut last: FxHashMap<TaskKey, (u64, u64)> = FxHashMap::default();
    let mut selected: FxHashMap<TaskKey, Vec<usize>> = FxHashMap::default();
    let end = std::time::Instant::now() + time;
    let mut begins = true;
    loop {
        for task in scanner.all()? {
            let Some(now) = scan::waited(task.key.tid) else { continue };
            // One born meanwhile began at nothing.
            first.entry(task.key).or_insert(if begins { now } else { (0, 0) });
            last.insert(task.key, now);
            let rules = selected.entry(task.key).or_default();
            for rule in rules_of(policy, &task) {
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
        begins = false;
        let now = std::time::Instant::now();
        if now >= end {
            break;
        }
        std::thread::sleep(step.min(end - now));
    }
    let mut fared = vec![Fared::default(); policy.rules.len()];
    for (key, rules) in selected {
        let ((ran, waited), (ran_first, waited_first)) = (last[&key], first[&key]);
        let (ran, waited) = (ran.saturating_sub(ran_first), waited.saturating_sub(waited_first));
        if ran + waited == 0 {
            continue;
        }
        for rule in rules {
            fared[rule].tasks += 1;
            fared[rule].ran_ns += ran;
            fared[rule].waited_ns += waited;
        }
    }
    Ok(fared)
}

fn rules_of(policy: &Policy, task: &Task) -> Vec<usize> {
    policy.candidates(&task.comm).filter(|&rule| policy.rules[rule].selector.matches(task)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_less_waiting_is_help() {
        let fared = |ran_ns, waited_ns| Fared { tasks: 1, ran_ns, waited_ns };
        for (before, after, verdict) in [
            (fared(100, 100), fared(200, 100), Verdict::Helped),
            (fared(100, 100), fared(100, 90), Verdict::Helped),
            (fared(100, 100), fared(100, 95), Verdict::DidNotHelp),
            (fared(100, 0), fared(100, 0), Verdict::DidNotHelp),
            (fared(0, 0), fared(100, 0), Verdict::Unknown),
        ] {
            assert_eq!(judge(&before, &after), verdict, "{before:?} {after:?}");
        }
    }
}
