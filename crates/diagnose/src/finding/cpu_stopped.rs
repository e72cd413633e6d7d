//! The CPU itself did not run while a task waited for it: a hypervisor or firmware had it, or interrupts were off.

use std::cmp::Reverse;

use unstarve_model::{CpuId, EventType, Nanos};
use unstarve_timeline::ActorId;

use super::FindingKind;
use crate::case::{Blame, Case};
use crate::claim::{Alike, CpuClaim, CpuHeadline, Kind, WaitClaim};
use crate::draft::{Draft, payer_row};
use crate::remedy;
use crate::report::{Finding, Severity};
use crate::verdict::{self, Cause};

/// What this module finds.
pub(super) const KIND: FindingKind = FindingKind {
    id: "cpu-stopped",
    title: "a CPU did not run itself while tasks waited for it",
    about: "Its tick came steadily, stayed away for many periods while the same task was current, and no other event of the CPU came: a \
            hypervisor gave the CPU to another guest (steal), firmware had it (SMI), or interrupts were off. No weight, class or turn \
            explains what waited meanwhile. It takes ticks in the recording (`timer:hrtimer_expire_entry`, \
            `irq_vectors:local_timer_entry`; in text also the interrupt of ARM's timer), which `unstarve record` leaves out, and another \
            CPU that was heard meanwhile.",
    needs: &[EventType::Waking],
    snapshot: None,
    find: |case, _| find(case).into_iter().collect(),
};

/// A victim that waited for a CPU that did not run.
struct Halted {
    victim: ActorId,
    longest: Nanos,
    lost: Nanos,
    severity: Severity,
}

pub(super) fn is_stop(blame: &Blame) -> bool {
    blame.occupant == ActorId::STOPPED
}

fn halted(case: &Case<'_>, victim: ActorId) -> Option<Halted> {
    let longest = case.ledger.longest_stop(victim)?;
    let lost = case.blamed(victim, is_stop);
    let severity = verdict::severity(&case.plight(victim, Cause::CpuStopped, longest, lost))?;
    Some(Halted { victim, longest, lost, severity })
}

/// Whether a hypervisor had the CPU: it took at least half of what the victim lost, on one of the CPUs where that waited.
fn stolen(case: &Case<'_>, worst: &Halted) -> Option<CpuClaim> {
    let waited_on = &case.ledger.account(worst.victim)?.cpus;
    let cpus = (0..case.world.cpus).map(CpuId).filter(|cpu| waited_on.contains(*cpu));
    let (time, cpu) = cpus.filter_map(|cpu| Some((case.stolen(cpu)?, cpu))).max()?;
    (time >= Nanos(worst.lost.0 / 2)).then_some(CpuClaim::Stolen { cpu, time })
}

fn find(case: &Case<'_>) -> Option<Finding> {
    let mut all: Vec<Halted> = case.victims().filter_map(|(victim, _)| halted(case, victim)).collect();
    all.sort_by_key(|halted| Reverse((halted.severity, halted.longest, Reverse(halted.victim))));
    let (worst, others) = all.split_first()?;
    let stolen = stolen(case, worst);
    let mut evidence = vec![
        CpuClaim::TicksStopped.into(),
        stolen.clone().unwrap_or(CpuClaim::StopCauses).into(),
        WaitClaim::ShareOfRecording(case.share(worst.lost)).into(),
    ];
    evidence.extend(WaitClaim::also(case, Alike::WaitedForCpu, others.iter().map(|other| other.victim)));
    let headline =
        CpuHeadline::Stopped { who: Kind::of(case, &[worst.victim]), longest: worst.longest, lost: worst.lost };
    let draft = Draft {
        victims: vec![worst.victim],
        evidence,
        also_paid: others.iter().map(|other| payer_row(case, other.victim, other.lost)).collect(),
        remedies: remedy::against_stopped_cpu(stolen.is_some()),
        ..Draft::new(KIND, worst.severity, if stolen.is_some() { 0.95 } else { 0.8 }, headline)
    };
    Some(draft.finish(case, is_stop))
}
