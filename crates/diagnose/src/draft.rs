//! Builds a finding in the report from what its own module found: blame rows, payers, losses, confidence.

use rustc_hash::FxHashSet;
use unstarve_model::{EventType, Loss, LossKind, Nanos, Tid};
use unstarve_sched::Rule;
use unstarve_timeline::{ActorId, CpuEnd, OpenWait};

use crate::case::{Blame, Case};
use crate::certainty::Certainty;
use crate::claim::{Actors, Claim, Headline, Kind, Unproved, WaitClaim};
use crate::finding::FindingKind;
use crate::ledger::{Episodes, Period, Quantiles};
use crate::report::{Culprit, Finding, Instance, Missing, PricePaid, Remedy, Severity, Victim, Waits, worst_at};
use crate::throughout::Throughouts;
use crate::verdict::NEVER_HEALTHY;
use crate::words::{self, Verb};

/// Maximum rows of one list in a report; the rest is summed in one more row per rule.
const ROWS: usize = 64;
/// Maximum thread ids listed in one row.
const TIDS: usize = 128;
/// Maximum worst instances listed with a finding.
const WORST: usize = 8;
/// Maximum payers listed with a finding.
const PAYERS: usize = 12;

/// A finding under construction: what only its own module knows. [`Draft::finish`] derives the rest from victims and culprits.
pub(crate) struct Draft {
    pub kind: FindingKind,
    pub severity: Severity,
    /// Before losses lower it.
    pub confidence: f64,
    pub headline: Headline,
    /// Worst first; the first names the finding.
    pub victims: Vec<ActorId>,
    pub evidence: Vec<Claim>,
    /// Payers in addition to those that slept until a victim woke them.
    pub also_paid: Vec<PricePaid>,
    pub period: Option<Period>,
    /// Kinds of events that could have contradicted the finding.
    pub needs: &'static [EventType],
    /// Whether it infers something that a host snapshot would show.
    pub infers_settings: bool,
    pub remedies: Vec<Remedy>,
}

impl Draft {
    pub fn new(kind: FindingKind, severity: Severity, confidence: f64, headline: impl Into<Headline>) -> Draft {
        Draft {
            kind,
            severity,
            confidence,
            headline: headline.into(),
            victims: Vec::new(),
            evidence: Vec::new(),
            also_paid: Vec::new(),
            period: None,
            needs: kind.needs,
            infers_settings: false,
            remedies: Vec::new(),
        }
    }

    /// Builds the finding. `culprit` selects the part of the blame that is the cause.
    pub fn finish(mut self, case: &Case<'_>, culprit: impl Fn(&Blame) -> bool) -> Finding {
        let all: Vec<Blame> = self.victims.iter().flat_map(|victim| case.blame(*victim)).copied().collect();
        let guilty: Vec<Blame> =
            all.iter().copied().filter(|blame| culprit(blame) && !case.is_observer(blame.occupant)).collect();
        let mut price = paid(case, &self.victims);
        // A thread that waits for a CPU does not sleep at the same time, so the sum counts no nanosecond twice.
        std::mem::take(&mut self.also_paid).into_iter().for_each(|payer| add_payer(&mut price, payer));
        price.sort_by_key(|payer| std::cmp::Reverse(payer.ns));
        price.truncate(PAYERS);
        let throughout = Throughouts::of(case, &self.victims);
        let mut evidence = std::mem::take(&mut self.evidence);
        evidence.extend(still_waiting(case, &self.victims).map(Claim::from));
        evidence.extend(throughout.evidence().map(Claim::from));
        let unproved = unproved(case, &self.victims);
        let losses = losses_against(case, self.needs, self.infers_settings, throughout.guessed);
        let missing: Vec<Missing> =
            losses.iter().copied().cloned().chain(by_name_alone(case, &self.victims)).map(Missing::from).collect();
        let guilty_actors: Vec<ActorId> = guilty.iter().map(|blame| blame.occupant).collect();
        let certainty = Certainty::of(case, &self, &losses);
        let confidence = certainty.confidence;
        let culprits = rows(case, guilty);
        let worst = worst(case, &self.victims, &culprits, &culprit);
        let severity = throughout.temper(self.severity);
        // What the wait is called does not depend on how certain it is.
        let halves = self.headline.in_words(Verb::of(severity));
        let severity = severity.min(worst_at(confidence));
        Finding {
            id: self.kind.into(),
            severity,
            confidence,
            sentence: words::sentence(throughout.never_ran().as_ref(), &halves, unproved.as_ref()),
            headline: words::headline(throughout.never_ran().as_ref(), &halves),
            why: self.headline.why().map(str::to_owned),
            selected_as: None,
            doubt: certainty.doubt(),
            victim: victim(case, &self.victims, &guilty_actors),
            lists_all: worst.len() < WORST && has_all(case, &self.victims, &culprits),
            worst,
            culprits,
            blame: rows(case, all),
            waits: waits(case, &self.victims),
            cpus: cpus(case, &self.victims),
            period_ns: self.period.map(|period| period.interval.0),
            price,
            evidence: words::evidence(&evidence),
            losses: missing.iter().map(|missing| missing.text.clone()).collect(),
            missing,
            remedies: self.remedies,
            actors: self.victims,
        }
    }
}

