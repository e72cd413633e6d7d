//! Tests of settings: harmful values, paths, and the forms of values.

use super::*;

fn nothing(_: &str) -> Option<String> {
    None
}

#[test]
fn zero_is_zero_however_it_is_written() {
    for name in ["kernel.sched_rt_runtime_us", "/proc/sys/kernel/sched_rt_runtime_us", "sched_rt_runtime_us"] {
        for value in ["0", "00", "-0", "0x0", "0X00", " 0", "\t0\n", "0 950000", "1", "0x1", "999", "01747", "0x3e7"] {
            assert!(check_harm(name, value, nothing).is_err(), "{name} {value:?}");
        }
        // -1 is no limit, and the kernel refuses the rest.
        for value in ["-1", "1000", "950000", "01750", "0x3e8", "1000000", "", "x", "+0", "9999999999", "-"] {
            assert_eq!(check_harm(name, value, nothing), Ok(()), "{name} {value:?}");
        }
    }
}

#[test]
fn real_time_keeps_a_thousandth_of_whatever_the_period_is() {
    let with = |value: &str, other: &str| {
        let check = |name: &str, value: &str| check_harm(name, value, |_| Some(other.to_owned())).is_err();
        (check("sched_rt_runtime_us", value), check("sched_rt_period_us", value))
    };
    // A value, the other setting, and whether it does harm as a runtime and as a period.
    for (value, other, harm) in [
        ("1000", "1000000\n", (false, false)),
        ("1000", "2000000", (true, false)),
        ("100", "100000", (false, true)),
        ("1000000", "950000", (true, false)),
        ("2000000000", "950000", (true, true)),
        ("2000000000", "-1", (false, false)),
        ("950000000", "950000", (true, false)),
        ("1", "-1", (true, true)),
    ] {
        assert_eq!(with(value, other), harm, "{value} with {other}");
    }
}

#[test]
fn debugfs_has_no_bounds_of_its_own() {
    for path in ["latency_ns", "/sys/kernel/debug/sched//min_granularity_ns", "/sys/kernel/debug/sched/./base_slice_ns"]
    {
        for value in ["0", "99999", "4294967296", "0x100000000", "4000000000", "+0"] {
            assert!(check_harm(path, value, nothing).is_err(), "{path} {value}");
        }
        for value in ["100000", "3000000", "1000000000", "nonsense"] {
            assert_eq!(check_harm(path, value, nothing), Ok(()), "{path} {value}");
        }
    }
    assert_eq!(check_harm("wakeup_granularity_ns", "0", nothing), Ok(()));
    assert!(check_harm("numa_balancing/scan_size_mb", "0x0", nothing).is_err());
    assert_eq!(check_harm("migration_cost_ns", "0", nothing), Ok(()));
}

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
        assert_eq!(File::at(path).and_then(File::numbered_thing), thing, "{path}");
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
        assert!(File::at(path).is_some(), "{path}");
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
        assert!(File::at(path).is_none(), "{path}");
    }
}

#[test]
fn a_busy_file_and_one_with_a_choice_are_known() {
    let at = |path| File::at(path).expect("a setting").setting;
    assert!(at("/sys/kernel/debug/sched/fair_server/cpu3/runtime").may_be_busy);
    assert!(!at("/sys/kernel/debug/sched/base_slice_ns").may_be_busy);
    assert_eq!(File::at("/sys/kernel/debug/sched/preempt").map(|file| file.in_force("none (full)")), Some("full"));
    let partition = File::at("/sys/fs/cgroup/a/cpuset.cpus.partition").expect("a setting");
    for (shown, in_force) in [("root invalid (no cpus available)", "root"), ("member", "member"), ("", "")] {
        assert_eq!(partition.in_force(shown), in_force);
    }
    assert_eq!(File::at("/sys/kernel/debug/sched/features").map(|file| file.in_force("a (b)")), Some("a (b)"));
}

#[test]
fn a_group_gets_more_by_weight_quota_and_period() {
    let more = |file: &str, old: &str, new: &str| {
        let path = format!("/sys/fs/cgroup/a/{file}");
        File::at(&path).expect("a setting").gives_more(&Content::of(old), &Content::of(new))
    };
    for (file, old, new, is_more) in [
        ("cpu.weight", "100", "200", true),
        ("cpu.weight", "200", "100", false),
        ("cpu.max", "10000 100000", "max 100000", true),
        ("cpu.max", "10000 100000", "10000 200000", false),
        ("cpu.max", "10000 100000", "nonsense", true),
        ("cpu.cfs_quota_us", "-1", "1000", false),
        ("cpu.cfs_period_us", "1000", "2000", true),
        ("cpu.idle", "1", "0", true),
        ("cpu.idle", "0", "1", false),
    ] {
        assert_eq!(more(file, old, new), is_more, "{file} {old} -> {new}");
    }
}

#[test]
fn no_setting_hides_another() {
    for setting in SETTINGS {
        let path = setting.paths[0].replace("{GROUP}", "/g").replace("{NAME}", "n").replace('*', "x");
        let path = ["{IRQ}", "{QUEUE}", "{CPU}"].iter().fold(path, |path, number| path.replace(number, "1"));
        let found = File::at(&path).expect(&path).setting;
        assert_eq!(found.paths, setting.paths, "{path}");
    }
}

/// A limit in a recording may have any text.
#[test]
fn the_largest_numbers_have_their_forms() {
    let largest = u64::MAX.to_string();
    assert!(
        (super::cgroup::MAX.systemd)(&format!("{largest} 1")).is_some_and(|line| line.starts_with("CPUQuota=1844"))
    );
    let of_file = super::cgroup::SHARES.policy.map(|key| key.of_file).expect("a key");
    assert_eq!(of_file(&u32::MAX.to_string()).as_deref(), Some("419430400"));
}
