//! Changes that the kernel refuses: what it would answer is no prediction.
//!
//! Sources: kernel/sched/deadline.c (`__checkparam_dl`, `sched_dl_overflow`), kernel/sched/syscalls.c (`__sched_setscheduler`), kernel/sched/core.c
//! (`tg_set_cfs_bandwidth`), kernel/sched/rt.c (`sched_rt_global_validate`).

use unstarve_model::Nanos;
use unstarve_sched::KernelThread;

use crate::change::{CannotPlay, Changed};
use crate::{Actor, Class, Program, Quota};

/// Periods of deadlines (`sched_deadline_period_min_us`, `sched_deadline_period_max_us`).
const DEADLINE_PERIODS: [Nanos; 2] = [Nanos(100_000), Nanos((1 << 22) * 1_000)];

/// Periods of a group's CPU limit, and its shortest runtime.
const QUOTA_PERIODS: [Nanos; 2] = [Nanos(1_000_000), Nanos(1_000_000_000)];

/// The part of all CPUs that deadlines may take, in per mille: `sched_rt_runtime_us` of its period, as kernels come.
const DEADLINES_PER_MILLE: u128 = 950;

const RT_RUNTIME: &str = "sysctl.kernel.sched_rt_runtime_us";
const RT_PERIOD: &str = "sysctl.kernel.sched_rt_period_us";

/// Why the kernel refuses what was changed.
pub(crate) fn kernel_refuses(before: &Program, changed: &Changed) -> Option<CannotPlay> {
    let after = &changed.program;
    let threads = changed.hit.iter().map(|id| (before.actor(*id), after.actor(*id)));
    let of_threads =
        threads.filter(|(was, is)| was.placement != is.placement).find_map(|(was, is)| thread(was, is, after));
    let quotas = before.cgroups.iter().zip(&after.cgroups).filter(|(was, is)| was.quota != is.quota);
    let of_quotas = quotas.filter_map(|(_, is)| is.quota).find_map(quota);
    let has_new_deadline = || before.actors.iter().zip(&after.actors).any(|(was, is)| deadline(was) != deadline(is));
    let refused = of_threads.or(of_quotas).or_else(|| has_new_deadline().then(|| too_many_deadlines(after)).flatten());
    refused.map(CannotPlay::KernelRefuses).or_else(|| {
        let new = after.knobs.iter().filter(|knob| !before.knobs.contains(knob));
        new.filter(|(name, value)| !is_value(name, value, after)).map(no_value).next()
    })
}

fn deadline(actor: &Actor) -> Option<crate::Deadline> {
    match actor.placement.class {
        Class::Deadline(of) => Some(of),
        _ => None,
    }
}

fn thread(was: &Actor, is: &Actor, after: &Program) -> Option<String> {
    let bound = is.is_kernel_thread.then(|| KernelThread::of(&is.comm.as_str().into())?.bound_cpu()).flatten();
    if was.placement.cpus != is.placement.cpus && bound.is_some() {
        return Some(format!("{} is bound to its CPU", is.comm));
    }
    let of = deadline(is)?;
    let [least, most] = DEADLINE_PERIODS;
    if !(least..=most).contains(&of.period) {
        return Some("the period of a deadline is 100 us to 4.19 s".to_owned());
    }
    if !(of.runtime <= of.deadline && of.deadline <= of.period) {
        return Some("the runtime is within the deadline, and that within the period".to_owned());
    }
    let is_bound = after.cpus.iter().any(|cpu| !is.placement.cpus.contains(cpu));
    is_bound.then(|| {
        format!("a deadline thread has to be allowed on all CPUs, and {} is bound to {}", is.comm, is.placement.cpus)
    })
}

fn quota(of: Quota) -> Option<String> {
    let [least, most] = QUOTA_PERIODS;
    let fits = (least..=most).contains(&of.period) && of.runtime >= least;
    (!fits).then(|| "a CPU limit has a period of 1 ms to 1 s, and at least 1 ms in it".to_owned())
}