impl Finding {
    /// The same finding with one culprit, which caused the waits by what it did earlier, not by having the CPU during them.
    pub(crate) fn blamed_on(self, case: &Case<'_>, culprit: ActorId, rule: Rule, length: Nanos) -> Finding {
        let culprits = rows(case, vec![Blame { occupant: culprit, rule, length }]);
        let worst = self.worst.into_iter().map(|instance| Instance { culprit: None, ..instance }).collect();
        Finding { culprits, worst, ..self }
    }
}

/// The longest unfinished wait, if less than half of it is proved.
fn unproved(case: &Case<'_>, victims: &[ActorId]) -> Option<Unproved> {
    let open = |id: &ActorId| case.ledger.account(*id)?.open.as_deref();
    let spot = victims.iter().filter_map(open).max_by_key(|spot| spot.open.possible)?;
    let OpenWait { proved, possible, end, .. } = spot.open;
    let is_unproved = end == CpuEnd::Believed && possible >= NEVER_HEALTHY && proved < Nanos(possible.0 / 2);
    is_unproved.then_some(Unproved { proved, possible, cpu: spot.cpu })
}

/// Evidence about the longest wait that was not over at the end of the recording.
fn still_waiting(case: &Case<'_>, victims: &[ActorId]) -> Option<WaitClaim> {
    let open = |id: &ActorId| Some((case.ledger.account(*id)?.open.as_deref()?, *id));
    let (spot, id) = victims.iter().filter_map(open).max_by_key(|(spot, id)| (spot.open.possible, *id))?;
    let OpenWait { proved, possible, holder, end, .. } = spot.open;
    if matches!(end, CpuEnd::Refuted) || possible < Nanos::from_millis(1) {
        return None;
    }
    Some(WaitClaim::StillWaiting {
        who: Kind::thread(case, id, spot.tid),
        cpu: spot.cpu,
        proved,
        possible,
        holder: Actors::of(case, [holder]),
    })
}

/// The waits of several actors, summed.
pub(crate) fn waits(case: &Case<'_>, victims: &[ActorId]) -> Waits {
    let mut sum = Waits::default();
    let mut quantiles = Quantiles::default();
    for account in victims.iter().filter_map(|victim| case.ledger.account(*victim)) {
        sum.count += account.waits;
        // Times in a damaged trace can have any value: saturate.
        sum.total_ns = sum.total_ns.saturating_add(account.waited.0);
        sum.max_ns = sum.max_ns.max(account.longest.0);
        sum.owed_ns = sum.owed_ns.saturating_add(account.owed().0);
        quantiles.merge(&account.quantiles);
    }
    sum.p99_ns = quantiles.at(0.99).unwrap_or(Nanos::ZERO).0.min(sum.max_ns);
    sum
}

