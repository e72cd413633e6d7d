//! Compares two recordings: rates per role and rule with confidence intervals, and findings that appeared or vanished.

mod contrast;
pub mod gate;
mod metric;
mod profile;
mod role;
mod verdict;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use unstarve_model::{Comm, EventSource, Nanos};
use unstarve_sched::Rule;
use unstarve_timeline::{Both, Sink};

pub use self::contrast::Verdict;
use self::contrast::contrast;
use self::metric::METRICS;
pub use self::metric::{Metric, Unit};
use self::profile::{Course, Sums};
pub use self::profile::{Profile, Waits};
pub use self::role::Role;
use crate::explain::explain_beside;
use crate::report::{Finding, FindingId, Report, Severity, TraceSummary};
use crate::{ExplainError, Options};

/// The schema's id.
pub const SCHEMA: &str = "unstarve.compare/1";

/// A recording with its report and its sums by role.
#[derive(Debug)]
pub struct Side {
    /// Its report.
    pub report: Report,
    /// The sums of each role.
    pub profile: Profile,
}

/// Everything that `unstarve compare` has to say. Fields are only ever added.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS), ts(rename = "ComparisonReport"))]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: String,
    /// The first recording.
    pub a: TraceSummary,
    /// The second one.
    pub b: TraceSummary,
    /// Findings of either, those that changed first.
    pub findings: Vec<FindingChange>,
    /// Findings of one side of which nobody can say whether they are new or gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unjudged: Vec<UnjudgedFinding>,
    /// Rates that differ, what weighs most first; then those of which it is unclear.
    pub changes: Vec<Change>,
    /// The waits of each role in numbers, those whose longest differs most first. What is rare has no rate: a stall once a
    /// second shows here.
    pub waits: Vec<WaitChange>,
    /// How many rates were set against each other; the intervals hold for all of them at once with 95 %.
    pub compared: usize,
    /// What the recordings cannot say.
    pub losses: Vec<String>,
}

/// A finding on both sides.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct FindingChange {
    /// `rt-starvation`, ….
    #[cfg_attr(feature = "typescript", ts(as = "String"))]
    pub id: FindingId,
    /// Whose waits.
    pub victim: Role,
    /// What became of it.
    pub outcome: Outcome,
    /// How bad it was in A; none if it was not there.
    pub a: Option<Severity>,
    /// How bad it is in B.
    pub b: Option<Severity>,
    /// The finding's sentence, B's where it has one.
    pub sentence: String,
}

/// A finding of one side, where the other could not have shown it, or its own is in doubt.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct UnjudgedFinding {
    /// `rt-starvation`, ….
    #[cfg_attr(feature = "typescript", ts(as = "String"))]
    pub id: FindingId,
    /// Whose waits.
    pub victim: Role,
    /// How bad it is in A; none if it is in B alone.
    pub a: Option<Severity>,
    /// How bad it is in B; none if it is in A alone.
    pub b: Option<Severity>,
    /// The finding's sentence.
    pub sentence: String,
    /// Why it is called neither new nor gone: `B: it has no sched_switch events`.
    pub because: String,
}

/// The waits of a role on both sides.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct WaitChange {
    /// Whose.
    pub role: Role,
    /// In A; none if it never waited.
    pub a: Option<Waits>,
    /// In B.
    pub b: Option<Waits>,
}

/// What became of a finding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// In B alone.
    Appeared,
    /// More severe in B.
    Worse,
    /// Less severe in B.
    Milder,
    /// In A alone.
    Vanished,
    /// In both.
    Stays,
}

/// A rate on both sides.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS), ts(rename = "RateChange"))]
pub struct Change {
    /// Whose.
    pub role: Role,
    /// What.
    pub metric: Metric,
    /// For [`Metric::WaitedUnder`]: the rule.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[cfg_attr(feature = "typescript", ts(as = "Option<String>", optional))]
    pub rule: Option<Rule>,
    /// `ns/s`, `/s` or `ns`.
    #[cfg_attr(feature = "typescript", ts(as = "String"))]
    pub unit: Unit,
    /// In A.
    pub a: f64,
    /// In B.
    pub b: f64,
    /// B − A, from and to; none where a recording is too short to tell.
    pub interval: Option<(f64, f64)>,
    /// What it comes to.
    pub verdict: Verdict,
}

/// Maximum blocks into which a trace is cut.
const BLOCKS: usize = 16;
/// Smaller relative differences do not matter.
const RELATIVE: f64 = 0.1;
/// The confidence that all intervals hold at once.
const CONFIDENCE: f64 = 0.95;

/// Analyses one recording for a comparison.
///
/// # Errors
/// As [`crate::explain`].
pub fn side(source: Box<dyn EventSource>, options: &Options, progress: impl FnMut(u64)) -> Result<Side, ExplainError> {
    side_beside(source, options, &mut Nobody, progress)
}

