//! What somebody asked for, and what that cost those who did not.

use unstarve_model::Nanos;
use unstarve_sched::Rule;
use unstarve_timeline::ActorId;

use super::super::impact;
use super::super::limits::Allowance;
use super::{PARTNER, SHORTFALL};
use crate::case::Case;
use crate::cgroup_competition::NICE_0;
use crate::ledger::{Account, TICK};

/// Who wakes a worker for this part of its turns is the one that it works for.
const EMPLOYER: f64 = 0.5;
/// A task that ends this part of its turns only because the CPU is taken from it computes: it is after throughput.
const COMPUTES: f64 = 0.8;
/// One that is short of more than this part of an equal share hardly gets on, whatever somebody asked for.
const HARDLY: f64 = 0.75;
/// SCHED_IDLE weighs 3, nice 0 weighs 1024. Beside each other it gets more than a 341st, because each turn lasts a slice.
const SCHED_IDLE_GETS: f64 = 0.02;
/// The longest turn of a fair task beside others: a slice, 3 ms on most hosts, and the tick with which it is seen to be over. What is
/// heavier then has as many times that as it weighs more.
const TURN: Nanos = Nanos(Nanos::from_millis(3).0 + TICK.0);
/// Somebody pays for it from this part of its waits on; less is chance.
const PAID_FOR: f64 = 0.05;

/// A program that only computes, and for which nobody waits, loses throughput and no more. To divide that is what a weight
/// is for: somebody gave it. Only a stall that anybody would see is bad by itself, and a share that is next to nothing.
pub(super) fn got_as_asked(case: &Case<'_>, victim: ActorId, account: &Account, allowance: &Allowance) -> bool {
    let computes = account.runs.preempted as f64 >= COMPUTES * account.runs.count as f64;
    let paid_for = is_paid_for(case, victim, account);
    let gets_on = account.runs.count > 0 && allowance.shortfall(account) <= HARDLY;
    !case.is_kernel_thread(victim) && gets_on && computes && !paid_for
}

/// Whether the victim has what its nice is worth beside the occupant's: its share, and no wait longer than sharing by these two
/// weights takes. A nice value was given to be kept; the weight of a group is for all tasks in it alike.
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

/// Whether the victim has what its nice is worth, and no wait longer than it takes until each of those that wait beside it had a
/// turn. Long waits are then the crowd's doing: what is heavier came first in it, and took nothing that was due to this one.
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

/// How many times less than nice 0 the victim's session weighs beside that of the occupant: somebody gave it its nice. What a
/// task is due knows of the task's own nice only.
fn lighter_as_asked(case: &Case<'_>, victim: ActorId, occupant: ActorId) -> f64 {
    let (its, mine) = (case.actor(victim).group(), case.actor(occupant).group());
    let of_cgroups = case.rivals(victim, occupant).is_some_and(|of| of.victim.is_some() || of.occupant.is_some());
    let of_sessions = its.is_some() && !case.world.actors.groups().is_one(its, mine) && !of_cgroups;
    let (weight, _) = case.rival_weights(victim, occupant);
    if of_sessions { f64::from(NICE_0) / f64::from(weight.clamp(1, NICE_0)) } else { 1.0 }
}

/// Whether it is a program that only computes and that nobody waits for, of which nobody knows whether it is SCHED_IDLE, and
/// that got as little as one that is.
pub(super) fn may_be_meant(case: &Case<'_>, victim: ActorId, occupant: ActorId, account: &Account) -> bool {
    let its = case.ledger.account(occupant).map_or(Nanos::ZERO, |account| account.got);
    if account.got.share_of(its) > SCHED_IDLE_GETS {
        return false;
    }
    let computes = account.runs.preempted as f64 >= COMPUTES * account.runs.count as f64;
    let paid_for = is_paid_for(case, victim, account);
    !case.knows_policy(victim) && !case.is_kernel_thread(victim) && computes && !paid_for
}

/// Whether what keeps the worker from the CPU is mostly the one that gives it its work: it is late for its own work only,
/// by its own choice, unless some program sleeps until it is done.
pub(super) fn works_for(case: &Case<'_>, worker: ActorId, occupant: ActorId) -> bool {
    let wakeups = case.ledger.account(worker).map_or(0, |account| account.wakeups);
    wakeups > 0 && case.possible_wakes(occupant, worker) as f64 >= EMPLOYER * wakeups as f64
}

/// What the program lost that lost most while this one waited. Another worker that sleeps has no work, and who waits for
/// what it will do is a payer itself.
pub(super) fn price_of_programs(case: &Case<'_>, victim: ActorId) -> Nanos {
    impact::payers(case, victim)
        .find(|(payer, _)| !case.is_kernel_thread(*payer))
        .map_or(Nanos::ZERO, |(_, price)| price)
}

/// Whether somebody surely waits for the program. An interrupt in one of its turns looks like a wakeup of its own where events lack
/// the context, and that must not turn what somebody asked for into an alarm.
fn is_paid_for(case: &Case<'_>, victim: ActorId, account: &Account) -> bool {
    let certain = impact::payers(case, victim).map(|(payer, _)| case.certain_price(victim, payer)).max();
    certain.is_some_and(|price| price.share_of(account.waited) >= PAID_FOR)
}

/// What the one who lost most while this one waited lost.
pub(super) fn highest_price(case: &Case<'_>, victim: ActorId) -> Nanos {
    impact::payers(case, victim).next().map_or(Nanos::ZERO, |(_, price)| price)
}

/// The same of those whom it serves: it wakes them again and again. A task that somebody made to run last keeps its parent
/// waiting for its end, as was to be expected: each wakes its parent once.
pub(super) fn price_of_service(case: &Case<'_>, victim: ActorId) -> Nanos {
    let tasks = u64::from(case.actor(victim).members.max(1));
    let served = |payer: ActorId| case.wakes(victim, payer) > tasks && !case.asked_for_less_weight(payer);
    // Who is woken by others most of the time was perhaps woken by an interrupt in one of the victim's turns.
    let surely = |payer: ActorId, price: Nanos| {
        let wakeups = case.ledger.account(payer).map_or(0, |account| account.wakeups);
        case.certain_price(victim, payer).share_of(price) >= PAID_FOR
            || case.wakes(victim, payer) as f64 >= PARTNER * wakeups as f64
    };
    impact::payers(case, victim)
        .find(|&(payer, price)| served(payer) && surely(payer, price))
        .map_or(Nanos::ZERO, |(_, price)| price)
}
