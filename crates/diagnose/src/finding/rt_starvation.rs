//! Real-time or deadline tasks hold the CPU while others wait.
//!
//! One finding for each family of intruders (see [`intruders`]). It names the worst kind of victim; the other victims are payers
//! in its price.

mod turns;

use std::cmp::Reverse;

use rustc_hash::{FxHashMap, FxHashSet};
use unstarve_model::{EventType, Nanos, Policy};
use unstarve_sched::Rule;
use unstarve_timeline::ActorId;

use super::boosters::Boosters;
use super::impact;
use super::intruders::{self, Family, ran};
use super::order::ABOUT_AS_MUCH;
use super::{FAIR_PERIOD, FindingKind, stem};
use crate::case::{Blame, Case};
use crate::claim::{Actors, Claim, Kind, RealTimeClaim, RealTimeHeadline, Share, WaitClaim};
use crate::draft::{self, Draft, payer_row};
use crate::ledger::{Episodes, Period, TICK};
use crate::remedy;
use crate::report::{Finding, Remedy, Severity, VictimKind};
use crate::verdict::{self, Cause, Cost, Plight, Waiter};

/// Many short runs count as one long run if they add up to half the fair class's period…
const FELT_TOGETHER: Nanos = Nanos(FAIR_PERIOD.0 / 2);
/// …and cost another task this part of the recording…
const SHARE_PAID: f64 = 0.05;
/// …and the victim a fifth of the time, however short each run is.
const SHARE_OF_SHORT: f64 = 0.2;
/// A victim that is owed more than this part of its fair share makes hardly any progress.
const HARDLY: f64 = 0.75;
/// A slice of SCHED_RR (`RR_TIMESLICE`, 100 ms) plus a tick and what runs in between. Equals that alternate do so by then; a
/// SCHED_FIFO task that holds on for longer starves its equals.
const ROUND_ROBIN: Nanos = Nanos::from_millis(120);
/// An occupant that does this part of the victim's wakeups gives it its work, so it is normal that the occupant runs on first.
const GIVES_WORK: f64 = 0.5;
/// The share of the worst ten seconds is reported if it is this many times the share of the recording.
const WINDOW_STANDS_OUT: f64 = 1.5;

/// Maximum findings of this kind; the least severe are merged.
const MAX_FINDINGS_OF_KIND: usize = 6;

/// A victim and the time that one intruder took from it.
struct Hit {
    victim: ActorId,
    lost: Nanos,
    /// The longest single run of the intruder.
    stay: Nanos,
    /// Whether the intruder is an equal that delayed it only by its normal slices.
    is_late: bool,
    /// The longest time lost to one task under one rule, and that rule.
    main: (Nanos, Rule),
    /// The share of the victim's worst ten seconds that the intruder took.
    in_window: f64,
}

/// All time that real-time and deadline tasks took from others, by occupant.
#[derive(Default)]
struct Taken {
    /// In the order of their first appearance.
    occupants: Vec<ActorId>,
    /// Occupant → victims with their blame of it.
    from: FxHashMap<ActorId, Vec<(ActorId, Blame)>>,
    /// Victim → the total time it lost to real-time and deadline tasks.
    by_class: FxHashMap<ActorId, Nanos>,
}

impl Taken {
    fn of(case: &Case<'_>) -> Taken {
        let mut taken = Taken::default();
        for (victim, _) in case.victims() {
            for blame in case.blame(victim).iter().filter(|blame| is_first(case, victim, blame)) {
                *taken.by_class.entry(victim).or_default() += blame.length;
                if !is_intrusion(case, victim, blame) {
                    continue;
                }
                let from = taken.from.entry(blame.occupant).or_default();
                if from.is_empty() {
                    taken.occupants.push(blame.occupant);
                }
                from.push((victim, *blame));
            }
        }
        taken
    }

    /// The victims of these actors, with their blame.
    fn by<'a>(&'a self, actors: &'a [ActorId]) -> impl Iterator<Item = (ActorId, &'a Blame)> {
        let all = actors.iter().filter_map(|occupant| self.from.get(occupant)).flatten();
        all.map(|(victim, blame)| (*victim, blame))
    }
}

/// One intruder and its victims.
struct Intrusion {
    family: Family,
    hits: Vec<Hit>,
    severity: Option<Severity>,
    /// How long it waited behind its victims, if they alternate.
    returned: Option<Nanos>,
}

