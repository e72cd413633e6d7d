//! CFS, the fair class up to 6.5: the entity with the least virtual run time runs.
//!
//! Source of everything here: kernel/sched/fair.c of 6.1.192; 5.10 is the same from 5.10.36 on.

use super::{calc_delta_fair, scale};

/// The settings of CFS, scaled by the number of CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tunables {
    /// `sched_latency_ns`: the period in which every task runs once, if there are few.
    pub latency: i64,
    /// `sched_min_granularity_ns`: how long a task runs at least before the tick preempts it.
    pub min_granularity: i64,
    /// `sched_wakeup_granularity_ns`: how far the running task must be ahead of a woken one to be preempted by it.
    pub wakeup_granularity: i64,
    /// `sched_idle_min_granularity_ns`: the least slice of a SCHED_IDLE entity beside others.
    pub idle_min_granularity: i64,
    /// Its feature bits.
    pub features: Features,
}

/// Feature bits of CFS that matter here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Features {
    /// Half of the credit for a sleep.
    pub gentle_fair_sleepers: bool,
    /// A new task begins a slice behind.
    pub start_debit: bool,
    /// Wakeups may preempt.
    pub wakeup_preemption: bool,
    /// The period counts the tasks of the whole CPU, not those of one queue (5.13, 5.10.36).
    pub alt_period: bool,
    /// No slice is below the granularity (5.13, 5.10.36).
    pub base_slice: bool,
    /// The woken task is preferred, where there are many.
    pub next_buddy: bool,
    /// The task that lost the CPU to a wakeup is preferred after it, where there are many.
    pub last_buddy: bool,
}

impl Tunables {
    /// `sched_nr_latency`: more tasks than this stretch the period, and buddies count only from here on.
    pub fn nr_latency(&self) -> i64 {
        let granularity = self.min_granularity.max(1);
        (self.latency + granularity - 1) / granularity
    }
}

/// Where an entity is among those that share a queue, for [`sched_slice`]: its weight and that of all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level {
    /// Of the entity.
    pub weight: u32,
    /// Of its queue, with the entity.
    pub load: u64,
}

/// `__sched_period()`.
fn sched_period(nr_running: i64, tunables: &Tunables) -> i64 {
    if nr_running > tunables.nr_latency() { nr_running * tunables.min_granularity } else { tunables.latency }
}

/// How long an entity should run at a time: its part of the period, through all levels above it.
///
/// `nr_running` is that of the CPU with `alt_period`, else of the entity's queue.
pub fn sched_slice(
    nr_running: u32,
    levels: impl Iterator<Item = Level>,
    is_idle_beside_others: bool,
    tunables: &Tunables,
) -> i64 {
    let period = sched_period(i64::from(nr_running), tunables);
    let slice = levels.fold(period, |slice, level| {
        scale(slice, i64::from(level.weight), i64::try_from(level.load).unwrap_or(i64::MAX).max(1))
    });
    let least = if is_idle_beside_others { tunables.idle_min_granularity } else { tunables.min_granularity };
    if tunables.features.base_slice { slice.max(least) } else { slice }
}

/// The virtual run time of an entity that wakes up: its own, but at most so far behind the queue.
pub fn place_entity(vruntime: i64, min_vruntime: i64, is_idle: bool, tunables: &Tunables) -> i64 {
    let credit = if is_idle { tunables.min_granularity } else { tunables.latency };
    let credit = if tunables.features.gentle_fair_sleepers { credit / 2 } else { credit };
    vruntime.max(min_vruntime - credit)
}

/// The virtual run time of a new entity: at that of the queue, or a slice of its own (`sched_vslice()`) after it.
///
/// `task_fork_fair()` also lets it be at least that of its parent, which differs little while the parent runs.
pub fn place_new_entity(min_vruntime: i64, vslice: i64, tunables: &Tunables) -> i64 {
    if tunables.features.start_debit { min_vruntime + vslice } else { min_vruntime }
}

/// `min_vruntime` of a queue from its current entity and the leftmost of the others: it never goes back.
pub fn update_min_vruntime(min_vruntime: i64, curr: Option<i64>, leftmost: Option<i64>) -> i64 {
    let least = match (curr, leftmost) {
        (Some(curr), Some(leftmost)) => Some(curr.min(leftmost)),
        (one, other) => one.or(other),
    };
    least.map_or(min_vruntime, |least| min_vruntime.max(least))
}

/// Whether an entity should run instead of the current one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Preempts {
    /// It is ahead of the current one.
    No,
    /// It is behind, but by less than the granularity: only as a buddy.
    IfItIsABuddy,
    /// It is behind by more than the granularity.
    Yes,
}

/// `wakeup_preempt_entity()`: whether `se` (virtual run time and weight) should run instead of `curr`.
pub fn wakeup_preempt_entity(curr_vruntime: i64, se_vruntime: i64, se_weight: u32, tunables: &Tunables) -> Preempts {
    let vdiff = curr_vruntime - se_vruntime;
    if vdiff <= 0 {
        Preempts::No
    } else if vdiff > calc_delta_fair(tunables.wakeup_granularity, se_weight) {
        Preempts::Yes
    } else {
        Preempts::IfItIsABuddy
    }
}