/// The steady interval at which the long waits of these actors recur.
pub(crate) fn period(case: &Case<'_>, victims: &[ActorId]) -> Option<Period> {
    let accounts = victims.iter().filter_map(|victim| case.ledger.account(*victim));
    Episodes::merged(accounts.map(|account| &account.episodes)).period(case.world.start, case.world.now)
}

fn by_name_alone(case: &Case<'_>, victims: &[ActorId]) -> Option<Loss> {
    let first = *case.named(victims).first()?;
    let name = case.is_kernel_thread_by_name_alone(first).then(|| case.name(first))?;
    Some(Loss::new(LossKind::NameOnly, 1).with_detail(name))
}

fn victim(case: &Case<'_>, victims: &[ActorId], culprits: &[ActorId]) -> Victim {
    let named = case.named(victims);
    let Some(first) = named.first().copied() else {
        return Victim::default();
    };
    let actor = case.actor(first);
    // A thread that waited under one actor and later became a culprit is listed as a culprit, unless there is no other victim.
    let turned: Vec<u32> = culprits
        .iter()
        .filter(|id| !victims.contains(id))
        .flat_map(|id| case.actor(*id).tids.iter().map(|tid| tid.0))
        .collect();
    let all = tids(case, named.iter().copied());
    let others: Vec<u32> = all.iter().copied().filter(|tid| !turned.contains(tid)).collect();
    let tids = if others.is_empty() { all.clone() } else { others };
    let left_out = (all.len() - tids.len()) as u32;
    Victim {
        kind: case.kernel_thread(first).into(),
        comm: case.name(first),
        tgids: processes(case, &tids),
        cgroups: cgroups(case, &tids),
        kernel_thread: case.shown_to_be_kernel(victims),
        all_known: case.knows_all(&tids),
        tasks: members(case, named.iter().copied()).saturating_sub(left_out),
        tids,
        policy: actor.policy(),
        prio: actor.prio().map(|prio| prio.0),
        scheduled: case.scheduled(first),
        work: case.work(first),
    }
}

fn tids(case: &Case<'_>, actors: impl Iterator<Item = ActorId>) -> Vec<u32> {
    let mut tids: Vec<u32> = actors.flat_map(|id| case.actor(id).tids.iter().map(|tid| tid.0)).collect();
    tids.sort_unstable();
    tids.dedup();
    tids.truncate(TIDS);
    tids
}

/// Maximum cgroups listed in one row.
const CGROUPS: usize = 8;

/// The processes of these threads, if the snapshot has them.
fn processes(case: &Case<'_>, tids: &[u32]) -> Vec<u32> {
    let mut tgids: Vec<u32> = tids.iter().filter_map(|tid| case.process_of(Tid(*tid))).map(|tgid| tgid.0).collect();
    tgids.sort_unstable();
    tgids.dedup();
    tgids
}

/// The cgroups of these threads, if the snapshot has them; the first few in path order.
fn cgroups(case: &Case<'_>, tids: &[u32]) -> Vec<String> {
    let mut paths: Vec<String> = tids.iter().filter_map(|tid| case.cgroup_of(Tid(*tid))).collect();
    paths.sort_unstable();
    paths.dedup();
    paths.truncate(CGROUPS);
    paths
}

/// The number of tasks of these actors. A listed task that belonged to several of them counts once.
pub(crate) fn members(case: &Case<'_>, actors: impl Iterator<Item = ActorId>) -> u32 {
    let (mut listed, mut unlisted) = (FxHashSet::default(), 0u32);
    for actor in actors.map(|id| case.actor(id)) {
        listed.extend(actor.tids.iter().copied());
        unlisted = unlisted.saturating_add(actor.members.saturating_sub(actor.tids.len() as u32));
    }
    unlisted.saturating_add(listed.len() as u32)
}

