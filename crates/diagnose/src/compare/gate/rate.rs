//! How long a role waits in each recording, and whether it waits longer in the new ones.
//!
//! A recording is one observation: within a run, noise is smaller than between runs. Rates are compared on a logarithmic scale,
//! because noise multiplies.

use std::collections::BTreeMap;

use statrs::distribution::{ContinuousCDF, StudentsT};
use unstarve_model::Nanos;
use unstarve_sched::Rule;

use super::{Basis, Case, Judgement, Named, RateCase, Terms};
use crate::compare::profile::{Course, Sums};
use crate::compare::{BLOCKS, Metric, Profile, Role};

/// Added to each rate, in ns of each second: a hundredth of a CPU. From nothing to this much is a factor of two.
pub(super) const FLOOR_RATE: f64 = 1e7;
/// The spread between runs that is assumed before any is seen, as the deviation of a logarithm: 15 %.
const ASSUMED_SPREAD: f64 = 0.15;
/// How many degrees of freedom that assumption counts for beside the spread that is seen.
const ASSUMED_FREEDOM: f64 = 8.0;
/// How often all cases together may call noise worse or better.
const FALSE_ALARMS: f64 = 0.01;
/// How often one case may be called the same although it rose by what matters.
const FALSE_PASSES: f64 = 0.05;
/// With fewer blocks, the variation within a recording is unknown.
const MIN_BLOCKS: usize = 4;
/// Threads of the recorder. Others may have names that begin like these, to be left out.
const RECORDER: [&str; 4] = ["unstarve", "unstarve-record", "unstarve-canary", "unstarve-remove"];

/// The cases of all roles.
pub(super) struct RateCases {
    pub cases: Vec<Case>,
    pub too_small: usize,
    pub not_everywhere: usize,
}

/// A rate in one recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunRate {
    /// In ns of each second.
    pub mean: f64,
    /// The variance of the logarithm of `mean` by what varies within the recording; none with too few blocks.
    pub within: Option<f64>,
}

impl RunRate {
    pub(super) fn of(blocks: &[f64]) -> RunRate {
        let count = blocks.len() as f64;
        let mean = blocks.iter().sum::<f64>() / count.max(1.0);
        let spread = || blocks.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / (count - 1.0) / count;
        let within = (blocks.len() >= MIN_BLOCKS).then(|| spread() / (mean + FLOOR_RATE).powi(2));
        RunRate { mean, within }
    }

    fn log(self) -> f64 {
        (self.mean + FLOOR_RATE).ln()
    }
}

/// How the rates of both sides relate, as logarithms of a factor.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Relation {
    pub change: f64,
    /// The half of the interval that all claims of a change hold with together.
    pub claim: f64,
    /// The half of the interval that one proof of sameness rests on.
    pub proof: f64,
}

/// Relates both sides; `claims` is how many are made in all. `None` where a recording is too short.
pub(super) fn relate(base: &[RunRate], new: &[RunRate], claims: usize) -> Option<Relation> {
    let runs = || base.iter().chain(new);
    let within: Vec<f64> = runs().map(|run| run.within).collect::<Option<_>>()?;
    let within = within.iter().sum::<f64>() / within.len() as f64;
    let (of_base, of_new) = (Logs::of(base), Logs::of(new));
    let seen = (of_base.count - 1.0) + (of_new.count - 1.0);
    let freedom = ASSUMED_FREEDOM + seen;
    let assumed = ASSUMED_SPREAD.powi(2) + within;
    let variance = (ASSUMED_FREEDOM * assumed + of_base.squares + of_new.squares) / freedom;
    let error = (variance * (1.0 / of_base.count + 1.0 / of_new.count)).sqrt();
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    let half = |risk: f64| student.inverse_cdf(1.0 - risk) * error;
    Some(Relation {
        change: of_new.mean - of_base.mean,
        claim: half(FALSE_ALARMS / 2.0 / claims.max(1) as f64),
        proof: half(FALSE_PASSES),
    })
}

