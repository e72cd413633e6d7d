//! Real-time and deadline tasks that used up what the kernel allows them, and were stopped.

use std::cmp::Reverse;

use unstarve_facts::Holds;
use unstarve_model::{KernelThread, Nanos, Policy};
use unstarve_timeline::{ActorId, Rule};

use super::throttled::{KIND, is_limit};
use super::{FAIR_PERIOD, names, percent, title};
use crate::case::Case;
use crate::draft::Draft;
use crate::ledger::Account;
use crate::remedy::{self, ClassLimit};
use crate::report::{Finding, Severity};

/// Shorter than this, tasks may be on their way between CPUs.
const STRETCH: Nanos = Nanos::from_millis(1);
/// A real-time task that is stopped for half the fair class's period misses whatever it is real-time for.
const STALL_WARNING: Nanos = Nanos(FAIR_PERIOD.0 / 2);
/// The kernel acts on ticks, and a first period may have begun before the trace: it stops nobody for more than this
/// many times what the settings say.
const TOLERANCE: u64 = 2;

pub(crate) fn find(case: &Case<'_>) -> Vec<Finding> {
    real_time(case).into_iter().chain(deadline(case)).collect()
}

/// What the kernel keeps of each period for tasks of other classes.
#[derive(Clone, Copy)]
struct Kept {
    rest: Nanos,
    period: Nanos,
    by: ClassLimit,
}

/// Of each second 50 ms, unless the snapshot says otherwise; `None` where the kernel stops nobody. Sources: those of
/// `Facts::rt_throttling` and `Facts::fair_server`.
fn kept(case: &Case<'_>, victim: ActorId) -> Option<Kept> {
    let number = |name: &str| case.snapshot?.setting(name)?.1.trim().parse::<u64>().ok();
    if case.facts.fair_server() == Holds::Yes {
        let cpu = case.worst_cpu(&[victim])?;
        let setting = |name: &str| number(&format!("fair_server/cpu{cpu}/{name}"));
        let (rest, period) = (setting("runtime"), setting("period"));
        return Some(Kept {
            rest: rest.map_or(Nanos::from_millis(50), Nanos),
            period: period.map_or(Nanos::from_millis(1000), Nanos),
            by: ClassLimit::FairServer,
        });
    }
    if case.facts.rt_throttling() == Holds::No {
        return None;
    }
    let period = number("sched_rt_period_us").map_or(Nanos::from_millis(1000), Nanos::from_micros);
    let runtime = number("sched_rt_runtime_us").map_or(Nanos::from_millis(950), Nanos::from_micros);
    Some(Kept { rest: period.saturating_sub(runtime), period, by: ClassLimit::Throttling })
}

/// Tasks of a class that were stopped, who ran most first: it is the one that used up the class's time.
pub(super) fn stopped<'a>(case: &'a Case<'_>, class: Policy) -> Vec<(ActorId, &'a Account)> {
    let is_stopper = |id: ActorId| case.actor(id).kernel_thread == Some(KernelThread::Migration);
    let mut found: Vec<(ActorId, &Account)> = case
        .victims()
        .filter(|(id, _)| case.actor(*id).policy() == Some(class) && !is_stopper(*id))
        .filter(|(_, account)| account.longest_by_rule[Rule::Throttled as usize] >= STRETCH)
        .collect();
    found.sort_by_key(|(id, account)| (Reverse(account.runs.total), *id));
    found
}

fn real_time(case: &Case<'_>) -> Option<Finding> {
    let victims = stopped(case, Policy::Rt);
    let (worst, account) = *victims.first()?;
    let kept = kept(case, worst)?;
    let lost = case.blamed(worst, is_limit);
    let longest = account.longest_by_rule[Rule::Throttled as usize];
    // The class is stopped only after it had its part: where it ran for less, the events mislead (a state misread, a
    // switch not recorded).
    let ran: Nanos = case
        .world
        .actors
        .iter()
        .filter(|(_, actor)| actor.policy() == Some(Policy::Rt) && actor.kernel_thread != Some(KernelThread::Migration))
        .filter_map(|(id, _)| Some(case.ledger.account(id)?.runs.total))
        .sum();
    let had = kept.period.saturating_sub(kept.rest);
    let due = ran.0 as f64 / had.0.max(1) as f64 * kept.rest.0 as f64;
    if lost.0 as f64 > due * TOLERANCE as f64 || longest.0 > kept.rest.0.saturating_mul(TOLERANCE) {
        return None;
    }
    let limit = if kept.by == ClassLimit::FairServer {
        format!("the fair server gives starved tasks {} of each {}", kept.rest, kept.period)
    } else {
        format!("real-time tasks may use {had} of each {} (sched_rt_runtime_us)", kept.period)
    };
    let mut evidence = vec![
        "tasks of a lower class, or nobody, had its CPU while it was runnable: no priority allows that, only the limit"
            .to_owned(),
        limit,
        format!("real-time tasks ran for {ran} ({} of the trace)", percent(ran.share_of(case.span()))),
    ];
    if let Some((_, rest @ [_, ..])) = victims.split_first() {
        evidence.push(format!("stopped with it: {}", names(case, rest.iter().map(|(id, _)| *id))));
    }
    let draft = Draft {
        kind: KIND,
        severity: if longest >= STALL_WARNING { Severity::Warning } else { Severity::Info },
        confidence: 0.9,
        sentence: format!(
            "{} (real-time) was stopped for {lost}, up to {longest} at a time: it used up what the kernel allows real-time \
             tasks.",
            title(case, &[worst]),
        ),
        victims: vec![worst],
        evidence,
        also_paid: Vec::new(),
        period: None,
        needs: KIND.needs,
        infers_settings: true,
        remedies: remedy::against_class_limit(case, worst, kept.by),
    };
    Some(draft.finish(case, is_limit))
}

/// A remark where the snapshot does not hold a task's runtime, and one that gives the rest of it back (sched_yield) looks the
/// same.
fn deadline(case: &Case<'_>) -> Option<Finding> {
    // Of the others it is known that they used it up (`deadline_overrun`), or that they gave it back.
    let victims = stopped(case, Policy::Deadline);
    let (worst, account) = *victims.iter().find(|(_, account)| account.runs.spent.is_none())?;
    let lost = case.blamed(worst, is_limit);
    let longest = account.longest_by_rule[Rule::Throttled as usize];
    let draft = Draft {
        kind: KIND,
        severity: Severity::Info,
        confidence: 0.6,
        sentence: format!(
            "{} (deadline) was stopped for {lost}, up to {longest} at a time: it used up its runtime before the period \
             ended, or gave the rest back.",
            title(case, &[worst]),
        ),
        victims: vec![worst],
        evidence: vec![
            "tasks of a lower class, or nobody, had its CPU while it was runnable".to_owned(),
            format!("its runs were {} long on average", mean(account)),
        ],
        also_paid: Vec::new(),
        period: None,
        needs: KIND.needs,
        infers_settings: true,
        remedies: remedy::against_deadline_limit(case, worst),
    };
    Some(draft.finish(case, is_limit))
}

fn mean(account: &Account) -> Nanos {
    Nanos(account.runs.total.0 / account.runs.count.max(1))
}
