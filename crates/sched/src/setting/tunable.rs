//! Scheduler sysctls, and the files in debugfs where most of them moved in 5.13.

use std::ops::RangeInclusive;

use super::{Setting, Shows, number};

/// The limits that the kernel enforced while these were sysctls, up to 5.12 (`min_sched_granularity_ns` and so on in
/// kernel/sysctl.c). In debugfs they have no limits: 0 causes a division by zero (`sched_nr_latency`), and with seconds each
/// task runs for seconds.
const GRANULARITY_NS: RangeInclusive<i64> = 100_000..=1_000_000_000;

pub(super) const GRANULARITY: Setting = Setting {
    paths: &[
        "/proc/sys/kernel/sched_latency_ns",
        "/sys/kernel/debug/sched/latency_ns",
        "/proc/sys/kernel/sched_min_granularity_ns",
        "/sys/kernel/debug/sched/min_granularity_ns",
        "/sys/kernel/debug/sched/base_slice_ns",
    ],
    harm: |value, _| granularity_harm(value, GRANULARITY_NS),
    ..Setting::PLAIN
};

pub(super) const WAKEUP_GRANULARITY: Setting = Setting {
    paths: &["/proc/sys/kernel/sched_wakeup_granularity_ns", "/sys/kernel/debug/sched/wakeup_granularity_ns"],
    harm: |value, _| granularity_harm(value, 0..=*GRANULARITY_NS.end()),
    ..Setting::PLAIN
};

pub(super) const SCAN_SIZE: Setting = Setting {
    paths: &["/proc/sys/kernel/numa_balancing_scan_size_mb", "/sys/kernel/debug/sched/numa_balancing/scan_size_mb"],
    harm: |value, _| {
        (number::of_debugfs(value) == Some(0)).then(|| {
            "with 0 the kernel divides by zero (task_nr_scan_windows()) when a task next uses memory".to_owned()
        })
    },
    ..Setting::PLAIN
};

/// `none (voluntary) full`.
pub(super) const PREEMPT: Setting =
    Setting { paths: &["/sys/kernel/debug/sched/preempt"], shows: Shows::Choice, ..Setting::PLAIN };

/// The runtime and period of a CPU's deadline server; each change repeats its admission control.
///
/// Source: `sched_fair_server_write()` in kernel/sched/debug.c and `dl_server_apply_params()` in kernel/sched/deadline.c of 6.12.
pub(super) const DEADLINE_SERVER: Setting =
    Setting { paths: &["/sys/kernel/debug/sched/{NAME}_server/cpu{CPU}/{NAME}"], may_be_busy: true, ..Setting::PLAIN };

pub(super) const OF_CPU: Setting = Setting { paths: &["/sys/kernel/debug/sched/{NAME}/cpu{CPU}/*"], ..Setting::PLAIN };

pub(super) const DEBUGFS: Setting = Setting { paths: &["/sys/kernel/debug/sched/*"], ..Setting::PLAIN };

/// Whether a file in the scheduler's debugfs directory has no single value: the features, or a dump of megabytes.
pub fn has_no_single_value(name: &str) -> bool {
    super::feature::is_file(name) || super::last_part(name) == Some("debug")
}

/// The CPU and the parameter of a file of the fair class's deadline server: `3`, `runtime`.
pub fn fair_server(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix("/sys/kernel/debug/sched/fair_server/cpu")?.split_once('/')
}

/// Limited to these names, so that a policy cannot write every file below /proc/sys.
pub(super) const SYSCTL: Setting = Setting {
    paths: &["/proc/sys/kernel/sched_*", "/proc/sys/kernel/numa_balancing*", "/proc/sys/kernel/timer_migration*"],
    ..Setting::PLAIN
};

fn granularity_harm(value: &str, range: RangeInclusive<i64>) -> Option<String> {
    let ns = number::of_debugfs(value)?;
    (!range.contains(&ns)).then(|| {
        format!("the kernel makes {ns} ns of it, and is safe with {} to {} ns only", range.start(), range.end())
    })
}
