//! A cgroup's bandwidth limit keeps tasks off the CPU, not contention.

use std::cmp::Reverse;

use unstarve_model::{EventType, Nanos};
use unstarve_timeline::{ActorId, Rule};

use super::{percent, title};
use crate::case::{Blame, Case};
use crate::draft::Draft;
use crate::remedy;
use crate::report::{Finding, Severity};

/// A limit that bites at all is worth a line once it takes 1 % of the trace.
const SHARE_INFO: f64 = 0.01;
/// A tenth of the time: two 5 ms slices of each 100 ms period.
const SHARE_WARNING: f64 = 0.1;
/// Half of the time, or more, the tasks are stopped.
const SHARE_CRITICAL: f64 = 0.5;
/// The rule can be inferred only from a CPU that idles beside a runnable task. One such stretch shorter than this may be
/// idle-exit latency or a race between two CPUs' clocks.
const STRETCH: Nanos = Nanos::from_millis(1);

pub(crate) fn find(case: &Case<'_>) -> Vec<Finding> {
    let mut victims: Vec<(ActorId, Nanos)> = case
        .victims()
        .filter(|(_, account)| account.longest_by_rule[Rule::Throttled as usize] >= STRETCH)
        .map(|(victim, _)| (victim, case.blamed(victim, is_limit)))
        .collect();
    victims.sort_by_key(|(victim, lost)| (Reverse(*lost), *victim));
    // Tasks of one group stop together: one block for each group, or for each name where groups are not known.
    let mut groups: Vec<(String, Vec<ActorId>)> = Vec::new();
    for (victim, _) in victims {
        let group = group(case, victim).unwrap_or_else(|| case.name(victim));
        match groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, members)) => members.push(victim),
            None => groups.push((group, vec![victim])),
        }
    }
    let mut findings: Vec<Finding> = groups.iter().filter_map(|(_, members)| of_group(case, members)).collect();
    findings.extend(
        counted(case)
            .into_iter()
            .filter(|(path, _)| !groups.iter().any(|(known, _)| known == path))
            .filter_map(|(path, members)| of_counters(case, &path, &members)),
    );
    findings
}

/// Groups that the kernel counted as throttled, with those of their tasks that waited. On a busy CPU others run
/// meanwhile, and the events look like plain sharing.
fn counted(case: &Case<'_>) -> Vec<(String, Vec<ActorId>)> {
    let Some(throttled) = case.snapshot.and_then(|snapshot| snapshot.throttled_meanwhile.as_ref()) else {
        return Vec::new();
    };
    let members =
        |path: &str| case.victims().map(|(id, _)| id).filter(|id| group(case, *id).as_deref() == Some(path)).collect();
    throttled
        .keys()
        .map(|path| (path.clone(), members(path)))
        .filter(|(_, members): &(_, Vec<_>)| !members.is_empty())
        .collect()
}

fn of_counters(case: &Case<'_>, path: &str, victims: &[ActorId]) -> Option<Finding> {
    let throttled = case.snapshot?.throttled_meanwhile(path)?;
    // The kernel sums over CPUs.
    let share = throttled.ns.share_of(case.span()) / f64::from(case.world.cpus.max(1));
    let severity = severity(share)?;
    let draft = Draft {
        id: "throttled",
        severity,
        confidence: 0.9,
        sentence: format!(
            "{} was stopped by the CPU limit of {} for {} over all CPUs; others ran meanwhile.",
            title(case, victims),
            path.escape_debug(),
            throttled.ns
        ),
        victims: victims.to_vec(),
        evidence: counters(case, path).into_iter().collect(),
        also_paid: Vec::new(),
        period: None,
        needs: &[],
        infers_settings: false,
        remedies: remedy::against_limit(case, *victims.first()?),
    };
    // Which of the occupants ran because of the limit, the events do not tell: none is named.
    Some(draft.finish(case, is_limit))
}

fn severity(share: f64) -> Option<Severity> {
    if share >= SHARE_CRITICAL {
        Some(Severity::Critical)
    } else if share >= SHARE_WARNING {
        Some(Severity::Warning)
    } else {
        (share >= SHARE_INFO).then_some(Severity::Info)
    }
}

fn is_limit(blame: &Blame) -> bool {
    blame.rule == Rule::Throttled
}

fn group(case: &Case<'_>, victim: ActorId) -> Option<String> {
    Some(case.snapshot?.limited_cgroup_of(case.first_tid(victim)?)?.path.clone())
}

fn of_group(case: &Case<'_>, victims: &[ActorId]) -> Option<Finding> {
    let worst = *victims.first()?;
    let lost: Nanos = victims.iter().map(|victim| case.blamed(*victim, is_limit)).sum();
    let share = case.blamed(worst, is_limit).share_of(case.span());
    let severity = severity(share)?;
    let known = group(case, worst);
    let limit = known.as_ref().map(|path| format!(" of {path}")).unwrap_or_default();
    let mut evidence = vec![
        "its CPU went idle, or ran others' work, while the task was runnable and not moved: a bandwidth limit"
            .to_owned(),
        format!("{} of the trace", percent(share)),
    ];
    evidence.extend(known.as_deref().and_then(|path| counters(case, path)));
    let draft = Draft {
        id: "throttled",
        severity,
        confidence: if known.is_some() { 0.95 } else { 0.6 },
        sentence: format!(
            "{} was stopped for {lost} by the CPU limit{limit}, not by other tasks.",
            title(case, victims)
        ),
        victims: victims.to_vec(),
        evidence,
        also_paid: Vec::new(),
        period: crate::draft::period(case, victims),
        needs: &[EventType::Waking, EventType::Migrate],
        infers_settings: known.is_none(),
        remedies: remedy::against_limit(case, worst),
    };
    Some(draft.finish(case, is_limit))
}

fn counters(case: &Case<'_>, path: &str) -> Option<String> {
    let throttled = case.snapshot?.throttled_meanwhile(path)?;
    Some(format!(
        "the kernel counted {} of {} periods throttled, {} over all CPUs, while this was recorded",
        throttled.count, throttled.periods, throttled.ns
    ))
}
