//! Each command that a fix prints runs under `sh -eu` on a model of its host, and its undo leaves that as it was.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use unstarve_check::{Hit, When, audit, audit_upgrade};
use unstarve_facts::{Bandwidth, CgroupFacts, CgroupVersion, ConfiguredBy, NfsdFacts, Snapshot, Throttled};
use unstarve_model::{Nanos, SchedPolicy, Tid};
use unstarve_testing::model::{Model, Running};

use crate::rules::host::{Host, healthy};

/// Tries each fix of a host, and of its upgrades on the host as it would be then.
fn try_all(name: &str, snapshot: &Snapshot, tried: &mut BTreeMap<String, BTreeSet<String>>) {
    try_hits(name, snapshot, audit(snapshot).hits, tried);
    for to in ["6.1", "6.12.107", "7.2"] {
        let version = to.parse().expect("a version");
        let mut hits = audit_upgrade(snapshot, version).hits;
        hits.retain(|hit| hit.holds == Some(When::After));
        try_hits(&format!("{name} under {to}"), &snapshot.under(version), hits, tried);
    }
}

fn try_hits(name: &str, snapshot: &Snapshot, hits: Vec<Hit>, tried: &mut BTreeMap<String, BTreeSet<String>>) {
    let mut host: Option<Running> = None;
    // Fixes that many hosts have in the same words are tried on the first.
    for hit in hits {
        for fix in hit.fixes {
            assert_eq!(fix.apply.is_empty(), fix.undo.is_empty(), "{name}: {fix:?}");
            assert!(!fix.changes.is_empty(), "{name}: {fix:?}");
            if fix.apply.is_empty() {
                continue;
            }
            if !tried.entry(hit.rule.clone()).or_default().insert(fix.apply.clone()) {
                continue;
            }
            let host = match host.take().map_or_else(|| model(snapshot).start(), Ok) {
                Ok(running) => host.insert(running),
                Err(why) => return unstarve_testing::not_possible_here(why),
            };
            if let Err(why) = host.there_and_back(&fix.apply, &fix.undo) {
                panic!("{name}: {}: {why}", hit.rule);
            }
        }
    }
}

/// With a file of features, and of nfsd's threads, also where the snapshot could not read it: a fix may name one all the same.
fn model(snapshot: &Snapshot) -> Model {
    let mut model = Model::of(snapshot);
    if snapshot.features.is_none() {
        model.file("/sys/kernel/debug/sched_features", "NO_HRTICK RT_PUSH_IPI RUN_TO_PARITY");
    }
    if snapshot.services.as_ref().is_none_or(|services| services.nfsd.is_none()) {
        model.file("/proc/fs/nfsd/threads", "6");
    }
    model
}

#[test]
fn of_every_stored_snapshot() {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    let mut tried = BTreeMap::new();
    let mut files = Vec::new();
    for directory in ["snapshots", "traces", "truth"] {
        files
            .extend(std::fs::read_dir(testdata.join(directory)).expect("testdata").flatten().map(|entry| entry.path()));
    }
    files.sort();
    for file in files {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let json = match name.rsplit('.').next() {
            Some("json") => Some(std::fs::read_to_string(&file).expect("testdata")),
            Some("dat" | "data" | "zst" | "pftrace") => {
                unstarve_readers::open(&file).expect("a trace").info().snapshot.clone()
            }
            _ => None,
        };
        if let Some(json) = json {
            try_all(&name, &Snapshot::from_json(&json).expect("a snapshot"), &mut tried);
        }
    }
    let count: usize = tried.values().map(BTreeSet::len).sum();
    assert!(count > 20, "{count} fixes were tried");
}

#[test]
fn of_planted_hosts() {
    let mut tried = BTreeMap::new();
    for (name, host) in planted() {
        let snapshot = Snapshot::from_json(&host.0.to_json()).expect("its own form");
        try_all(name, &snapshot, &mut tried);
    }
    // Each rule that ever prints a command has printed one.
    let with_commands = tried.iter().filter(|(_, commands)| commands.iter().any(|command| !command.is_empty()));
    let rules: Vec<&str> = with_commands.map(|(rule, _)| rule.as_str()).collect();
    insta::assert_snapshot!(rules.join(" "), @"autogroup crowded-pool heavy-cgroup interrupt-on-pinned-cpu knob-drift known-bug preempt-mode rt-beside-completion-worker rt-inherited rt-on-interrupt-cpu rt-throttling-off throttled-cgroup");
}

/// A host for each kind of fix, and what could make its commands go wrong.
fn planted() -> Vec<(&'static str, Host)> {
    let mut all = vec![
        ("real-time threads", real_time()),
        ("old hierarchy", old_hierarchy()),
        ("settings", settings()),
        ("interrupts", interrupts()),
        ("services", services()),
    ];
    let mut quoted = healthy();
    quoted.group("/a b's.slice", 5000).group("/a b.slice", 5000).group("/$(reboot).slice", 5000);
    all.push(("names of groups", quoted));
    all
}