fn too_many_deadlines(after: &Program) -> Option<String> {
    let is_unlimited = after.knobs.iter().any(|(name, value)| name == RT_RUNTIME && value.trim() == "-1");
    let per_mille = |of: crate::Deadline| u128::from(of.runtime.0) * 1_000 / u128::from(of.period.0.max(1));
    let asked: u128 = after.actors.iter().filter_map(deadline).map(per_mille).sum();
    let cpus = after.cpus.iter().count().max(1) as u128;
    let refused = !is_unlimited && asked > DEADLINES_PER_MILLE * cpus;
    refused.then(|| format!("deadlines would take {} % of {cpus} CPUs, and may take 95 % of each", asked / 10))
}

/// Whether a knob's text is a value of it, as far as there is a rule here.
fn is_value(name: &str, value: &str, after: &Program) -> bool {
    let number = value.trim().parse::<i64>().ok();
    let period = || {
        let of =
            after.knobs.iter().find(|(known, _)| known == RT_PERIOD).and_then(|(_, value)| value.trim().parse().ok());
        of.unwrap_or(1_000_000i64)
    };
    match name {
        RT_RUNTIME => number.is_some_and(|us| (-1..=period()).contains(&us)),
        RT_PERIOD => number.is_some_and(|us| us > 0),
        // Lengths of the scheduler are 32 bits (kernel/sched/debug.c).
        _ if name.starts_with("debugfs.sched/") && name.ends_with("_ns") => {
            number.is_some_and(|ns| (1..=i64::from(u32::MAX)).contains(&ns))
        }
        _ => true,
    }
}

fn no_value((name, value): &(String, String)) -> CannotPlay {
    CannotPlay::NoValue { of: name.clone(), value: value.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_limits_of_the_kernel() {
        let program = crate::change::tests::program();
        for (name, value, fits) in [
            (RT_RUNTIME, "-1", true),
            (RT_RUNTIME, "0", true),
            (RT_RUNTIME, "1000000", true),
            (RT_RUNTIME, "1000001", false),
            (RT_RUNTIME, "hello", false),
            (RT_PERIOD, "0", false),
            ("debugfs.sched/base_slice_ns", "3000000", true),
            ("debugfs.sched/base_slice_ns", "0", false),
            ("debugfs.sched/base_slice_ns", "-5", false),
            ("debugfs.sched/latency_ns", "99999999999999999", false),
            ("debugfs.sched/preempt", "full", true),
        ] {
            assert_eq!(is_value(name, value, &program), fits, "{name}={value}");
        }
        let deadline = |runtime, period, cpus: &str| {
            let mut changed = Changed { program: program.clone(), hit: program.actors().map(|(id, _)| id).collect() };
            let actors = &mut changed.program.actors;
            let of = actors.iter_mut().find(|actor| !actor.is_kernel_thread).expect("a program's thread");
            let of = &mut of.placement;
            let [runtime, period] = [runtime, period].map(Nanos::from_micros);
            of.class = Class::Deadline(crate::Deadline { runtime, deadline: period, period });
            of.cpus = cpus.parse().unwrap_or_default();
            kernel_refuses(&program, &changed).map(|why| why.to_string())
        };
        assert_eq!(deadline(20_000, 100_000, "0-1"), None);
        for (runtime, period, cpus, why) in [
            (20_000, 100_000, "0", "is bound to 0"),
            (10, 20, "0-1", "100 us to 4.19 s"),
            (200, 100, "0-1", "within the deadline"),
        ] {
            let refused = deadline(runtime, period, cpus).unwrap_or_default();
            assert!(refused.starts_with("the kernel refuses it: ") && refused.contains(why), "{refused}");
        }
        let of = |runtime, period| quota(Quota { runtime: Nanos(runtime), period: Nanos(period) }).is_none();
        assert!(of(1_000_000, 1_000_000_000) && of(5_000_000, 1_000_000));
        assert!(!of(999_999, 100_000_000) && !of(1_000_000, 999_999) && !of(1_000_000, 1_000_000_001));
    }
}
