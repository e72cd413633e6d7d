//! The text of what a comparison comes to.

use std::fmt;

use unstarve_model::{Nanos, counted, grouped};

use crate::claim::{Difference, Unjudged};
use crate::compare::{Change, FindingChange, Metric, Outcome, Unit, UnjudgedFinding};

impl fmt::Display for Difference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLittle { side, reason } => {
                write!(f, "Too little was recorded in {side} to compare: {reason}.")
            }
            Self::Nothing { same, unclear } => {
                let same = counted(*same as u64, "rate");
                write!(f, "No difference that matters is seen: {same} the same on both sides")?;
                if *unclear > 0 {
                    write!(f, ", {} unclear (too much variation)", grouped(*unclear as u64))?;
                }
                f.write_str(".")
            }
            Self::Finding { finding, rate } => {
                let lead = match finding.outcome {
                    Outcome::Appeared => "New in B",
                    Outcome::Worse => "Worse in B",
                    Outcome::Milder => "Milder in B",
                    _ => "Gone in B",
                };
                write!(f, "{lead}: {}.", finding.headline())?;
                rate.iter().try_for_each(|rate| write!(f, " {rate}"))
            }
            Self::Rate(rate) => rate.iter().try_for_each(|rate| rate.fmt(f)),
        }
    }
}

/// ` 2 findings in A and 1 in B are not judged new or gone.`, or nothing.
impl fmt::Display for Unjudged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let are = |count: u64| if count == 1 { "is" } else { "are" };
        match (self.in_a, self.in_b) {
            (0, 0) => Ok(()),
            (a, 0) => write!(f, " {} in A {} not judged gone.", counted(a, "finding"), are(a)),
            (0, b) => write!(f, " {} in B {} not judged new.", counted(b, "finding"), are(b)),
            (a, b) => write!(f, " {} in A and {b} in B are not judged new or gone.", counted(a, "finding")),
        }
    }
}

/// `ksoftirqd/* waited 84.1 ms of each second by class in B, 120 µs in A.`
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (a, b) = (self.in_words(self.a), self.in_words(self.b));
        let by = self.rule.map_or(String::new(), |rule| format!(" by {rule}"));
        match self.metric {
            Metric::WaitedUnder | Metric::Waited => {
                write!(f, "{} waited {b} of each second{by} in B, {a} in A.", self.role)
            }
            metric => write!(f, "{} of {}: {b} in B, {a} in A.", metric.words(), self.role),
        }
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
