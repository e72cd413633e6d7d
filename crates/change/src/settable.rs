//! Which files may be written at all.

/// What may be set below /proc/sys: a policy is not a way to write just any file.
pub const SYSCTLS: [&str; 3] = ["kernel.sched_", "kernel.numa_balancing", "kernel.timer_migration"];

/// Whether it is one of these, by its name with dots.
pub fn is_sysctl_of_the_scheduler(name: &str) -> bool {
    SYSCTLS.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a rule can have set the file: what the executor's clients look for, and nothing else.
pub fn may_be_set(path: &str) -> bool {
    if !path.starts_with('/') || path.split('/').skip(1).any(|part| matches!(part, "" | "." | "..")) {
        return false;
    }
    let is_interrupt = || {
        let number = path.strip_prefix("/proc/irq/").and_then(|rest| rest.strip_suffix("/smp_affinity_list"));
        number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let below_sys = path.strip_prefix("/proc/sys/").map(|name| name.replace('/', "."));
    below_sys.is_some_and(|name| is_sysctl_of_the_scheduler(&name))
        || path.starts_with("/sys/kernel/debug/sched/")
        || path == "/sys/kernel/debug/sched_features"
        || is_interrupt()
        || is_of_network(path)
        || is_of_workqueues(path)
        || path == "/proc/fs/nfsd/threads"
        // Wherever the hierarchy is mounted; that it is one is seen once the file is open.
        || is_of_group(path)
}

/// Whether the kernel may refuse to set the file for a while, with EBUSY: the runtime and period of a CPU's deadline server, which is
/// admitted anew with each change.
///
/// Source: `sched_fair_server_write()` in kernel/sched/debug.c and `dl_server_apply_params()` in kernel/sched/deadline.c of 6.12.
pub fn may_be_busy(path: &str) -> bool {
    let below = path.strip_prefix("/sys/kernel/debug/sched/").and_then(|rest| rest.split_once('/'));
    below.is_some_and(|(server, _)| server.ends_with("_server"))
}

/// What a number in the path counts, where the kernel gives it out anew at each boot or another host has it for something else.
pub fn numbered_thing(path: &str) -> Option<&'static str> {
    if path.starts_with("/proc/irq/") {
        Some("interrupt")
    } else if path.starts_with("/sys/class/net/") && path.contains("/queues/") {
        Some("queue")
    } else {
        path.strip_prefix("/sys/kernel/debug/sched/").filter(|rest| rest.contains("/cpu")).map(|_| "CPU")
    }
}

/// The number of the interrupt whose file this is.
pub fn interrupt_of(path: &str) -> Option<u32> {
    path.strip_prefix("/proc/irq/")?.split('/').next()?.parse().ok()
}

/// Whether the file is called as one of a cgroup.
pub fn is_of_group(path: &str) -> bool {
    path.rsplit_once('/').is_some_and(|(_, name)| GROUP_FILES.contains(&name))
}

/// Of a cgroup: weight, idleness and limit of both versions.
const GROUP_FILES: [&str; 6] =
    ["cpu.weight", "cpu.shares", "cpu.idle", "cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"];

/// `threaded` of an interface, and the CPUs of receive packet steering.
fn is_of_network(path: &str) -> bool {
    let Some((_, file)) = path.strip_prefix("/sys/class/net/").and_then(|rest| rest.split_once('/')) else {
        return false;
    };
    let is_queue = |name: &str| {
        let number = name.strip_prefix("rx-");
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let queue = || file.strip_prefix("queues/").and_then(|rest| rest.strip_suffix("/rps_cpus"));
    file == "threaded" || queue().is_some_and(is_queue)
}

/// The defaults of all workqueues, and what one with a directory of its own shows.
fn is_of_workqueues(path: &str) -> bool {
    let of_one = || {
        let (_, file) = path.strip_prefix("/sys/devices/virtual/workqueue/")?.split_once('/')?;
        Some(["nice", "cpumask", "affinity_scope", "affinity_strict", "max_active"].contains(&file))
    };
    let parameter = path.strip_prefix("/sys/module/workqueue/parameters/");
    parameter.is_some_and(|name| !name.contains('/')) || of_one() == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_a_boot_gives_out_are_known() {
        for (path, thing) in [
            ("/proc/irq/17/smp_affinity_list", Some("interrupt")),
            ("/sys/class/net/eth0/queues/rx-3/rps_cpus", Some("queue")),
            ("/sys/kernel/debug/sched/fair_server/cpu3/runtime", Some("CPU")),
            ("/sys/class/net/eth0/threaded", None),
            ("/sys/kernel/debug/sched/preempt", None),
            ("/proc/sys/kernel/sched_rt_runtime_us", None),
            ("/sys/fs/cgroup/kubepods/cpu.weight", None),
        ] {
            assert_eq!(numbered_thing(path), thing, "{path}");
        }
        assert_eq!(interrupt_of("/proc/irq/17/smp_affinity_list"), Some(17));
        assert_eq!(interrupt_of("/proc/irq/default_smp_affinity"), None);
    }

    #[test]
    fn only_what_a_rule_can_have_set_may_be_written() {
        for path in [
            "/proc/sys/kernel/sched_rt_runtime_us",
            "/proc/sys/kernel/numa_balancing",
            "/sys/kernel/debug/sched/features",
            "/proc/irq/17/smp_affinity_list",
            "/sys/fs/cgroup/kubepods/cpu.weight",
            "/sys/fs/cgroup/maint/cpu.idle",
            "/sys/fs/cgroup/cpu/kubepods/cpu.cfs_quota_us",
            "/sys/class/net/eth0/threaded",
            "/sys/class/net/eth0/queues/rx-3/rps_cpus",
            "/sys/devices/virtual/workqueue/writeback/cpumask",
            "/sys/module/workqueue/parameters/default_affinity_scope",
            "/proc/fs/nfsd/threads",
        ] {
            assert!(may_be_set(path), "{path}");
        }
        for path in [
            "/etc/passwd",
            "/proc/sys/kernel/core_pattern",
            "/proc/sys/kernel/modprobe",
            "/proc/sys/kernel/../vm/overcommit_memory",
            "/proc/sys/kernel//core_pattern",
            "/sys/kernel/debug/sched/../../../../etc/passwd",
            "/proc/irq/../sysrq-trigger/smp_affinity_list",
            "proc/sys/kernel/sched_rt_runtime_us",
            "/sys/class/net/eth0/device/remove",
            "/sys/class/net/eth0/queues/rx-/rps_cpus",
            "/sys/module/workqueue/parameters/a/b",
            "/sys/devices/virtual/workqueue/writeback/power/control",
            "",
        ] {
            assert!(!may_be_set(path), "{path}");
        }
    }
}
