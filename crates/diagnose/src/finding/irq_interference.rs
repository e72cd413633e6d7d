//! Hard interrupts or softirqs take the CPU from a task for long or often.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use unstarve_model::{EventType, Nanos};
use unstarve_sched::{KernelThread, Rule};
use unstarve_timeline::{ActorId, ActorKind};

use super::FindingKind;
use crate::case::{Blame, Case};
use crate::claim::{Actors, Claim, CpuClaim, CpuHeadline, InterruptCost, Kind, Share};
use crate::draft::Draft;
use crate::ledger::Account;
use crate::remedy;
use crate::report::{Finding, Severity};
use crate::verdict::{self, Cause, Plight};

/// A task must run or wait for this part of the trace; a task that hardly wants the CPU shows no interference.
const ACTIVE: f64 = 0.1;

/// Softirqs NET_TX and NET_RX, in `include/linux/interrupt.h`.
const OF_PACKETS: [u8; 2] = [2, 3];
/// A device interrupts at least once per this many packet softirqs: it stays masked only while more packets wait than one softirq
/// takes. Exceptions: decision 0540.
const SOFTIRQS_FOR_AN_INTERRUPT: u64 = 64;

/// What this module finds.
pub(super) const KIND: FindingKind = FindingKind {
    id: "irq-interference",
    title: "interrupts or softirqs take the CPU from a task for long or often",
    about: "No priority of a task is above an interrupt. A task that cannot leave the CPU which serves a busy \
            interrupt waits for each of them.",
    needs: &[EventType::IrqEntry, EventType::SoftirqEntry],
    snapshot: None,
    find: |case, _| find(case),
};

pub(crate) fn find(case: &Case<'_>) -> Vec<Finding> {
    // Runners, not only victims: a busy poller may never wait.
    let mut findings: Vec<Finding> = case
        .runners()
        .filter(|(id, _)| !serves_softirqs(case, *id))
        .filter(|(_, account)| (account.waited + account.runs.total).share_of(case.span()) >= ACTIVE)
        .filter_map(|(victim, account)| of_victim(case, victim, account))
        .collect();
    findings.extend(stalls(case));
    // Report each interrupt once, with the victim that it hurts most.
    findings.sort_by_key(|finding| (Reverse(finding.severity), Reverse(guilty(finding))));
    let mut seen: Vec<String> = Vec::new();
    findings.retain(|finding| {
        let cause = finding.culprits.first().map(|culprit| culprit.comm.clone()).unwrap_or_default();
        let new = !seen.contains(&cause);
        seen.push(cause);
        new
    });
    findings
}

fn guilty(finding: &Finding) -> u64 {
    // Times in a damaged trace can have any value: saturate.
    finding.culprits.iter().fold(0, |sum, culprit| sum.saturating_add(culprit.ns))
}

/// Whether it is ksoftirqd: softirqs during its waits do its own work.
fn serves_softirqs(case: &Case<'_>, id: ActorId) -> bool {
    matches!(case.actor(id).kernel_thread, Some(KernelThread::Ksoftirqd { .. }))
}

fn is_interrupt(blame: &Blame) -> bool {
    matches!(blame.rule, Rule::Irq | Rule::Softirq)
}

fn of_victim(case: &Case<'_>, victim: ActorId, account: &Account) -> Option<Finding> {
    let in_waits = case.blamed(victim, is_interrupt);
    let in_runs = account.runs.irq + account.runs.softirq;
    let active = account.waited + account.runs.total;
    // A task woken by an interrupt waits for the end of the handler, which takes nothing from it. Interrupts that do take CPU
    // time also hit its runs, so waits count at most as much as runs.
    let lost = in_runs + in_waits.min(in_runs);
    let share = lost.share_of(active);
    // Single long stretches are found by `stalls`.
    let judged = |cause: Cause| verdict::severity(&Plight { share, ..case.plight(victim, cause, Nanos::ZERO, lost) });
    let by_interrupts = judged(Cause::Interrupts)?;
    let of_host = is_host_traffic(case, victim, account);
    let (cause, severity) = match of_host {
        true => (Cause::HostPackets, judged(Cause::HostPackets)?),
        false => (Cause::Interrupts, by_interrupts),
    };
    Some(finding(case, victim, account, cause, severity, InterruptCost::Share { share: Share(share), of: active }))
}

