//! Published cases, written down as snapshots: what a check before the trouble would have said.

use unstarve_check::{Audit, Severity, When, audit, audit_upgrade};
use unstarve_facts::Snapshot;

fn case(name: &str) -> Snapshot {
    let path = format!("{}/../../testdata/snapshots/{name}", env!("CARGO_MANIFEST_DIR"));
    Snapshot::from_json(&std::fs::read_to_string(path).expect("testdata")).expect("a snapshot")
}

fn shown(audit: &Audit) -> String {
    audit.hits.iter().map(crate::rules::host::line).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_storage_controller_before_the_spikes() {
    let snapshot = case("storage-controller-5.10.json");
    let found = audit(&snapshot);
    insta::assert_snapshot!(shown(&found), @"
    critical stargate RR 5 (6 threads) may run on CPUs 2-7, which serve block interrupts, ahead of ksoftirqd there.
    critical cassandra[3100] RR 1 may run on CPUs 0-7, which serve network and block interrupts, ahead of ksoftirqd there.
    critical stargate RR 5 (6 threads) may run on CPUs 2-7, where a worker of normal priority completes direct writes of ext4 on /dev/nvme0n1, ext4 on /dev/sda.
    critical cassandra[3100] RR 1 may run on CPUs 0-7, where a worker of normal priority completes direct writes of ext4 on /dev/nvme0n1, ext4 on /dev/sda.
    warning monitor[3000] RR 2 may run on CPUs 0-7, which serve network and block interrupts, ahead of ksoftirqd there.
    warning monitor[3000] RR 2 may run on CPUs 0-7, where a worker of normal priority completes direct writes of ext4 on /dev/nvme0n1, ext4 on /dev/sda.
    warning monitor[3000] is RR 2 and starts children, which inherit that.
    info Interrupts between CPUs that push real-time tasks can lock up a CPU that is busy with softirqs.
    info Kernel threads bound to a CPU count as imbalance, so that user tasks are moved for nothing.
    ");
    // A2: the cure that worked, ksoftirqd above the monitor.
    let monitor =
        found.hits.iter().find(|hit| hit.sentence.starts_with("monitor[3000] RR 2 may run on CPUs 0-7, which"));
    let fix = monitor.expect("the monitor").fixes.iter().find(|fix| fix.text.contains("ksoftirqd")).expect("a fix");
    // Where stargate may run, too, one value is above both.
    let above_the_monitor = crate::rules::raise_if_of_kernel(&[(12, 50), (22, 50)], 3);
    let above_both = crate::rules::raise_if_of_kernel(&[(32, 50), (42, 50), (52, 50), (62, 50), (72, 50), (82, 50)], 6);
    assert_eq!(fix.apply, format!("{above_the_monitor}; {above_both}"));
    // A3: the cure that worked, workers above the controller; moving it to the network's CPUs is no cure.
    let controller = found.hits.iter().find(|hit| hit.rule == "rt-beside-completion-worker").expect("the controller");
    assert!(controller.sentence.starts_with("stargate"), "{}", controller.sentence);
    assert!(
        controller.fixes.iter().any(|fix| fix.apply.contains("kworker") && fix.apply.contains("--fifo --pid 6 $t"))
    );
    assert!(!controller.fixes.iter().any(|fix| fix.apply.contains("taskset")));
}

#[test]
fn the_storage_controller_with_its_cure() {
    let mut snapshot = case("storage-controller-5.10.json");
    for task in snapshot.tasks.iter_mut() {
        if task.kernel_thread {
            (task.policy, task.rt_priority) = (unstarve_model::SchedPolicy::Rr, 10);
        } else {
            task.reset_on_fork = Some(true);
        }
    }
    assert!(!audit(&snapshot).reaches(Severity::Warning), "{}", shown(&audit(&snapshot)));
}

#[test]
fn the_kubernetes_node_before_the_broker_is_slow() {
    let snapshot = case("kubernetes-node-6.1.json");
    insta::assert_snapshot!(shown(&audit(&snapshot)), @"
    critical Tasks of /kubepods.slice (cpu.weight 2500) outweigh kernel workers 25 to 1 on a CPU.
    ");
    // Linux 7 completes overwrites inline; the weight still outweighs the worker.
    let later = audit_upgrade(&snapshot, "7.2".parse().expect("a version"));
    let heavy = later.hits.iter().find(|hit| hit.rule == "heavy-cgroup").expect("it stays");
    assert_eq!((heavy.severity, heavy.holds), (Severity::Warning, Some(When::Both)));
}
