//! The result of a comparison, and how bad what is new is.

use unstarve_model::Severity;

use super::{Comparison, Outcome, UnjudgedFinding, contrast};
use crate::claim::{Difference, Unjudged};
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

fn verdict(comparison: &Comparison) -> Verdict {
    let (severity, difference) = difference(comparison);
    Verdict { severity, text: format!("{difference}{}", unjudged(comparison)) }
}

fn difference(comparison: &Comparison) -> (Option<Severity>, Difference<'_>) {
    if let Some((side, reason)) = comparison.obstacle() {
        return (None, Difference::TooLittle { side, reason });
    }
    if comparison.is_same() {
        let unclear = comparison.unclear();
        return (None, Difference::Nothing { same: comparison.compared - unclear, unclear });
    }
    let rate = comparison.sure().next();
    let Some(finding) = comparison.findings.iter().find(|finding| finding.outcome != Outcome::Stays) else {
        return (None, Difference::Rate(rate));
    };
    let severity = matches!(finding.outcome, Outcome::Appeared | Outcome::Worse).then_some(finding.b).flatten();
    (severity, Difference::Finding { finding, rate })
}

fn unjudged(comparison: &Comparison) -> Unjudged {
    let of =
        |is_there: fn(&UnjudgedFinding) -> bool| comparison.unjudged.iter().filter(|one| is_there(one)).count() as u64;
    Unjudged { in_a: of(|one| one.a.is_some()), in_b: of(|one| one.b.is_some()) }
}