/// A sink that ignores everything.
struct Nobody;

impl Sink for Nobody {}

/// Analyses one recording for a comparison, and passes all callbacks to another sink.
///
/// # Errors
/// As [`crate::explain`].
pub fn side_beside(
    source: Box<dyn EventSource>,
    options: &Options,
    beside: &mut impl Sink,
    progress: impl FnMut(u64),
) -> Result<Side, ExplainError> {
    let mut profile = Profile::of(options.selection.clone());
    let explained = explain_beside(source, options, &mut Both(&mut profile, beside), progress)?;
    Ok(Side { report: explained.report, profile })
}

/// Compares two recordings.
pub fn compare(a: &Side, b: &Side) -> Comparison {
    let mut losses: Vec<String> = Vec::new();
    for (name, side) in [("A", a), ("B", b)] {
        losses.extend(side.report.losses.iter().map(|loss| format!("{name}: {loss}")));
        let doubt = side.report.trace.too_little.as_ref().filter(|_| side.report.trace.rates_hold);
        losses.extend(doubt.map(|doubt| format!("{name}: {doubt}; no finding is called new or gone")));
    }
    let (mut changes, compared) = changes(&a.profile, &b.profile);
    let mut findings = findings(&a.report.findings, &b.report.findings);
    // If a side recorded too little, no finding is new or gone, and no rate is more or less.
    let unjudged = match doubts(a, b) {
        Some(because) => take_unjudged(&mut findings, &because),
        None => Vec::new(),
    };
    if [a, b].into_iter().any(|side| lacks_events(&side.report.trace).is_some()) {
        changes.iter_mut().for_each(|change| change.verdict = Verdict::Unclear);
    }
    Comparison {
        schema: SCHEMA.into(),
        a: a.report.trace.clone(),
        b: b.report.trace.clone(),
        findings,
        unjudged,
        changes,
        waits: waits(&a.profile, &b.profile),
        compared,
        losses,
    }
}

/// Why no finding can be called new or gone: `A: it covers 39.0 ms, …`.
fn doubts(a: &Side, b: &Side) -> Option<String> {
    let of = |name: &str, side: &Side| side.report.trace.too_little.as_ref().map(|doubt| format!("{name}: {doubt}"));
    let doubts: Vec<String> = of("A", a).into_iter().chain(of("B", b)).collect();
    (!doubts.is_empty()).then(|| doubts.join("; "))
}

/// Removes and returns the findings that would be called new or gone.
fn take_unjudged(findings: &mut Vec<FindingChange>, because: &str) -> Vec<UnjudgedFinding> {
    let is_of_one = |finding: &mut FindingChange| matches!(finding.outcome, Outcome::Appeared | Outcome::Vanished);
    let unjudged = findings.extract_if(.., is_of_one).map(|FindingChange { id, victim, a, b, sentence, .. }| {
        UnjudgedFinding { id, victim, a, b, sentence, because: because.to_owned() }
    });
    unjudged.collect()
}

/// Why the rates of a recording cannot be compared.
fn lacks_events(trace: &TraceSummary) -> Option<&str> {
    trace.too_little.as_deref().filter(|_| !trace.rates_hold)
}

impl Comparison {
    /// The side that recorded too little to compare anything, and why.
    pub fn obstacle(&self) -> Option<(&'static str, &str)> {
        [("A", &self.a), ("B", &self.b)].into_iter().find_map(|(name, side)| Some((name, lacks_events(side)?)))
    }

    /// Whether no significant difference is known.
    pub fn is_same(&self) -> bool {
        self.findings.iter().all(|finding| finding.outcome == Outcome::Stays) && self.sure().next().is_none()
    }

    /// Rates that differ significantly.
    pub fn sure(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| matches!(change.verdict, Verdict::More | Verdict::Less))
    }
}

fn findings(a: &[Finding], b: &[Finding]) -> Vec<FindingChange> {
    let mut sides: BTreeMap<(FindingId, Role), [Option<&Finding>; 2]> = BTreeMap::new();
    for (index, list) in [a, b].into_iter().enumerate() {
        for finding in list {
            let slot = &mut sides.entry((finding.id.clone(), victim(finding))).or_default()[index];
            // Findings are sorted, worst first.
            slot.get_or_insert(finding);
        }
    }
    let mut changes: Vec<FindingChange> = sides
        .into_iter()
        .filter_map(|((id, victim), [a, b])| {
            let severity = |side: Option<&Finding>| side.map(|finding| finding.severity);
            let outcome = match (severity(a), severity(b)) {
                (None, _) => Outcome::Appeared,
                (_, None) => Outcome::Vanished,
                (Some(a), Some(b)) if b > a => Outcome::Worse,
                (Some(a), Some(b)) if b < a => Outcome::Milder,
                _ => Outcome::Stays,
            };
            let sentence = b.or(a)?.sentence.clone();
            Some(FindingChange { id, victim, outcome, a: severity(a), b: severity(b), sentence })
        })
        .collect();
    changes.sort_by_key(|change| (change.outcome, std::cmp::Reverse(change.b.max(change.a))));
    changes
}

