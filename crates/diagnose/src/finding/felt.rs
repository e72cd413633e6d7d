//! One scale for what settings take from tasks: weights and limits.
//!
//! Nobody chose at that moment that this task should wait; a setting did, mostly one that was made for other reasons.
//! It is as bad as what was felt of it, which is the worse of two things: the part of the trace that was lost, and the
//! longest single stall, whatever the trace's length. `docs/blame.md`, "How bad", is the contract.

use unstarve_model::{KernelThread, Nanos};
use unstarve_timeline::ActorId;

use super::FAIR_PERIOD;
use crate::case::Case;
use crate::ledger::Account;
use crate::report::Severity;

/// What one cause took from one victim, or through it from others.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Felt {
    /// Time that was due and not given, or lost in stalls, or lost by one who waited for the victim.
    pub lost: Nanos,
    /// The longest time in one wait.
    pub stall: Nanos,
}

/// Lost time counts from this part of the trace: 1 % of a CPU is what fair sharing rounds off.
const LOST_INFO: f64 = 0.01;
/// A task that does not get a twentieth of the trace is held back for good.
const LOST_WARNING: f64 = 0.05;
/// A fifth of a CPU that somebody needed.
const LOST_CRITICAL: f64 = 0.2;
/// Of a trace of a few milliseconds every part is a large one: less than one period of fair scheduling is a remark.
const LOST_AT_LEAST: Nanos = FAIR_PERIOD;
/// Two such periods in one wait are beyond anything that sharing among equals does.
const STALL_WARNING: Nanos = Nanos(FAIR_PERIOD.0 * 2);
/// A person notices a quarter of a second.
const STALL_CRITICAL: Nanos = Nanos(FAIR_PERIOD.0 * 10);
/// For a kernel thread's wait to be felt, others (or its own work) must have lost this part of it.
const FELT: f64 = 0.1;

pub(super) fn severity(felt: Felt, span: Nanos) -> Option<Severity> {
    let share = felt.lost.share_of(span);
    let enough = felt.lost >= LOST_AT_LEAST;
    if felt.stall >= STALL_CRITICAL || enough && share >= LOST_CRITICAL {
        Some(Severity::Critical)
    } else if felt.stall >= STALL_WARNING || enough && share >= LOST_WARNING {
        Some(Severity::Warning)
    } else {
        (share >= LOST_INFO).then_some(Severity::Info)
    }
}

/// A program's wait is felt by its users. A kernel thread's is if it had much to do itself, or if somebody slept
/// until it was done; housekeeping that runs later harms nobody.
pub(super) fn is_felt(case: &Case<'_>, victim: ActorId, account: &Account, lost: Nanos) -> bool {
    !case.is_kernel_thread(victim) || (price(case, victim) + account.starved()).0 as f64 >= FELT * lost.0 as f64
}

/// Who slept because the victim waited, most first. The stop class sleeps until it is called, which costs nobody anything.
pub(super) fn payers<'a>(case: &'a Case<'_>, victim: ActorId) -> impl Iterator<Item = (ActorId, Nanos)> + 'a {
    let is_stopper = |id: ActorId| case.actor(id).kernel_thread == Some(KernelThread::Migration);
    case.payers(victim).iter().copied().filter(move |(payer, _)| !is_stopper(*payer))
}

/// What the victim's waits cost those.
pub(super) fn price(case: &Case<'_>, victim: ActorId) -> Nanos {
    payers(case, victim).map(|(_, length)| length).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lost_ms: u64, stall_ms: u64, span_ms: u64) -> Option<Severity> {
        let felt = Felt { lost: Nanos::from_millis(lost_ms), stall: Nanos::from_millis(stall_ms) };
        severity(felt, Nanos::from_millis(span_ms))
    }

    #[test]
    fn a_long_stall_counts_however_long_the_trace_is() {
        assert_eq!(of(1400, 1400, 1500), Some(Severity::Critical));
        assert_eq!(of(1400, 1400, 600_000), Some(Severity::Critical));
        assert_eq!(of(60, 60, 600_000), Some(Severity::Warning));
        assert_eq!(of(40, 40, 600_000), None);
    }

    #[test]
    fn a_large_part_of_a_tiny_trace_is_no_alarm() {
        assert_eq!(of(2, 2, 3), Some(Severity::Info));
        assert_eq!(of(200, 20, 1000), Some(Severity::Critical));
        assert_eq!(of(60, 20, 1000), Some(Severity::Warning));
    }
}
