//! What the kernel's fair class decides, as pure functions with the kernel's own names: [`cfs`] before 6.6, [`eevdf`] since.
//!
//! They hold no queue: an engine keeps the entities and asks. Virtual times are nanoseconds in an `i64`, like the kernel's
//! (which wrap around in a `u64`; here they begin at 0).

pub mod cfs;
pub mod eevdf;

use crate::load_weight_of_nice;

/// The load weight of nice 0 (`NICE_0_LOAD`, without the extra 10 bits of 64-bit kernels).
pub const NICE_0_LOAD: u32 = 1024;

/// The least load weight of a cgroup's entity on one CPU (`MIN_SHARES` in kernel/sched/sched.h).
pub const MIN_SHARES: u32 = 2;

/// The largest (`MAX_SHARES`).
pub const MAX_SHARES: u32 = 1 << 18;

const _: () = assert!(NICE_0_LOAD.is_power_of_two());

/// Run time as virtual time of an entity: `delta * NICE_0_LOAD / weight`, rounded down.
///
/// Source: `calc_delta_fair()` in kernel/sched/fair.c, 5.10 to 7.2. The kernel multiplies by an inverse of the weight with 32
/// bits; the results differ by a few parts in a billion.
#[inline]
pub fn calc_delta_fair(delta: i64, weight: u32) -> i64 {
    if weight == NICE_0_LOAD { delta } else { scale(delta, i64::from(NICE_0_LOAD), i64::from(weight.max(1))) }
}

/// What a lag or the rest of a deadline becomes when an entity's weight changes: the same work at another weight.
///
/// Source: `reweight_entity()` in kernel/sched/fair.c of 6.12.117.
pub fn scale_by_weight(value: i64, old: u32, new: u32) -> i64 {
    scale(value, i64::from(old), i64::from(new.max(1)))
}

/// `value * numerator / denominator`, rounded towards 0, without overflow in between.
#[inline]
pub(crate) fn scale(value: i64, numerator: i64, denominator: i64) -> i64 {
    match value.checked_mul(numerator) {
        Some(product) => product / denominator,
        None => {
            let exact = i128::from(value) * i128::from(numerator) / i128::from(denominator);
            exact.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
        }
    }
}

/// The load weight of a cgroup's entity on one CPU: its weight by the part of the group's load that is on this CPU.
///
/// `load` is that of the group's queue here, the larger of its weight now and its mean; `elsewhere` is the mean load of the
/// group on all other CPUs.
///
/// Source: `calc_group_shares()` in kernel/sched/fair.c, 5.10 to 6.12.
pub fn calc_group_shares(weight: u32, load: f64, elsewhere: f64) -> u32 {
    let whole = load + elsewhere.max(0.0);
    let share = if whole > 0.0 { f64::from(weight) * load / whole } else { f64::from(weight) };
    (share as u32).clamp(MIN_SHARES, weight.max(MIN_SHARES))
}

/// What is left of a mean load after this many nanoseconds: half after 32 ms.
///
/// Source: `decay_load()` in kernel/sched/pelt.c, in steps of 1.024 ms there.
pub fn decay_load(mean: f64, nanos: u64) -> f64 {
    const HALF_LIFE: f64 = 32.0 * 1024.0 * 1024.0;
    mean * (-(nanos as f64) / HALF_LIFE).exp2()
}

/// The load weight of a fair task.
///
/// Source: `set_load_weight()` in kernel/sched/core.c: SCHED_IDLE has `WEIGHT_IDLEPRIO`, whatever its nice.
pub fn task_weight(is_idle_policy: bool, nice: i32) -> u32 {
    if is_idle_policy { crate::IDLE_WEIGHT } else { load_weight_of_nice(nice) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heavier_entities_age_more_slowly() {
        let rows: Vec<(u32, i64)> =
            [15, 335, 1024, 9548, 88761].map(|weight| (weight, calc_delta_fair(1_000_000, weight))).to_vec();
        assert_eq!(rows, [(15, 68_266_666), (335, 3_056_716), (1024, 1_000_000), (9548, 107_247), (88761, 11_536)]);
        assert_eq!(calc_delta_fair(i64::MAX / 2, 2), i64::MAX, "clamped, not wrapped");
    }

    #[test]
    fn a_group_has_on_a_cpu_the_part_of_its_weight_that_its_load_there_is() {
        for (weight, load, elsewhere, share) in [
            (1024, 1024.0, 0.0, 1024),
            (1024, 1024.0, 1024.0, 512),
            (1024, 2048.0, 1024.0, 682),
            (10, 1024.0, 30.0 * 1024.0, MIN_SHARES),
            (1024, 0.0, 0.0, 1024),
            (0, 1024.0, 0.0, MIN_SHARES),
        ] {
            assert_eq!(calc_group_shares(weight, load, elsewhere), share, "{weight} {load} {elsewhere}");
        }
        assert!((decay_load(1024.0, 32 << 20) - 512.0).abs() < 1e-9);
    }
}
