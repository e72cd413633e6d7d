//! The limit on the CPU time of real-time tasks.

use super::{Setting, number};

pub(super) const RUNTIME: Setting = Setting {
    paths: &["/proc/sys/kernel/sched_rt_runtime_us"],
    harm: |value, other| {
        let period = other("sched_rt_period_us").and_then(|text| number::of_sysctl(&text));
        runtime_harm(number::of_sysctl(value)?, period)
    },
    ..Setting::PLAIN
};

pub(super) const PERIOD: Setting = Setting {
    paths: &["/proc/sys/kernel/sched_rt_period_us"],
    harm: |value, other| {
        let runtime = other("sched_rt_runtime_us").and_then(|text| number::of_sysctl(&text));
        period_harm(number::of_sysctl(value)?, runtime.unwrap_or(DEFAULT_RUNTIME_US))
    },
    ..Setting::PLAIN
};

/// The kernel's defaults (`kernel/sched/rt.c`), used if the current values cannot be read.
const DEFAULT_PERIOD_US: i64 = 1_000_000;
const DEFAULT_RUNTIME_US: i64 = 950_000;
/// Real-time tasks keep at least a thousandth of the time. With less, a watchdog, the guard or the shell needed to repair the
/// setting could not run.
const LEAST_SHARE: i64 = 1000;
/// The period's timer fires at this rate and visits every CPU (`do_sched_rt_period_timer()`); the kernel has no lower limit.
const LEAST_PERIOD_US: i64 = 1000;

fn runtime_harm(runtime: i64, period: Option<i64>) -> Option<String> {
    let known = period.filter(|&period| period > 0);
    let period = known.unwrap_or(DEFAULT_PERIOD_US);
    if runtime < 0 {
        // −1 means no limit.
        return None;
    }
    if runtime.saturating_mul(LEAST_SHARE) < period {
        let least = period.div_euclid(LEAST_SHARE).max(1);
        return Some(format!(
            "with {runtime} us of each {period} us real-time tasks do not run any more, the guard and watchdogs neither; \
             expected -1 or at least {least}"
        ));
    }
    (known.is_some() && runtime > period).then(|| {
        format!(
            "{runtime} us is more than the period, {period} us, and the kernel refuses it; expected -1 or at most that"
        )
    })
}

fn period_harm(period: i64, runtime: i64) -> Option<String> {
    if period <= 0 {
        return None;
    }
    if period < LEAST_PERIOD_US {
        return Some(format!(
            "with a period of {period} us a timer interrupts all the time while a real-time task runs; expected at least \
             {LEAST_PERIOD_US}"
        ));
    }
    (runtime >= 0 && runtime.saturating_mul(LEAST_SHARE) < period).then(|| {
        format!(
            "real-time tasks may run {runtime} us (sched_rt_runtime_us) of each period, and with {period} us do not run any \
             more; expected at most {}",
            runtime.saturating_mul(LEAST_SHARE)
        )
    })
}
