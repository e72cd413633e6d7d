//! Filters texts that may contain anything, even addresses and passwords: a snapshot stores only what is about
//! scheduling.

use unstarve_sched::setting::beginnings_of_sysctls;

/// Build options that affect scheduling. Others are not stored.
const CONFIG_PREFIXES: [&str; 12] = [
    "HZ",
    "PREEMPT",
    "SCHED_",
    "RT_GROUP_SCHED",
    "CFS_BANDWIDTH",
    "FAIR_GROUP_SCHED",
    "NO_HZ",
    "IRQ_FORCED",
    "RCU_NOCB",
    "UCLAMP",
    "NUMA_BALANCING",
    "WQ_",
];

/// Whether a snapshot stores this build option.
pub fn is_scheduling_option(name: &str) -> bool {
    CONFIG_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a sysctl is about scheduling.
pub fn is_scheduling_key(key: &str) -> bool {
    beginnings_of_sysctls().any(|beginning| key.starts_with(&beginning))
}

/// Boot parameters that affect which tasks run where.
///
/// Source: Documentation/admin-guide/kernel-parameters.txt.
const BOOT_PARAMETERS: [&str; 22] = [
    "preempt",
    "isolcpus",
    "nohz_full",
    "nohz",
    "rcu_nocbs",
    "rcu_nocb_poll",
    "irqaffinity",
    "threadirqs",
    "noautogroup",
    "kthread_cpus",
    "sched_tick_max_deferment",
    "skew_tick",
    "maxcpus",
    "nr_cpus",
    "nosmt",
    "mitigations",
    "cgroup_disable",
    "cgroup_no_v1",
    "numa_balancing",
    "schedstats",
    "sched_energy_aware",
    "systemd.unified_cgroup_hierarchy",
];

fn is_scheduling_parameter(name: &str) -> bool {
    let name = name.replace('-', "_");
    BOOT_PARAMETERS.contains(&name.as_str()) || name.starts_with("workqueue.") || name.starts_with("sched_")
}

/// The scheduling parameters of a kernel command line, as text.
pub fn boot_line(cmdline: &str) -> String {
    let words = parameters(cmdline).map(
        |(name, value)| {
            if value.is_empty() { name.to_owned() } else { format!("{name}={value}") }
        },
    );
    words.collect::<Vec<_>>().join(" ")
}

/// The scheduling parameters of a kernel command line. What follows `--` is for init.
pub fn parameters(cmdline: &str) -> impl Iterator<Item = (&str, &str)> {
    let words = cmdline.split_ascii_whitespace().take_while(|word| *word != "--");
    words.map(|word| word.split_once('=').unwrap_or((word, ""))).filter(|(name, _)| is_scheduling_parameter(name))
}
/// Whether a command names a scheduler setting.
pub fn names_setting(text: &str) -> bool {
    ["/debug/sched", "kernel.sched_", "kernel/sched_"].iter().any(|part| text.contains(part))
}

/// The words of a command that are paths or keys of scheduler settings. The rest may contain anything, even passwords.
pub fn kept_settings(command: &str) -> String {
    let words = command.split_ascii_whitespace().filter(|word| names_setting(word));
    words.map(|word| word.trim_matches(['"', '\''])).collect::<Vec<_>>().join(" ")
}
