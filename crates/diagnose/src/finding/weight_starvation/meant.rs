//! Weights that were set on purpose, and what they cost tasks that were not meant.

use unstarve_model::Nanos;
use unstarve_sched::Rule;
use unstarve_timeline::ActorId;

use super::super::impact;
use super::super::limits::Allowance;
use super::{PARTNER, SHORTFALL};
use crate::case::Case;
use crate::cgroup_competition::NICE_0;
use crate::ledger::{Account, TICK};

/// A task that does this part of a worker's wakeups is the one that the worker serves.
const EMPLOYER: f64 = 0.5;
/// A task that ends this part of its runs by being preempted is CPU-bound: throughput is what it needs.
const COMPUTES: f64 = 0.8;
/// A task that is owed more than this part of its fair share makes hardly any progress, whatever was configured.
const HARDLY: f64 = 0.75;
/// SCHED_IDLE weighs 3, nice 0 weighs 1024. SCHED_IDLE still gets more than 1/341 beside nice 0, because each run lasts a slice.
const SCHED_IDLE_GETS: f64 = 0.02;
/// The longest run of a fair task beside others: a slice (3 ms on most hosts) plus the tick that ends it. A heavier task runs
/// longer in proportion to its weight.
const TURN: Nanos = Nanos(Nanos::from_millis(3).0 + TICK.0);
/// The victim counts as paid for from this part of its waits up; less is chance.
const PAID_FOR: f64 = 0.05;

/// A CPU-bound program without payers loses only throughput. Dividing throughput is the purpose of a weight that was set. Only a
/// stall that users would notice, or a share near zero, is bad.
pub(super) fn got_as_asked(case: &Case<'_>, victim: ActorId, account: &Account, allowance: &Allowance) -> bool {
    let computes = account.runs.preempted as f64 >= COMPUTES * account.runs.count as f64;
    let paid_for = is_paid_for(case, victim, account);
    let gets_on = account.runs.count > 0 && allowance.shortfall(account) <= HARDLY;
    !case.is_kernel_thread(victim) && gets_on && computes && !paid_for
}

/// Whether the victim got what its nice is worth beside the occupant's: its share, and no wait longer than sharing by the two
/// weights takes. A nice value is set on purpose for a task; a group's weight applies to all tasks in it.
pub(super) fn is_due_to_nice(
    case: &Case<'_>,
    (victim, occupant): (ActorId, ActorId),
    shortfall: f64,
    longest: Nanos,
) -> bool {
    let (its, mine) = (case.actor(victim).group(), case.actor(occupant).group());
    let by_nice = its.is_none() && mine.is_none() || case.world.actors.groups().is_one(its, mine);
    let (its, mine) = case.rival_weights(victim, occupant);
    let turns = TURN.0.saturating_mul(u64::from(mine.div_ceil(its.max(1))));
    by_nice && shortfall < SHORTFALL && longest.0 <= turns
}

/// Whether the victim got what its nice is worth, and no wait longer than one run of each task beside it. Long waits are then due
/// to the crowd: the heavier task ran first in it and took nothing that was due to the victim.
pub(super) fn has_its_turn(
    case: &Case<'_>,
    (victim, occupant): (ActorId, ActorId),
    (account, allowance): (&Account, &Allowance),
    longest: Nanos,
) -> bool {
    let lighter = lighter_as_asked(case, victim, occupant);
    let due = allowance.due.0 as f64 / lighter;
    let enough = account.runs.count > 0 && account.got.0 as f64 > due * (1.0 - SHORTFALL);
    let stalls = account.stalls_mainly[Rule::Weight as usize].max(1);
    let waiting = account.queued_in_stalls as f64 / stalls as f64;
    enough && longest.0 as f64 <= TURN.0 as f64 * (waiting * lighter).ceil()
}

