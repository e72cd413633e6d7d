//! The fixes of a page do not undo each other: whoever runs all of them leaves each thread with one value.

use std::collections::{BTreeMap, BTreeSet};

use unstarve_change::{Selector, Target};
use unstarve_check::{Audit, audit, audit_upgrade};
use unstarve_facts::Snapshot;

use crate::rules::host::{Host, healthy};

/// What a page's fixes set: the thing (of a selector, each CPU) and what of it → the values.
fn values(audit: &Audit) -> BTreeMap<String, BTreeSet<String>> {
    let mut values: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for change in audit.hits.iter().flat_map(|hit| &hit.fixes).flat_map(|fix| &fix.changes) {
        let (Some(value), Some(aspect)) = (change.value(), change.aspect()) else { continue };
        for thing in things(&change.target) {
            values.entry(format!("{aspect} of {thing}")).or_default().insert(value.to_string());
        }
    }
    values
}

fn things(target: &Target) -> Vec<String> {
    match target {
        Target::Thread(thread) => vec![thread.tid.to_string()],
        Target::Threads(Selector::Workers { cpus }) if cpus.is_empty() => vec!["kworker".to_owned()],
        Target::Threads(Selector::Workers { cpus }) => cpus.iter().map(|cpu| format!("kworker/{cpu}")).collect(),
        Target::Threads(Selector::KernelThreads { prefix }) => vec![prefix.clone()],
        Target::File { path } => vec![path.clone()],
        other => vec![format!("{other:?}")],
    }
}

fn agree(name: &str, audit: &Audit) -> usize {
    let values = values(audit);
    for (whose, set) in &values {
        assert_eq!(set.len(), 1, "{name}: {whose} would be {set:?}");
    }
    values.len()
}

fn published(name: &str) -> Snapshot {
    let path = format!("{}/../../testdata/snapshots/{name}", env!("CARGO_MANIFEST_DIR"));
    Snapshot::from_json(&std::fs::read_to_string(path).expect("testdata")).expect("a snapshot")
}

#[test]
fn of_the_published_cases_on_every_kernel() {
    for name in ["storage-controller-5.10.json", "kubernetes-node-6.1.json"] {
        let snapshot = published(name);
        assert!(agree(name, &audit(&snapshot)) > 0, "{name} has fixes");
        for to in ["5.15", "6.1", "6.6", "6.12.107", "6.18", "7.2"] {
            agree(&format!("{name} under {to}"), &audit_upgrade(&snapshot, to.parse().expect("a version")));
        }
    }
}

#[test]
fn one_value_that_cures_all() {
    let snapshot = published("storage-controller-5.10.json");
    let values = values(&audit(&snapshot));
    // ksoftirqd/0 meets RR 1 and RR 2, ksoftirqd/2 RR 5 as well.
    assert_eq!(values["policy of 12"], ["fifo 3".to_owned()].into());
    assert_eq!(values["policy of 32"], ["fifo 6".to_owned()].into());
    assert_eq!(values["policy of kworker/2"], ["fifo 6".to_owned()].into());
}

#[test]
fn of_hosts_with_many_real_time_programs() {
    let mut tried = 0;
    for seed in 0..200_u32 {
        let mut host = crowd(seed);
        if seed % 3 == 0 {
            host.0.irqs.retain(|irq| irq.irq < 40);
        }
        if seed % 5 == 0 {
            host.group("/kubepods.slice", 1000 + seed).group("/machine.slice", 300);
            host.task(700, "broker", "0-7", "/kubepods.slice/pod1/c");
        }
        tried += agree(&format!("seed {seed}"), &host.audit());
    }
    assert!(tried > 2_000, "{tried} threads are set to something");
}

/// Some real-time programs of some priorities on some CPUs, busy and quiet.
fn crowd(seed: u32) -> Host {
    const PLACES: [&str; 6] = ["0-7", "0-1", "2-7", "0-3", "5", "1,4-6"];
    const NAMES: [&str; 5] = ["monitor", "stargate", "cassandra", "audio", "watchdogd"];
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12_345);
    let mut next = move |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % below
    };
    let mut host = healthy();
    for id in 0..1 + next(5) {
        let name = NAMES[next(5) as usize];
        let use_of_cpu = [0.0, 0.0, 0.01, 0.2, 0.9][next(5) as usize];
        host.real_time(900 + id, name, 1 + next(99), PLACES[next(6) as usize], use_of_cpu);
    }
    host
}
