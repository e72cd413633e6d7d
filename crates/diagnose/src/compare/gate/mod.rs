//! One verdict for a test run: do threads wait longer than in the recordings of a base?
//!
//! The tables are in decision 0624; the tests read them.

mod finding;
mod obstacle;
mod rate;
mod text;

use serde::{Deserialize, Serialize};
use unstarve_model::Severity;

use self::finding::finding_cases;
use self::obstacle::{Claim, obstacles};
pub use self::obstacle::{Obstacle, ObstacleKind};
use self::rate::rate_cases;
use super::{Role, Side};

/// The rise that matters: waits twice as long.
pub const DEFAULT_MARGIN: f64 = 2.0;

/// What a case, and all of them together, come to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// Threads wait longer, by what matters or more.
    Worse,
    /// The recordings cannot decide.
    Undecided,
    /// Threads wait less, by what matters or more.
    Better,
    /// It is proved that they do not wait longer by what matters.
    Same,
}

impl Judgement {
    /// All of them.
    pub const ALL: [Judgement; 4] = [Judgement::Better, Judgement::Same, Judgement::Worse, Judgement::Undecided];

    /// `better`, `same`, `worse`, `undecided`.
    pub fn word(self) -> &'static str {
        match self {
            Judgement::Better => "better",
            Judgement::Same => "same",
            Judgement::Worse => "worse",
            Judgement::Undecided => "undecided",
        }
    }
}

/// Whether base and new may be of different machines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Machines {
    /// Another number of CPUs or another kernel leaves everything undecided.
    MustBeAlike,
    /// The caller has said that the difference is meant.
    MayDiffer,
}

/// On which terms recordings are judged.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Terms {
    /// Waits so many times as long matter; above 1.
    pub margin: f64,
    /// Whether base and new may be of different machines.
    pub machines: Machines,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms { margin: DEFAULT_MARGIN, machines: Machines::MustBeAlike }
    }
}

/// A recording with its name for people.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// As it was given.
    pub name: &'a str,
    /// What it shows.
    pub side: &'a Side,
}

/// The verdict, and what it rests on. Fields are only ever added.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Gate {
    /// Of all cases together.
    pub verdict: Judgement,
    /// The verdict in a sentence.
    pub sentence: String,
    /// The recordings of the base.
    pub base: Vec<String>,
    /// The recordings that were judged.
    pub new: Vec<String>,
    /// Waits so many times as long matter.
    pub margin: f64,
    /// What was judged, the worst first.
    pub cases: Vec<Case>,
    /// What keeps the recordings from deciding.
    pub obstacles: Vec<Obstacle>,
    /// Roles whose waits are too short on both sides to matter.
    pub too_small: usize,
    /// Roles that are not in every recording, and count in the sum of all tasks alone.
    pub not_everywhere: usize,
    /// What to record for a verdict; absent if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// What was judged about a case.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The time that a role waits.
    Waits,
    /// A finding of `explain`.
    Finding,
}

/// A role's waits, or a finding.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Case {
    /// `waits`, or the id of a finding: `rt-starvation`, ….
    pub rule: String,
    /// What was judged.
    pub basis: Basis,
    /// Whose waits.
    pub role: Role,
    /// What it comes to.
    pub verdict: Judgement,
    /// The case in a sentence.
    pub sentence: String,
    /// Who had the CPU meanwhile in the new recordings, most first, where a finding says it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<String>,
    /// The rates; absent for findings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<RateCase>,
    /// How bad the finding is in the new recordings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
}

/// How much a role waits on both sides.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RateCase {
    /// Waited in a second, in each recording of the base.
    pub base_ns_per_s: Vec<f64>,
    /// The same in each new recording.
    pub new_ns_per_s: Vec<f64>,
    /// New by base, on a scale on which 10 ms of each second are added to both; none with a recording that is too short.
    pub factor: Option<f64>,
    /// Where that factor is: at 95 % not below the first, at 95 % not above the second.
    pub between: Option<(f64, f64)>,
}

/// Judges the recordings of what is new by those of a base. Both sides need at least one.
pub fn judge(base: &[Named<'_>], new: &[Named<'_>], terms: &Terms) -> Gate {
    let rates = rate_cases(base, new, terms);
    let mut cases = finding_cases(base, new, terms, &rates.cases);
    cases.extend(rates.cases);
    let obstacles = obstacles(base, new, terms);
    for case in &mut cases {
        case.verdict = under(case.verdict, &case.basis, &obstacles);
    }
    cases.sort_by_key(|case| (case.verdict, std::cmp::Reverse(case.severity), case.basis.clone()));
    let verdict = overall(cases.iter().map(|case| case.verdict), &obstacles);
    let names = |side: &[Named<'_>]| side.iter().map(|one| one.name.to_owned()).collect();
    let mut gate = Gate {
        verdict,
        sentence: String::new(),
        base: names(base),
        new: names(new),
        margin: terms.margin,
        cases,
        obstacles,
        too_small: rates.too_small,
        not_everywhere: rates.not_everywhere,
        advice: None,
    };
    gate.sentence = text::sentence(&gate);
    gate.advice = text::advice(&gate);
    gate
}

/// What a case comes to under these obstacles.
fn under(verdict: Judgement, basis: &Basis, obstacles: &[Obstacle]) -> Judgement {
    let claim = match (verdict, basis) {
        (Judgement::Undecided, _) => return verdict,
        (Judgement::Worse, Basis::Finding) => Claim::WorseByFinding,
        (Judgement::Worse, Basis::Waits) => Claim::WorseByWaits,
        (Judgement::Same, _) => Claim::Same,
        (Judgement::Better, _) => Claim::Better,
    };
    if obstacles.iter().any(|one| one.kind.forbids(claim)) { Judgement::Undecided } else { verdict }
}

/// What all cases come to.
fn overall(cases: impl Iterator<Item = Judgement>, obstacles: &[Obstacle]) -> Judgement {
    let blocked = obstacles.iter().any(|one| one.kind.forbids(Claim::Same)).then_some(Judgement::Undecided);
    cases.chain(blocked).min().unwrap_or(Judgement::Same)
}

#[cfg(test)]
mod tests;
