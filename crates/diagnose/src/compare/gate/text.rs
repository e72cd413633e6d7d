//! The sentences of a gate.

use unstarve_model::{Nanos, counted};
use unstarve_sched::Rule;

use super::finding::Levels;
use super::{Case, Gate, Judgement, RateCase, Role};
use crate::report::Finding;

/// From so many recordings of the base on, more of them decide little.
const ENOUGH_BASES: usize = 5;

/// The verdict: `Worse: rt-starvation of ksoftirqd/* is new.`
pub(super) fn sentence(gate: &Gate) -> String {
    let of = |verdict: Judgement| gate.cases.iter().filter(move |case| case.verdict == verdict);
    let first = |verdict: Judgement| {
        let more = of(verdict).count().saturating_sub(1);
        let rest = if more > 0 { format!(" And {} more.", counted(more as u64, "case")) } else { String::new() };
        of(verdict).next().map(|case| format!("{}{rest}", case.sentence))
    };
    match gate.verdict {
        Judgement::Worse => format!("Worse. {}", first(Judgement::Worse).unwrap_or_default()),
        Judgement::Better => format!("Better. {}", first(Judgement::Better).unwrap_or_default()),
        Judgement::Same => format!(
            "Same. No thread waits {} times as long as in the base: {}.",
            gate.margin,
            match gate.cases.len() as u64 {
                0 => "nobody waits for as much as 10 ms of each second".to_owned(),
                cases => format!("{} judged", counted(cases, "case")),
            }
        ),
        Judgement::Undecided => match gate.obstacles.first() {
            Some(obstacle) => format!("Undecided. {}.", obstacle.text),
            None => format!("Undecided. {}", first(Judgement::Undecided).unwrap_or_default()),
        },
    }
}

/// What to record for a verdict.
pub(super) fn advice(gate: &Gate) -> Option<String> {
    if gate.verdict != Judgement::Undecided {
        return None;
    }
    if let Some(obstacle) = gate.obstacles.first() {
        return Some(format!("To decide: {}.", obstacle.advice));
    }
    Some(match gate.base.len() {
        bases if bases < ENOUGH_BASES => format!(
            "To decide: record the base {} more, and name all with --base; they show how much runs differ.",
            counted((ENOUGH_BASES - bases) as u64, "time")
        ),
        _ => "To decide: record longer runs, name the threads of the test with --task, or allow more with --margin."
            .to_owned(),
    })
}

/// `fio waits 84.1 ms of each second, 12.0 ms in the base (× 4.3, at least × 3.1), most of it by class.`
pub(super) fn of_rate(role: &Role, waits: &RateCase, verdict: Judgement, rule: Option<Rule>) -> String {
    let mean = |rates: &[f64]| Nanos((rates.iter().sum::<f64>() / rates.len().max(1) as f64).max(0.0) as u64);
    let (base, new) = (mean(&waits.base_ns_per_s), mean(&waits.new_ns_per_s));
    let verb = if role.kind == "all" { "wait" } else { "waits" };
    let head = format!("{role} {verb} {new} of each second, {base} in the base");
    let (Some(factor), Some((low, high))) = (waits.factor, waits.between) else {
        return format!("{head}; a recording is too short to say more.");
    };
    let limit = match verdict {
        Judgement::Worse => format!("at least × {low:.2}"),
        Judgement::Better | Judgement::Same => format!("at most × {high:.2}"),
        Judgement::Undecided => format!("between × {low:.2} and × {high:.2}"),
    };
    let by = match rule {
        Some(rule) if verdict == Judgement::Worse => format!(", the rise most by {rule}"),
        _ => String::new(),
    };
    format!("{head} (× {factor:.2}, {limit}){by}.")
}

/// The finding's sentence, with what the base has of it.
pub(super) fn of_finding(finding: &Finding, base: Levels, new: Levels, bases: usize) -> String {
    let word = |level: Option<unstarve_model::Severity>| level.map_or("not there", unstarve_model::Severity::word);
    let of_base = match (base.least, base.most) {
        (least, most) if least == most => word(most).to_owned(),
        (least, most) => format!("{} to {}", word(least), word(most)),
    };
    let recordings = counted(bases as u64, "recording");
    format!("{} ({}; {of_base} in {recordings} of the base.)", finding.sentence, word(new.most))
}

impl Case {
    /// `rt-starvation of ksoftirqd/*`, `waits of fio`.
    pub fn headline(&self) -> String {
        format!("{} of {}", self.rule, self.role)
    }
}
