//! What is on the screen, of a recording in which a real-time task starves a worker, and of hostile names.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use unstarve_diagnose::{Recent, timeline};
use unstarve_model::{
    Batch, Comm, Context, CpuId, Event, EventKind, EventSource, Issuer, MemorySource, Names, Nanos, PrevState, TaskRef,
    Tid, Time, TraceInfo,
};
use unstarve_timeline::{Both, Selection, Timeline};
use unstarve_top::{Action, App, FixableRecording, Key, Order, RowsBy, View, ViewContext, Window, draw};

struct Show {
    timeline: Timeline,
    window: Window,
    recent: Recent,
    app: App,
    name: &'static str,
}

impl Show {
    /// All that a source has up to some time after its start.
    fn of(name: &'static str, mut source: Box<dyn EventSource>, window: Nanos, until: Nanos) -> Show {
        let mut batch = Batch::default();
        let mut timeline_ = None;
        let mut recent = Recent::new(source.info(), window);
        let mut window = Window::new(window);
        while source.read(&mut batch).expect("it can be read") {
            let timeline = timeline_.get_or_insert_with(|| timeline(source.info()));
            timeline.names(batch.names.drain(..));
            for event in &batch.events {
                timeline.push(event, &mut Both(&mut window, &mut recent));
                if timeline.world().now.since(timeline.world().start) > until {
                    return Show { timeline: timeline_.expect("begun"), window, recent, app: App::default(), name };
                }
            }
        }
        Show { timeline: timeline_.expect("begun"), window, recent, app: App::default(), name }
    }

    /// Goes on with another source, from its beginning.
    fn fill(&mut self, mut source: Box<dyn EventSource>, until: Nanos) {
        let mut batch = Batch::default();
        self.timeline = timeline(source.info());
        while source.read(&mut batch).expect("it can be read") {
            self.timeline.names(batch.names.drain(..));
            for event in &batch.events {
                self.timeline.push(event, &mut Both(&mut self.window, &mut self.recent));
                if self.timeline.world().now.since(self.timeline.world().start) > until {
                    return;
                }
            }
        }
    }

    fn trace(name: &'static str, until_ms: u64) -> Show {
        let file = format!("{}/../../testdata/traces/{name}", env!("CARGO_MANIFEST_DIR"));
        let source = unstarve_readers::open(file.as_ref()).expect("testdata");
        Show::of(name, source, Nanos::from_millis(1000), Nanos::from_millis(until_ms))
    }

    fn view(&mut self) -> View {
        self.view_where(&|_| None)
    }

    /// On a machine that knows who is runnable.
    fn view_where(&mut self, is_runnable: &dyn Fn(Tid) -> Option<bool>) -> View {
        let findings = self.recent.findings(&self.timeline, is_runnable);
        let recording = FixableRecording::File(self.name.to_owned(), self.recent.boot());
        let beside = ViewContext { is_runnable, findings, recording };
        View::of(&mut self.window, &self.timeline, &self.app, self.name, beside)
    }

    fn press(&mut self, key: Key) -> Action {
        let view = self.view();
        let tasks = &self.timeline.world().tasks;
        self.app.key(key, &view, |row| {
            row.tid.and_then(|tid| tasks.find(Tid(tid)).map(|key| (Tid(tid), tasks.get(key).comm)))
        })
    }

