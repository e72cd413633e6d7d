//! What a policy makes of tasks: each case a policy, tasks, and the decisions as a table.

use std::fmt::Write;
use std::path::Path;

use unstarve_change::TaskKey;
use unstarve_executor::Attributes;
use unstarve_guard::decide::{NoteKind, Surroundings, decide};
use unstarve_guard::survey::Crowd;
use unstarve_guard::{Kind, Owner, Policy, Task, Uid, Work};
use unstarve_model::{SchedPolicy, Tid};

fn policy(text: &str) -> Policy {
    Policy::parse(Path::new("p.toml"), &format!("version = 1\n{text}")).unwrap_or_else(|error| panic!("{error}"))
}

fn task(tid: u32, comm: &str, kind: Kind) -> Task {
    Task {
        key: TaskKey { tid: Tid(tid), start: 1 },
        tgid: Tid(tid),
        parent: Some((Tid(2), "kthreadd".to_owned())),
        comm: comm.to_owned(),
        cmdline: None,
        cgroup: Some("/".to_owned()),
        unit: None,
        kind,
        affinity_fixed: kind != Kind::User,
        owner: None,
        works: Vec::new(),
        attributes: Attributes {
            policy: SchedPolicy::Other,
            deadline: None,
            rt_priority: 0,
            nice: 0,
            reset_on_fork: false,
            slice: Some(3_000_000),
            uclamp: None,
            affinity: "0-3".parse().unwrap(),
        },
    }
}

fn worker(tid: u32, cpu: u32, workqueue: &str, function: Option<&str>) -> Task {
    let mut task = task(tid, &format!("kworker/{cpu}:{tid}"), Kind::Kworker);
    task.attributes.affinity = cpu.to_string().parse().unwrap();
    task.works = vec![Work { workqueue: Some(workqueue.to_owned()), function: function.map(str::to_owned) }];
    task
}

/// A line for each change and note.
fn table(policy: &Policy, surroundings: &Surroundings, tasks: &[Task]) -> String {
    let mut table = String::new();
    for task in tasks {
        let Some(plan) = decide(policy, surroundings, task) else {
            let _ = writeln!(table, "{}: -", task.comm);
            continue;
        };
        for change in &plan.changes {
            let _ =
                writeln!(table, "{}: {} -> {} ({})", task.comm, change.old, change.new, policy.rules[change.rule].name);
        }
        for kept in &plan.kept {
            let _ = writeln!(table, "{}: {} already", task.comm, kept.new);
        }
        for note in &plan.notes {
            let what = match &note.kind {
                NoteKind::Refused(refusal) => format!("refused: {refusal}"),
                NoteKind::CannotWin(weakness) => format!("cannot win: {weakness}"),
                NoteKind::Shadowed { by, aspect } => format!("{aspect} is {}'s", policy.rules[*by].name),
                NoteKind::Stronger { has, wanted } => format!("{has} is stronger than {wanted}, kept"),
            };
            let _ = writeln!(table, "{}: {what} ({})", task.comm, policy.rules[note.rule].name);
        }
    }
    table
}

