//! A cgroup with a CPU quota and the kernel's counters of its throttling.

use std::sync::Arc;

use unstarve_facts::{Bandwidth, Throttled};
use unstarve_model::Time;

use super::RoleId;

/// A group with a CPU quota.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LimitedGroup {
    /// Path below the root of the hierarchy; groups at any level can have a quota.
    pub path: Arc<str>,
    /// The role as which the group's programs are counted.
    pub role: RoleId,
    /// The quota.
    pub limit: Bandwidth,
    /// The kernel's counters of throttling since the group was created; updated when a throttling ends.
    pub counted: Throttled,
    /// When the counters had these values, on the clock of readings: not all counters are read each time.
    pub read: Time,
}

/// Divides `amount` in proportion to the parts; no share exceeds its part.
pub(crate) fn shares(parts: &[u64], amount: u64) -> Vec<u64> {
    let whole: u128 = parts.iter().map(|part| u128::from(*part)).sum();
    let amount = u128::from(amount).min(whole);
    // Computed from running totals, so that rounding errors cancel.
    let (mut before, mut given) = (0_u128, 0_u128);
    let share = |part: &u64| {
        before += u128::from(*part);
        let so_far = amount.saturating_mul(before).checked_div(whole).unwrap_or(0);
        let share = so_far - given;
        given = so_far;
        u64::try_from(share).unwrap_or(u64::MAX).min(*part)
    };
    parts.iter().map(share).collect()
}