/// What this module finds.
pub(super) const KIND: FindingKind = FindingKind {
    id: "rt-starvation",
    title: "real-time or deadline tasks keep others off a CPU",
    about: "A real-time task goes before every fair one for as long as it runs, kernel workers and ksoftirqd \
            included. What the kernel leaves to fair tasks (real-time throttling up to 6.11, the fair server \
            from 6.12 on) is 5 % of each second by default, in one piece.",
    needs: &[EventType::Waking],
    snapshot: None,
    find: |case, _| find(case),
};

pub(crate) fn find(case: &Case<'_>) -> Vec<Finding> {
    let mut taken = Taken::of(case);
    let boosters = Boosters::of(case, &taken.occupants);
    let families = intruders::families(case, &taken.occupants, &boosters);
    let intrusions = families.into_iter().map(|family| Intrusion::of(case, family, &taken)).collect();
    let intrusions = together(case, intrusions, &taken);
    let mut found: Vec<Intrusion> = turns::once_each(case, intrusions, &mut taken);
    found.retain(|intrusion| intrusion.severity.is_some());
    found.sort_by_key(|intrusion| Reverse((intrusion.severity, intrusion.lost())));
    if found.len() > MAX_FINDINGS_OF_KIND {
        let rest = found.split_off(MAX_FINDINGS_OF_KIND - 1);
        found.push(Intrusion::of(case, Family::merged(rest.into_iter().map(|rest| rest.family)), &taken));
    }
    found.into_iter().filter_map(|intrusion| of_intruder(case, intrusion, &taken, &boosters)).collect()
}

/// Merges intrusions that are all harmless alone, if the merged one is not.
fn together(case: &Case<'_>, intrusions: Vec<Intrusion>, taken: &Taken) -> Vec<Intrusion> {
    let is_loud = |intrusion: &Intrusion| intrusion.severity > Some(Severity::Info);
    let (mut found, quiet): (Vec<_>, Vec<_>) = intrusions.into_iter().partition(is_loud);
    let sum = Intrusion::of(case, Family::merged(quiet.iter().map(|quiet| quiet.family.clone())), taken);
    if quiet.len() > 1 && sum.severity > quiet.iter().map(|quiet| quiet.severity).max().flatten() {
        found.push(sum);
    } else {
        found.extend(quiet);
    }
    found
}

impl Intrusion {
    fn of(case: &Case<'_>, family: Family, taken: &Taken) -> Intrusion {
        let members: FxHashSet<ActorId> = family.actors.iter().copied().collect();
        let mut hits: Vec<Hit> = Vec::new();
        let mut by_victim = FxHashMap::default();
        // Waits of the family's own members behind each other do not count.
        for (victim, blame) in taken.by(&family.actors).filter(|(victim, _)| !members.contains(victim)) {
            let index = *by_victim.entry(victim).or_insert(hits.len());
            if index == hits.len() {
                hits.push(Hit {
                    victim,
                    lost: Nanos::ZERO,
                    stay: Nanos::ZERO,
                    is_late: true,
                    main: (Nanos::ZERO, Rule::Class),
                    in_window: 0.0,
                });
            }
            let hit = &mut hits[index];
            hit.is_late &= blame.rule == Rule::Order && !holds_on(case, victim, blame);
            hit.lost += blame.length;
            hit.main = hit.main.max((blame.length, blame.rule));
            hit.stay = hit.stay.max(case.longest_stay(victim, blame.occupant));
        }
        for hit in &mut hits {
            hit.in_window = case.share_of_window(hit.victim, &family.actors, hit.main.1);
        }
        let had: Nanos = family.actors.iter().map(|id| ran(case, *id)).sum();
        let severity = hits.iter().filter_map(|hit| severity(case, hit, had, stall(case, hit, taken))).max();
        Intrusion { family, hits, severity, returned: None }
    }

    fn lost(&self) -> Nanos {
        self.hits.iter().map(|hit| hit.lost).sum()
    }
}

/// Whether the occupant ran first because of its class or priority, or is an equal that kept the victim waiting longer than
/// equals may.
fn is_first(case: &Case<'_>, victim: ActorId, blame: &Blame) -> bool {
    let by_order = || holds_on(case, victim, blame) || makes_late(case, victim, blame);
    let another = blame.occupant != victim || case.actor(victim).members > 1;
    blame.rule.is_precedence() || blame.rule == Rule::Order && another && by_order()
}