    fn screen(&mut self, width: u16, height: u16) -> String {
        let view = self.view();
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("memory");
        terminal.draw(|frame| draw(frame, &view, &self.app)).expect("memory");
        let buffer = terminal.backend().buffer().clone();
        let line = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(line).collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn the_worst_is_first_on_the_smallest_screen() {
    insta::assert_snapshot!(Show::trace("linux-5.10-net-rt.dat", 1200).screen(80, 24));
}

#[test]
fn a_large_screen_has_room_for_more() {
    insta::assert_snapshot!(Show::trace("linux-5.10-net-rt.dat", 1200).screen(200, 50));
}

#[test]
fn a_worker_can_be_looked_at() {
    let mut show = Show::trace("linux-6.1-dio-weight.dat", 900);
    show.press(Key::Enter);
    // Waits are kept from then on: the view that began it had none.
    show.view();
    insta::assert_snapshot!(show.screen(80, 24));
    show.press(Key::Escape);
    assert!(show.app.detail().is_none());
}

#[test]
fn help_fits_the_smallest_screen() {
    let mut show = Show::trace("linux-5.10-net-rt.dat", 1200);
    show.press(Key::Char('?'));
    insta::assert_snapshot!(show.screen(80, 24));
    show.press(Key::Char('x'));
    assert!(!show.app.shows_help());
}

/// No line of the help is cut, and it says how to close it, on whatever there is room.
#[test]
fn help_is_whole_on_narrow_and_wide_screens() {
    for (width, height) in [(40, 24), (80, 24), (120, 40)] {
        let mut show = Show::trace("linux-5.10-net-rt.dat", 1200);
        show.press(Key::Char('h'));
        let screen = show.screen(width, height);
        let inner = screen.lines().filter_map(|line| line.split('│').nth(1));
        let text = inner.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ");
        for whole in ["Any key closes this.", "what to do about it: the finding, its remedies and how to undo them"] {
            assert!(text.contains(whole), "{width}: {screen}");
        }
        assert_eq!(text.contains("judges the last one to two windows."), width > 40, "{width}: {screen}");
    }
}

#[test]
fn a_narrow_title_keeps_what_matters_most() {
    let mut show = Show::trace("linux-5.10-net-rt.dat", 1200);
    show.press(Key::Char(' '));
    let first = |screen: String| screen.lines().nth(1).unwrap_or_default().to_owned();
    let narrow = first(show.screen(40, 12));
    assert!(narrow.contains("window 1.00 s") && narrow.ends_with("PAUSED"), "{narrow}");
    assert!(first(show.screen(120, 12)).contains("unstarve top"));
    let last = show.screen(40, 12).lines().last().unwrap_or_default().to_owned();
    assert!(last.contains("q quit") && last.ends_with("h help"), "{last}");
    show.app.stay(unstarve_top::RowsBy::Task, "tracefs cannot be used\nhere".to_owned());
    let last = show.screen(80, 12).lines().last().unwrap_or_default().to_owned();
    assert_eq!(last, " tracefs cannot be used\\nhere");
    show.press(Key::Char('s'));
    assert_eq!(show.app.problem(), None, "until the next key");
    show.app.say("small buffers on CPU 1".to_owned());
    let last = show.screen(80, 12).lines().last().unwrap_or_default().to_owned();
    assert_eq!(last, " small buffers on CPU 1");
}

#[test]
fn keys_sort_filter_choose_and_end() {
    let mut show = Show::trace("linux-5.10-net-rt.dat", 1200);
    let first = |show: &mut Show| show.view().rows.first().map(|row| row.victim.clone()).unwrap_or_default();
    let all = show.view().rows.len();
    for order in [Order::Longest, Order::Count, Order::Name, Order::Wait] {
        assert_eq!(show.press(Key::Char('s')), Action::Draw);
        assert_eq!(show.app.order(), order);
    }
    for key in
        [Key::Char('/'), Key::Char('c'), Key::Char('l'), Key::Char('a'), Key::Char('s'), Key::Char('s'), Key::Enter]
    {
        show.press(key);
    }
    assert_eq!(show.app.filter(), "class");
    assert_eq!(first(&mut show), "ksoftirqd/1");
    assert!(show.view().rows.iter().all(|row| row.rule == Some(unstarve_sched::Rule::Class)));
    for key in [Key::Char('/'), Key::Escape] {
        show.press(key);
    }
    assert_eq!(show.view().rows.len(), all);
    for _ in 0..1000 {
        show.press(Key::Down);
    }
    assert_eq!(show.app.selected(), all - 1, "it stops at the last row");
    show.press(Key::Char(' '));
    assert!(show.app.is_paused());
    assert_eq!(show.press(Key::Char('q')), Action::Quit);
}

/// What a window says is what the waits that ended in it were.
#[test]
fn sums_are_those_of_the_waits() {
    let mut show = Show::trace("linux-6.1-preempt.dat", u64::MAX / 1_000_000);
    let mut window = Window::new(Nanos(u64::MAX / 2));
    std::mem::swap(&mut show.window, &mut window);
    let trace = format!("{}/../../testdata/traces/linux-6.1-preempt.dat", env!("CARGO_MANIFEST_DIR"));
    let source = unstarve_readers::open(trace.as_ref()).expect("testdata");
    let driven = unstarve_diagnose::drive(source, &mut show.window, |_| {}).expect("there are events");
    let view = View::of(&mut show.window, &driven.timeline, &App::default(), "x", ViewContext::nothing());
    let source = unstarve_readers::open(trace.as_ref()).expect("testdata");
    let report = unstarve_diagnose::explain(source, &Default::default(), |_| {}).expect("there are events");
    assert_eq!(view.rows.iter().map(|row| row.wait_ns).sum::<u64>(), report.trace.waits_total_ns);
    assert_eq!(view.rows.iter().map(|row| row.waits).sum::<u64>(), report.trace.waits_count);
    for row in &view.rows {
        assert_eq!(row.blame.iter().map(|piece| piece.ns).sum::<u64>(), row.wait_ns, "{}", row.victim);
    }
}

/// A task waits behind another whose name drives terminals, and still does.
#[test]
fn hostile_names_are_escaped_and_who_still_waits_is_told() {
    let task = |tid, comm: &[u8]| TaskRef::new(Tid(tid), Comm::new(comm), Some(unstarve_model::Prio(120)));
    let (evil, victim) = (task(7, b"\x1b]0;x\x07\x1b[2J"), task(8, b"a\nb"));
    let event = |at_ms: u64, kind| Event {
        time: Time(at_ms * 1_000_000),
        cpu: CpuId(0),
        issuer: Issuer::new(None, Context::Task),
        kind,
    };
    let switch = |prev, prev_state, next| EventKind::Switch { prev, prev_state, next };
    let waking = EventKind::Waking { task: victim, target_cpu: CpuId(0) };
    let events = vec![
        event(0, switch(task(0, b"swapper/0"), PrevState::Runnable, evil)),
        event(1, waking),
        event(31, switch(evil, PrevState::Sleeping, victim)),
        event(32, switch(victim, PrevState::Sleeping, evil)),
        event(33, waking),
        event(83, EventKind::Exit { tid: Tid(9), comm: Comm::from("x") }),
    ];
    let source = Box::new(MemorySource::new(TraceInfo::default(), events, Names::default()));
    let mut show = Show::of("\x1b[31mfile", source, Nanos::from_millis(1000), Nanos(u64::MAX));
    let screen = show.screen(120, 6);
    assert!(!screen.contains(|c: char| c.is_control() && c != '\n'), "{screen:?}");
    insta::assert_snapshot!(screen);
}

#[test]
fn an_empty_window_says_so() {
    let mut show = Show::trace("linux-5.10-net-rt.dat", 1200);
    show.app = App::new(Order::Wait, "nobody of this name".to_owned());
    assert!(show.screen(80, 24).contains("Nobody that matches \"nobody of this name\" waited in the last 1.00 s."));
}

#[test]
fn a_narrow_screen_keeps_who_waits_for_whom() {
    insta::assert_snapshot!(Show::trace("linux-5.10-net-rt.dat", 1200).screen(40, 12));
}

/// The worst row is as bad as `explain` calls it, and a key says what to do.
#[test]
fn a_key_shows_what_to_do() {
    let mut show = Show::trace("linux-5.10-net-rt.dat", 1200);
    let view = show.view();
    let row = &view.rows[0];
    assert_eq!(
        (row.finding.clone(), row.severity),
        (Some("rt-starvation".into()), Some(unstarve_model::Severity::Critical))
    );
    show.press(Key::Char('r'));
    let screen = show.screen(100, 30);
    let remedies: Vec<_> = view.about(row).flat_map(|finding| &finding.remedies).collect();
    assert!(!remedies.is_empty());
    assert!(!remedies[0].is_short(), "no old values: {}", remedies[0].apply);
    let plan = format!("unstarve fix linux-5.10-net-rt.dat --remedy {} --this-boot", remedies[0].id);
    assert!(screen.contains(&plan), "{screen}");
    assert!(screen.contains("Undo: sudo unstarve fix --undo"), "{screen}");
    show.press(Key::Char('x'));
    assert!(!show.app.shows_remedy());
}

/// The table is sorted again under a task that is looked at, and under what to do about it.
#[test]
fn what_to_do_stays_with_the_task_that_was_chosen() {
    let mut show = Show::trace("linux-5.10-net-rt.dat", 1200);
    show.press(Key::Enter);
    let looked_at = show.view().detail.expect("it is looked at").name;
    assert_eq!(looked_at, "ksoftirqd/1[18]");
    // Another order puts another task into the row with the cursor.
    show.press(Key::Char('s'));
    show.press(Key::Char('s'));
    show.press(Key::Char('s'));
    assert_ne!(show.view().rows[0].tid, Some(18));
    for key in [Key::Enter, Key::Down, Key::PageDown] {
        show.press(key);
        assert_eq!(show.view().detail.map(|detail| detail.name).as_deref(), Some("ksoftirqd/1[18]"), "{key:?}");
    }
    show.press(Key::Char('r'));
    let screen = show.screen(100, 30);
    assert!(screen.contains("what to do about ksoftirqd/1[18]") && screen.contains("--undo"), "{screen}");
    // While they are on the screen the rows move, too; even that of the task may go.
    show.app = App::default();
    show.press(Key::Char('r'));
    show.view();
    let mut view = show.view();
    view.rows.reverse();
    let mut terminal = Terminal::new(TestBackend::new(100, 30)).expect("memory");
    terminal.draw(|frame| draw(frame, &view, &show.app)).expect("memory");
    let buffer = terminal.backend().buffer();
    let title = (0..100).map(|x| buffer[(x, 1)].symbol()).collect::<String>();
    assert!(title.contains("what to do about ksoftirqd/1[18]"), "{title}");
}

/// 24 tasks of one kind are a row that says so, with the sums of all.
#[test]
fn tasks_of_alike_names_can_be_one_row() {
    let mut show = Show::trace("linux-6.1-preempt.dat", u64::MAX / 1_000_000);
    let single = show.view();
    show.press(Key::Char('g'));
    let grouped = show.view();
    assert!(grouped.rows.len() < single.rows.len());
    let sum = |view: &View| view.rows.iter().map(|row| row.wait_ns).sum::<u64>();
    assert_eq!(sum(&grouped), sum(&single));
    assert_eq!(grouped.rows.iter().map(|row| row.tasks as usize).sum::<usize>(), single.rows.len());
    for row in &grouped.rows {
        assert_eq!(row.blame.iter().map(|piece| piece.ns).sum::<u64>(), row.wait_ns, "{}", row.victim);
    }
}

/// Before a window has passed, shares are of the time that has.
#[test]
fn shares_are_of_the_time_that_has_passed() {
    let mut show = Show::trace("linux-5.10-net-rt.dat", 200);
    let elapsed = show.timeline.world().now.since(show.timeline.world().start);
    let view = show.view();
    assert!(elapsed < Nanos::from_millis(300));
    for row in &view.rows {
        let waited = row.wait_ns + row.waiting_ns.unwrap_or(0);
        assert!((row.share - waited as f64 / elapsed.0 as f64).abs() < 1e-9, "{row:?}");
    }
}

/// A wait of three windows that has just ended, and one of two windows that still lasts: each waited for all of the window.
#[test]
fn a_share_is_of_the_window_alone() {
    let task = |tid, comm: &str| TaskRef::new(Tid(tid), Comm::from(comm), Some(unstarve_model::Prio(120)));
    let hog = TaskRef::new(Tid(7), Comm::from("hog"), Some(unstarve_model::Prio(49)));
    let (over, lasting) = (task(8, "over"), task(9, "lasting"));
    let event = |at_ms: u64, kind| Event {
        time: Time(at_ms * 1_000_000),
        cpu: CpuId(0),
        issuer: Issuer::new(Some(Tid(7)), Context::Task),
        kind,
    };
    let switch = |prev, prev_state, next| EventKind::Switch { prev, prev_state, next };
    let mut events = vec![event(0, switch(task(0, "swapper/0"), PrevState::Runnable, hog))];
    for (at, task) in [(100, over), (1_000, lasting)] {
        events.push(event(at, EventKind::Waking { task, target_cpu: CpuId(0) }));
        events.push(event(at, EventKind::Wakeup { task, target_cpu: CpuId(0) }));
    }
    events.push(event(3_100, switch(hog, PrevState::Runnable, over)));
    let source = Box::new(MemorySource::new(TraceInfo::default(), events, Names::default()));
    let mut show = Show::of("x", source, Nanos::from_millis(1000), Nanos(u64::MAX));
    let view = show.view();
    let shares = |name: &str| {
        let row = view.rows.iter().find(|row| row.victim == name).expect("it waits");
        ((row.wait_ns + row.waiting_ns.unwrap_or(0)) / 1_000_000, (row.share * 100.0).round())
    };
    assert_eq!(shares("lasting"), (2_100, 100.0));
    // Slices are a twentieth of the window: what has begun of the newest counts.
    let (waited, share) = shares("over");
    assert!(waited == 3_000 && (95.0..=100.0).contains(&share), "{share}");
    assert!(view.headline.starts_with("hog[7] RT 50 starves "), "{}", view.headline);
}

/// Whatever is grouped, and whenever.
#[test]
fn no_share_is_above_all_of_the_time() {
    for (name, until) in [
        ("linux-6.1-preempt.dat", u64::MAX / 1_000_000),
        ("linux-5.10-net-rt.dat", 300),
        ("linux-5.10-net-rt.dat", 1700),
        ("linux-6.18-perf-rt-hog.data.zst", u64::MAX / 1_000_000),
    ] {
        let mut show = Show::trace(name, until);
        for _ in 0..2 {
            for row in show.view().rows {
                assert!((0.0..=1.0).contains(&row.share), "{name}: {row:?}");
                assert_eq!(row.mean_waiting.is_some(), show.app.groups(), "{name}: {row:?}");
            }
            show.press(Key::Char('g'));
        }
    }
}

/// The first line: who starves whom; nobody only once as much as a window has been seen.
#[test]
fn the_first_line_is_the_answer() {
    let first = |show: &mut Show| show.screen(80, 24).lines().next().unwrap_or_default().trim().to_owned();
    assert_eq!(
        first(&mut Show::trace("linux-5.10-net-rt.dat", 1200)),
        "wl[117] RT 10 starves ksoftirqd/1[18] on CPU 1, up to 90.0 ms"
    );
    let mut asked = Show::trace("linux-5.10-net-rt.dat", 1200);
    let named = asked.view().with_policies(&|tid| (tid == Tid(117)).then(|| "FIFO 10".to_owned()));
    assert_eq!(named.headline, "wl[117] FIFO 10 starves ksoftirqd/1[18] on CPU 1, up to 90.0 ms");
    assert_eq!(named.rows[0].culprit.as_deref(), Some("wl FIFO 10"));

    let calm = first(&mut Show::trace("linux-6.1-idle.dat", 300));
    assert!(calm.starts_with("Nobody is starved so far (0.") && calm.contains(" of 1.00 s): longest wait "), "{calm}");
    let calm = first(&mut Show::trace("linux-6.1-idle.dat", 1500));
    assert!(calm.starts_with("Nobody is starved (last 1.00 s): longest wait "), "{calm}");

    // A task runs, and nothing waits.
    let task = TaskRef::new(Tid(7), Comm::from("alone"), Some(unstarve_model::Prio(120)));
    let idle = TaskRef::new(Tid(0), Comm::from("swapper/0"), None);
    let silent = |until_ms: u64| {
        let event = |at_ms: u64, kind| Event {
            time: Time(at_ms * 1_000_000),
            cpu: CpuId(0),
            issuer: Issuer::new(None, Context::Task),
            kind,
        };
        let events = vec![
            event(0, EventKind::Switch { prev: idle, prev_state: PrevState::Runnable, next: task }),
            event(until_ms, EventKind::Exit { tid: Tid(9), comm: Comm::from("x") }),
        ];
        let source = Box::new(MemorySource::new(TraceInfo::default(), events, Names::default()));
        Show::of("x", source, Nanos::from_millis(1000), Nanos(u64::MAX))
    };
    assert_eq!(first(&mut silent(400)), "No wait so far (0.4 of 1.00 s)");
    assert!(!silent(400).screen(80, 24).contains("Nobody waited"));
    assert_eq!(first(&mut silent(1400)), "Nobody waited in the last 1.00 s");
}

/// Enter on a group of names lists its tasks, with the window as it is; back to the row it came from.
#[test]
fn a_group_opens_to_its_tasks() {
    // Of a recording there are no roles: groups are names.
    let mut show = Show::trace("linux-6.1-preempt.dat", u64::MAX / 1_000_000);
    show.app = App::default().recorded();
    show.press(Key::Char('t'));
    let heading = |show: &mut Show| show.screen(80, 24).lines().nth(3).unwrap_or_default().to_owned();
    assert!(heading(&mut show).starts_with("GROUP") && heading(&mut show).contains(" MEAN"), "{}", heading(&mut show));
    let groups = show.view();
    let at = groups.rows.iter().position(|row| row.tasks > 1).expect("a group");
    for _ in 0..at {
        show.press(Key::Down);
    }
    show.press(Key::Enter);
    let tasks = show.view();
    assert_eq!(tasks.rows.len(), groups.rows[at].tasks as usize);
    assert_eq!(tasks.rows.iter().map(|row| row.wait_ns).sum::<u64>(), groups.rows[at].wait_ns, "the same window");
    assert!(tasks.rows.iter().all(|row| row.tasks == 1));
    assert!(heading(&mut show).starts_with("TASK of") && heading(&mut show).contains("SHARE"));
    assert_eq!(show.app.by(), RowsBy::Task);
    show.press(Key::Char('q'));
    assert_eq!((show.view().rows.len(), show.app.selected()), (groups.rows.len(), at));
    assert_eq!(show.press(Key::Char('q')), Action::Quit);
}

/// `top` offers what `explain` offers: the same remedies in the same order, the same fix, the same command.
#[test]
fn remedies_are_those_of_explain() {
    let mut compared = 0;
    for name in [
        "linux-5.10-net-rt.dat",
        "linux-6.1-dio-weight.dat",
        "linux-6.1-pool.dat",
        "linux-6.12-lab-oplog-ext4-faulty.dat.zst",
        "linux-7-lab-nfsd-faulty.dat.zst",
        "linux-6.18-perf-rt-hog.data.zst",
    ] {
        let file = format!("{}/../../testdata/traces/{name}", env!("CARGO_MANIFEST_DIR"));
        let open = || unstarve_readers::open(file.as_ref()).expect("testdata");
        let report = unstarve_diagnose::explain(open(), &Default::default(), |_| {}).expect("there are events");
        let mut show = Show::of(name, open(), Nanos(u64::MAX / 2), Nanos(u64::MAX));
        assert_eq!(show.recent.boot(), report.trace.boot(), "{name}");
        let view = show.view();
        for finding in &report.findings {
            let same = |other: &&unstarve_diagnose::report::Finding| {
                other.id == finding.id && other.victim.comm == finding.victim.comm
            };
            let Some(shown) = view.findings.iter().find(same) else { continue };
            let ids = |finding: &unstarve_diagnose::report::Finding| {
                finding.remedies.iter().map(|remedy| remedy.id.to_string()).collect::<Vec<_>>()
            };
            assert_eq!(ids(shown), ids(finding), "{name}: {}", finding.sentence);
            assert_eq!(shown.fix().map(|fix| fix.index), finding.fix().map(|fix| fix.index));
            compared += usize::from(finding.remedies.len() > 1);
        }
    }
    assert!(compared >= 5, "{compared} findings with several remedies");
}

/// All remedies can be read on the smallest screen.
#[test]
fn remedies_scroll() {
    let mut show = Show::trace("linux-5.10-net-rt.dat", 1200);
    show.press(Key::Char('r'));
    let top = show.screen(80, 24);
    insta::assert_snapshot!(top);
    assert!(top.contains("more lines: Down"), "{top}");
    for _ in 0..5 {
        show.press(Key::PageDown);
    }
    let end = show.screen(80, 24);
    assert!(end.contains("--undo") && !end.contains("more lines"), "{end}");
    show.press(Key::Escape);
    assert!(!show.app.shows_remedy());
}

/// The pane is for terminals with room for it.
#[test]
fn wide_terminals_explain_the_chosen_row() {
    let mut show = Show::trace("linux-5.10-net-rt.dat", 1200);
    assert!(!show.screen(119, 30).contains("Who had the CPU"));
    let wide = show.screen(120, 30);
    for part in ["Who had the CPU while it waited", "Why ", "Longest ", "Fix ", "unstarve fix", "Waiting, last "] {
        assert!(wide.contains(part), "{part}: {wide}");
    }
    insta::assert_snapshot!(wide);
    let explained = unstarve_readers::open(
        format!("{}/../../testdata/traces/linux-5.10-net-rt.dat", env!("CARGO_MANIFEST_DIR")).as_ref(),
    );
    let report = unstarve_diagnose::explain(explained.expect("testdata"), &Default::default(), |_| {}).expect("events");
    let fix = report.findings[0].fix().expect("a fix").remedy;
    let text: String = wide.lines().filter_map(|line| line.split('│').nth(1)).collect::<Vec<_>>().join(" ");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(fix.action()), "{text}");
}

/// One selection for all commands.
#[test]
fn only_what_is_selected_is_in_the_window() {
    let of = |tasks: &[&str], cpus: Option<&str>| {
        let file = format!("{}/../../testdata/traces/linux-5.10-net-rt.dat", env!("CARGO_MANIFEST_DIR"));
        let selection = Selection {
            tasks: tasks.iter().map(|task| task.parse().expect("a task")).collect(),
            cpus: cpus.map(|cpus| cpus.parse().expect("CPUs")),
            ..Selection::default()
        };
        let source = unstarve_readers::open(file.as_ref()).expect("testdata");
        let length = Nanos::from_millis(1000);
        let mut show = Show::of("x", source, length, Nanos(0));
        show.window = Window::new(length).selecting(selection.clone());
        let source = unstarve_readers::open(file.as_ref()).expect("testdata");
        show.recent = Recent::new(source.info(), length).selecting(selection);
        show.fill(source, Nanos::from_millis(1200));
        show.view()
    };
    let view = of(&["kworker/*", "18"], None);
    assert!(view.rows.iter().all(|row| row.victim.starts_with("kworker/") || row.tid == Some(18)), "{:?}", view.rows);
    assert!(view.rows.len() > 2 && view.findings.iter().all(|finding| finding.victim.comm == "ksoftirqd/1"));
    let view = of(&[], Some("1"));
    assert!(view.rows.len() > 1 && view.rows.iter().all(|row| row.cpu == Some(1)), "{:?}", view.rows);
    assert_eq!(view.cpus.iter().map(|cpu| cpu.cpu).collect::<Vec<_>>(), [1]);
    // Neither starved nor hurt by it; its waits are elsewhere.
    let view = of(&["rcu_sched"], Some("2"));
    assert!(view.findings.iter().all(|finding| finding.victim.comm != "ksoftirqd/1"), "{:?}", view.findings.len());
}

fn waker(tid: u32) -> TaskRef {
    TaskRef::new(Tid(tid), Comm::from("task"), Some(unstarve_model::Prio(120)))
}

/// CPU 0 goes idle while a task seems to wait there: its switches were not told.
fn unseen_sleeper() -> Show {
    let event = |at_ms: u64, cpu, kind| Event {
        time: Time(at_ms * 1_000_000),
        cpu: CpuId(cpu),
        issuer: Issuer::new(None, Context::Task),
        kind,
    };
    let idle = |cpu| TaskRef::new(Tid(0), Comm::new(format!("swapper/{cpu}").as_bytes()), None);
    let switch = |prev, prev_state, next| EventKind::Switch { prev, prev_state, next };
    let events = vec![
        event(0, 1, switch(idle(1), PrevState::Runnable, waker(7))),
        event(0, 0, switch(waker(9), PrevState::Sleeping, idle(0))),
        event(1, 1, EventKind::Waking { task: waker(8), target_cpu: CpuId(0) }),
        event(1, 1, EventKind::Wakeup { task: waker(8), target_cpu: CpuId(0) }),
        event(101, 1, switch(waker(7), PrevState::Sleeping, idle(1))),
    ];
    let source = Box::new(MemorySource::new(TraceInfo::default(), events, Names::default()));
    Show::of("x", source, Nanos::from_millis(1000), Nanos(u64::MAX))
}

#[test]
fn who_sleeps_has_no_star() {
    let starred = |view: View| view.rows.iter().filter(|row| row.waiting_ns.is_some()).count();
    assert_eq!(starred(unseen_sleeper().view_where(&|_| Some(true))), 1, "the machine says that it waits");
    assert_eq!(starred(unseen_sleeper().view_where(&|_| Some(false))), 0, "the machine says that it sleeps");
    assert_eq!(starred(unseen_sleeper().view()), 0, "nobody waits for an idle CPU for 100 ms");
}

/// CPU 1 runs a task all the time, CPU 0 nothing; the run in progress counts.
#[test]
fn cpus_are_as_busy_as_their_runs() {
    let view = unseen_sleeper().view();
    let busy: Vec<(u32, f64)> = view.cpus.iter().map(|cpu| (cpu.cpu, (cpu.busy * 100.0).round())).collect();
    assert_eq!(busy, [(0, 0.0), (1, 100.0)]);
}
