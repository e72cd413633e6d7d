//! Load weights (nice 0 = 1024) of nice values and cgroups, and the CPU shares that result.

use unstarve_model::Prio;

/// The weight of a SCHED_IDLE task or of an idle cgroup (`WEIGHT_IDLEPRIO` in kernel/sched/sched.h).
pub const IDLE_WEIGHT: u32 = 3;

/// The fair class's load weight for a nice value; values outside −20…19 are clamped.
///
/// Source: `sched_prio_to_weight` in `kernel/sched/core.c`, the same from 2.6.23 to 7.2.
#[inline]
pub fn load_weight_of_nice(nice: i32) -> u32 {
    const WEIGHTS: [u32; 40] = [
        88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, // -20…-11
        9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277, // -10…-1
        1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, // 0…9
        110, 87, 70, 56, 45, 36, 29, 23, 18, 15, // 10…19
    ];
    WEIGHTS[(nice.clamp(-20, 19) + 20) as usize]
}

/// The load weight of a fair task with this priority; `None` for other classes.
#[inline]
pub fn load_weight_of_prio(prio: Prio) -> Option<u32> {
    prio.nice().map(load_weight_of_nice)
}

/// The load weight (nice 0 = 1024) of a v2 `cpu.weight` (100 = 1024).
///
/// Source: `sched_weight_from_cgroup()` in kernel/sched/sched.h (6.8 and later; before, the same sum stood in
/// `cpu_weight_write_u64()` in kernel/sched/core.c): `DIV_ROUND_CLOSEST(weight * 1024, 100)`.
pub fn load_weight_of_cpu_weight(cpu_weight: u32) -> u32 {
    let weight = (u64::from(cpu_weight) * 1024 + 50) / 100;
    u32::try_from(weight).unwrap_or(u32::MAX)
}

/// The `cpu.weight` that is nearest to a load weight.
pub fn cpu_weight_of_load_weight(load_weight: u32) -> u32 {
    ((u64::from(load_weight) * 100 + 512) / 1024) as u32
}

/// What systemd makes of `cpu.shares`, rounded down (`cgroup_cpu_shares_to_weight()` in its src/core/cgroup.c).
pub fn systemd_weight_of_shares(shares: u32) -> u32 {
    (u64::from(shares) * 100 / 1024).clamp(1, 10_000) as u32
}

/// The smallest change of nice (the value nearest to 0) with which a task weighs at least `weight`, both in load-weight units;
/// `None` if even −20 weighs less.
///
/// A task in the root group competes as one entity with each top-level cgroup, so this is the nice that a kernel worker needs
/// against a group of that weight with load on the same CPU.
///
/// ```
/// # use unstarve_sched::{least_nice_that_equals, load_weight_of_cpu_weight};
/// // nice −10 (9548) cannot beat cpu.weight 2500 (25600); −15 (29154) can.
/// assert_eq!(least_nice_that_equals(load_weight_of_cpu_weight(2500)), Some(-15));
/// // No nice can beat cpu.weight 10000 (102400).
/// assert_eq!(least_nice_that_equals(load_weight_of_cpu_weight(10_000)), None);
/// ```
pub fn least_nice_that_equals(weight: u32) -> Option<i32> {
    (-20..=0).rev().find(|&nice| load_weight_of_nice(nice) >= weight)
}

/// The share of a CPU, 0 to 1, that an entity of `weight` gets against one of `other` if both always want to run.
pub fn share_against(weight: u32, other: u32) -> f64 {
    let sum = f64::from(weight) + f64::from(other);
    if sum == 0.0 { 0.0 } else { f64::from(weight) / sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nice_moves_weight_by_a_quarter_per_step() {
        assert_eq!(load_weight_of_prio(Prio(120)), Some(1024));
        assert_eq!(load_weight_of_prio(Prio(100)), Some(88761));
        assert_eq!(load_weight_of_prio(Prio(50)), None);
        for nice in -20..19 {
            let step = f64::from(load_weight_of_nice(nice)) / f64::from(load_weight_of_nice(nice + 1));
            assert!((1.15..1.35).contains(&step), "nice {nice}: {step}");
        }
    }

    #[test]
    fn a_worker_beside_a_heavy_group() {
        let mut table = String::new();
        for cpu_weight in [1, 100, 1000, 2500, 3023, 8668, 10_000] {
            let weight = load_weight_of_cpu_weight(cpu_weight);
            let share = share_against(1024, weight) * 100.0;
            let nice = least_nice_that_equals(weight);
            table += &format!("cpu.weight {cpu_weight:>5} = {weight:>6}: worker gets {share:4.1} %, needs {nice:?}\n");
        }
        insta::assert_snapshot!(table, @"
        cpu.weight     1 =     10: worker gets 99.0 %, needs Some(0)
        cpu.weight   100 =   1024: worker gets 50.0 %, needs Some(0)
        cpu.weight  1000 =  10240: worker gets  9.1 %, needs Some(-11)
        cpu.weight  2500 =  25600: worker gets  3.8 %, needs Some(-15)
        cpu.weight  3023 =  30956: worker gets  3.2 %, needs Some(-16)
        cpu.weight  8668 =  88760: worker gets  1.1 %, needs Some(-20)
        cpu.weight 10000 = 102400: worker gets  1.0 %, needs None
        ");
    }
}