/// Whether it held the CPU for longer than any slice.
fn holds_on(case: &Case<'_>, victim: ActorId, blame: &Blame) -> bool {
    case.longest_stay(victim, blame.occupant) > ROUND_ROBIN
}

/// Whether the victim, which needs less than a tick per wakeup, waited while another program of its priority had the CPU for
/// long. Not if both are CPU-bound or are threads of one program: then that is what was asked for.
fn makes_late(case: &Case<'_>, victim: ActorId, blame: &Blame) -> bool {
    let occupant = blame.occupant;
    let is_rt = |id: ActorId| case.actor(id).policy() == Some(Policy::Rt);
    let Some(account) = case.ledger.account(victim) else { return false };
    let runs = &account.runs;
    let answers = runs.slept > 0 && runs.total.0 < TICK.0.saturating_mul(runs.slept);
    let works_for = case.wakes(occupant, victim) as f64 >= GIVES_WORK * account.wakeups as f64 && account.wakeups > 0;
    is_rt(victim)
        && is_rt(occupant)
        && answers
        && !works_for
        && !same_program(case, victim, occupant)
        && case.longest_stay(victim, occupant) >= FAIR_PERIOD
}

/// Whether both are threads of one process or, if processes are unknown, have the same name stem. Each kernel thread is a program
/// of its own.
fn same_program(case: &Case<'_>, a: ActorId, b: ActorId) -> bool {
    let (a, b) = (case.mainly(a), case.mainly(b));
    if case.is_kernel_thread(a) || case.is_kernel_thread(b) {
        return a == b;
    }
    let process = |id: ActorId| case.first_tid(id).and_then(|tid| case.process_of(tid));
    match (process(a), process(b)) {
        (Some(one), Some(other)) => one == other,
        _ => stem(&case.name(a)) == stem(&case.name(b)),
    }
}

/// Neither the stop class, which migrates tasks for the kernel, nor the recorder is an intruder.
fn is_intrusion(case: &Case<'_>, victim: ActorId, blame: &Blame) -> bool {
    let is_intruder = |id: ActorId| !case.is_stopper(id) && !case.is_observer(id);
    is_first(case, victim, blame) && is_intruder(blame.occupant) && !case.is_stopper(victim)
}

fn of_intruder(case: &Case<'_>, intrusion: Intrusion, taken: &Taken, boosters: &Boosters) -> Option<Finding> {
    let Intrusion { mut family, mut hits, severity, returned } = intrusion;
    // Put the name under which it ran most first.
    family.actors.sort_by_key(|id| Reverse((ran(case, *id), *id)));
    let actors = &family.actors;
    let had: Nanos = actors.iter().map(|id| ran(case, *id)).sum();
    let victims = worst_kind(case, &mut hits, had, taken)?;
    let named: FxHashSet<ActorId> = victims.iter().copied().collect();
    let from_named = taken.by(actors).filter(|(victim, _)| named.contains(victim));
    let guilty: FxHashSet<(ActorId, Rule)> = from_named.map(|(_, blame)| (blame.occupant, blame.rule)).collect();
    let by_them = |blame: &Blame| guilty.contains(&(blame.occupant, blame.rule));
    let of_kind = || hits.iter().filter(|hit| named.contains(&hit.victim));
    let lost: Nanos = of_kind().map(|hit| hit.lost).sum();
    let longest = of_kind().map(|hit| stall(case, hit, taken)).max()?;
    let worst = of_kind().map(|hit| hit.lost).max()?;
    let period = draft::period(case, &victims).or_else(|| period_of_runs(case, actors));
    let also: Vec<&Hit> = hits.iter().filter(|hit| !named.contains(&hit.victim)).collect();
    let mut evidence = evidence(case, &victims, actors, worst.min(had).share_of(case.span()), period, &also);
    let in_window = of_kind().map(|hit| hit.in_window).fold(0.0, f64::max);
    if in_window > WINDOW_STANDS_OUT * worst.min(had).share_of(case.span()) {
        evidence.push(RealTimeClaim::WorstWindow(Share(in_window)).into());
    }
    let take_turns = |waited| RealTimeClaim::TakeTurns { who: Actors::of(case, actors.iter().copied()), waited }.into();
    evidence.extend(actors.iter().find_map(|id| WaitClaim::polls(case, *id)));
    evidence.extend(returned.map(take_turns));
    evidence.extend(family.in_common(case).map(Claim::from));
    evidence.extend(lifted(case, actors, boosters).map(Claim::from));
    let headline = RealTimeHeadline::KeptOff {
        who: Kind::apart_from(case, &victims, actors),
        lost,
        by: Actors::apart_from(case, actors, &victims),
        class: class(case, actors),
        longest,
        period: period.map(|period| period.interval),
    };
    let draft = Draft {
        evidence,
        also_paid: also.iter().map(|hit| payer_row(case, hit.victim, hit.lost)).collect(),
        period,
        remedies: remedies(case, &victims, &family, boosters),
        victims: victims.clone(),
        ..Draft::new(KIND, severity?, 0.95, headline)
    };
    Some(draft.finish(case, by_them))
}

