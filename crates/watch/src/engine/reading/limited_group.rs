use std::sync::Arc;

use unstarve_facts::{Bandwidth, Throttled};
use unstarve_model::Time;

use super::RoleId;

/// A group that may have no more than so much CPU time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LimitedGroup {
    /// Its path below the root of its hierarchy; not only groups at the top have limits.
    pub path: Arc<str>,
    /// As what its programs are counted.
    pub role: RoleId,
    /// What it may have.
    pub limit: Bandwidth,
    /// What the kernel has counted of its stops since the group was made, at the end of each.
    pub counted: Throttled,
    /// When that was so, on the clock of readings: not all counters are read each time.
    pub read: Time,
}

/// So much of each part as it has of their sum, `amount` together; no part gives more than it has.
pub(crate) fn shares(parts: &[u64], amount: u64) -> Vec<u64> {
    let whole: u128 = parts.iter().map(|part| u128::from(*part)).sum();
    let amount = u128::from(amount).min(whole);
    // Shares of what has come so far, so that rounding adds up.
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