/// `check_preempt_tick()`: whether the tick takes the CPU from an entity that has run this long since it got it.
pub fn check_preempt_tick(
    delta_exec: i64,
    ideal_runtime: i64,
    vruntime: i64,
    leftmost: i64,
    tunables: &Tunables,
) -> bool {
    if delta_exec > ideal_runtime {
        return true;
    }
    delta_exec >= tunables.min_granularity && vruntime - leftmost > ideal_runtime
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The defaults of 6.1 with eight CPUs.
    const EIGHT_CPUS: Tunables = Tunables {
        latency: 24_000_000,
        min_granularity: 3_000_000,
        wakeup_granularity: 4_000_000,
        idle_min_granularity: 750_000,
        features: Features {
            gentle_fair_sleepers: true,
            start_debit: true,
            wakeup_preemption: true,
            alt_period: true,
            base_slice: true,
            next_buddy: false,
            last_buddy: true,
        },
    };

    #[test]
    fn a_slice_is_a_part_of_the_period() {
        /// Tasks, levels (weight of load), slice in ms.
        type Row = (u32, &'static [(u32, u64)], f64);
        let table: [Row; 6] = [
            (1, &[(1024, 1024)], 24.0),
            (2, &[(1024, 2048)], 12.0),
            (2, &[(335, 1359)], 5.9),
            (8, &[(1024, 8192)], 3.0),
            (16, &[(1024, 16384)], 3.0),
            (3, &[(1024, 2048), (10, 1034)], 3.0),
        ];
        for (tasks, levels, expected) in table {
            let levels = levels.iter().map(|&(weight, load)| Level { weight, load });
            let slice = sched_slice(tasks, levels, false, &EIGHT_CPUS) as f64 / 1e6;
            assert!((slice - expected).abs() < 0.1, "{tasks} tasks: {slice} ms, not {expected}");
        }
    }

    #[test]
    fn a_sleeper_is_placed_at_most_half_a_latency_behind() {
        let place = |vruntime, is_idle| place_entity(vruntime, 100_000_000, is_idle, &EIGHT_CPUS);
        assert_eq!(place(0, false), 88_000_000);
        assert_eq!(place(0, true), 98_500_000, "SCHED_IDLE: half a granularity");
        assert_eq!(place(95_000_000, false), 95_000_000, "it slept too shortly for more");
        assert_eq!(place(130_000_000, false), 130_000_000, "a sleep is no gift for who is ahead");
        let mut rough = EIGHT_CPUS;
        rough.features.gentle_fair_sleepers = false;
        assert_eq!(place_entity(0, 100_000_000, false, &rough), 76_000_000);
        assert_eq!(place_new_entity(100_000_000, 12_000_000, &EIGHT_CPUS), 112_000_000, "a new one is behind");
        rough.features.start_debit = false;
        assert_eq!(place_new_entity(100_000_000, 12_000_000, &rough), 100_000_000);
    }

    #[test]
    fn a_wakeup_preempts_beyond_the_granularity_in_the_weight_of_the_woken() {
        for (curr, se, weight, expected) in [
            (10_000_000, 10_000_000, 1024, Preempts::No),
            (10_000_000, 6_000_000, 1024, Preempts::IfItIsABuddy),
            (10_000_000, 5_999_999, 1024, Preempts::Yes),
            (10_000_000, 9_500_000, 88761, Preempts::Yes),
            (100_000_000, 0, 15, Preempts::IfItIsABuddy),
        ] {
            assert_eq!(wakeup_preempt_entity(curr, se, weight, &EIGHT_CPUS), expected, "{curr} {se} {weight}");
        }
    }

    #[test]
    fn the_tick_preempts_after_the_slice_or_far_ahead_of_the_first() {
        for (ran, ideal, ahead, expected) in [
            (12_000_001, 12_000_000, -5, true),
            (12_000_000, 12_000_000, 0, false),
            (2_900_000, 2_000_000, 0, true),
            (2_900_000, 12_000_000, 50_000_000, false),
            (3_000_000, 12_000_000, 12_000_001, true),
            (3_000_000, 12_000_000, 12_000_000, false),
        ] {
            assert_eq!(check_preempt_tick(ran, ideal, ahead, 0, &EIGHT_CPUS), expected, "{ran} {ideal} {ahead}");
        }
    }

    #[test]
    fn the_least_virtual_run_time_never_goes_back() {
        for (now, curr, leftmost, next) in
            [(5, Some(9), Some(7), 7), (5, Some(3), Some(7), 5), (5, None, None, 5), (5, None, Some(8), 8)]
        {
            assert_eq!(update_min_vruntime(now, curr, leftmost), next);
        }
        assert_eq!(EIGHT_CPUS.nr_latency(), 8);
    }
}