/// Whether most of what interrupts the victim is packet softirqs without a device interrupt. Such packets come over loopback or
/// veth, and the softirq runs in the sending task. Device interrupts count on all CPUs: RPS may have moved the softirq.
fn is_host_traffic(case: &Case<'_>, victim: ActorId, account: &Account) -> bool {
    let is_packets =
        |id: ActorId| matches!(case.actor(id).kind, ActorKind::Softirq { vec } if OF_PACKETS.contains(&vec));
    let handlers_are_recorded =
        case.ledger.interrupts.iter().any(|((actor, _), _)| matches!(case.actor(actor).kind, ActorKind::Irq { .. }));
    let of_packets = || case.ledger.interrupts.iter().filter(|((actor, _), _)| is_packets(*actor));
    let brought: u64 = of_packets().map(|(_, stays)| stays.after_handler).sum();
    let here: u64 = of_packets()
        .filter(|((_, cpu), _)| account.cpus.is_empty() || account.cpus.contains(*cpu))
        .map(|(_, stays)| stays.count)
        .sum();
    busiest_interrupts(case, victim).first().is_some_and(|id| is_packets(*id))
        && handlers_are_recorded
        && brought.saturating_mul(SOFTIRQS_FOR_AN_INTERRUPT) < here
}

/// Single long stretches.
fn stalls(case: &Case<'_>) -> Vec<Finding> {
    case.victims()
        .filter(|(id, _)| !serves_softirqs(case, *id))
        .filter_map(|(victim, account)| {
            let longest = account.longest_interrupted;
            let severity = verdict::severity(&case.plight(victim, Cause::Interrupts, longest, Nanos::ZERO))?;
            let cost = InterruptCost::InOneWait(longest);
            Some(finding(case, victim, account, Cause::Interrupts, severity, cost))
        })
        .collect()
}

fn finding(
    case: &Case<'_>,
    victim: ActorId,
    account: &Account,
    cause: Cause,
    severity: Severity,
    cost: InterruptCost,
) -> Finding {
    let in_waits: Vec<ActorId> =
        case.blame(victim).iter().filter(|blame| is_interrupt(blame)).map(|blame| blame.occupant).collect();
    let busiest = busiest_interrupts(case, victim);
    let sources = if busiest.is_empty() { &in_waits } else { &busiest };
    let in_runs = account.runs.irq + account.runs.softirq;
    let mut evidence: Vec<Claim> =
        vec![CpuClaim::InterruptsTook { in_runs, in_waits: case.blamed(victim, is_interrupt) }.into()];
    let own_packets = cause == Cause::HostPackets;
    if own_packets {
        evidence.push(CpuClaim::PacketsOfHost.into());
    }
    evidence.extend(busiest.iter().take(3).filter_map(|id| Some(interrupt_evidence(case, *id)?.into())));
    let headline = CpuHeadline::Interrupted {
        who: Kind::of(case, &[victim]),
        by: Actors::of(case, sources.iter().copied()),
        cost,
    };
    // A count is no proof: some devices rarely interrupt.
    let confidence = if own_packets { 0.6 } else { 0.9 };
    let draft = Draft {
        victims: vec![victim],
        evidence,
        remedies: if own_packets {
            remedy::against_own_packets(case, victim)
        } else {
            remedy::against_interrupts(case, victim, sources)
        },
        ..Draft::new(KIND, severity, confidence, headline)
    };
    draft.finish(case, is_interrupt)
}

/// The interrupts on the victim's CPUs, longest total time first.
fn busiest_interrupts(case: &Case<'_>, victim: ActorId) -> Vec<ActorId> {
    let Some(account) = case.ledger.account(victim) else { return Vec::new() };
    let mut sums: FxHashMap<ActorId, Nanos> = FxHashMap::default();
    for ((actor, cpu), stays) in case.ledger.interrupts.iter() {
        // For an actor that never waited no CPUs are known: use all.
        if account.cpus.is_empty() || account.cpus.contains(cpu) {
            *sums.entry(actor).or_default() += stays.total;
        }
    }
    let mut sums: Vec<(ActorId, Nanos)> = sums.into_iter().collect();
    sums.sort_by_key(|(actor, total)| (Reverse(*total), *actor));
    sums.into_iter().map(|(actor, _)| actor).collect()
}

fn interrupt_evidence(case: &Case<'_>, actor: ActorId) -> Option<CpuClaim> {
    let mut on: Vec<_> = case.ledger.interrupts.iter().filter(|((which, _), _)| *which == actor).collect();
    on.sort_by_key(|((_, cpu), stays)| (Reverse(stays.total), *cpu));
    let ((_, cpu), stays) = on.first()?;
    Some(CpuClaim::Interrupt {
        what: Actors::of(case, [actor]),
        count: stays.count,
        cpu: *cpu,
        total: stays.total,
        share: case.share(stays.total),
        longest: stays.longest,
    })
}
