//! Remedies that depend on kernel versions: known bugs and regressions.

use unstarve_facts::{BUGS, Bug, Holds};
use unstarve_sched::KernelThread;
use unstarve_timeline::ActorId;

use super::{Draft, advice, kind, where_valid};
use crate::case::Case;
use crate::report::Remedy;

const UPGRADE_RISK: &str = "A new kernel changes more than this: compare before and after.";

/// Completes direct writes without a worker.
pub(super) fn inline_completion(case: &Case<'_>, worker: ActorId) -> Option<Remedy> {
    let function = case.work(worker)?.function;
    if function != "iomap_dio_complete_work" || case.facts.direct_overwrites_complete_inline().is_yes() {
        return None;
    }
    Some(
        Draft {
            id: kind::INLINE_COMPLETION,
            text: "Update the kernel to 6.19 or later: there direct writes over allocated blocks complete in the interrupt and need no \
                   worker. Extending, unwritten and O_DSYNC writes still do; files that were written once before do not."
                .into(),
            changes: advice(),
            risk: UPGRADE_RISK,
            valid_on: "an upgrade to 6.19 or later".into(),
        }
        .done(),
    )
}

/// Fixes the EEVDF bug that starves workers beside busy nested groups.
pub(super) fn reweight_bug(case: &Case<'_>) -> Option<Remedy> {
    let holds = case.facts.reweight_starves_workers();
    case.facts.version()?;
    let valid_on = where_valid(case, holds, "kernels from 6.13 to 6.18.44, 6.19 and 7.0")?;
    Some(
        Draft {
            id: kind::UPDATE_KERNEL,
            text: "Update the kernel to 6.18.45 or 7.1: before, a bug in EEVDF's reweighting starves kernel workers beside busy nested \
                   cgroups."
                .into(),
            changes: advice(),
            risk: UPGRADE_RISK,
            valid_on,
        }
        .done(),
    )
}

/// Fixes the EEVDF bugs by which the reference of virtual time stands still or runs away.
pub(super) fn vruntime_bugs(case: &Case<'_>) -> Option<Remedy> {
    let has = |id: &str| BUGS.row(id).and_then(Bug::of).filter(|bug| bug.affects(&case.facts).is_yes());
    let bug = ["zero-vruntime", "yield-leapfrog"].into_iter().find_map(has)?;
    Some(
        Draft {
            id: kind::UPDATE_KERNEL,
            text: format!("{} {}", bug.fix(), bug.says()),
            changes: advice(),
            risk: UPGRADE_RISK,
            valid_on: where_valid(case, Holds::Yes, "6.12, 6.18 and 6.19, by stable level")?,
        }
        .done(),
    )
}

/// knfsd wakes one thread at a time since 6.7 (commit 5b80147e0c70).
pub(super) fn one_wakeup_at_a_time(case: &Case<'_>, crowd: ActorId) -> Option<Remedy> {
    let version = case.facts.version();
    if case.actor(crowd).kernel_thread != Some(KernelThread::Nfsd) || version.is_some_and(|v| v.is_at_least(6, 7)) {
        return None;
    }
    let holds = if version.is_some() { Holds::Yes } else { Holds::Depends("the kernel's version (uname -r)") };
    Some(
        Draft {
            id: kind::NFSD_LIFO,
            text: "Update the kernel to 6.7 or later: its NFS server wakes one idle thread at a time, the one that ran last.".into(),
            changes: advice(),
            risk: UPGRADE_RISK,
            valid_on: where_valid(case, holds, "an upgrade from a kernel before 6.7")?,
        }
        .done(),
    )
}

/// Newidle balancing pulled too little in a range of kernels (commit 155213a2aed4, reverted by d206fbad9328).
pub(super) fn newidle_regression(case: &Case<'_>) -> Option<Remedy> {
    let version = case.facts.version()?;
    let within = |minor: u32, first: u32, fixed: u32| {
        version.stable_reaches(6, minor, first) == Some(true) && version.stable_reaches(6, minor, fixed) == Some(false)
    };
    let affected = matches!((version.major, version.minor), (6, 17 | 18)) || within(12, 43, 64) || within(1, 149, 160);
    affected.then(|| {
        Draft {
            id: kind::UPDATE_KERNEL,
            text: "Update the kernel: in this one idle CPUs give up too early when they look for waiting tasks.".into(),
            changes: advice(),
            risk: UPGRADE_RISK,
            valid_on: format!("6.17 to 6.18, 6.12.43 to 6.12.63, 6.1.149 to 6.1.159; this kernel is {version}"),
        }
        .done()
    })
}
