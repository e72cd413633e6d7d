//! What made-up hosts allow.

use std::fs;

use unstarve_facts::{Allowed, Availability, Capability};
use unstarve_host::{Root, allows};
use unstarve_testing::host_tree::HostTree;

/// A host that allows everything: its files by path.
const WHOLE: [(&str, &str); 10] = [
    ("proc/sys/kernel/osrelease", "6.12.107+deb13-amd64\n"),
    ("proc/self/status", "Name:\tx\nCapEff:\t000001ffffffffff\nNSpid:\t812\n"),
    ("proc/self/schedstat", "1 2 3\n"),
    ("proc/self/uid_map", "         0          0 4294967295\n"),
    ("proc/2/comm", "kthreadd\n"),
    ("proc/kallsyms", "0000000000000000 A fixed_percpu_data\nffffffff81000000 T startup_64\n"),
    ("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n"),
    ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io\n"),
    ("sys/kernel/security/lockdown", "[none] integrity confidentiality\n"),
    ("sys/kernel/debug/sched/features", "WAKEUP_PREEMPTION\n"),
];

/// That host with some files replaced, or removed if they have no content.
fn host(others: &[(&str, Option<&str>)]) -> HostTree {
    let tree = HostTree::new(&WHOLE);
    tree.write("sys/kernel/btf/vmlinux", "types");
    for (path, text) in others {
        match text {
            Some(text) => tree.write(path, text),
            None => fs::remove_file(tree.join(path)).expect("a file"),
        }
    }
    tree
}

/// What is missing on such a host.
fn missing(others: &[(&str, Option<&str>)]) -> Vec<Allowed> {
    let all = allows(&Root::at(host(others).path()));
    all.into_iter().filter(|allowed| allowed.state != Availability::Full).collect()
}

/// The only thing missing there: its id, how much of it is available, what was found, and how to get it.
fn only(others: &[(&str, Option<&str>)]) -> (Capability, Availability, String, Option<String>) {
    let missing = missing(others);
    let [one] = &missing[..] else { panic!("{missing:?}") };
    assert!(!one.without.is_empty(), "{one:?}");
    (one.id, one.state, one.found.clone(), one.get.clone())
}

#[test]
fn a_whole_host_lacks_nothing() {
    assert_eq!(missing(&[]), []);
}

#[test]
fn each_thing_that_is_missing_is_named_with_the_way_to_get_it() {
    let (id, state, found, get) = only(&[("proc/sys/kernel/osrelease", Some("4.18.0-553.el8_10.x86_64\n"))]);
    assert_eq!((id, state, found.as_str()), (Capability::Kernel, Availability::Part, "Linux 4.18.0-553.el8_10.x86_64"));
    assert!(get.expect("a way").contains("5.10"));

    let (id, state, found, get) = only(&[("sys/kernel/btf/vmlinux", None)]);
    assert_eq!((id, state), (Capability::Btf, Availability::None));
    assert!(found.contains("no such file") && get.expect("a way").contains("CONFIG_DEBUG_INFO_BTF"), "{found}");

    let (id, state, found, _) = only(&[("sys/kernel/security/lockdown", Some("none [integrity] confidentiality\n"))]);
    assert_eq!((id, state, found.as_str()), (Capability::Lockdown, Availability::Part, "integrity"));
    let (id, state, ..) = only(&[("sys/kernel/security/lockdown", Some("none integrity [confidentiality]\n"))]);
    assert_eq!((id, state), (Capability::Lockdown, Availability::None));
    // Unknown if securityfs is not mounted.
    let (id, state, ..) = only(&[("sys/kernel/security/lockdown", None)]);
    assert_eq!((id, state), (Capability::Lockdown, Availability::Part));

    let hidden = "0000000000000000 A fixed_percpu_data\n0000000000000000 T startup_64\n";
    let (id, _, _, get) = only(&[("proc/kallsyms", Some(hidden))]);
    assert!(id == Capability::Symbols && get.expect("a way").contains("CAP_SYSLOG"));

    let (id, _, _, get) = only(&[("sys/kernel/debug/sched/features", None)]);
    assert!(id == Capability::Debugfs && get.expect("a way").contains("mount -t debugfs"));

    let (id, ..) = only(&[("proc/self/schedstat", None)]);
    assert_eq!(id, Capability::Schedstat);
}

#[test]
fn rights_are_those_of_the_process() {
    // CAP_BPF, CAP_PERFMON, CAP_SYSLOG; then those of the guard's unit and pod, which suffice for its work.
    let (id, _, found, get) = only(&[("proc/self/status", Some("CapEff:\t000000c400000000\n"))]);
    assert_eq!((id, found.as_str()), (Capability::Change, "CAP_SYS_NICE missing"));
    assert!(get.expect("a way").contains("sudo"));
    assert_eq!(missing(&[("proc/self/status", Some("CapEff:\t000000c400804002\n"))]), []);
    // All rights, but in a user namespace that anybody can create.
    let (id, _, found, get) = only(&[("proc/self/uid_map", Some("         0      65534          1\n"))]);
    assert!(id == Capability::Change && found.contains("user namespace") && get.is_some(), "{found}");
}

/// As in a container, whose runtime mounts /proc/sys read-only. Not even root may write to this link's target.
#[test]
fn settings_that_cannot_be_written_are_a_part() {
    let tree = host(&[]);
    tree.link("proc/sys/kernel/sched_rt_runtime_us", "/proc/sys/kernel/ostype");
    let all = allows(&Root::at(tree.path()));
    let change = all.iter().find(|allowed| allowed.id == Capability::Change).expect("it is listed");
    assert_eq!(change.state, Availability::Part);
    assert_eq!(change.found, "priorities and CPUs may be changed; /proc/sys cannot be written");
}

#[test]
fn cgroups_of_both_versions_are_found() {
    let v1 =
        "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
    assert_eq!(missing(&[("proc/mounts", Some(v1))]), []);
    let (id, state, found, _) = only(&[("sys/fs/cgroup/cgroup.controllers", Some("io memory\n"))]);
    assert_eq!((id, state), (Capability::Cgroups, Availability::Part));
    assert!(found.contains("without the cpu controller"), "{found}");
    let (id, state, _, get) = only(&[("proc/mounts", Some("proc /proc proc rw 0 0\n"))]);
    assert!((id, state) == (Capability::Cgroups, Availability::None) && get.expect("a way").contains("mount"));
}

#[test]
fn a_pid_namespace_of_its_own_is_seen() {
    let (id, _, _, get) = only(&[("proc/2/comm", None)]);
    assert!(id == Capability::Container && get.expect("a way").contains("hostPID"));
    let (id, ..) = only(&[("proc/2/comm", Some("sh\n"))]);
    assert_eq!(id, Capability::Container);
    // Hidden from an unprivileged user, but present.
    let hidden = "proc /proc proc rw,nosuid,hidepid=invisible 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";
    assert_eq!(missing(&[("proc/2/comm", None), ("proc/mounts", Some(hidden))]), []);
}