fn remedies(case: &Case<'_>, victims: &[ActorId], family: &Family, boosters: &Boosters) -> Vec<Remedy> {
    // A task boosted by priority inheritance has no real-time priority of its own that a remedy could change.
    let own: Vec<ActorId> = family.actors.iter().copied().filter(|id| boosters.of_task(*id).is_none()).collect();
    let intruder = if own.is_empty() { &family.actors } else { &own };
    let creator = family.creator(case).filter(|_| family.names(case) > 3);
    remedy::against_rt(case, victims, intruder, creator)
}

/// Evidence that an ordinary task among them was boosted because it held a lock.
fn lifted(case: &Case<'_>, actors: &[ActorId], boosters: &Boosters) -> Option<RealTimeClaim> {
    let (holder, booster) = actors.iter().find_map(|id| Some((*id, boosters.of_task(*id)?)))?;
    Some(RealTimeClaim::Inherits { holder: Actors::of(case, [holder]), booster: Actors::of(case, [booster]) })
}

fn severity(case: &Case<'_>, hit: &Hit, had: Nanos, stall: Nanos) -> Option<Severity> {
    // Several victims wait at once, so their waits can add up to more than the intruder ran: limit by that.
    let share = hit.lost.min(had).share_of(case.span());
    let share = share.max(hit.in_window);
    let plight = Plight { share, ..case.plight(hit.victim, cause(hit), stall, hit.lost) };
    let many = share >= SHARE_OF_SHORT && hit.lost >= FELT_TOGETHER;
    let cost = if many && is_felt(case, hit) && is_hurt(case, hit) { Cost::Heavy } else { plight.cost };
    verdict::severity(&plight.at_cost(cost))
}

fn cause(hit: &Hit) -> Cause {
    match hit.main.1 {
        // An administrator gave them equal priorities.
        _ if hit.is_late => Cause::RealTimeOrder,
        Rule::Order => Cause::StuckEqual,
        Rule::Priority => Cause::Priority,
        _ => Cause::Class,
    }
}

/// Whether many short runs cost more than throughput: a payer slept for a share of the trace that would be an alarm as one wait,
/// or the victim makes hardly any progress.
fn is_hurt(case: &Case<'_>, hit: &Hit) -> bool {
    let price = impact::payers(case, hit.victim).next().map_or(Nanos::ZERO, |(_, price)| price.min(hit.lost));
    let paid = price >= FELT_TOGETHER && price.share_of(case.span()) >= SHARE_PAID;
    let account = case
        .ledger
        .account(hit.victim)
        .filter(|_| !matches!(case.waiter(hit.victim), Waiter::AskedToBeLast | Waiter::RealTime));
    paid || account.is_some_and(|account| account.owed().share_of(account.ideal) > HARDLY)
}

/// Whether the victim's wait had a cost; the same measure as for weights.
fn is_felt(case: &Case<'_>, hit: &Hit) -> bool {
    match case.ledger.account(hit.victim) {
        Some(account) => impact::is_felt(case, hit.victim, account, hit.lost),
        None => !case.is_kernel_thread(hit.victim),
    }
}

fn class(case: &Case<'_>, actors: &[ActorId]) -> Policy {
    let is_deadline = actors.iter().any(|id| case.actor(*id).policy() == Some(Policy::Deadline));
    if is_deadline { Policy::Deadline } else { Policy::Rt }
}

