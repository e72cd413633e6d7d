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
        // Wherever the hierarchy is mounted; that it is one is seen once the file is open.
        || path.ends_with("/cpu.weight")
        || path.ends_with("/cpu.shares")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_rule_can_have_set_may_be_written() {
        for path in [
            "/proc/sys/kernel/sched_rt_runtime_us",
            "/proc/sys/kernel/numa_balancing",
            "/sys/kernel/debug/sched/features",
            "/proc/irq/17/smp_affinity_list",
            "/sys/fs/cgroup/kubepods/cpu.weight",
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
            "",
        ] {
            assert!(!may_be_set(path), "{path}");
        }
    }
}
