//! What a change does to all others.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use unstarve_diagnose::report::{Finding, Report, Severity};
use unstarve_model::Nanos;

use super::{Replayed, Subject};
use crate::ActorFelt;
use crate::extract::Extracted;

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
    /// It is starved without the change, too, for a shorter time.
    pub for_longer: bool,
}

impl Starved {
    /// The victims of a report's warnings and critical findings.
    pub fn of(report: &Report) -> Vec<Starved> {
        let starved = report.findings.iter().filter(|finding| finding.severity >= Severity::Warning);
        let of = |finding: &Finding| Starved {
            finding: finding.id.to_string(),
            victim: finding.victim.comm.clone(),
            culprit: finding.culprits.first().map(|culprit| culprit.comm.clone()),
            for_longer: false,
        };
        starved.map(of).collect()
    }
}

impl fmt::Display for Starved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.victim, self.finding)?;
        match &self.culprit {
            Some(culprit) => write!(f, ", by {culprit})")?,
            None => f.write_str(")")?,
        }
        f.write_str(if self.for_longer { " for longer" } else { "" })
    }
}

/// A change of waits below this share of the time is not felt.
const FELT_SHARE: f64 = 0.01;
/// Nor is one by less than this factor.
const FELT_FACTOR: f64 = 1.25;
/// How many are named.
const NAMED: usize = 6;

/// Whose waits change enough to be felt, who loses most first. Threads of one name count together.
pub(super) fn affected(
    extracted: &Extracted,
    subject: &Subject,
    before: &[Replayed],
    after: &[Replayed],
) -> Vec<Affected> {
    let program = &extracted.program;
    let mut recorded: BTreeMap<&str, Nanos> = BTreeMap::new();
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
        let felt = extracted.recorded.actors.get(id.index()).copied().unwrap_or_default();
        *recorded.entry(&actor.comm).or_default() += felt.waited;
        of.waited_before += was.waited;
        of.waited_after += is.waited;
        of.longest_before = of.longest_before.max(was.longest);
        of.longest_after = of.longest_after.max(is.longest);
        of.ran_before += was.ran;
        of.ran_after += is.ran;
    }
    let mut felt: Vec<Affected> = by_name
        .into_values()
        .filter(|of| is_felt(of, program.length) && is_near(of, recorded[of.comm.as_str()], program.length))
        .collect();
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

/// Whether an unchanged replay gives about the waits that were recorded: else nothing is said of them.
fn is_near(of: &Affected, recorded: Nanos, length: Nanos) -> bool {
    let floor = FELT_SHARE * length.0 as f64;
    let (was, replayed) = (recorded.0 as f64 + floor, of.waited_before.0 as f64 + floor);
    was.max(replayed) <= FELT_FACTOR * was.min(replayed)
}

/// The replica with the median wait.
fn middle(mut felt: Vec<ActorFelt>) -> ActorFelt {
    felt.sort_by_key(|felt| felt.waited);
    felt.get(felt.len() / 2).copied().unwrap_or_default()
}

/// Who is starved in most changed replays: who is so neither in the recording nor in an unchanged replay, and those who are, if
/// they wait far longer. What becomes of a subject that is starved already is predicted, and not said again.
pub(super) fn newly_starved(
    extracted: &Extracted,
    subject: &Subject,
    recorded: &BTreeSet<String>,
    before: &[Replayed],
    after: &[Replayed],
) -> Vec<Starved> {
    let victims =
        |replay: &Replayed| -> BTreeSet<String> { replay.starved.iter().map(|one| one.victim.clone()).collect() };
    let known: BTreeSet<String> = before.iter().flat_map(victims).chain(recorded.iter().cloned()).collect();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for victim in after.iter().flat_map(victims) {
        *counts.entry(victim).or_default() += 1;
    }
    let waits = waits_by_name(extracted, before, after);
    let most = after.len() / 2;
    let mut starved = Vec::new();
    for (victim, count) in counts {
        let [was, is] = waits.get(victim.as_str()).copied().unwrap_or_default();
        let was_starved = known.contains(&victim);
        let is_subject = victim == subject.name;
        if count <= most || was_starved && is_subject || !waits_longer(was_starved, was, is) {
            continue;
        }
        let found = after.iter().flat_map(|replay| &replay.starved).find(|one| one.victim == victim);
        starved.extend(found.map(|one| Starved { for_longer: was_starved, ..one.clone() }));
    }
    starved
}