fn victim(finding: &Finding) -> Role {
    Role::named(&Comm::from(finding.victim.comm.as_str()))
}

/// A rate that both sides have.
struct Rate {
    role: Role,
    metric: Metric,
    rule: Option<Rule>,
    a: Vec<f64>,
    b: Vec<f64>,
}

/// All roles with their sums on each side.
fn roles<'a>(a: &'a Profile, b: &'a Profile) -> BTreeMap<Role, [Option<&'a Course>; 2]> {
    let mut roles: BTreeMap<Role, [Option<&Course>; 2]> = BTreeMap::new();
    for (index, profile) in [a, b].into_iter().enumerate() {
        for (role, course) in profile.courses() {
            roles.entry(role).or_default()[index] = Some(course);
        }
    }
    roles
}

fn waits(a: &Profile, b: &Profile) -> Vec<WaitChange> {
    let each = roles(a, b).into_iter().map(|(role, [a, b])| {
        let of = |side: Option<&Course>| side.and_then(Course::waits);
        WaitChange { role, a: of(a), b: of(b) }
    });
    let mut waits: Vec<WaitChange> = each.filter(|waits| waits.a.is_some() || waits.b.is_some()).collect();
    let longest = |side: &Option<Waits>| side.map_or(0, |waits| waits.max_ns);
    waits.sort_by_key(|waits| std::cmp::Reverse(longest(&waits.a).abs_diff(longest(&waits.b))));
    waits
}

fn changes(a: &Profile, b: &Profile) -> (Vec<Change>, usize) {
    let mut rates = Vec::new();
    let nothing = Course::default();
    for (role, [of_a, of_b]) in roles(a, b) {
        let blocks_a = a.blocks(of_a.unwrap_or(&nothing), BLOCKS);
        let blocks_b = b.blocks(of_b.unwrap_or(&nothing), BLOCKS);
        let rules = Rule::ALL.into_iter().map(|rule| (Metric::WaitedUnder, Some(rule)));
        for (metric, rule) in rules.chain(METRICS.map(|metric| (metric, None))) {
            let series = |(length, sums): &(Nanos, Vec<Sums>)| -> Vec<f64> {
                sums.iter().filter_map(|sums| metric.of(sums, rule, *length)).collect()
            };
            let (a, b) = (series(&blocks_a), series(&blocks_b));
            let reaches = |values: &[f64]| values.iter().any(|value| *value >= metric.least());
            if reaches(&a) || reaches(&b) {
                rates.push(Rate { role: role.clone(), metric, rule, a, b });
            }
        }
    }
    // Bonferroni correction: all intervals hold at once.
    let confidence = 1.0 - (1.0 - CONFIDENCE) / rates.len().max(1) as f64;
    let compared = rates.len();
    let mut changes: Vec<Change> = rates.into_iter().map(|rate| rate.judged(confidence)).collect();
    changes.retain(|change| change.verdict != Verdict::NoDifferenceThatMatters);
    changes.sort_by(|x, y| {
        let sure = |change: &Change| !matches!(change.verdict, Verdict::More | Verdict::Less);
        sure(x).cmp(&sure(y)).then_with(|| y.weight().total_cmp(&x.weight())).then_with(|| x.metric.cmp(&y.metric))
    });
    (changes, compared)
}

impl Rate {
    fn judged(self, confidence: f64) -> Change {
        let found = contrast(&self.a, &self.b, confidence, self.metric.least(), RELATIVE);
        Change {
            role: self.role,
            metric: self.metric,
            rule: self.rule,
            unit: self.metric.unit(),
            a: found.a,
            b: found.b,
            interval: found.interval,
            verdict: found.verdict,
        }
    }
}

impl Change {
    /// The rank of a change, in nanoseconds per second. A context switch counts as some microseconds, which is about its cost.
    fn weight(&self) -> f64 {
        const SWITCH_NS: f64 = 3_000.0;
        let each = if self.unit == Unit::PerSecond { SWITCH_NS } else { 1.0 };
        // Waits of one role by one rule say more than any sum.
        let telling = match self.metric {
            Metric::WaitedUnder if self.role != Role::everyone() => 1.0,
            Metric::ItemLatency => 0.1,
            _ => 0.5,
        };
        (self.b - self.a).abs() * each * telling
    }
}
