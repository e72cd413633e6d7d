//! Rules that raise: what they may, whom they warn of.

use super::*;

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
    rt: children inherit it, for they have rr (rt)
    rt: rr 9 -> rr 10 (rt)
    rt: nice 0 -> nice -5 (rt)
    rt: cannot win: nice has no effect while the task is real-time (rt)
    rt: refused: only a fair task has a slice, and this one is not, or will not be (rt)
    rt: children inherit it, for they have rr (rt)
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
    rt: children inherit it, for they have rr (rt)
    rt: rr 9 -> rr 10 (rt)
    rt: nice 0 -> nice -5 (rt)
    rt: cannot win: nice has no effect while the task is real-time (rt)
    rt: refused: only a fair task has a slice, and this one is not, or will not be (rt)
    rt: children inherit it, for they have rr (rt)
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
    unit = "user@*.service": warning: every login session matches unit = "user@*.service", so any user can have a process raised; add user = "…" | warning: systemd starts services, and with --user what a user defines; the rule matches their children too, as long as they stay in the unit or group; add comm = "…" or user = "…"
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

/// Each known starter of others' programs, by name or unit; what becomes of its children is said, too.
#[test]
fn a_rule_that_raises_what_starts_others_programs_is_warned_of() {
    let remarks = |selector: &str, set: &str| {
        let policy = policy(&format!("[[rule]]\nname = \"r\"\nmatch = {{ {selector} }}\nset = {{ {set} }}\n"));
        let remarks: Vec<String> = policy.rules[0].remarks().iter().map(ToString::to_string).collect();
        remarks.join(" | ")
    };
    let realtime = r#"policy = "fifo", rt-priority = 5"#;
    for name in [
        "sshd",
        "cron",
        "crond",
        "inetd",
        "xinetd",
        "su",
        "sudo",
        "login",
        "containerd-shim",
        "runc",
        "kubelet",
        "atd",
        "anacron",
        "bash",
    ] {
        let said = remarks(&format!("comm = \"{name}\", user = \"root\""), realtime);
        assert!(said.contains(" starts ") && said.contains("their children are ordinary"), "{name}: {said}");
    }
    for unit in ["ssh.service", "cron.service", "xinetd.service", "containerd.service", "user@1000.service"] {
        let said = remarks(&format!("unit = \"{unit}\""), "nice = -5");
        assert!(said.contains(" starts ") && said.contains("as long as they stay in the unit"), "{unit}: {said}");
    }
    let said = remarks("comm = \"sshd\", user = \"root\"", "nice = -5, reset-on-fork = false");
    assert!(said.contains("their children inherit"), "{said}");
    for (selector, set) in [
        ("comm = \"postgres\", user = \"root\"", realtime),
        ("comm = \"sshd\", user = \"root\"", "nice = 5"),
        ("unit = \"postgresql.service\"", realtime),
    ] {
        assert_eq!(remarks(selector, set), "", "{selector}");
    }
}
