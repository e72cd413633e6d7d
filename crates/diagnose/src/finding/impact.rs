//! How much time settings (weights, quotas) take from tasks, and how much of that had an effect.
//!
//! A setting made these tasks wait, usually one made for another reason. The table in [`crate::verdict`] decides how bad that is.

use unstarve_model::Nanos;
use unstarve_timeline::ActorId;

use crate::case::Case;
use crate::ledger::Account;
use crate::report::Severity;
use crate::verdict::{self, Cause, Plight, Waiter};

/// What one cause took from a victim, or through it from others.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Felt {
    /// Time that was due and not given, lost in stalls, or lost by a task that waited for the victim.
    pub lost: Nanos,
    /// The longest time in one wait.
    pub stall: Nanos,
}

/// For a kernel thread's wait to have an effect, payers and its own pending work must have lost this part of it.
const FELT: f64 = 0.1;

/// The severity for a program, from the verdict table.
pub(super) fn severity(felt: Felt, cause: Cause, span: Nanos) -> Option<Severity> {
    verdict::severity(&Plight::new(Waiter::Program, cause, felt.stall, felt.lost, span))
}

/// Whether the wait had an effect. A program's wait affects its users. A kernel thread's wait does if it had much work of its
/// own, or if a task slept until it was done; housekeeping that runs later harms nobody.
pub(crate) fn is_felt(case: &Case<'_>, victim: ActorId, account: &Account, lost: Nanos) -> bool {
    !case.is_kernel_thread(victim) || (price(case, victim) + account.starved()).0 as f64 >= FELT * lost.0 as f64
}

/// Whether payers lost enough of it for an effect.
pub(crate) fn is_paid_for(case: &Case<'_>, victim: ActorId, lost: Nanos) -> bool {
    lost > Nanos::ZERO && price(case, victim).0 as f64 >= FELT * lost.0 as f64
}

/// Tasks that slept because the victim waited, longest first. Without the stop class: it sleeps until it is called, at no cost.
pub(super) fn payers<'a>(case: &'a Case<'_>, victim: ActorId) -> impl Iterator<Item = (ActorId, Nanos)> + 'a {
    case.payers(victim).iter().copied().filter(move |(payer, _)| !case.is_stopper(*payer))
}

/// What the victim's waits cost these payers.
pub(crate) fn price(case: &Case<'_>, victim: ActorId) -> Nanos {
    payers(case, victim).map(|(_, length)| length).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lost_ms: u64, stall_ms: u64, span_ms: u64) -> Option<Severity> {
        let felt = Felt { lost: Nanos::from_millis(lost_ms), stall: Nanos::from_millis(stall_ms) };
        severity(felt, Cause::Weight, Nanos::from_millis(span_ms))
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