/// Blame as rows of the report: actors with the same name, priority and rule share one row. At most [`ROWS`], plus one remainder
/// per rule, so that the rows always add up to the blame.
pub(crate) fn rows(case: &Case<'_>, blame: Vec<Blame>) -> Vec<Culprit> {
    let mut rows: Vec<(Culprit, Vec<ActorId>)> = Vec::new();
    let mut known = rustc_hash::FxHashMap::default();
    for blame in blame {
        let actor = case.actor(blame.occupant);
        let key = (case.name(blame.occupant), actor.prio(), blame.rule);
        let index = *known.entry(key.clone()).or_insert_with(|| {
            let mut new = row(key.0, blame.rule);
            new.policy = actor.policy();
            new.prio = actor.prio().map(|prio| prio.0);
            new.scheduled = case.scheduled(blame.occupant);
            rows.push((new, Vec::new()));
            rows.len() - 1
        });
        rows[index].0.ns = rows[index].0.ns.saturating_add(blame.length.0);
        rows[index].1.push(blame.occupant);
    }
    rows.sort_by(|(a, _), (b, _)| (b.ns, &a.comm, a.rule.word(), a.prio).cmp(&(a.ns, &b.comm, b.rule.word(), b.prio)));
    let rest = rows.split_off(rows.len().min(ROWS));
    let mut shown: Vec<Culprit> = rows
        .into_iter()
        .map(|(mut row, mut actors)| {
            actors.sort_unstable();
            actors.dedup();
            row.kernel_thread = case.shown_to_be_kernel(&actors);
            let actors = case.named(&actors);
            row.tasks = members(case, actors.iter().copied());
            row.tids = tids(case, actors.into_iter());
            row.tgids = processes(case, &row.tids);
            row.cgroups = cgroups(case, &row.tids);
            row.all_known = !row.tids.is_empty() && case.knows_all(&row.tids);
            row
        })
        .collect();
    for rule in Rule::ALL {
        let ns: u64 = rest.iter().filter(|(row, _)| row.rule == rule).map(|(row, _)| row.ns).sum();
        if ns > 0 {
            shown.push(Culprit { ns, ..row("others".into(), rule) });
        }
    }
    shown
}

fn row(comm: String, rule: Rule) -> Culprit {
    Culprit { comm, rule, ..Culprit::default() }
}

/// Payers that slept while these actors waited, and were then woken by them.
fn paid(case: &Case<'_>, victims: &[ActorId]) -> Vec<PricePaid> {
    let mut payers: Vec<PricePaid> = Vec::new();
    for &victim in victims {
        for &(payer, length) in case.payers(victim).iter().filter(|(payer, _)| !victims.contains(payer)) {
            let through_device = case.price_through_device(victim, payer);
            add_payer(&mut payers, PricePaid { through_device_ns: through_device.0, ..sleeper(case, payer, length) });
        }
    }
    payers
}

/// A payer that slept.
fn sleeper(case: &Case<'_>, payer: ActorId, length: Nanos) -> PricePaid {
    let tids = tids(case, [payer].into_iter());
    PricePaid {
        comm: case.name(payer),
        tasks: case.actor(payer).members,
        ns: length.0,
        waited_ns: 0,
        through_device_ns: 0,
        tgids: processes(case, &tids),
        cgroups: cgroups(case, &tids),
        tids,
    }
}

/// A payer that waited for a CPU behind the same culprits.
pub(crate) fn payer_row(case: &Case<'_>, payer: ActorId, length: Nanos) -> PricePaid {
    PricePaid { waited_ns: length.0, ..sleeper(case, payer, length) }
}