/// The longest time without a gap that this family certainly kept the victim waiting. Its members may run one after another
/// without a gap: take the victim's longest stretch behind real-time tasks minus all that other families can have had of it.
fn stall(case: &Case<'_>, hit: &Hit, taken: &Taken) -> Nanos {
    let by_class = taken.by_class.get(&hit.victim).copied().unwrap_or(Nanos::ZERO);
    let by_others = by_class.saturating_sub(hit.lost);
    let stretch = case.ledger.account(hit.victim).map(|account| {
        [Rule::Class, Rule::Priority]
            .map(|rule| account.longest_by_rule[rule as usize])
            .into_iter()
            .fold(Nanos::ZERO, Nanos::max)
    });
    let theirs = stretch.map_or(Nanos::ZERO, |stretch| stretch.saturating_sub(by_others));
    hit.stay.max(theirs).min(hit.lost)
}

/// The victims of the kind to name: the one with the largest loss including price, but prefer a kernel worker that lost about as
/// much. Sorts `hits`, worst first.
fn worst_kind(case: &Case<'_>, hits: &mut [Hit], had: Nanos, taken: &Taken) -> Option<Vec<ActorId>> {
    let most = hits.iter().map(|hit| hit.lost).max()?;
    let enough = Nanos((most.0 as f64 * ABOUT_AS_MUCH) as u64);
    hits.sort_by_cached_key(|hit| {
        // The more severe names the finding, not housekeeping that nobody noticed.
        let severity = severity(case, hit, had, stall(case, hit, taken));
        let felt = is_felt(case, hit) || severity > Some(Severity::Info);
        let worker = hit.lost >= enough && case.is_kernel_worker(hit.victim) && felt;
        Reverse((severity, worker, felt, hit.lost + price_of(case, hit), hit.victim))
    });
    let first = hits.first()?.victim;
    Some(hits.iter().map(|hit| hit.victim).filter(|victim| same_kind(case, first, *victim)).collect())
}

/// The part of the price for the victim's waits that is due to this family; other occupants may have caused most of its waits.
fn price_of(case: &Case<'_>, hit: &Hit) -> Nanos {
    let waited = case.ledger.account(hit.victim).map_or(Nanos::ZERO, |account| account.waited);
    Nanos((case.price(hit.victim).0 as f64 * hit.lost.share_of(waited).min(1.0)) as u64)
}

/// Workers of one sort with the same work are one kind; so are threads of one name, and the actors that one thread was over time.
fn same_kind(case: &Case<'_>, a: ActorId, b: ActorId) -> bool {
    if a == b {
        return true;
    }
    match (case.kernel_thread(a), case.kernel_thread(b)) {
        (one @ Some(_), other @ Some(_)) => {
            VictimKind::from(one) == VictimKind::from(other)
                && case.actor(a).prio() == case.actor(b).prio()
                && case.work(a) == case.work(b)
        }
        (None, None) => case.name(case.mainly(a)) == case.name(case.mainly(b)),
        _ => false,
    }
}

fn period_of_runs(case: &Case<'_>, actors: &[ActorId]) -> Option<Period> {
    let accounts = actors.iter().filter_map(|actor| case.ledger.account(*actor));
    Episodes::merged(accounts.map(|account| &account.runs.episodes)).period(case.world.start, case.world.now)
}

fn evidence(
    case: &Case<'_>,
    victims: &[ActorId],
    intruder: &[ActorId],
    share: f64,
    period: Option<Period>,
    also: &[&Hit],
) -> Vec<Claim> {
    let mut evidence: Vec<Claim> = Vec::new();
    let prio = |actors: &[ActorId]| actors.first().and_then(|id| case.actor(*id).prio());
    let prios = prio(victims).zip(prio(intruder));
    evidence.extend(prios.map(|(low, high)| RealTimeClaim::Precedence { high, low }.into()));
    let rule = match prios {
        Some((low, high)) if low == high => Rule::Order,
        Some((low, high)) if low.policy() == high.policy() => Rule::Priority,
        _ => Rule::Class,
    };
    evidence.push(RealTimeClaim::KeptOffBy { share: Share(share), rule }.into());
    let recurs = |period: Period| RealTimeClaim::Recurs { every: period.interval, seen: period.occurrences };
    evidence.extend(period.map(|period| recurs(period).into()));
    evidence.extend(WaitClaim::also_behind(case, also.iter().map(|hit| (hit.victim, hit.lost))));
    evidence
}
