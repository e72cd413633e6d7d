//! Whom a rule means.

use super::*;

#[test]
fn cpus_parents_and_units_select() {
    let policy = policy(
        r#"
        [[rule]]
        name = "cpu 0-1"
        match = { kind = "ksoftirqd", cpu = "0-1" }
        set = { policy = "fifo", rt-priority = 2 }
        [[rule]]
        name = "children"
        match = { parent = "monitor" }
        set = { reset-on-fork = true }
        [[rule]]
        name = "by pid"
        match = { parent = "pid:77" }
        set = { nice = 1 }
        [[rule]]
        name = "unit"
        match = { unit = "*.service", cmdline = "db *" }
        set = { affinity = "2-3" }
        "#,
    );
    let softirqd = |cpu: u32| {
        let mut task = task(10 + cpu, &format!("ksoftirqd/{cpu}"), Kind::Ksoftirqd);
        task.attributes.affinity = cpu.to_string().parse().unwrap();
        task
    };
    let mut child = task(3, "helper", Kind::User);
    child.parent = Some((Tid(77), "monitor".to_owned()));
    let mut db = task(4, "db", Kind::User);
    db.unit = Some("db.service".to_owned());
    db.cmdline = Some("db --fast".to_owned());
    let tasks = [softirqd(1), softirqd(2), child, db, task(5, "ksoftirqd/0", Kind::User)];
    insta::assert_snapshot!(table(&policy, &Surroundings::default(), &tasks), @r"
    ksoftirqd/1: other -> fifo 2 (cpu 0-1)
    ksoftirqd/2: -
    helper: reset-on-fork off -> reset-on-fork on (children)
    helper: nice 0 -> nice 1 (by pid)
    db: CPUs 0-3 -> CPUs 2-3 (unit)
    ksoftirqd/0: -
    ");
}

#[test]
fn a_kernel_threads_name_means_the_kernels_thread() {
    let policy = policy(
        r#"
        [[rule]]
        name = "softirq"
        match = { comm = "ksoftirqd/*" }
        set = { nice = -5 }
        [[rule]]
        name = "nfs"
        match = { comm = "nfsd" }
        set = { nice = -5 }
        [[rule]]
        name = "a program's"
        match = { comm = "lockd", kind = "user" }
        set = { nice = -5 }
        [[rule]]
        name = "both"
        match = { comm = "kcryptd", kind = "any" }
        set = { nice = -5 }
        "#,
    );
    let tasks = [
        task(10, "ksoftirqd/0", Kind::Ksoftirqd),
        task(11, "ksoftirqd/0", Kind::User),
        task(12, "nfsd", Kind::Kthread),
        task(13, "nfsd", Kind::User),
        task(14, "lockd", Kind::Kthread),
        task(15, "lockd", Kind::User),
        task(16, "kcryptd", Kind::Kthread),
        task(17, "kcryptd", Kind::User),
    ];
    insta::assert_snapshot!(table(&policy, &Surroundings::default(), &tasks), @r"
    ksoftirqd/0: nice 0 -> nice -5 (softirq)
    ksoftirqd/0: -
    nfsd: nice 0 -> nice -5 (nfs)
    nfsd: -
    lockd: -
    lockd: reset-on-fork off -> reset-on-fork on (a program's)
    lockd: nice 0 -> nice -5 (a program's)
    kcryptd: nice 0 -> nice -5 (both)
    kcryptd: reset-on-fork off -> reset-on-fork on (both)
    kcryptd: nice 0 -> nice -5 (both)
    ");
    let implied: Vec<bool> = policy.rules.iter().map(|rule| rule.implied_kthread).collect();
    assert_eq!(implied, [true, true, false, false]);
}

#[test]
fn a_task_is_a_users_if_all_its_ids_are() {
    let policy = policy(
        r#"
        [[rule]]
        name = "db"
        match = { comm = "db", uid = 70 }
        set = { nice = -5 }
        [[rule]]
        name = "root's"
        match = { comm = "tool", user = "root" }
        set = { nice = -5 }
        [[rule]]
        name = "some"
        match = { uid = "1000-1009" }
        set = { nice = 3 }
        "#,
    );
    let owned = |tid, comm, ids: Option<[u32; 3]>| {
        let owner =
            ids.map(|[real, effective, saved]| Owner { real: Uid(real), effective: Uid(effective), saved: Uid(saved) });
        Task { owner, ..task(tid, comm, Kind::User) }
    };
    let tasks = [
        owned(10, "db", Some([70, 70, 70])),
        owned(11, "db", Some([1001, 70, 70])),
        owned(12, "db", Some([70, 1001, 70])),
        owned(13, "db", Some([71, 71, 71])),
        owned(14, "db", None),
        // A set-user-ID program of root under a name that its starter chose.
        owned(15, "tool", Some([1001, 0, 0])),
        owned(16, "tool", Some([0, 0, 0])),
        owned(17, "x", Some([1009, 1009, 1009])),
        owned(18, "x", Some([1010, 1010, 1010])),
    ];
    insta::assert_snapshot!(table(&policy, &Surroundings::default(), &tasks), @r"
    db: reset-on-fork off -> reset-on-fork on (db)
    db: nice 0 -> nice -5 (db)
    db: -
    db: -
    db: -
    db: -
    tool: -
    tool: reset-on-fork off -> reset-on-fork on (root's)
    tool: nice 0 -> nice -5 (root's)
    x: nice 0 -> nice 3 (some)
    x: -
    ");
    assert!(policy.wanted().owner);
}
