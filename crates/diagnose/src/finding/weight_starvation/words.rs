//! The sentence and the evidence of the finding.

use unstarve_facts::CgroupFacts;
use unstarve_model::Nanos;
use unstarve_sched::Rule;
use unstarve_timeline::ActorId;

use super::super::{percent, title, told_apart};
use super::{FAIR_PERIOD, Pair, SHORTFALL, is_weight, names};
use crate::case::Case;
use crate::remedy;
use crate::report::Severity;

/// Heavier tasks with a smaller share of the time are not named.
const WORTH_A_NAME: f64 = 0.05;

pub(super) fn known_sentence(case: &Case<'_>, pairs: &[Pair<'_>]) -> String {
    let victims: Vec<ActorId> = pairs.iter().map(|pair| pair.victim).collect();
    let Some(worst) = pairs.first() else { return String::new() };
    let much = Nanos((worst.behind.0 as f64 * WORTH_A_NAME) as u64);
    let heavy: Vec<ActorId> = case
        .blame(worst.victim)
        .iter()
        .filter(|blame| is_weight(blame) && blame.length >= much)
        .map(|blame| blame.occupant)
        .collect();
    let weigh = if heavy.len() == 1 { "weighs" } else { "weigh" };
    let lost: Nanos = pairs.iter().map(|pair| pair.behind).sum();
    let longest = pairs.iter().map(|pair| pair.longest).max().filter(|longest| *longest > Nanos::ZERO);
    let longest = longest.map_or_else(String::new, |longest| format!(", up to {longest} at a time"));
    let shortfall = worst.allowance.shortfall(worst.account);
    let share = if shortfall >= SHORTFALL {
        format!(", and got {} of its equal share", percent(1.0 - shortfall))
    } else {
        String::new()
    };
    format!(
        "{} waited {lost} behind {}, which {weigh} more{longest}{share}.",
        told_apart(case, title(case, &victims), &victims, &heavy),
        told_apart(case, names(case, heavy.iter().copied()), &heavy, &victims),
    )
}

pub(super) fn inferred_sentence(case: &Case<'_>, worst: &Pair<'_>) -> String {
    let name = case.name(worst.occupant);
    let nice = |id: ActorId| match case.actor(id).prio().and_then(|prio| prio.nice()) {
        Some(nice) => format!(" (nice {nice})"),
        None => String::new(),
    };
    let who = title(case, &[worst.victim]);
    let why = if worst.severity > Severity::Info {
        format!("most likely {name} sits in a cgroup with a high cpu.weight")
    } else {
        format!("{who} is SCHED_IDLE, or the weights of their cgroups differ; the recording does not hold which")
    };
    format!(
        "{who}{} got only {} of an equal share beside {name}{}: {why}.",
        nice(worst.victim),
        percent(1.0 - worst.allowance.shortfall(worst.account)),
        nice(worst.occupant),
    )
}

pub(super) fn known_evidence(case: &Case<'_>, pair: &Pair<'_>) -> Vec<String> {
    let mut evidence = vec![weights(case, pair.victim, pair.occupant)];
    if pair.allowance.owed(pair.account) > Nanos::ZERO {
        evidence.push(owed_evidence(case, pair));
    }
    evidence.extend(pair.allowance.evidence.clone());
    let stalled = pair.account.stalled_mainly[Rule::Weight as usize].saturating_sub(pair.allowance.hidden);
    if stalled > Nanos::ZERO {
        evidence.push(format!(
            "{stalled} ({} of the trace) of the {} behind heavier ones was in waits of more than {FAIR_PERIOD}, which no sharing \
             among equals takes",
            percent(stalled.share_of(case.span())),
            pair.behind
        ));
    }
    evidence
}

pub(super) fn inferred_evidence(case: &Case<'_>, pair: &Pair<'_>) -> Vec<String> {
    vec![
        owed_evidence(case, pair),
        format!(
            "its cgroup's weight was not recorded (a bandwidth limit, cpu.max, would look alike); `unstarve record` keeps \
             both, or read the weight with: {}",
            remedy::read_weight_command(case, pair.occupant)
        ),
    ]
}

fn owed_evidence(case: &Case<'_>, pair: &Pair<'_>) -> String {
    let owed = pair.allowance.owed(pair.account);
    format!(
        "owed {owed} ({} of the trace): an equal share of its CPU would have been {}, it got {}",
        percent(owed.share_of(case.span())),
        pair.allowance.due,
        pair.account.got
    )
}

fn weights(case: &Case<'_>, victim: ActorId, occupant: ActorId) -> String {
    let rivals = case.rivals(victim, occupant);
    let (of_victim, of_occupant) = rivals.map_or((None, None), |rivals| (rivals.victim, rivals.occupant));
    let (its, mine) = case.rival_weights(victim, occupant);
    // Nice counts within a session; between two sessions the value in /proc/PID/autogroup counts.
    let of_one = case.world.actors.groups().is_one(case.actor(victim).group(), case.actor(occupant).group());
    let session = |id: ActorId| case.session_nice(id).filter(|_| !of_one);
    let told = |group: Option<&CgroupFacts>, id: ActorId, weight: u32| match group {
        Some(group) => format!("the load weight {weight} of {}", group.path.escape_debug()),
        None if session(id).is_some() => {
            let nice = session(id).unwrap_or_default().to_string().replace('-', "−");
            format!("the load weight {weight} of its session (autogroup, nice {nice} in /proc/PID/autogroup)")
        }
        None if case.actor(id).group().is_some() && rivals.is_some() => format!("its cgroup's load weight {weight}"),
        None => format!("its own load weight {weight}"),
    };
    format!(
        "{} competes with {}, {} with {}",
        case.name(occupant),
        told(of_occupant, occupant, mine),
        case.name(victim),
        told(of_victim, victim, its)
    )
}

/// Why it is unknown whether nice counts between these two.
pub(super) fn unknown_sessions(case: &Case<'_>, pair: &Pair<'_>) -> String {
    let known = [pair.victim, pair.occupant].map(|id| case.session_is_known(id));
    let whose = match known {
        [false, false] => "who is of which session".to_owned(),
        [false, true] => format!("of which session {} was", names(case, [pair.victim].into_iter())),
        _ => format!("of which session {} was", names(case, [pair.occupant].into_iter())),
    };
    format!(
        "autogroup is on: nice counts inside a session only, and this recording does not say {whose}: its settings are of an older \
         version, or were read when these tasks had ended"
    )
}