#[test]
fn a_worker_is_known_by_what_it_works_on() {
    let policy = policy(
        r#"
        [[rule]]
        name = "dio"
        match = { workqueue = "dio/*", work = "iomap_dio_complete_work" }
        set = { nice = -5 }
        "#,
    );
    let mut liar = task(9, "dio/nvme0n1", Kind::User);
    liar.works = vec![Work { workqueue: Some("dio/nvme0n1".to_owned()), function: None }];
    let mut other_item = worker(14, 0, "dio/nvme0n1", Some("another"));
    other_item
        .works
        .push(Work { workqueue: Some("events".to_owned()), function: Some("iomap_dio_complete_work".to_owned()) });
    let tasks = [
        worker(11, 0, "dio/nvme0n1", Some("iomap_dio_complete_work")),
        worker(12, 1, "xfs-conv/nvme0n1", Some("xfs_end_io")),
        worker(13, 1, "dio/nvme0n1", None),
        other_item,
        liar,
    ];
    insta::assert_snapshot!(table(&policy, &Surroundings::default(), &tasks), @r"
    kworker/0:11: nice 0 -> nice -5 (dio)
    kworker/1:12: -
    kworker/1:13: -
    kworker/0:14: -
    dio/nvme0n1: -
    ");
}

#[test]
fn the_first_rule_wins_for_each_aspect() {
    let policy = policy(
        r#"
        [[rule]]
        name = "one"
        match = { comm = "kworker/0:*" }
        set = { nice = -5 }
        [[rule]]
        name = "all"
        match = { kind = "kworker" }
        set = { nice = -10, reset-on-fork = true }
        "#,
    );
    let tasks = [worker(11, 0, "events", None), worker(12, 1, "events", None)];
    insta::assert_snapshot!(table(&policy, &Surroundings::default(), &tasks), @r"
    kworker/0:11: reset-on-fork off -> reset-on-fork on (all)
    kworker/0:11: nice 0 -> nice -5 (one)
    kworker/0:11: nice is one's (all)
    kworker/1:12: reset-on-fork off -> reset-on-fork on (all)
    kworker/1:12: nice 0 -> nice -10 (all)
    ");
}

#[test]
fn no_rule_passes_the_ceiling() {
    let policy = policy(
        r#"
        [limits]
        deny = ["sshd*"]
        [[rule]]
        name = "everybody"
        match = { comm = "*", parent = "kthread*", cpu = "0-3" }
        set = { policy = "fifo", rt-priority = 10, affinity = "0" }
        "#,
    );
    let mut irq = task(5, "irq/24-nvme", Kind::IrqThread);
    irq.attributes.policy = SchedPolicy::Fifo;
    irq.attributes.rt_priority = 50;
    let mut deadline = task(6, "dl", Kind::User);
    deadline.attributes.policy = SchedPolicy::Deadline;
    let tasks = [
        task(1, "init", Kind::User),
        task(3, "migration/0", Kind::Untouchable),
        task(4, "sshd-session", Kind::User),
        irq,
        deadline,
        task(7, "unstarve", Kind::User),
        task(8, "ksoftirqd/0", Kind::Ksoftirqd),
    ];
    let surroundings = Surroundings { own: vec![Tid(7)], ..Surroundings::default() };
    insta::assert_snapshot!(table(&policy, &surroundings, &tasks), @r"
    init: refused: the first process stays as it is (everybody)
    migration/0: refused: migration, cpuhp, watchdog and idle-injection threads stay above everybody (everybody)
    sshd-session: refused: the policy's deny-list has it (everybody)
    irq/24-nvme: fifo 50 is stronger than fifo 10, kept (everybody)
    irq/24-nvme: refused: the kernel binds it to its CPUs (PF_NO_SETAFFINITY) (everybody)
    dl: refused: a deadline task has guarantees that no rule can weigh (everybody)
    unstarve: refused: it is the guard itself (everybody)
    ksoftirqd/0: other -> fifo 10 (everybody)
    ksoftirqd/0: refused: the kernel binds it to its CPUs (PF_NO_SETAFFINITY) (everybody)
    ");
}

#[test]
fn what_cannot_win_is_said() {
    let policy = policy(
        r#"
        [[rule]]
        name = "workers"
        match = { kind = "kworker" }
        set = { nice = -10 }
        [[rule]]
        name = "daemon"
        match = { comm = "daemon" }
        set = { nice = -10, uclamp-min = 512 }
        [[rule]]
        name = "rt"
        match = { comm = "rt" }
        set = { policy = "rr", rt-priority = 5, nice = -3, slice = "1ms" }
        "#,
    );
    let mut daemon = task(2, "daemon", Kind::User);
    daemon.cgroup = Some("/system.slice/d.service".to_owned());
    let tasks = [worker(11, 0, "dio/vda", None), daemon, task(3, "rt", Kind::User)];
    let groups = |weight| Surroundings { groups: vec![("/kubepods".to_owned(), weight)], ..Surroundings::default() };
    insta::assert_snapshot!(table(&policy, &groups(25_600), &tasks), @r"
    kworker/0:11: nice 0 -> nice -10 (workers)
    kworker/0:11: cannot win: it weighs 9548, but /kubepods up to 25600 on one CPU: nice -15 would equal that (workers)
    daemon: nice 0 -> nice -10 (daemon)
    daemon: cannot win: nice counts only against tasks of its own group /system.slice/d.service (daemon)
    daemon: refused: this kernel has no utilisation clamps (CONFIG_UCLAMP_TASK) (daemon)
    rt: other -> rr 5 (rt)
    rt: nice 0 -> nice -3 (rt)
    rt: cannot win: nice has no effect while the task is real-time (rt)
    rt: refused: only a fair task has a slice, and this one is not, or will not be (rt)
    ");
    let none = table(&policy, &groups(102_400), &tasks[..1]);
    assert!(none.contains("no nice equals that"), "{none}");
    let wins = table(&policy, &groups(9_000), &tasks[..1]);
    assert!(!wins.contains("cannot win"), "{wins}");
}

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
    lockd: nice 0 -> nice -5 (a program's)
    kcryptd: nice 0 -> nice -5 (both)
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
    db: nice 0 -> nice -5 (db)
    db: -
    db: -
    db: -
    db: -
    tool: -
    tool: nice 0 -> nice -5 (root's)
    x: nice 0 -> nice 3 (some)
    x: -
    ");
    assert!(policy.wanted().owner);
}

#[test]
fn a_rule_that_raises_never_lowers_unless_it_says_so() {
    let text = r#"
        [[rule]]
        name = "workers"
        match = { workqueue = "dio/*" }
        set = { nice = -15 LOWER }
        [[rule]]
        name = "irqs"
        match = { kind = "irq-thread" }
        set = { policy = "fifo", rt-priority = 10 LOWER }
        [[rule]]
        name = "rt"
        match = { comm = "rt" }
        set = { rt-priority = 10, nice = -5, slice = "1ms" LOWER }
        [[rule]]
        name = "clamp"
        match = { comm = "clamp" }
        set = { uclamp-min = 300 LOWER }
        [[rule]]
        name = "capped"
        match = { comm = "capped" }
        set = { uclamp-min = 300, uclamp-max = 400 LOWER }
        [[rule]]
        name = "hog"
        match = { comm = "hog" }
        set = { nice = 10, policy = "batch", uclamp-max = 100 LOWER }
        "#;
    let mut rescuer = worker(10, 0, "dio/vda", None);
    rescuer.attributes.nice = -20;
    let mut same = worker(11, 0, "dio/vda", None);
    same.attributes.nice = -15;
    let realtime = |mut task: Task, policy, priority| {
        task.attributes.policy = policy;
        task.attributes.rt_priority = priority;
        task
    };
    let clamped = |comm, clamps| {
        let mut task = task(20, comm, Kind::User);
        task.attributes.uclamp = Some(clamps);
        task
    };
    let mut hog = clamped("hog", (200, 1024));
    hog.attributes.nice = -20;
    let tasks = [
        rescuer,
        same,
        worker(12, 0, "dio/vda", None),
        realtime(task(13, "irq/9-x", Kind::IrqThread), SchedPolicy::Fifo, 50),
        realtime(task(14, "rt", Kind::User), SchedPolicy::Rr, 80),
        realtime(task(15, "rt", Kind::User), SchedPolicy::Rr, 9),
        clamped("clamp", (512, 1024)),
        clamped("clamp", (0, 1024)),
        clamped("clamp", (0, 200)),
        clamped("capped", (512, 1024)),
        realtime(hog, SchedPolicy::Fifo, 50),
    ];
    let plain = policy(&text.replace("LOWER", ""));
    insta::assert_snapshot!(table(&plain, &Surroundings::default(), &tasks), @r"
    kworker/0:10: nice -20 is stronger than nice -15, kept (workers)
    kworker/0:11: nice -15 already
    kworker/0:12: nice 0 -> nice -15 (workers)
    irq/9-x: fifo 50 is stronger than fifo 10, kept (irqs)
    rt: nice 0 -> nice -5 (rt)
    rt: rr 80 is stronger than rr 10, kept (rt)
    rt: cannot win: nice has no effect while the task is real-time (rt)
    rt: refused: only a fair task has a slice, and this one is not, or will not be (rt)
    rt: rr 9 -> rr 10 (rt)
    rt: nice 0 -> nice -5 (rt)
    rt: cannot win: nice has no effect while the task is real-time (rt)
    rt: refused: only a fair task has a slice, and this one is not, or will not be (rt)
    clamp: uclamp 512..1024 already
    clamp: uclamp 0..1024 -> uclamp 300..1024 (clamp)
    clamp: uclamp 0..200 -> uclamp 300..300 (clamp)
    capped: uclamp 512..1024 -> uclamp 400..400 (capped)
    hog: fifo 50 -> batch (hog)
    hog: nice -20 -> nice 10 (hog)
    hog: uclamp 200..1024 -> uclamp 100..100 (hog)
    ");
    let lowering = policy(&text.replace("LOWER", ", lower = true"));
    insta::assert_snapshot!(table(&lowering, &Surroundings::default(), &tasks), @r"
    kworker/0:10: nice -20 -> nice -15 (workers)
    kworker/0:11: nice -15 already
    kworker/0:12: nice 0 -> nice -15 (workers)
    irq/9-x: refused: a kernel thread that is real-time is never lowered (irqs)
    rt: rr 80 -> rr 10 (rt)
    rt: nice 0 -> nice -5 (rt)
    rt: cannot win: nice has no effect while the task is real-time (rt)
    rt: refused: only a fair task has a slice, and this one is not, or will not be (rt)
    rt: rr 9 -> rr 10 (rt)
    rt: nice 0 -> nice -5 (rt)
    rt: cannot win: nice has no effect while the task is real-time (rt)
    rt: refused: only a fair task has a slice, and this one is not, or will not be (rt)
    clamp: uclamp 512..1024 -> uclamp 300..1024 (clamp)
    clamp: uclamp 0..1024 -> uclamp 300..1024 (clamp)
    clamp: uclamp 0..200 -> uclamp 300..300 (clamp)
    capped: uclamp 512..1024 -> uclamp 300..400 (capped)
    hog: fifo 50 -> batch (hog)
    hog: nice -20 -> nice 10 (hog)
    hog: uclamp 200..1024 -> uclamp 100..100 (hog)
    ");
}

#[test]
fn a_rule_that_raises_by_what_anybody_can_choose_is_warned_of() {
    let remarks = |selector: &str, set: &str| {
        let policy = policy(&format!("[[rule]]\nname = \"r\"\nmatch = {{ {selector} }}\nset = {{ {set} }}\n"));
        let remarks: Vec<String> = policy.rules[0].remarks().iter().map(ToString::to_string).collect();
        remarks.join(" | ")
    };
    let mut table = String::new();
    for selector in [
        "comm = \"postgres\"",
        "cmdline = \"*postgres*\"",
        "parent = \"monitor\"",
        "comm = \"postgres\", cpu = \"0\"",
        "kind = \"user\", comm = \"nfsd\"",
        "comm = \"nfs?\"",
        "comm = \"db\", unit = \"session-*.scope\"",
        "comm = \"db\", unit = \"*\"",
        "unit = \"user@*.service\"",
        "comm = \"db\", cgroup = \"*/db.service\"",
        "comm = \"db\", uid = \"1000-60000\"",
        "comm = \"nfsd\"",
    ] {
        let _ = writeln!(table, "{selector}: {}", remarks(selector, "nice = -5"));
    }
    insta::assert_snapshot!(table, @r#"
    comm = "postgres": warning: any user can start a process with this name and have it raised; add user = "…" or unit = "…"
    cmdline = "*postgres*": warning: this rule goes by the command line alone; any user can start a process that it matches and have it raised; add user = "…" or unit = "…"
    parent = "monitor": warning: this rule goes by the name of the parent alone; any user can start a process that it matches and have it raised; add user = "…" or unit = "…"
    comm = "postgres", cpu = "0": warning: this rule goes by the name and the affinity alone; any user can start a process that it matches and have it raised; add user = "…" or unit = "…"
    kind = "user", comm = "nfsd": warning: any user can start a process with this name and have it raised; add user = "…" or unit = "…"
    comm = "nfs?": warning: any user can start a process with this name and have it raised; add user = "…" or unit = "…"; for kernel threads (`nfsd`) write kind = "kthread"
    comm = "db", unit = "session-*.scope": warning: this rule goes by a unit that every login session has and the name alone; any user can start a process that it matches and have it raised; add user = "…" or unit = "…"
    comm = "db", unit = "*": warning: this rule goes by a unit that every login session has and the name alone; any user can start a process that it matches and have it raised; add user = "…" or unit = "…"
    unit = "user@*.service": warning: every login session matches unit = "user@*.service", so any user can have a process raised; add user = "…"
    comm = "db", cgroup = "*/db.service": warning: this rule goes by a cgroup that users can make and the name alone; any user can start a process that it matches and have it raised; add user = "…" or unit = "…"
    comm = "db", uid = "1000-60000": warning: this rule goes by the name and a wide range of users alone; any user can start a process that it matches and have it raised; add user = "…" or unit = "…"
    comm = "nfsd": kind = "kthread" is implied: only kernel threads have such names by right; for a program write kind = "user"
    "#);
    for selector in [
        "comm = \"postgres\", uid = 70",
        "comm = \"postgres\", unit = \"postgresql*.service\"",
        "comm = \"db\", unit = \"user@1001.service\"",
        "comm = \"db\", cgroup = \"/system.slice/db.service*\"",
        "comm = \"db\", cgroup = \"/user.slice/user-1001.slice/*\"",
        "comm = \"db\", parent = \"pid:77\"",
        "workqueue = \"dio/*\"",
        "kind = \"kworker\"",
        "kind = \"kthread\", comm = \"nfsd\"",
    ] {
        assert_eq!(remarks(selector, "nice = -5"), "", "{selector}");
    }
    for (set, warned) in [
        ("policy = \"rr\", rt-priority = 1", true),
        ("rt-priority = 1", true),
        ("uclamp-min = 10", true),
        ("nice = 5", false),
        ("policy = \"idle\"", false),
        ("uclamp-max = 10", false),
        ("reset-on-fork = true", false),
    ] {
        assert_eq!(!remarks("comm = \"postgres\"", set).is_empty(), warned, "{set}");
    }
}

#[test]
fn rules_that_together_take_most_programs_are_refused_by_what_they_select() {
    let policy = policy(
        r#"
        [[rule]]
        name = "a"
        match = { comm = "a*" }
        set = { policy = "rr", rt-priority = 1 }
        [[rule]]
        name = "b"
        match = { comm = "b*" }
        set = { policy = "rr", rt-priority = 1 }
        [[rule]]
        name = "workers"
        match = { kind = "kworker" }
        set = { policy = "rr", rt-priority = 1 }
        "#,
    );
    let check = |programs: &[(&str, u32)]| {
        let mut tid = 100;
        let mut tasks: Vec<Task> = (10..60).map(|tid| worker(tid, 0, "dio/vda", None)).collect();
        for (comm, count) in programs {
            for _ in 0..*count {
                tid += 10;
                tasks.push(task(tid, comm, Kind::User));
                // Its threads are no programs of their own.
                tasks.push(Task { tgid: Tid(tid), ..task(tid + 1, comm, Kind::User) });
            }
        }
        Crowd::check_all(&policy, &Surroundings::default(), &tasks)
            .map_err(|error| (error.0.realtime, error.0.programs))
    };
    assert_eq!(check(&[("a1", 6), ("b1", 5), ("x", 10)]), Err((11, 21)));
    assert_eq!(check(&[("a1", 5), ("b1", 5), ("x", 10)]), Ok(()), "half is not more than half");
    assert_eq!(check(&[("a1", 4), ("b1", 3)]), Ok(()), "too few to judge");
    assert_eq!(check(&[("x", 30)]), Ok(()), "kernel threads are no programs");
}
