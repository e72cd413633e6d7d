//! Remedies that change how easily tasks preempt each other.

use unstarve_change::Change;
use unstarve_facts::{Holds, PreemptMode};
use unstarve_model::SchedPolicy;
use unstarve_timeline::ActorId;

use super::threads::{class, class_before, for_all};
use super::{Draft, advice, kind, rewrite, rt_priority, turn_off, where_valid};
use crate::case::Case;
use crate::report::Remedy;

/// SCHED_BATCH tasks do not preempt when they wake (`check_preempt_wakeup` returns unless the wakee's policy is SCHED_NORMAL; the
/// same from 5.10 to 7.2).
pub(super) fn batch(case: &Case<'_>, wakees: &[ActorId]) -> Option<Remedy> {
    let tasks: Vec<ActorId> =
        wakees.iter().copied().filter(|id| rt_priority(case, *id).is_none() && !case.is_kernel_thread(*id)).collect();
    let first = *tasks.first()?;
    Some(
        Draft {
            id: kind::BATCH_WAKEE,
            text: format!(
                "Make {} SCHED_BATCH: woken, it waits for its turn instead of taking the CPU at once.",
                case.name(first)
            ),
            changes: for_all(case, &tasks, &class(SchedPolicy::Batch, 0), |id, tid| class_before(case, id, tid))?,
            risk: "It reacts to its own events up to a few milliseconds later. New threads inherit it.",
            valid_on: "all kernels; reported to help less from 6.13 on".into(),
        }
        .done(),
    )
}

/// The kernel-wide setting for how easily a woken task preempts.
pub(super) fn rarer(case: &Case<'_>) -> Vec<Remedy> {
    const RISK: &str = "It holds for the whole machine: interactive tasks wait longer for busy CPUs. Needs a writable \
                        debugfs (not under lockdown) from 5.13 on.";
    let Some(knob) = case.facts.preemption_knob() else {
        return vec![
            Draft {
                id: kind::WAKEUP_GRANULARITY,
                text: "Let a woken task preempt less easily: 15000000 into the setting of this kernel (uname -r), which is \
                       /proc/sys/kernel/sched_wakeup_granularity_ns, /sys/kernel/debug/sched/wakeup_granularity_ns or \
                       /sys/kernel/debug/sched/base_slice_ns."
                    .into(),
                changes: advice(),
                risk: RISK,
                valid_on: "sysctl up to 5.12, debugfs from 5.13 to 6.5; from 6.6 on only the slice (base_slice_ns) is left"
                    .into(),
            }
            .done(),
        ];
    };
    let name = knob.path.rsplit('/').next().unwrap_or(knob.path);
    let old = case.snapshot.and_then(|snapshot| snapshot.setting(name)).map(|(_, value)| value);
    // Distributions' throughput profiles used 15 ms until 5.13 removed the sysctl, and it solved the problem there.
    let (id, value, range) = if knob.is_wakeup_granularity {
        (
            kind::WAKEUP_GRANULARITY,
            15_000_000,
            if knob.path.starts_with("/proc") { "up to 5.12" } else { "5.13 to 6.5" },
        )
    } else {
        (kind::BASE_SLICE, 10_000_000, "6.6 and later")
    };
    if old.and_then(|old| old.parse::<u64>().ok()).is_some_and(|old| old >= value) {
        return Vec::new();
    }
    vec![
        Draft {
            id,
            text: format!("Make wakeup preemption rarer: {}.", knob.meaning),
            changes: rewrite(knob.path, value.to_string(), old),
            risk: RISK,
            valid_on: match case.facts.version() {
                Some(version) => format!("kernels {range}; this one is {version}"),
                None => format!("kernels {range}"),
            },
        }
        .done(),
    ]
}

/// Turns wakeup preemption off.
pub(super) fn none(case: &Case<'_>) -> Option<Remedy> {
    const FEATURE: &str = "WAKEUP_PREEMPTION";
    let known = case.snapshot.and_then(|snapshot| snapshot.feature(FEATURE));
    if known == Some(false) {
        return None;
    }
    let lazy = if case.facts.eevdf() == Holds::Yes { "; on EEVDF RUN_TO_PARITY should be on too" } else { "" };
    Some(
        Draft {
            id: kind::NO_WAKEUP_PREEMPTION,
            text: format!("Turn wakeup preemption off for the whole machine{lazy}."),
            changes: vec![turn_off(FEATURE, known)],
            risk: "Every woken task waits for the running one's slice: bad for anything interactive. For a test only.",
            valid_on: "a kernel with writable debugfs".into(),
        }
        .done(),
    )
}

/// Switches to full preemption: kernel code is preemptible except where it must not be.
pub(super) fn full(case: &Case<'_>) -> Option<Remedy> {
    if matches!(case.facts.preempt_mode(), Some(PreemptMode::Full | PreemptMode::Realtime)) {
        return None;
    }
    let valid_on = where_valid(
        case,
        case.facts.preempt_parameter_is_heeded(PreemptMode::Full),
        "kernels from 5.12 on that were built with PREEMPT_DYNAMIC",
    )?;
    Some(
        Draft {
            id: kind::PREEMPT_FULL,
            text: "Let the kernel be preempted nearly everywhere: preempt=full on its command line.".into(),
            changes: vec![Change::at_boot("preempt=full")],
            risk: "More switches: throughput of batch work falls by some percent on the whole machine.",
            valid_on,
        }
        .done(),
    )
}

/// Boots a PREEMPT_RT kernel, which also preempts critical sections.
pub(super) fn real_time_kernel(case: &Case<'_>) -> Option<Remedy> {
    if case.facts.preempt_mode() == Some(PreemptMode::Realtime) {
        return None;
    }
    Some(
        Draft {
            id: kind::PREEMPT_RT,
            text: "Run a kernel with PREEMPT_RT (on Debian linux-image-rt-amd64): interrupt handlers and most sections that are not \
                   preempted become threads with priorities."
                .into(),
            changes: advice(),
            risk: "A new kernel changes more than this; throughput falls.",
            valid_on: "in the kernel's own source from 6.12 on, as a patch before".into(),
        }
        .done(),
    )
}
