use std::fmt::Write;

use unstarve_guard::Policy;
use unstarve_guard::verify::{By, Fared, Keep, Outcome, Verdict};
use unstarve_model::{Nanos, clean};

/// What came of each rule; `keep` is what was left in place.
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
            Verdict::Helped => "helped; taken back, as everything",
            Verdict::DidNotHelp => "did not help; taken back",
            Verdict::TooFew => "too few to judge; taken back",
            Verdict::Unknown => "cannot be judged; taken back",
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
    let ratio = fared.wait_ratio().map_or("-".to_owned(), |ratio| format!("{ratio:.3} s"));
    let mut side = format!(
        "{} tasks ran {} and waited {}: {ratio} of waiting for each second of running",
        fared.tasks,
        Nanos(fared.ran_ns),
        Nanos(fared.waited_ns)
    );
    if let Some(waits) = fared.waits {
        let (p50, p99, max) = (Nanos(waits.p50_ns), Nanos(waits.p99_ns), Nanos(waits.max_ns));
        let _ = write!(side, "\n           {} waits: median {p50}, 99th percentile {p99}, longest {max}", waits.count);
    }
    side
}
