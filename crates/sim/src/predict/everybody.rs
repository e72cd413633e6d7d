//! What a change does to all others.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use unstarve_diagnose::report::{Finding, Report, Severity};
use unstarve_model::Nanos;

use super::{Replayed, Subject};
use crate::{ActorFelt, Program};

/// Somebody whose waits a change alters.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Affected {
    /// The name of its threads.
    pub comm: String,
    /// How many threads.
    pub threads: usize,
    /// Their waits before, summed, in an unchanged replay.
    pub waited_before: Nanos,
    /// After.
    pub waited_after: Nanos,
    /// Their longest wait before.
    pub longest_before: Nanos,
    /// After.
    pub longest_after: Nanos,
    /// Their CPU time before.
    pub ran_before: Nanos,
    /// After.
    pub ran_after: Nanos,
}

/// Somebody who is starved.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Starved {
    /// The finding's id.
    pub finding: String,
    /// The victim's name.
    pub victim: String,
    /// Who starves it.
    pub culprit: Option<String>,
}

impl Starved {
    /// The victims of a report's warnings and critical findings.
    pub fn of(report: &Report) -> Vec<Starved> {
        let starved = report.findings.iter().filter(|finding| finding.severity >= Severity::Warning);
        let of = |finding: &Finding| Starved {
            finding: finding.id.to_string(),
            victim: finding.victim.comm.clone(),
            culprit: finding.culprits.first().map(|culprit| culprit.comm.clone()),
        };
        starved.map(of).collect()
    }
}

impl fmt::Display for Starved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.victim, self.finding)?;
        match &self.culprit {
            Some(culprit) => write!(f, ", by {culprit})"),
            None => f.write_str(")"),
        }
    }
}

/// A change of waits below this share of the time is not felt.
const FELT_SHARE: f64 = 0.01;
/// Nor is one by less than this factor.
const FELT_FACTOR: f64 = 1.25;
/// How many are named.
const NAMED: usize = 6;

/// Whose waits change enough to be felt, who loses most first. Threads of one name count together.
pub(super) fn affected(program: &Program, subject: &Subject, before: &[Replayed], after: &[Replayed]) -> Vec<Affected> {
    let mut by_name: BTreeMap<&str, Affected> = BTreeMap::new();
    for (id, actor) in program.actors().filter(|(id, _)| !subject.actors.contains(id)) {
        let middle = |replays: &[Replayed]| middle(replays.iter().map(|one| one.felt.actors[id.index()]).collect());
        let (was, is) = (middle(before), middle(after));
        let of = by_name.entry(&actor.comm).or_insert_with(|| Affected {
            comm: actor.comm.clone(),
            threads: 0,
            waited_before: Nanos::ZERO,
            waited_after: Nanos::ZERO,
            longest_before: Nanos::ZERO,
            longest_after: Nanos::ZERO,
            ran_before: Nanos::ZERO,
            ran_after: Nanos::ZERO,
        });
        of.threads += 1;
        of.waited_before += was.waited;
        of.waited_after += is.waited;
        of.longest_before = of.longest_before.max(was.longest);
        of.longest_after = of.longest_after.max(is.longest);
        of.ran_before += was.ran;
        of.ran_after += is.ran;
    }
    let mut felt: Vec<Affected> = by_name.into_values().filter(|of| is_felt(of, program.length)).collect();
    felt.sort_by_key(|of| std::cmp::Reverse(i128::from(of.waited_after.0) - i128::from(of.waited_before.0)));
    felt.truncate(NAMED);
    felt
}

fn is_felt(of: &Affected, length: Nanos) -> bool {
    let differs = |was: Nanos, is: Nanos| {
        let (was, is) = (was.0 as f64, is.0 as f64);
        (was - is).abs() > FELT_SHARE * length.0 as f64 && was.max(is) > FELT_FACTOR * was.min(is)
    };
    differs(of.waited_before, of.waited_after) || differs(of.ran_before, of.ran_after)
}

/// The replica with the median wait.
fn middle(mut felt: Vec<ActorFelt>) -> ActorFelt {
    felt.sort_by_key(|felt| felt.waited);
    felt.get(felt.len() / 2).copied().unwrap_or_default()
}

/// Who is starved in most changed replays, and in no unchanged one.
pub(super) fn newly_starved(before: &[Replayed], after: &[Replayed]) -> Vec<Starved> {
    let mut counts: BTreeMap<&str, (&Starved, usize)> = BTreeMap::new();
    for one in after.iter().flat_map(|replay| &replay.starved) {
        counts.entry(&one.victim).or_insert((one, 0)).1 += 1;
    }
    let was = |victim: &str| before.iter().flat_map(|replay| &replay.starved).any(|one| one.victim == victim);
    let most = after.len() / 2;
    counts
        .into_iter()
        .filter(|(victim, (_, count))| *count > most && !was(victim))
        .map(|(_, (one, _))| one.clone())
        .collect()
}
