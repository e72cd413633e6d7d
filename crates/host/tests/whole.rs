//! Snapshots for an audit of made-up hosts: configured settings, devices, the view from a container, redaction.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;
use unstarve_facts::{DriftKind, Snapshot, drifts};
use unstarve_host::Root;
use unstarve_model::Tid;

fn host(files: &[(&str, &str)]) -> TempDir {
    let tree = tempfile::tempdir().expect("a temporary directory");
    for (path, text) in files {
        let full = tree.path().join(path);
        fs::create_dir_all(full.parent().expect("a parent")).expect("a directory");
        fs::write(full, text).expect("a file");
    }
    tree
}

fn link(tree: &TempDir, from: &str, to: &str) {
    let from = tree.path().join(from);
    fs::create_dir_all(from.parent().expect("a parent")).expect("a directory");
    symlink(to, from).expect("a link");
}

/// `policy` is the priority and the policy number, as in `stat`.
fn task(tree: &Path, tid: u32, comm: &str, flags: u64, policy: (u32, u32), cgroup: &str, command: &str) {
    let (rt, policy) = policy;
    let directory = tree.join(format!("proc/{tid}/task/{tid}"));
    fs::create_dir_all(&directory).expect("a directory");
    let stat = format!(
        "{tid} ({comm}) S 1 0 0 0 -1 {flags} 0 777 0 0 30 12 0 0 20 0 1 0 500 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 {rt} {policy} 0 0 0\n"
    );
    for (name, text) in
        [("stat", stat.as_str()), ("status", "Cpus_allowed_list:\t0-3\n"), ("cgroup", cgroup), ("cmdline", command)]
    {
        fs::write(directory.join(name), text).expect("a file");
    }
}

