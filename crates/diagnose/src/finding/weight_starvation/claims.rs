//! The headline and the evidence of the finding.

use unstarve_facts::CgroupFacts;
use unstarve_model::Nanos;
use unstarve_sched::Rule;
use unstarve_timeline::ActorId;

use super::{FAIR_PERIOD, Pair, SHORTFALL, is_weight};
use crate::case::Case;
use crate::claim::{Actors, Claim, Contender, Kind, Share, SharingClaim, SharingHeadline, WeightOf};
use crate::remedy;
use crate::report::Severity;

/// Heavier tasks with a smaller share of the time are not named.
const WORTH_A_NAME: f64 = 0.05;

pub(super) fn known_headline(case: &Case<'_>, pairs: &[Pair<'_>], worst: &Pair<'_>) -> SharingHeadline {
    let victims: Vec<ActorId> = pairs.iter().map(|pair| pair.victim).collect();
    let much = Nanos((worst.behind.0 as f64 * WORTH_A_NAME) as u64);
    let heavy: Vec<ActorId> = case
        .blame(worst.victim)
        .iter()
        .filter(|blame| is_weight(blame) && blame.length >= much)
        .map(|blame| blame.occupant)
        .collect();
    let shortfall = worst.allowance.shortfall(worst.account);
    SharingHeadline::Outweighed {
        who: Kind::apart_from(case, &victims, &heavy),
        lost: pairs.iter().map(|pair| pair.behind).sum(),
        by: Actors::apart_from(case, &heavy, &victims),
        heavier: heavy.len(),
        longest: pairs.iter().map(|pair| pair.longest).max().filter(|longest| *longest > Nanos::ZERO),
        share: (shortfall >= SHORTFALL).then_some(Share(1.0 - shortfall)),
    }
}

pub(super) fn inferred_headline(case: &Case<'_>, worst: &Pair<'_>) -> SharingHeadline {
    SharingHeadline::OutweighedInferred {
        who: Kind::of(case, &[worst.victim]),
        share: Share(1.0 - worst.allowance.shortfall(worst.account)),
        by: Actors::of(case, [worst.occupant]),
        by_group: worst.severity > Severity::Info,
    }
}

pub(super) fn known_evidence(case: &Case<'_>, pair: &Pair<'_>) -> Vec<Claim> {
    let mut evidence: Vec<Claim> = vec![weights(case, pair.victim, pair.occupant).into()];
    if pair.allowance.owed(pair.account) > Nanos::ZERO {
        evidence.push(owed(case, pair).into());
    }
    evidence.extend(pair.allowance.evidence.clone().map(Claim::from));
    let stalled = pair.account.stalled_mainly[Rule::Weight as usize].saturating_sub(pair.allowance.hidden);
    if stalled > Nanos::ZERO {
        let share = case.share(stalled);
        evidence.push(SharingClaim::Stalled { stalled, share, behind: pair.behind, least: FAIR_PERIOD }.into());
    }
    evidence
}

pub(super) fn inferred_evidence(case: &Case<'_>, pair: &Pair<'_>) -> Vec<Claim> {
    let command = remedy::read_weight_command(case, pair.occupant);
    vec![owed(case, pair).into(), SharingClaim::WeightNotRecorded { command }.into()]
}

fn owed(case: &Case<'_>, pair: &Pair<'_>) -> SharingClaim {
    let owed = pair.allowance.owed(pair.account);
    SharingClaim::Owed { owed, share: case.share(owed), due: pair.allowance.due, got: pair.account.got }
}

fn weights(case: &Case<'_>, victim: ActorId, occupant: ActorId) -> SharingClaim {
    let rivals = case.rivals(victim, occupant);
    let (of_victim, of_occupant) = rivals.map_or((None, None), |rivals| (rivals.victim, rivals.occupant));
    let (its, mine) = case.rival_weights(victim, occupant);
    // Nice counts within a session; between two sessions the value in /proc/PID/autogroup counts.
    let of_one = case.world.actors.groups().is_one(case.actor(victim).group(), case.actor(occupant).group());
    let session = |id: ActorId| case.session_nice(id).filter(|_| !of_one);
    let contender = |group: Option<&CgroupFacts>, id: ActorId, weight: u32| {
        let of = match (group, session(id)) {
            (Some(group), _) => WeightOf::Group(group.path.clone()),
            (None, Some(nice)) => WeightOf::Session(nice),
            (None, None) if case.actor(id).group().is_some() && rivals.is_some() => WeightOf::ItsGroup,
            (None, None) => WeightOf::Task,
        };
        Contender { who: Actors::of(case, [id]), weight, of }
    };
    SharingClaim::Weights {
        occupant: contender(of_occupant, occupant, mine),
        victim: contender(of_victim, victim, its),
    }
}

/// Why it is unknown whether nice counts between these two.
pub(super) fn unknown_sessions(case: &Case<'_>, pair: &Pair<'_>) -> SharingClaim {
    let unknown = match [pair.victim, pair.occupant].map(|id| case.session_is_known(id)) {
        [false, false] => None,
        [false, true] => Some(pair.victim),
        _ => Some(pair.occupant),
    };
    SharingClaim::SessionsUnknown(unknown.map(|id| Actors::of(case, [id])))
}
