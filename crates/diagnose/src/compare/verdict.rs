//! The result of a comparison, in words.

use unstarve_model::{Nanos, counted, grouped};

use super::{Change, Comparison, FindingChange, Metric, Outcome, Unit, UnjudgedFinding, contrast};
use crate::report::Verdict;

impl Comparison {
    /// The result in a sentence or two, with the severity of what is new.
    pub fn verdict(&self) -> Verdict {
        verdict(self)
    }

    /// The number of rates for which the recordings are too short or too noisy to decide.
    pub fn unclear(&self) -> usize {
        self.changes.iter().filter(|change| change.verdict == contrast::Verdict::Unclear).count()
    }
}

impl FindingChange {
    /// `rt-starvation of ksoftirqd/*`.
    pub fn headline(&self) -> String {
        format!("{} of {}", self.id, self.victim)
    }
}

impl UnjudgedFinding {
    /// Like [`FindingChange::headline`].
    pub fn headline(&self) -> String {
        format!("{} of {}", self.id, self.victim)
    }
}

impl Change {
    /// An amount in this unit, for people: `1,204` or `84.1 ms`.
    pub fn in_words(&self, value: f64) -> String {
        match self.unit {
            Unit::PerSecond if value < 10.0 => format!("{value:.1}"),
            Unit::PerSecond => grouped(value.round() as u64),
            _ => Nanos(value.max(0.0) as u64).to_string(),
        }
    }
}

fn verdict(comparison: &Comparison) -> Verdict {
    let unjudged = unjudged(comparison);
    if let Some((name, reason)) = comparison.obstacle() {
        let text = format!("Too little was recorded in {name} to compare: {reason}.{unjudged}");
        return Verdict { severity: None, text };
    }
    if comparison.is_same() {
        let unclear = comparison.unclear();
        let same = comparison.compared - unclear;
        let mut text =
            format!("No difference that matters is seen: {} the same on both sides", counted(same as u64, "rate"));
        if unclear > 0 {
            text += &format!(", {} unclear (too much variation)", grouped(unclear as u64));
        }
        return Verdict { severity: None, text: format!("{text}.{unjudged}") };
    }
    let changed = comparison.findings.iter().find(|finding| finding.outcome != Outcome::Stays);
    let first = comparison.sure().next().map(sentence);
    match (changed, first) {
        (Some(finding), first) => {
            let lead = match finding.outcome {
                Outcome::Appeared => "New in B",
                Outcome::Worse => "Worse in B",
                Outcome::Milder => "Milder in B",
                _ => "Gone in B",
            };
            let rest = first.map_or(String::new(), |first| format!(" {first}"));
            let severity = matches!(finding.outcome, Outcome::Appeared | Outcome::Worse).then_some(finding.b).flatten();
            Verdict { severity, text: format!("{lead}: {}.{rest}{unjudged}", finding.headline()) }
        }
        (None, first) => Verdict { severity: None, text: first.unwrap_or_default() + &unjudged },
    }
}

/// ` 2 findings in A and 1 in B are not judged new or gone.`, or nothing.
fn unjudged(comparison: &Comparison) -> String {
    let of =
        |is_there: fn(&UnjudgedFinding) -> bool| comparison.unjudged.iter().filter(|one| is_there(one)).count() as u64;
    let are = |count: u64| if count == 1 { "is" } else { "are" };
    match (of(|one| one.a.is_some()), of(|one| one.b.is_some())) {
        (0, 0) => String::new(),
        (a, 0) => format!(" {} in A {} not judged gone.", counted(a, "finding"), are(a)),
        (0, b) => format!(" {} in B {} not judged new.", counted(b, "finding"), are(b)),
        (a, b) => format!(" {} in A and {b} in B are not judged new or gone.", counted(a, "finding")),
    }
}

/// `ksoftirqd/* waited 84.1 ms of each second by class, 120 µs before.`
fn sentence(change: &Change) -> String {
    let (a, b) = (change.in_words(change.a), change.in_words(change.b));
    let by = change.rule.map_or(String::new(), |rule| format!(" by {rule}"));
    match change.metric {
        Metric::WaitedUnder | Metric::Waited => {
            format!("{} waited {b} of each second{by} in B, {a} in A.", change.role)
        }
        metric => format!("{} of {}: {b} in B, {a} in A.", metric.words(), change.role),
    }
}