/// How many times less than nice 0 the victim's session weighs beside the occupant's, because its nice was set. The victim's due
/// time considers only its own nice.
fn lighter_as_asked(case: &Case<'_>, victim: ActorId, occupant: ActorId) -> f64 {
    let (its, mine) = (case.actor(victim).group(), case.actor(occupant).group());
    let of_cgroups = case.rivals(victim, occupant).is_some_and(|of| of.victim.is_some() || of.occupant.is_some());
    let of_sessions = its.is_some() && !case.world.actors.groups().is_one(its, mine) && !of_cgroups;
    let (weight, _) = case.rival_weights(victim, occupant);
    if of_sessions { f64::from(NICE_0) / f64::from(weight.clamp(1, NICE_0)) } else { 1.0 }
}

/// Whether it is a CPU-bound program without payers that may be SCHED_IDLE (unknown) and got as little as a SCHED_IDLE task
/// would.
pub(super) fn may_be_meant(case: &Case<'_>, victim: ActorId, occupant: ActorId, account: &Account) -> bool {
    let its = case.ledger.account(occupant).map_or(Nanos::ZERO, |account| account.got);
    if account.got.share_of(its) > SCHED_IDLE_GETS {
        return false;
    }
    let computes = account.runs.preempted as f64 >= COMPUTES * account.runs.count as f64;
    let paid_for = is_paid_for(case, victim, account);
    !case.knows_policy(victim) && !case.is_kernel_thread(victim) && computes && !paid_for
}

/// Whether the occupant that keeps the worker off the CPU is mostly the task that the worker serves: then the task delays only
/// its own work, unless another program sleeps until it is done.
pub(super) fn works_for(case: &Case<'_>, worker: ActorId, occupant: ActorId) -> bool {
    let wakeups = case.ledger.account(worker).map_or(0, |account| account.wakeups);
    wakeups > 0 && case.possible_wakes(occupant, worker) as f64 >= EMPLOYER * wakeups as f64
}

/// The highest price paid by one program. Not by workers: a sleeping worker has no work, and a task that waits for its later work
/// is a payer itself.
pub(super) fn price_of_programs(case: &Case<'_>, victim: ActorId) -> Nanos {
    impact::payers(case, victim)
        .find(|(payer, _)| !case.is_kernel_thread(*payer))
        .map_or(Nanos::ZERO, |(_, price)| price)
}

/// Whether events prove that a task waits for the program. Without the context of events, an interrupt during a run looks like a
/// wakeup by the task, and that must not turn an intended weight into an alarm.
fn is_paid_for(case: &Case<'_>, victim: ActorId, account: &Account) -> bool {
    let certain = impact::payers(case, victim).map(|(payer, _)| case.certain_price(victim, payer)).max();
    certain.is_some_and(|price| price.share_of(account.waited) >= PAID_FOR)
}

/// The highest price paid by one payer.
pub(super) fn highest_price(case: &Case<'_>, victim: ActorId) -> Nanos {
    impact::payers(case, victim).next().map_or(Nanos::ZERO, |(_, price)| price)
}

/// The highest price paid by a task that the victim serves: one that it wakes again and again. A parent that waits for the end of
/// a low-weight task is expected to wait, and is woken once per task.
pub(super) fn price_of_service(case: &Case<'_>, victim: ActorId) -> Nanos {
    let tasks = u64::from(case.actor(victim).members.max(1));
    let served = |payer: ActorId| case.wakes(victim, payer) > tasks && !case.asked_for_less_weight(payer);
    // If other tasks do most of a payer's wakeups, an interrupt during a run of the victim may have done this one.
    let surely = |payer: ActorId, price: Nanos| {
        let wakeups = case.ledger.account(payer).map_or(0, |account| account.wakeups);
        case.certain_price(victim, payer).share_of(price) >= PAID_FOR
            || case.wakes(victim, payer) as f64 >= PARTNER * wakeups as f64
    };
    impact::payers(case, victim)
        .find(|&(payer, price)| served(payer) && surely(payer, price))
        .map_or(Nanos::ZERO, |(_, price)| price)
}