fn server() -> TempDir {
    let tree = host(&[
        ("proc/sys/kernel/osrelease", "6.1.0-32-amd64\n"),
        ("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.176-1 (2026-05-06)\n"),
        ("proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
        ("proc/cmdline", "root=UUID=4711 preempt=full isolcpus=3 token=secret -- init=x\n"),
        ("proc/uptime", "1234.56 99.00\n"),
        (
            "proc/mounts",
            "/dev/mapper/acme-root / xfs rw,logdev=/dev/x 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n\
             /dev/nvme0n1 /srv/customers/acme xfs rw,logdev=/dev/x 0 0\n",
        ),
        (
            "proc/interrupts",
            "      CPU0  CPU2\n 24:  10  5  MSI  0-edge  nvme0q0\n 25:  7  0  MSI  eth0-rx-0\n 26:  0  3  MSI  ahci[x]\n",
        ),
        ("proc/irq/24/smp_affinity_list", "0-3\n"),
        ("proc/irq/24/nvme0q0/x", ""),
        ("proc/irq/25/smp_affinity_list", "0\n"),
        ("proc/irq/25/eth0-rx-0/x", ""),
        ("proc/irq/26/smp_affinity_list", "2\n"),
        ("proc/irq/26/ahci[x]/x", ""),
        ("proc/softirqs", "          CPU0 CPU1\n  NET_RX:  12  0\n   BLOCK:  0  4\n"),
        ("proc/fs/nfsd/threads", "128\n"),
        ("sys/module/sunrpc/parameters/pool_mode", "global\n"),
        ("sys/devices/pci/01/msi_irqs/24", "msi"),
        ("sys/devices/pci/01/nvme/nvme0/x", ""),
        ("sys/devices/pci/02/msi_irqs/25", "msi"),
        ("sys/devices/pci/02/virtio1/x", ""),
        ("sys/class/net/eth0/threaded", "0\n"),
        ("sys/class/net/eth0/queues/rx-0/rps_cpus", "0f\n"),
        ("sys/class/net/eth0/queues/rx-1/rps_cpus", "00\n"),
        ("sys/class/net/lo/threaded", "0\n"),
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("etc/sysctl.conf", "kernel.sched_rt_runtime_us = -1\n"),
        (
            "etc/sysctl.d/50-tuning.conf",
            "# old\n\n-kernel/sched_latency_ns=1\nvm.swappiness=1\nkernel.sched_autogroup_enabled = 0\n",
        ),
        ("usr/lib/sysctl.d/50-tuning.conf", "kernel.sched_nr_migrate=1\n"),
        ("usr/lib/sysctl.d/10-base.conf", "kernel.numa_balancing=0\n"),
        ("etc/tuned/active_profile", "fast\n"),
        (
            "etc/tuned/fast/tuned.conf",
            "[main]\ninclude=base\n[sysctl]\nkernel.sched_nr_migrate=8\n[bootloader]\ncmdline_fast=+isolcpus=3 quiet\n",
        ),
        (
            "usr/lib/tuned/base/tuned.conf",
            "[main]\ninclude=fast\n[scheduler]\nsched_min_granularity_ns=10000000\n[cpu]\ngovernor=performance\n",
        ),
        ("usr/lib/systemd/system/db.service", "[Service]\nExecStart=/usr/bin/db\nNice=-5\n"),
        (
            "etc/systemd/system/db.service",
            "[Service]\nCPUSchedulingPolicy=rr\nCPUSchedulingPriority=10\nExecStartPre=sh -c 'db --token hunter2; echo 1 > /sys/kernel/debug/sched/latency_ns'\n",
        ),
        ("etc/systemd/system/db.service.d/override.conf", "[Service]\nCPUWeight=1000\n"),
        ("etc/default/grub", "GRUB_CMDLINE_LINUX=\"preempt=full quiet\"\n"),
    ]);
    link(&tree, "sys/block/nvme0n1/device", "../../devices/pci/01/nvme/nvme0");
    link(&tree, "sys/class/net/eth0/device", "../../../devices/pci/02/virtio1");
    link(&tree, "proc/self/ns/pid", "pid:[4026531836]");
    link(&tree, "proc/self/ns/cgroup", "cgroup:[4026531835]");
    let t = tree.path();
    task(t, 1, "systemd", 0x400100, (0, 0), "0::/init.scope\n", "/sbin/init\0");
    task(t, 2, "kthreadd", 0x208040, (0, 0), "0::/\n", "");
    task(t, 900, "acme-db7", 0, (10, 2), "0::/system.slice/acme-db.service\n", "/opt/acme/db\0--password\0hunter2\0");
    task(
        t,
        901,
        "python3",
        0,
        (0, 0),
        "0::/system.slice/tuned.service\n",
        "/usr/bin/python3\0-Es\0/usr/sbin/tuned\0-l\0",
    );
    tree
}

#[test]
fn an_audit_sees_who_serves_what_and_what_is_written_where() {
    let tree = server();
    let snapshot = unstarve_host::take_whole(&Root::at(tree.path()));
    let irqs: Vec<String> = snapshot
        .irqs
        .iter()
        .map(|irq| format!("{} {:?} {:?}", irq.irq, irq.devices, irq.per_cpu.clone().unwrap_or_default()))
        .collect();
    insta::assert_snapshot!(irqs.join("\n"), @r#"
    24 ["block/nvme0n1"] {0: 10, 2: 5}
    25 ["net/eth0"] {0: 7}
    26 ["block/ahci[x]"] {2: 3}
    "#);
    let places: Vec<String> = snapshot
        .configured
        .iter()
        .map(|setting| {
            let owner = setting.owner.as_deref().unwrap_or("-");
            format!("{:?} {} {owner}: {}={}", setting.by, setting.place(), setting.key, setting.value)
        })
        .collect();
    insta::assert_snapshot!(places.join("\n"), @"
    Sysctl /usr/lib/sysctl.d/10-base.conf:1 -: kernel.numa_balancing=0
    Sysctl /etc/sysctl.d/50-tuning.conf:3 -: kernel.sched_latency_ns=1
    Sysctl /etc/sysctl.d/50-tuning.conf:5 -: kernel.sched_autogroup_enabled=0
    Sysctl /etc/sysctl.conf:1 -: kernel.sched_rt_runtime_us=-1
    Tuned /usr/lib/tuned/base/tuned.conf:4 base: sched_min_granularity_ns=10000000
    Tuned /etc/tuned/fast/tuned.conf:4 fast: kernel.sched_nr_migrate=8
    Tuned /etc/tuned/fast/tuned.conf:6 fast: isolcpus=3
    Unit /etc/systemd/system/db.service:2 db.service: CPUSchedulingPolicy=rr
    Unit /etc/systemd/system/db.service:3 db.service: CPUSchedulingPriority=10
    Unit /etc/systemd/system/db.service:4 db.service: ExecStartPre=/sys/kernel/debug/sched/latency_ns
    Unit /etc/systemd/system/db.service.d/override.conf:2 db.service: CPUWeight=1000
    Boot /proc/cmdline -: preempt=full
    Boot /proc/cmdline -: isolcpus=3
    Boot /etc/default/grub:1 -: preempt=full
    ");
    assert_eq!(snapshot.uptime_ticks, Some(123_456));
    assert_eq!(snapshot.softirqs.as_ref().map(|all| all["NET_RX"].clone()), Some([(0, 12)].into()));
    let services = snapshot.services.clone().expect("looked at");
    assert!(services.runs("tuned") && !services.runs("irqbalance"));
    assert_eq!(services.nfsd.map(|nfsd| (nfsd.threads, nfsd.pool_mode)), Some((128, Some("global".into()))));
    let networks: Vec<_> = snapshot.networks.iter().map(|n| (n.name.as_str(), n.hardware, n.rps.len())).collect();
    assert_eq!(networks, [("eth0", true, 1), ("lo", false, 0)]);
    let database = snapshot.task(Tid(900)).expect("the database");
    assert_eq!((database.cpu_ticks, database.child_faults, database.parent), (Some(42), Some(777), Some(Tid(1))));
    assert_eq!(database.cmdline, None);
    assert_eq!(database.reset_on_fork, None, "another machine's tasks cannot be asked");
    let again = Snapshot::from_json(&snapshot.to_json()).expect("its own JSON");
    assert_eq!(again, snapshot);
}

#[test]
fn no_snapshot_holds_what_may_be_a_secret() {
    let tree = server();
    let root = Root::at(tree.path());
    for snapshot in [unstarve_host::take(&root), unstarve_host::take_whole(&root)] {
        let text = snapshot.to_json();
        for secret in ["hunter2", "token", "4711", "--password", "/opt/acme/db"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
        assert_eq!(snapshot.kernel.cmdline.as_deref(), Some("preempt=full isolcpus=3"), "what rules read stays");
    }
}

#[test]
fn what_is_written_and_does_nothing_is_found_with_its_line() {
    let tree = server();
    let snapshot = unstarve_host::take_whole(&Root::at(tree.path()));
    let lines = |found: Vec<unstarve_facts::Drift<'_>>| {
        let line = |drift: &unstarve_facts::Drift<'_>| {
            let kind = match &drift.kind {
                DriftKind::Gone(next) => format!("gone, next {:?}", next.map(|knob| knob.name())),
                DriftKind::Redefined(_) => "redefined".to_owned(),
                other => format!("{other:?}"),
            };
            format!("{} {}: {kind}", drift.setting.place(), drift.name)
        };
        found.iter().map(line).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(lines(drifts(&snapshot, None)), @r#"
    /usr/lib/sysctl.d/10-base.conf:1 kernel.numa_balancing: Unknown
    /etc/sysctl.d/50-tuning.conf:3 kernel.sched_latency_ns: Moved("/sys/kernel/debug/sched/latency_ns")
    /etc/sysctl.d/50-tuning.conf:5 kernel.sched_autogroup_enabled: Unknown
    /etc/sysctl.conf:1 kernel.sched_rt_runtime_us: NotInForce("950000")
    /etc/tuned/fast/tuned.conf:4 kernel.sched_nr_migrate: Moved("/sys/kernel/debug/sched/nr_migrate")
    "#);
    insta::assert_snapshot!(lines(drifts(&snapshot, "6.12".parse().ok())), @r#"
    /etc/sysctl.d/50-tuning.conf:3 kernel.sched_latency_ns: gone, next Some("base_slice_ns")
    /etc/sysctl.conf:1 kernel.sched_rt_runtime_us: redefined
    /usr/lib/tuned/base/tuned.conf:4 sched_min_granularity_ns: Translated("base_slice_ns")
    /etc/tuned/fast/tuned.conf:4 kernel.sched_nr_migrate: Moved("/sys/kernel/debug/sched/nr_migrate")
    /etc/systemd/system/db.service:4 /sys/kernel/debug/sched/latency_ns: gone, next Some("base_slice_ns")
    "#);
}

#[test]
fn a_redacted_snapshot_names_nobody_and_still_hangs_together() {
    let tree = server();
    let whole = unstarve_host::take_whole(&Root::at(tree.path()));
    let redacted = whole.clone().redacted();
    let text = redacted.to_json();
    for private in ["acme", "hunter2", "secret", "4711", "customers", "/usr/bin/db", "db.service", "logdev=/dev/x"] {
        assert!(!text.contains(private), "{private} in {text}");
    }
    for kept in [
        "kthreadd",
        "systemd",
        "nvme0n1",
        "eth0",
        "isolcpus=3",
        "CPUWeight",
        "kernel.sched_rt_runtime_us",
        "/sys/kernel/debug/sched/latency_ns",
    ] {
        assert!(text.contains(kept), "{kept} in {text}");
    }
    assert!(redacted.mounts.iter().any(|mount| mount.target == "/"), "every host has it: {:?}", redacted.mounts);
    let group = |snapshot: &Snapshot| snapshot.cgroup_of(Tid(900)).map(str::to_owned);
    assert_eq!(group(&redacted).as_deref(), Some("/system.slice/unit-1.service"));
    assert_eq!(redacted.tasks.len(), whole.tasks.len());
    assert!(redacted.view.as_ref().is_some_and(|view| view.redacted));
    assert_eq!(whole.redacted().to_json(), text, "the same host gives the same pseudonyms");
    assert!(Snapshot::from_json(&text).is_ok());
}

#[test]
fn a_container_is_told_what_it_cannot_see() {
    let missing = |tree: &TempDir| {
        let snapshot = unstarve_host::take_whole(&Root::at(tree.path()));
        snapshot.missing.into_iter().map(|missing| missing.what).collect::<Vec<_>>()
    };
    let tree = server();
    assert!(!missing(&tree).iter().any(|what| what.contains("of the host")), "{:?}", missing(&tree));
    for (name, text) in [("pid", "pid:[4026532999]"), ("cgroup", "cgroup:[4026532998]")] {
        fs::remove_file(tree.path().join(format!("proc/self/ns/{name}"))).expect("the link");
        link(&tree, &format!("proc/self/ns/{name}"), text);
    }
    let seen = missing(&tree);
    assert!(seen.iter().any(|what| what == "tasks of the host"), "{seen:?}");
    assert!(seen.iter().any(|what| what == "cgroups of the host"), "{seen:?}");
    // An unprivileged user does not see process 1 under hidepid.
    let hidden = server();
    fs::remove_dir_all(hidden.path().join("proc/1")).expect("process 1");
    assert!(missing(&hidden).iter().any(|what| what == "tasks of other users"));
}

#[test]
fn damage_is_a_located_error() {
    let tree = server();
    let json = unstarve_host::take_whole(&Root::at(tree.path())).to_json();
    for cut in [1, json.len() / 3, json.len() / 2, json.len() - 1] {
        let error = Snapshot::from_json(&json[..cut]).expect_err("cut").to_string();
        assert!(error.contains("line 1 column"), "{error}");
    }
    let wrong = json.replacen("\"affinity\":\"0-3\"", "\"affinity\":\"3-0\"", 1);
    let error = Snapshot::from_json(&wrong).expect_err("no set of CPUs").to_string();
    assert!(error.contains("3-0") && error.contains("line 1 column"), "{error}");
}
