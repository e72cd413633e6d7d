//! Real-time and deadline tasks that used up the CPU time that the kernel allows them, and were throttled.

use std::cmp::Reverse;

use unstarve_facts::Holds;
use unstarve_model::{CpuId, Nanos, Policy};
use unstarve_sched::Rule;
use unstarve_timeline::{Actor, ActorId};

use super::intruders::ran;
use super::throttled::{KIND, is_limit};
use crate::case::Case;
use crate::claim::{Actors, Alike, Claim, Kind, LimitClaim, LimitHeadline, WaitClaim};
use crate::draft::Draft;
use crate::ledger::Account;
use crate::remedy::{self, ClassLimit};
use crate::report::{Finding, Severity};
use crate::verdict::{self, Cause};

/// In shorter stretches, tasks may be in migration between CPUs.
const STRETCH: Nanos = Nanos::from_millis(1);
/// A task that ends this part of its runs by itself executes pieces of work, which throttling delays. Otherwise it computes
/// without end and takes all CPU time it gets.
const PIECES: f64 = 0.1;
/// Fewer pieces may be the start or the end of the task.
const LEAST_PIECES: u64 = 3;
/// The kernel acts on ticks, and a first period may have begun before the trace: longer stops than this many times the setting
/// are not throttling.
const TOLERANCE: u64 = 2;

pub(crate) fn find(case: &Case<'_>) -> Vec<Finding> {
    real_time(case).into_iter().chain(deadline(case)).collect()
}

/// The CPU time per period that the kernel keeps for tasks of other classes.
#[derive(Clone, Copy)]
struct Kept {
    rest: Nanos,
    period: Nanos,
    by: ClassLimit,
}

/// 50 ms of each second, unless the snapshot shows another value; `None` if the kernel does not throttle. Sources: those of
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

/// Throttled tasks of a class. The task that ran most is first: it used up the class's time.
pub(super) fn stopped<'a>(case: &'a Case<'_>, class: Policy) -> Vec<(ActorId, &'a Account)> {
    let mut found: Vec<(ActorId, &Account)> = case
        .victims()
        .filter(|(id, _)| case.actor(*id).policy() == Some(class) && !case.is_stopper(*id))
        .filter(|(_, account)| account.longest_by_rule[Rule::Throttled as usize] >= STRETCH)
        .collect();
    found.sort_by_key(|(id, account)| (Reverse(account.runs.total), *id));
    found
}

/// The limit on the real-time class, as seen in this trace.
struct ClassStop<'a> {
    /// Throttled tasks. The one that ran most is first: it used up the class's time.
    stopped: Vec<(ActorId, &'a Account)>,
    kept: Kept,
    /// CPU time of all real-time tasks.
    ran: Nanos,
}

impl<'a> ClassStop<'a> {
    fn of(case: &'a Case<'_>) -> Option<ClassStop<'a>> {
        let stopped = stopped(case, Policy::Rt);
        let (user, account) = *stopped.first()?;
        let kept = kept(case, user)?;
        let lost = case.blamed(user, is_limit);
        let longest = account.longest_by_rule[Rule::Throttled as usize];
        // The class is throttled only after it used its share. If it ran for less, the events mislead (a misread state, an
        // unrecorded switch).
        let is_class = |actor: &Actor| actor.policy() == Some(Policy::Rt);
        let ran: Nanos = case
            .world
            .actors
            .iter()
            .filter(|(_, actor)| is_class(actor))
            .filter_map(|(id, _)| Some(case.ledger.account(id)?.runs.total))
            .sum();
        let had = kept.period.saturating_sub(kept.rest);
        let due = ran.0 as f64 / had.0.max(1) as f64 * kept.rest.0 as f64;
        let misleads = lost.0 as f64 > due * TOLERANCE as f64 || longest.0 > kept.rest.0.saturating_mul(TOLERANCE);
        (!misleads).then_some(ClassStop { stopped, kept, ran })
    }

    fn evidence(&self, case: &Case<'_>) -> Vec<Claim> {
        let Kept { rest, period, by } = self.kept;
        let limit = if by == ClassLimit::FairServer {
            LimitClaim::FairServer { runtime: rest, period }
        } else {
            LimitClaim::RealTimeRuntime { runtime: period.saturating_sub(rest), period }
        };
        let ran = LimitClaim::RealTimeRan { ran: self.ran, share: case.share(self.ran) };
        [LimitClaim::LowerClassRan(Policy::Rt), limit, ran].map(Claim::from).into()
    }
}

