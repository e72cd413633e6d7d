//! The page of `unstarve guard verify`.

use std::fmt::Write;

use unstarve_guard::Policy;
use unstarve_guard::verify::{By, Fared, Keep, Outcome, Verdict};
use unstarve_model::{Nanos, clean, counted};

/// Formats the outcome of each rule; `keep` says what was kept.
pub fn verify_page(policy: &Policy, outcome: &Outcome, keep: Keep) -> String {
    let Outcome { before, with, again, judged, .. } = outcome;
    let mut page = String::new();
    for (index, (rule, judged)) in policy.rules.iter().zip(judged).enumerate() {
        let _ = writeln!(page, "{} ({})", clean(&rule.name), clean(&rule.place));
        for (name, measured) in [("before:", before), ("with it:", with), ("again:", again)] {
            let _ = writeln!(page, "  {name:<9}{}", side(&measured.rules[index]));
        }
        let verdict = match judged.verdict {
            Verdict::Helped if keep == Keep::WhatHelped => "helped; left in place",
            Verdict::Helped => "helped; reverted, as everything",
            Verdict::DidNotHelp => "did not help; reverted",
            Verdict::TooFew => "too few waits to judge; reverted",
            Verdict::Unknown => "cannot be judged; reverted",
        };
        let longer = if judged.reason.may_be_decided_by_time() { "; measure for longer (--for)" } else { "" };
        let _ = writeln!(page, "  {verdict} ({}{longer})", judged.reason);
    }
    if let By::Schedstat { reason } = &with.by {
        let _ = writeln!(page, "measured by /proc/PID/schedstat, which knows no single waits: {}", clean(reason));
    }
    page
}

fn side(fared: &Fared) -> String {
    if fared.tasks == 0 {
        return "none of its tasks ran or waited".to_owned();
    }
    let ratio = fared
        .wait_ratio()
        .map_or(String::new(), |ratio| format!(": {ratio:.3} s of waiting for each second of running"));
    let tasks = counted(fared.tasks as u64, "task");
    let mut side = format!("{tasks} ran {} and waited {}{ratio}", Nanos(fared.ran_ns), Nanos(fared.waited_ns));
    if let Some(waits) = single_waits(fared) {
        let _ = write!(side, "\n           {waits}");
    }
    side
}

/// `1,204 waits: average 1.20 ms, median 1.00 ms, …`; from sums alone, how often the tasks got a CPU. `None` without
/// waits.
pub(crate) fn single_waits(fared: &Fared) -> Option<String> {
    let average = Nanos(fared.average_ns()?);
    let Some(waits) = fared.waits else {
        return Some(format!("{}: {average} of waiting for each on average", counted(fared.count(), "turn")));
    };
    let (p50, p99, max) = (Nanos(waits.p50_ns), Nanos(waits.p99_ns), Nanos(waits.max_ns));
    let count = counted(waits.count, "wait");
    Some(format!("{count}: average {average}, median {p50}, 99th percentile {p99}, longest {max}"))
}
