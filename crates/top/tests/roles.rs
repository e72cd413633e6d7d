//! Rows of roles, of readings as an engine gives them.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use unstarve_model::{ClockPair, Comm, CpuId, Nanos, Tid, Time, WallTime};
use unstarve_sched::Rule;
use unstarve_top::{Action, App, Counted, CountedLook, Key, Order, RowsBy, View, draw};
use unstarve_watch::{Blame, Cost, Histogram, Lost, OldestWait, Reading, Role, RoleId, RoleKind, TaskId, Waits};

const MS: u64 = 1_000_000;

fn id(kind: RoleKind) -> RoleId {
    kind.fixed_id().expect("a role that every reading has")
}

fn clock(ms: u64) -> ClockPair {
    ClockPair { trace: Time(1_000 * MS + ms * MS), wall: WallTime(1_764_000_187_000_000_000 + ms * MS) }
}

/// Sums after so many turns of a real-time task of 80 ms of every 100: ksoftirqd waits each time, and workers take turns among themselves.
fn reading(ms: u64, lasting: &[(u32, &str, u64)]) -> Reading {
    let turns = ms / 100;
    let roles: Vec<_> = RoleKind::FIXED.iter().map(|kind| Some(Role::fixed(*kind))).collect();
    let mut waits = vec![Waits::default(); roles.len()];
    let mut histogram = Histogram::new();
    histogram.add(Nanos(80 * MS), turns);
    waits[id(RoleKind::Ksoftirqd).index()] =
        Waits { waited: Nanos(80 * MS * turns), count: turns, histogram, ..Waits::default() };
    let row = |victim, occupant, rule, ns| Blame { victim: id(victim), occupant: id(occupant), rule, ns: Nanos(ns) };
    let task = |tid: u32, name: &str| TaskId { tid: Tid(tid), tgid: Tid(tid), comm: Comm::from(name) };
    let oldest = lasting.iter().map(|(tid, name, ns)| OldestWait {
        cpu: CpuId(1),
        task: task(*tid, name),
        role: id(RoleKind::Ksoftirqd),
        ns: Nanos(*ns),
        occupant: Some(task(4711, "hog")),
        occupant_role: id(RoleKind::RealTime),
        occupied: Nanos(0),
    });
    Reading {
        at: clock(ms),
        since: clock(0),
        blame: vec![
            row(RoleKind::Ksoftirqd, RoleKind::RealTime, Rule::Class, 70 * MS * turns),
            row(RoleKind::Ksoftirqd, RoleKind::Idle, Rule::Idle, 10 * MS * turns),
        ],
        waits,
        cpus: Vec::new(),
        real_time: Vec::new(),
        real_time_tasks: Vec::new(),
        oldest: oldest.collect(),
        workloads: Default::default(),
        limits: Vec::new(),
        roles,
        lost: Lost::default(),
        cost: Cost::default(),
    }
}

fn nothing(_: Tid) -> Option<Nanos> {
    None
}

/// Four looks a second.
fn counted(until: u64) -> Counted {
    let mut counted = Counted::new(Nanos(10_000 * MS));
    for ms in (0..=until).step_by(250) {
        let lasting: &[_] = if ms % 1000 == 0 { &[(18, "ksoftirqd/1", 60 * MS)] } else { &[] };
        let cpus = vec![(0, ms / 20, ms / 10), (1, ms / 10, ms / 10)];
        counted.add(CountedLook { reading: reading(ms, lasting), cpus }, &nothing);
    }
    counted
}

