//! What a change is predicted to do, as reports carry it. The crate `sim` predicts.

use serde::{Deserialize, Serialize};

use super::{Finding, Remedy};

/// What a change would do, with ranges; or why that is not known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Predicted {
    /// In one word.
    pub verdict: Outlook,
    /// To the victim, the most telling metric first; empty if refused.
    pub metrics: Vec<PredictedMetric>,
    /// To others.
    pub others: Vec<PredictedOther>,
    /// Who would become starved, or be starved for far longer than now.
    pub newly_starved: Vec<String>,
    /// Why nothing is predicted, as sentences.
    pub refused: Vec<String>,
}

/// What a change would do, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum Outlook {
    /// It helps the victim, and starves nobody else.
    Helps,
    /// It helps the victim, and starves somebody else.
    HelpsAndStarves,
    /// The interval has the recorded value in it.
    NoDifference,
    /// The same, and it starves somebody else.
    StarvesOthers,
    /// It makes the victim wait longer.
    Harms,
    /// It is not known.
    Refused,
}

/// A metric of the victim, before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct PredictedMetric {
    /// `wait-per-item`, `wait-per-cpu`, `longest`, `p99`, `cpu-per-item`, `switches-per-item`.
    pub metric: String,
    /// The same for people.
    pub name: String,
    /// `ns`, or `1` for a number of times.
    pub unit: String,
    /// As recorded.
    pub recorded: f64,
    /// As predicted.
    pub predicted: f64,
    /// It is hardly less,
    pub low: f64,
    /// nor more.
    pub high: f64,
    /// As it came where the change was tried, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    pub came: Option<f64>,
}

/// Somebody else whose waits change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct PredictedOther {
    /// The name of its threads.
    pub comm: String,
    /// How many threads.
    pub threads: u32,
    /// Their waits before, summed.
    pub waited_before_ns: u64,
    /// After.
    pub waited_after_ns: u64,
    /// Their longest wait before.
    pub longest_before_ns: u64,
    /// After.
    pub longest_after_ns: u64,
    /// Their CPU time before.
    pub ran_before_ns: u64,
    /// After.
    pub ran_after_ns: u64,
}

impl Outlook {
    /// For people.
    pub fn word(self) -> &'static str {
        match self {
            Outlook::Helps => "helps",
            Outlook::HelpsAndStarves => "helps it, and starves others",
            Outlook::NoDifference => "makes no clear difference",
            Outlook::StarvesOthers => "makes no clear difference to it, and starves others",
            Outlook::Harms => "harms",
            Outlook::Refused => "not predicted",
        }
    }

    /// Whether anybody is worse off.
    pub fn harms_somebody(self) -> bool {
        matches!(self, Outlook::HelpsAndStarves | Outlook::StarvesOthers | Outlook::Harms)
    }
}

impl Finding {
    /// Puts the remedies that are known to harm somebody behind all others, and of the rest those that are known to help before
    /// those that are known to make no clear difference. A remedy of which nothing is known keeps its place among the rest.
    pub fn order_by_outlook(&mut self) {
        order(&mut self.remedies);
    }
}

fn order(remedies: &mut Vec<Remedy>) {
    let outlook = |remedy: &Remedy| remedy.predicted.as_ref().map_or(Outlook::Refused, |of| of.verdict);
    let (mut rest, mut harmful): (Vec<Remedy>, Vec<Remedy>) =
        std::mem::take(remedies).into_iter().partition(|remedy| !outlook(remedy).harms_somebody());
    let places: Vec<usize> = (0..rest.len()).filter(|&at| outlook(&rest[at]) != Outlook::Refused).collect();
    let mut known: Vec<Remedy> = places.iter().map(|&at| rest[at].clone()).collect();
    known.sort_by_key(outlook);
    places.into_iter().zip(known).for_each(|(at, remedy)| rest[at] = remedy);
    harmful.sort_by_key(outlook);
    rest.append(&mut harmful);
    *remedies = rest;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::RemedyId;

    /// Each a remedy: `h`elps, `s`tarves others beside helping, makes `n`o difference, makes none and starves `o`thers, harms `x`,
    /// `r`efused, not asked `-`.
    fn ordered(drawn: &str) -> String {
        let outlook = |drawn: char| match drawn {
            'h' => Some(Outlook::Helps),
            's' => Some(Outlook::HelpsAndStarves),
            'n' => Some(Outlook::NoDifference),
            'o' => Some(Outlook::StarvesOthers),
            'x' => Some(Outlook::Harms),
            'r' => Some(Outlook::Refused),
            _ => None,
        };
        let remedies = drawn.chars().map(|drawn| Remedy {
            id: RemedyId::from(drawn.to_string().as_str()),
            text: String::new(),
            apply: String::new(),
            undo: String::new(),
            risk: String::new(),
            valid_on: String::new(),
            changes: Vec::new(),
            proved: Vec::new(),
            predicted: outlook(drawn).map(|verdict| Predicted {
                verdict,
                metrics: Vec::new(),
                others: Vec::new(),
                newly_starved: Vec::new(),
                refused: Vec::new(),
            }),
        });
        let mut remedies: Vec<Remedy> = remedies.collect();
        order(&mut remedies);
        remedies.iter().map(|remedy| remedy.id.to_string()).collect()
    }

    #[test]
    fn who_harms_somebody_comes_last_and_who_is_not_known_stays() {
        let cells = [
            ("", ""),
            // Nothing known: nothing moves.
            ("-r-", "-r-"),
            ("h-r", "h-r"),
            // Harm goes last, the lesser one first.
            ("sh", "hs"),
            ("s-", "-s"),
            ("xr", "rx"),
            ("xos", "sox"),
            // No difference goes behind help; what is not known keeps its place.
            ("nh", "hn"),
            ("n-h", "h-n"),
            ("nr", "nr"),
            ("-nh", "-hn"),
            ("xnrhs", "hrnsx"),
        ];
        for (before, after) in cells {
            assert_eq!(ordered(before), after, "{before}");
        }
    }
}