struct Logs {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Logs {
    fn of(runs: &[RunRate]) -> Logs {
        let count = runs.len() as f64;
        let mean = runs.iter().map(|run| run.log()).sum::<f64>() / count;
        Logs { count, mean, squares: runs.iter().map(|run| (run.log() - mean).powi(2)).sum() }
    }
}

/// What a relation comes to; the table of decision 0624.
pub(super) fn judged(relation: Option<Relation>, margin: f64) -> Judgement {
    let Some(Relation { change, claim, proof }) = relation else { return Judgement::Undecided };
    let matters = margin.ln();
    if change - claim > 0.0 && change >= matters {
        Judgement::Worse
    } else if change + claim < 0.0 && -change >= matters {
        Judgement::Better
    } else if change + proof < matters {
        Judgement::Same
    } else {
        Judgement::Undecided
    }
}

/// Judges the waits of each role that every recording has, and of all tasks together.
pub(super) fn rate_cases(base: &[Named<'_>], new: &[Named<'_>], terms: &Terms) -> RateCases {
    let of_base: Vec<BTreeMap<Role, Waited>> = base.iter().map(|one| waited(&one.side.profile)).collect();
    let of_new: Vec<BTreeMap<Role, Waited>> = new.iter().map(|one| waited(&one.side.profile)).collect();
    let mut roles: Vec<&Role> = of_base.iter().chain(&of_new).flat_map(BTreeMap::keys).collect();
    roles.sort_unstable();
    roles.dedup();
    let known = roles.len();
    roles.retain(|role| of_base.iter().chain(&of_new).all(|one| one.contains_key(*role)));
    let not_everywhere = known - roles.len();
    let everywhere = roles.len();
    // Below this, the factor to nothing is smaller than what matters.
    let counts = FLOOR_RATE * (terms.margin - 1.0);
    let matters = |role: &&Role| of_base.iter().chain(&of_new).any(|one| one[*role].rate.mean >= counts);
    roles.retain(matters);
    let claims = roles.len();
    let cases = roles.iter().map(|role| {
        let side =
            |runs: &[BTreeMap<Role, Waited>]| -> Vec<RunRate> { runs.iter().map(|run| run[*role].rate).collect() };
        let (base, new_) = (side(&of_base), side(&of_new));
        let relation = relate(&base, &new_, claims);
        let verdict = judged(relation, terms.margin);
        let means = |runs: &[RunRate]| runs.iter().map(|run| run.mean).collect();
        let factor = |log: f64| log.exp();
        let waits = RateCase {
            base_ns_per_s: means(&base),
            new_ns_per_s: means(&new_),
            factor: relation.map(|one| factor(one.change)),
            between: relation.map(|one| (factor(one.change - one.proof), factor(one.change + one.proof))),
        };
        let rule = risen_rule(role, &of_base, &of_new);
        Case {
            rule: "waits".to_owned(),
            basis: Basis::Waits,
            role: (*role).clone(),
            verdict,
            sentence: super::text::of_rate(role, &waits, verdict, rule),
            by: super::finding::culprits(new, role),
            waits: Some(waits),
            severity: None,
        }
    });
    RateCases { cases: cases.collect(), too_small: everywhere - claims, not_everywhere }
}

/// What a role waited in one recording.
struct Waited {
    rate: RunRate,
    /// By [`Rule`], in ns of each second.
    by_rule: [f64; Rule::ALL.len()],
}

fn is_recorder(role: &Role) -> bool {
    RECORDER.contains(&role.name.as_str())
}

/// The first role that has waits that matter in each recording of the base, and is in none of some new one.
pub(super) fn missing_role(base: &[Named<'_>], new: &[Named<'_>]) -> Option<(Role, String)> {
    let of_base: Vec<BTreeMap<Role, Waited>> = base.iter().map(|one| waited(&one.side.profile)).collect();
    let of_new: Vec<BTreeMap<Role, Waited>> = new.iter().map(|one| waited(&one.side.profile)).collect();
    let waits =
        |role: &&Role| of_base.iter().all(|one| one.get(*role).is_some_and(|waited| waited.rate.mean >= FLOOR_RATE));
    let absent = |role: &Role| of_new.iter().zip(new).find(|(one, _)| !one.contains_key(role));
    let mut roles = of_base.first()?.keys().filter(waits);
    roles.find_map(|role| absent(role).map(|(_, one)| (role.clone(), one.name.to_owned())))
}

/// What each role waited, and all tasks together without the recorder.
fn waited(profile: &Profile) -> BTreeMap<Role, Waited> {
    let everyone = Role::everyone();
    let blocks = |course: &Course| profile.blocks(course, BLOCKS);
    let mut all: Option<(Nanos, Vec<Sums>)> = None;
    let mut recorders: Vec<(Nanos, Vec<Sums>)> = Vec::new();
    let mut waited = BTreeMap::new();
    for (role, course) in profile.courses() {
        let (length, sums) = blocks(course);
        if role == everyone {
            all = Some((length, sums));
        } else if is_recorder(&role) {
            recorders.push((length, sums));
        } else {
            waited.insert(role, of_sums(length, &sums, &[]));
        }
    }
    if let Some((length, sums)) = all {
        waited.insert(everyone, of_sums(length, &sums, &recorders));
    }
    waited
}

fn of_sums(length: Nanos, sums: &[Sums], without: &[(Nanos, Vec<Sums>)]) -> Waited {
    let series = |metric: Metric, rule: Option<Rule>| -> Vec<f64> {
        let value = |sums: &Sums| metric.of(sums, rule, length).unwrap_or(0.0);
        let rest = |index: usize| without.iter().filter_map(|(_, of)| of.get(index)).map(value).sum::<f64>();
        sums.iter().enumerate().map(|(index, sums)| (value(sums) - rest(index)).max(0.0)).collect()
    };
    let rate = RunRate::of(&series(Metric::Waited, None));
    let mut by_rule = [0.0; Rule::ALL.len()];
    for rule in Rule::ALL {
        by_rule[rule as usize] = RunRate::of(&series(Metric::WaitedUnder, Some(rule))).mean;
    }
    Waited { rate, by_rule }
}

/// The rule under which a role waits longer than before, by most.
fn risen_rule(role: &Role, base: &[BTreeMap<Role, Waited>], new: &[BTreeMap<Role, Waited>]) -> Option<Rule> {
    let mean = |side: &[BTreeMap<Role, Waited>], rule: Rule| {
        side.iter().map(|run| run[role].by_rule[rule as usize]).sum::<f64>() / side.len().max(1) as f64
    };
    let risen = Rule::ALL.into_iter().map(|rule| (mean(new, rule) - mean(base, rule), rule));
    risen.filter(|(rise, _)| *rise > 0.0).max_by(|x, y| x.0.total_cmp(&y.0)).map(|(_, rule)| rule)
}

/// Time on CPUs of everything but the recorder, in ns of each second.
pub(super) fn ran(profile: &Profile) -> f64 {
    let of = |course: &Course| {
        let (length, sums) = profile.blocks(course, BLOCKS);
        let rates: Vec<f64> = sums.iter().filter_map(|sums| Metric::Ran.of(sums, None, length)).collect();
        RunRate::of(&rates).mean
    };
    let everyone = Role::everyone();
    let sign = |role: &Role| if *role == everyone { 1.0 } else { -1.0 };
    let counted = profile.courses().filter(|(role, _)| *role == everyone || is_recorder(role));
    counted.map(|(role, course)| sign(&role) * of(course)).sum()
}