fn screen(view: &View, app: &App) -> String {
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("memory");
    terminal.draw(|frame| draw(frame, view, app)).expect("memory");
    let buffer = terminal.backend().buffer().clone();
    let line = |y: u16| (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..24).map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn roles_have_exact_sums_of_the_window_and_tasks_what_was_seen() {
    let app = App::default().showing(RowsBy::Role);
    let counted = counted(20_000);
    let view = View::counted(&counted, &app, "eBPF", &nothing);
    let role = view.rows.iter().find(|row| row.kind == "role").expect("ksoftirqd");
    // Ten seconds of the twenty.
    assert_eq!((role.victim.as_str(), role.tid, role.wait_ns, role.waits), ("ksoftirqd", None, 8_000 * MS, 100));
    assert_eq!(role.blame.iter().map(|piece| piece.ns).sum::<u64>(), role.wait_ns, "the pieces are the sum");
    assert_eq!(
        (role.rule, role.culprit.as_deref(), role.culprit_tid),
        (Some(unstarve_sched::Rule::Class), Some("hog"), Some(4711))
    );
    assert!((67 * MS..=80 * MS).contains(&role.longest_ns), "the step's lower bound: {}", role.longest_ns);
    assert!(view.rows.iter().all(|row| row.tid.is_none()), "groups alone: {:?}", view.rows);
    let opened = App::default().showing(RowsBy::Role).in_group("ksoftirqd");
    let tasks = View::counted(&counted, &opened, "eBPF", &nothing);
    assert_eq!(tasks.rows.iter().map(|row| row.tid).collect::<Vec<_>>(), [Some(18)], "its tasks alone");
    let task = view.tasks.iter().find(|row| row.tid == Some(18)).expect("the task");
    assert_eq!((task.victim.as_str(), task.kind, task.waiting_ns), ("ksoftirqd/1", "ksoftirqd", Some(60 * MS)));
    assert_eq!((task.culprit.as_deref(), task.culprit_tid, task.wait_ns), (Some("hog"), Some(4711), 60 * MS));
    let busy: Vec<(u32, f64, u32)> = view.cpus.iter().map(|cpu| (cpu.cpu, cpu.busy, cpu.waiting)).collect();
    assert_eq!(busy, [(0, 0.5, 0), (1, 1.0, 1)]);
    let answer = "hog[4711] starves ksoftirqd/1[18] on CPU 1, up to ";
    assert!(view.headline.starts_with(answer), "{}", view.headline);
    let named = view.clone().with_policies(&|tid| (tid == Tid(4711)).then(|| "FIFO 50".to_owned()));
    let answer = "hog[4711] FIFO 50 starves ksoftirqd/1[18] on CPU 1, up to ";
    assert!(named.headline.starts_with(answer), "{}", named.headline);
    insta::assert_snapshot!(screen(&view, &app));
}

/// Workers wait for their turn longer than ksoftirqd for a real-time task: that one is first nevertheless, its task with it.
#[test]
fn who_waits_by_precedence_comes_before_turns_among_equals() {
    let mut counted = Counted::new(Nanos(10_000 * MS));
    for ms in [0, 5_000, 10_000] {
        let mut reading = reading(ms, &[(18, "ksoftirqd/1", 60 * MS)]);
        let waited = Nanos(3 * ms * MS);
        let (victim, occupant) = (id(RoleKind::DirectIo), id(RoleKind::DirectIo));
        reading.blame.push(Blame { victim, occupant, rule: Rule::Fair, ns: waited });
        reading.waits[victim.index()].waited = waited;
        counted.add(CountedLook { reading, cpus: Vec::new() }, &nothing);
    }
    let shown = |app: App| {
        let view = View::counted(&counted, &app.showing(RowsBy::Role), "eBPF", &nothing);
        view.rows.iter().map(|row| (row.rule, row.kind)).collect::<Vec<_>>()
    };
    let rows = [(Some(Rule::Class), "role"), (Some(Rule::Fair), "role")];
    assert_eq!(shown(App::default()), rows);
    assert_eq!(shown(App::new(Order::Longest, String::new())).len(), 2);
    let by_name = shown(App::new(Order::Name, String::new()));
    assert_eq!(by_name[0], rows[1], "who asks for another order gets it");
}

/// A task's rule is said where its role had one alone against that of who has its CPU.
#[test]
fn a_task_has_the_rule_of_its_role_where_there_is_one_alone() {
    let rule = |second: bool| {
        let mut counted = Counted::new(Nanos(10_000 * MS));
        for ms in [0, 1_000] {
            let mut reading = reading(ms, &[(18, "ksoftirqd/1", 60 * MS)]);
            if second {
                let row = Blame { rule: Rule::WakeupPreemption, ns: Nanos(ms * MS / 100), ..reading.blame[0] };
                reading.blame.push(row);
            }
            counted.add(CountedLook { reading, cpus: Vec::new() }, &nothing);
        }
        let view = View::counted(&counted, &App::default().showing(RowsBy::Role), "eBPF", &nothing);
        view.tasks.iter().find(|row| row.tid == Some(18)).and_then(|row| row.rule)
    };
    assert_eq!((rule(false), rule(true)), (Some(Rule::Class), None));
}

#[test]
fn who_has_the_cpu_now_is_not_named_beside_a_rule_of_another_wait() {
    let mut counted = Counted::new(Nanos(10_000 * MS));
    for ms in [0, 1_000] {
        let mut reading = reading(ms, &[(18, "ksoftirqd/1", 60 * MS)]);
        // Most by class, and some by a wakeup: of whom of them the hog is nobody knows.
        let row = Blame { rule: Rule::WakeupPreemption, ns: Nanos(ms * MS / 100), ..reading.blame[0] };
        reading.blame.push(row);
        counted.add(CountedLook { reading, cpus: Vec::new() }, &|_| Some(Nanos(7)));
    }
    let app = App::default().showing(RowsBy::Role);
    let view = View::counted(&counted, &app, "eBPF", &|_| Some(Nanos(7)));
    let role = view.rows.iter().find(|row| row.kind == "role").expect("ksoftirqd");
    assert_eq!(
        (role.rule, role.culprit.as_deref(), role.culprit_tid),
        (Some(unstarve_sched::Rule::Class), Some("real-time"), None)
    );
    // Its first wait lasts: there is no sum yet, but what has passed of it.
    let opened = app.in_group("ksoftirqd");
    let view = View::counted(&counted, &opened, "eBPF", &|_| Some(Nanos(7)));
    let screen = screen(&view, &opened);
    assert!(screen.contains(">60.0 ms") && !screen.contains("0 ns"), "{screen}");
}

#[test]
fn who_waits_no_more_has_no_star() {
    let mut counted = counted(20_000);
    counted.add(CountedLook { reading: reading(20_250, &[]), cpus: Vec::new() }, &nothing);
    let view = View::counted(&counted, &App::default(), "eBPF", &nothing);
    assert!(view.all.iter().all(|row| row.waiting_ns.is_none()), "{:?}", view.all);
    assert!(view.tasks.iter().any(|row| row.tid == Some(18)), "it was seen in this window");
    for ms in (20_500..=31_000).step_by(250) {
        counted.add(CountedLook { reading: reading(ms, &[]), cpus: Vec::new() }, &nothing);
    }
    let view = View::counted(&counted, &App::default(), "eBPF", &nothing);
    assert!(view.all.iter().all(|row| row.tid.is_none()), "{:?}", view.all);
}

#[test]
fn a_tasks_sum_is_the_kernels_own_since_it_was_first_seen() {
    let mut counted = Counted::new(Nanos(10_000 * MS));
    let look = |ms, lasting: &[(u32, &str, u64)]| CountedLook { reading: reading(ms, lasting), cpus: Vec::new() };
    counted.add(look(0, &[(18, "ksoftirqd/1", 60 * MS)]), &|_| Some(Nanos(5_000 * MS)));
    counted.add(look(250, &[]), &nothing);
    let view = View::counted(&counted, &App::default(), "eBPF", &|_| Some(Nanos(5_300 * MS)));
    let row = view.tasks.iter().find(|row| row.tid == Some(18)).expect("seen");
    assert_eq!((row.wait_ns, row.longest_ns), (300 * MS, 60 * MS));
}

#[test]
fn a_storm_of_waiting_tasks_grows_nothing() {
    let mut counted = Counted::new(Nanos(10_000 * MS));
    for ms in (0..4_000).step_by(10) {
        let tid = 100 + ms as u32;
        counted.add(CountedLook { reading: reading(ms, &[(tid, "t", 20 * MS)]), cpus: Vec::new() }, &nothing);
    }
    let view = View::counted(&counted, &App::default(), "eBPF", &nothing);
    assert!(view.all.len() <= 257 && view.tasks.len() > 100, "{}", view.all.len());
}

#[test]
fn keys_go_from_roles_to_tasks_and_back() {
    let counted = counted(2_000);
    let mut app = App::default().showing(RowsBy::Role);
    let view = View::counted(&counted, &app, "eBPF", &nothing);
    let find = |row: &unstarve_top::Row| row.tid.map(|tid| (Tid(tid), Comm::from(row.victim.as_str())));
    app.key(Key::Char('t'), &view, find);
    assert_eq!(app.by(), RowsBy::Task);
    app.key(Key::Char('t'), &view, find);
    assert_eq!(app.by(), RowsBy::Role);
    let at = view.rows.iter().position(|row| row.victim == "ksoftirqd").expect("its role");
    for _ in 0..at {
        app.key(Key::Down, &view, find);
    }
    assert_eq!(app.key(Key::Enter, &view, find), Action::Draw);
    assert_eq!(
        (app.by(), app.opened_group()),
        (RowsBy::Role, Some("ksoftirqd")),
        "its tasks, with the sums as they are"
    );
    let view = View::counted(&counted, &app, "eBPF", &nothing);
    assert_eq!(view.rows.iter().map(|row| row.tid).collect::<Vec<_>>(), [Some(18)]);
    let shown = screen(&view, &app);
    assert!(shown.lines().nth(3).is_some_and(|heading| heading.starts_with("TASK of ksof")), "{shown}");
    assert!(shown.lines().nth(1).is_some_and(|line| line.contains("of ksoftirqd")), "{shown}");
    assert_eq!(app.key(Key::Enter, &view, find), Action::Draw);
    assert_eq!((app.by(), app.detail().map(|(tid, _)| tid)), (RowsBy::Task, Some(Tid(18))), "its events are wanted");
    app.key(Key::Escape, &view, find);
    assert_eq!((app.by(), app.detail()), (RowsBy::Role, None), "and no more");
    app.key(Key::Escape, &view, find);
    assert_eq!((app.opened_group(), app.selected()), (None, at));
    // What to do about it comes from its events, too.
    app.key(Key::Char('r'), &view, find);
    assert_eq!((app.by(), app.shows_remedy()), (RowsBy::Task, false));
    // A recording has tasks alone.
    let mut app = App::default().recorded();
    app.key(Key::Char('t'), &view, find);
    assert_eq!(app.by(), RowsBy::Task);
}