/// How threads of one name wait, as parts of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SharesOfWaiting {
    /// All waits together, for each thread.
    pub waited: f64,
    /// The longest one.
    pub longest: f64,
}

impl SharesOfWaiting {
    /// Of what threads felt, in so much time.
    pub fn of(felt: &[ActorFelt], length: Nanos) -> SharesOfWaiting {
        let waited: Nanos = felt.iter().map(|felt| felt.waited).sum();
        let longest = felt.iter().map(|felt| felt.longest).max().unwrap_or_default();
        let waited = waited.share_of(length) / felt.len().max(1) as f64;
        SharesOfWaiting { waited, longest: longest.share_of(length) }
    }

    fn max(self, other: SharesOfWaiting) -> SharesOfWaiting {
        SharesOfWaiting { waited: self.waited.max(other.waited), longest: self.longest.max(other.longest) }
    }
}

/// Whether somebody waits so much longer that a change starves it: it was starved before, or was not.
pub fn waits_longer(was_starved: bool, was: SharesOfWaiting, is: SharesOfWaiting) -> bool {
    /// Who was starved is worse off only at twice the wait, or where half of the rest is left.
    const FAR_FACTOR: f64 = 2.0;
    if !was_starved {
        return is.waited > FELT_FACTOR * was.waited;
    }
    let far = |was: f64, is: f64| is - was > FELT_SHARE && is > FAR_FACTOR * was;
    let left = |share: f64| (1.0 - share).max(0.0);
    let takes_the_rest = is.waited - was.waited > FELT_SHARE && FAR_FACTOR * left(is.waited) < left(was.waited);
    far(was.waited, is.waited) || far(was.longest, is.longest) || takes_the_rest
}

/// How threads of each name wait: the most of the recording and unchanged replays, and in changed ones.
fn waits_by_name<'a>(
    extracted: &'a Extracted,
    before: &[Replayed],
    after: &[Replayed],
) -> BTreeMap<&'a str, [SharesOfWaiting; 2]> {
    let mut felt: BTreeMap<&str, [Vec<ActorFelt>; 3]> = BTreeMap::new();
    for (id, actor) in extracted.program.actors() {
        let replayed = |replays: &[Replayed]| middle(replays.iter().map(|one| one.felt.actors[id.index()]).collect());
        let recorded = extracted.recorded.actors.get(id.index()).copied().unwrap_or_default();
        let of = felt.entry(&actor.comm).or_default();
        for (of, one) in of.iter_mut().zip([recorded, replayed(before), replayed(after)]) {
            of.push(one);
        }
    }
    let shares = |felt: [Vec<ActorFelt>; 3]| {
        let [recorded, was, is] = felt.map(|felt| SharesOfWaiting::of(&felt, extracted.program.length));
        [recorded.max(was), is]
    };
    felt.into_iter().map(|(name, felt)| (name, shares(felt))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who was starved, or was not; how it waited and waits: all waits, the longest one.
    #[test]
    fn whom_a_change_starves() {
        let of = |(waited, longest)| SharesOfWaiting { waited, longest };
        for (was_starved, was, is, starves) in [
            (false, (0.10, 0.01), (0.13, 0.01), true),
            (false, (0.10, 0.01), (0.12, 0.09), false),
            (true, (0.10, 0.01), (0.19, 0.01), false),
            (true, (0.10, 0.01), (0.21, 0.01), true),
            // As many waits, one of them far longer.
            (true, (0.10, 0.01), (0.10, 0.08), true),
            // Twice of next to nothing is not felt.
            (true, (0.001, 0.001), (0.009, 0.009), false),
            // Who waited for most of the time cannot wait twice as long: it loses what it ran.
            (true, (0.73, 0.06), (0.98, 0.06), true),
            (true, (0.73, 0.06), (0.80, 0.06), false),
        ] {
            assert_eq!(waits_longer(was_starved, of(was), of(is)), starves, "{was_starved} {was:?} {is:?}");
        }
    }
}