/// Adds a payer to the row with the same name, if there is one.
pub(crate) fn add_payer(payers: &mut Vec<PricePaid>, new: PricePaid) {
    match payers.iter_mut().find(|known| known.comm == new.comm) {
        Some(known) => {
            known.ns = known.ns.saturating_add(new.ns);
            known.waited_ns = known.waited_ns.saturating_add(new.waited_ns);
            known.through_device_ns = known.through_device_ns.saturating_add(new.through_device_ns);
            let room = TIDS.saturating_sub(known.tids.len());
            let fresh: Vec<u32> = new.tids.into_iter().filter(|tid| !known.tids.contains(tid)).take(room).collect();
            let listed = known.tids.len() + fresh.len();
            known.tids.extend(fresh);
            known.tasks = known.tasks.max(new.tasks).max(listed as u32);
            known.tgids.extend(new.tgids);
            known.tgids.sort_unstable();
            known.tgids.dedup();
            known.cgroups.extend(new.cgroups);
            known.cgroups.sort_unstable();
            known.cgroups.dedup();
            known.cgroups.truncate(CGROUPS);
        }
        None => payers.push(new),
    }
}

pub(crate) fn cpus(case: &Case<'_>, victims: &[ActorId]) -> Vec<u32> {
    let accounts: Vec<_> = victims.iter().filter_map(|victim| case.ledger.account(*victim)).collect();
    (0..case.world.cpus)
        .filter(|cpu| accounts.iter().any(|account| account.cpus.contains(unstarve_model::CpuId(*cpu))))
        .collect()
}

/// The longest waits of which most is the culprits' blame. Empty for a finding whose cause is never most of a wait: an instance
/// that shows another occupant would mislead.
fn worst(
    case: &Case<'_>,
    victims: &[ActorId],
    culprits: &[Culprit],
    culprit: &impl Fn(&Blame) -> bool,
) -> Vec<Instance> {
    let accounts = victims.iter().filter_map(|victim| case.ledger.account(*victim));
    let is_theirs = |(length, spot): &(Nanos, &crate::ledger::Spot)| {
        spot.is_mostly(|occupant, rule| culprit(&Blame { occupant, rule, length: *length }))
    };
    let mut spots: Vec<_> = accounts.flat_map(|account| account.worst.sorted()).filter(is_theirs).collect();
    spots.sort_by_key(|(length, spot)| (std::cmp::Reverse(*length), spot.start));
    spots.truncate(WORST);
    let main = |length: Nanos, spot: &crate::ledger::Spot| {
        let (occupant, rule) = spot.main(|occupant, rule| culprit(&Blame { occupant, rule, length }))?;
        let (name, prio) = (case.name(occupant), case.actor(occupant).prio().map(|prio| prio.0));
        let is_it = |row: &Culprit| row.comm == name && row.prio == prio && row.rule == rule;
        culprits.iter().position(is_it).and_then(|place| u32::try_from(place).ok())
    };
    let instance = |(length, spot): (Nanos, &crate::ledger::Spot)| Instance {
        cpu: spot.cpu.0,
        start_ns: spot.start.0,
        end_ns: spot.end.0,
        start_utc: case.utc(spot.start),
        tid: Some(spot.tid.0),
        culprit: main(length, spot),
    };
    spots.into_iter().map(instance).collect()
}

/// Whether the ledger kept all waits whose main reason is one of the culprits' rules.
fn has_all(case: &Case<'_>, victims: &[ActorId], culprits: &[Culprit]) -> bool {
    let rules = || Rule::ALL.into_iter().filter(|rule| culprits.iter().any(|row| row.rule == *rule));
    let accounts = victims.iter().filter_map(|victim| case.ledger.account(*victim));
    !culprits.is_empty() && accounts.into_iter().all(|account| rules().all(|rule| account.worst.has_all(rule)))
}

/// Losses that could overturn the finding.
fn losses_against<'a>(case: &Case<'a>, needs: &[EventType], infers_settings: bool, guesses: bool) -> Vec<&'a Loss> {
    case.losses
        .iter()
        .filter(|loss| match loss.kind {
            LossKind::NotRecorded(event) | LossKind::Malformed(event) => {
                event == EventType::Switch || needs.contains(&event)
            }
            LossKind::NoSnapshot => infers_settings,
            LossKind::TooManyNames | LossKind::OtherRecordings => false,
            LossKind::SilentTasks => guesses,
            _ => true,
        })
        .collect()
}
