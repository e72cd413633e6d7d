//! What a policy makes of tasks: each case a policy, tasks, and the decisions as a table.

mod raising;
mod selecting;

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
            files: Vec::new(),
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
                NoteKind::Inherited(heirloom) => format!("children inherit it, for they have {heirloom}"),
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
    daemon: reset-on-fork off -> reset-on-fork on (daemon)
    daemon: nice 0 -> nice -10 (daemon)
    daemon: cannot win: nice counts only against tasks of its own group /system.slice/d.service (daemon)
    daemon: refused: this kernel has no utilisation clamps (CONFIG_UCLAMP_TASK) (daemon)
    rt: reset-on-fork off -> reset-on-fork on (rt)
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

/// What children are born with: by the rule's word, by what is raised, by what the task has had, and by what it is.
#[test]
fn a_raised_program_does_not_pass_it_on_unless_its_children_would_lose_something() {
    let rule = |set: &str| {
        policy(&format!("[[rule]]\nname = \"r\"\nmatch = {{ comm = \"p\", kind = \"any\" }}\nset = {{ {set} }}"))
    };
    let has = |change: &dyn Fn(&mut Task)| {
        let mut task = task(10, "p", Kind::User);
        change(&mut task);
        task
    };
    let ordinary = || has(&|_| {});
    let realtime = r#"policy = "fifo", rt-priority = 5"#;
    let said = format!("{realtime}, reset-on-fork = false");
    let cases = [
        ("real-time", realtime, ordinary(), "set"),
        ("a real-time priority", "rt-priority = 5", ordinary(), "set"),
        ("nice below 0", "nice = -1", ordinary(), "set"),
        ("nice above 0", "nice = 1", ordinary(), "not set"),
        ("batch", r#"policy = "batch""#, ordinary(), "not set"),
        ("clamps", "uclamp-min = 0", ordinary(), "not set"),
        ("its rule says otherwise", said.as_str(), ordinary(), "not set"),
        (
            "a nice value of its own",
            realtime,
            has(&|task| task.attributes.nice = 5),
            "children inherit it, for they have nice 5",
        ),
        (
            "a policy of its own",
            realtime,
            has(&|task| task.attributes.policy = SchedPolicy::Batch),
            "children inherit it, for they have batch",
        ),
        (
            "clamps of its own",
            realtime,
            has(&|task| task.attributes.uclamp = Some((0, 100))),
            "children inherit it, for they have utilisation clamps",
        ),
        ("clamps that every task has", realtime, has(&|task| task.attributes.uclamp = Some((0, 1024))), "set"),
        ("it is set already", realtime, has(&|task| task.attributes.reset_on_fork = true), "not set"),
        ("it has by itself what the rule wants", "nice = -1", has(&|task| task.attributes.nice = -1), "not set"),
        ("a kernel thread", realtime, has(&|task| task.kind = Kind::Kthread), "not set"),
    ];
    for (what, set, task, expected) in cases {
        let table = table(&rule(set), &Surroundings::default(), std::slice::from_ref(&task));
        let is = match table.lines().find(|line| line.contains("reset-on-fork") || line.contains("children inherit")) {
            Some(line) if line.contains("reset-on-fork off -> reset-on-fork on") => "set",
            Some(line) => line.trim_start_matches("p: ").trim_end_matches(" (r)"),
            None => "not set",
        };
        let is = if is.contains("already") { "not set" } else { is };
        assert_eq!(is, expected, "{what}: {table}");
    }
}