fn real_time(case: &Case<'_>) -> Vec<Finding> {
    let Some(stop) = ClassStop::of(case) else { return Vec::new() };
    let Some(&(user, account)) = stop.stopped.first() else { return Vec::new() };
    let waits_behind =
        |victim: ActorId| case.blame(victim).iter().any(|blame| blame.occupant == user && blame.rule.is_precedence());
    let others_wait = case.victims().any(|(victim, _)| victim != user && waits_behind(victim));
    let late = made_late(case, &stop, user, others_wait);
    late.into_iter().chain(stopped_itself(case, &stop, (user, account), others_wait)).collect()
}

/// A real-time task that was throttled because another one used up the class's time.
fn made_late(case: &Case<'_>, stop: &ClassStop<'_>, user: ActorId, others_wait: bool) -> Option<Finding> {
    let longest = |account: &Account| account.longest_by_rule[Rule::Throttled as usize];
    // The limit is each CPU's own.
    let user_cpus = &case.ledger.account(user)?.cpus;
    let shares_cpu = |account: &Account| {
        (0..case.world.cpus).map(CpuId).any(|cpu| user_cpus.contains(cpu) && account.cpus.contains(cpu))
    };
    let is_other = |id: &ActorId| case.name(case.mainly(*id)) != case.name(case.mainly(user));
    let mut late: Vec<(ActorId, &Account)> =
        stop.stopped.iter().copied().filter(|(id, account)| is_other(id) && shares_cpu(account)).collect();
    // One with a short period is worse off than one that was stopped for longer.
    let judged = |id: ActorId, account: &Account| {
        verdict::severity(&case.plight(id, Cause::ClassLimit, longest(account), case.blamed(id, is_limit)))
    };
    late.sort_by_key(|(id, account)| (Reverse((judged(*id, account), longest(account))), *id));
    let (victim, account) = *late.first()?;
    let lost = case.blamed(victim, is_limit);
    let severity = judged(victim, account)?;
    let mut evidence = stop.evidence(case);
    evidence.push(LimitClaim::PartOfThat { who: Actors::of(case, [user]), ran: ran(case, user) }.into());
    evidence.extend(WaitClaim::also(case, Alike::StoppedWithIt, late.iter().skip(1).map(|(id, _)| *id)));
    let headline = LimitHeadline::RealTimeClass {
        who: Kind::of(case, &[victim]),
        lost,
        longest: longest(account),
        used_up: Some(Actors::of(case, [user])),
    };
    let draft = Draft {
        victims: vec![victim],
        evidence,
        infers_settings: true,
        remedies: remedy::against_class_limit(case, user, stop.kept.by, others_wait),
        ..Draft::new(KIND, severity, 0.9, headline)
    };
    Some(draft.finish(case, is_limit).blamed_on(case, user, Rule::Throttled, lost))
}

/// The one that used the time up. It has what it took; only if its work comes in pieces, a stop delays one of them.
fn stopped_itself(
    case: &Case<'_>,
    stop: &ClassStop<'_>,
    (user, account): (ActorId, &Account),
    others_wait: bool,
) -> Option<Finding> {
    let lost = case.blamed(user, is_limit);
    let longest = account.longest_by_rule[Rule::Throttled as usize];
    let slept = account.runs.slept;
    let in_pieces = slept >= LEAST_PIECES && slept as f64 >= PIECES * account.runs.count as f64;
    // A stop that delays one of its pieces of work is as a wait behind a higher class is, but others may need the CPU more than it.
    let cause = if in_pieces { Cause::ClassLimit } else { Cause::OwnClassLimit };
    let severity = verdict::severity(&case.plight(user, cause, longest, lost))?.min(Severity::Warning);
    let mut evidence = stop.evidence(case);
    evidence.push(if in_pieces { LimitClaim::WorksInPieces } else { LimitClaim::RunsWithoutEnd }.into());
    evidence.extend(WaitClaim::also(case, Alike::StoppedWithIt, stop.stopped.iter().skip(1).map(|(id, _)| *id)));
    let headline = LimitHeadline::RealTimeClass { who: Kind::of(case, &[user]), lost, longest, used_up: None };
    let draft = Draft {
        victims: vec![user],
        evidence,
        infers_settings: true,
        remedies: remedy::against_class_limit(case, user, stop.kept.by, others_wait),
        ..Draft::new(KIND, severity, 0.9, headline)
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
    let headline = LimitHeadline::Deadline { who: Kind::of(case, &[worst]), lost, longest };
    let draft = Draft {
        victims: vec![worst],
        evidence: vec![LimitClaim::LowerClassRan(Policy::Deadline).into(), LimitClaim::MeanRun(mean(account)).into()],
        infers_settings: true,
        remedies: remedy::against_deadline_limit(case, worst),
        ..Draft::new(KIND, Severity::Info, 0.6, headline)
    };
    Some(draft.finish(case, is_limit))
}

fn mean(account: &Account) -> Nanos {
    Nanos(account.runs.total.0 / account.runs.count.max(1))
}