fn real_time() -> Host {
    let mut host = healthy();
    host.features(&[("RT_PUSH_IPI", true), ("RUN_TO_PARITY", true)]);
    host.real_time(3000, "$(reboot); #", 10, "0-7", 0.3).child_faults = Some(12_345);
    for tid in 3001..3041 {
        let task = host.real_time(tid, "$(reboot); #", 10, "0-7", 0.3);
        (task.tgid, task.policy, task.reset_on_fork) = (Some(Tid(3000)), SchedPolicy::Rr, Some(tid % 2 == 0));
    }
    let fifo = host.real_time(3100, "fifo", 20, "2-7", 0.3);
    (fifo.policy, fifo.child_faults, fifo.reset_on_fork) = (SchedPolicy::Fifo, Some(12_345), None);
    let deadline = host.real_time(3200, "deadline", 0, "0-7", 0.3);
    deadline.policy = SchedPolicy::Deadline;
    host.kernel_thread(200, "kworker/0:1H", "0").nice = -20;
    host.kernel_thread(201, "kworker/u8:1", "0-7");
    let worker = host.kernel_thread(202, "kworker/3:7-dio/nvme0n1", "3");
    (worker.policy, worker.rt_priority) = (SchedPolicy::Fifo, 2);
    host.kernel_thread(203, "kworker/4:0", "4").nice = -5;
    // A program may call itself so.
    host.task(204, "kworker/0:9", "0-7", "/");
    host.group("/kubepods.slice", 2500).task(700, "broker", "0-7", "/kubepods.slice/pod1/c");
    host
}

fn old_hierarchy() -> Host {
    let mut host = healthy();
    host.kernel("5.3.0", "#1 SMP").features(&[("RT_PUSH_IPI", true)]);
    if let Some(hierarchy) = host.0.hierarchy.as_mut() {
        (hierarchy.version, hierarchy.mount) = (CgroupVersion::V1, "/sys/fs/cgroup/cpu,cpuacct".to_owned());
    }
    host.0.cgroups = ["/a", "/a b"]
        .map(|path| CgroupFacts {
            path: path.to_owned(),
            shares: Some(20_000),
            limit: Some(Bandwidth { quota_us: 50_000, period_us: 100_000 }),
            throttled: Some(Throttled { periods: 1000, count: 500, ns: Nanos::from_millis(40) }),
            ..CgroupFacts::default()
        })
        .into();
    host
}

fn settings() -> Host {
    let mut host = healthy();
    host.kernel("6.12.20-amd64", "#1 SMP PREEMPT_DYNAMIC").features(&[("RUN_TO_PARITY", true), ("RT_PUSH_IPI", true)]);
    for cpu in 0..8 {
        host.setting(&format!("/sys/kernel/debug/sched/fair_server/cpu{cpu}/runtime"), "0");
        host.setting(&format!("/sys/kernel/debug/sched/fair_server/cpu{cpu}/period"), "1000000000");
    }
    host.setting("/proc/sys/kernel/sched_rt_runtime_us", "-1").setting("/proc/sys/kernel/sched_rt_period_us", "500000");
    host.setting("/proc/sys/kernel/sched_autogroup_enabled", "1");
    host.setting("/proc/sys/kernel/sched_rr_timeslice_ms", "10");
    host.setting("/sys/kernel/debug/sched/migration_cost_ns", "500000");
    host.setting("/sys/kernel/debug/sched/preempt", "none voluntary full (lazy)");
    host.written(ConfiguredBy::Sysctl, "kernel.sched_migration_cost_ns", "5000000");
    host.task(600, "backup", "0-7", "/").nice = 10;
    host.task(601, "vhost-600", "0-7", "/");
    host.task(602, "idler", "0-7", "/").policy = SchedPolicy::Idle;
    host.real_time(900, "monitor", 10, "0-1", 0.5);
    host.limit("/system.slice/limited.service", 1000, 500);
    host
}

fn interrupts() -> Host {
    let mut host = healthy();
    host.kernel("6.12.20-amd64", "#1 SMP PREEMPT_DYNAMIC").config("RT_GROUP_SCHED", "y");
    host.setting("/proc/sys/kernel/sched_rt_runtime_us", "-1");
    host.irq(60, "eth1", "net/eth1", "2", 3_600_000);
    host.task(800, "dpdk", "2", "/").cpu_ticks = Some(300_000);
    host
}

fn services() -> Host {
    let mut host = healthy();
    let services = host.0.services.get_or_insert_default();
    services.running = vec!["irqbalance".to_owned()];
    services.nfsd = Some(NfsdFacts { threads: 128, pool_mode: Some("global".to_owned()) });
    host.task(800, "dpdk", "2", "/").cpu_ticks = Some(300_000);
    host
}
