//! The verdict on the whole product of its axes: who waits, because of what, for how long, whether the wait ends in the recording, and
//! whether anybody is seen to pay. Each cell is a recording as text, of half a minute, whose truth is by construction.

use std::fmt::Write as _;

use unstarve_diagnose::report::{Report, Severity};
use unstarve_diagnose::{Options, explain};
use unstarve_readers::{Input, open_input};

/// Half a minute: shares of it stay small until a wait takes seconds.
const SPAN_MS: u64 = 30_000;
/// When the trouble begins, if it ends in the recording.
const BEGIN_MS: u64 = 2_000;
const LENGTHS_MS: [u64; 7] = [3, 20, 60, 150, 300, 3_000, 20_000];

/// A task of the text.
#[derive(Clone, Copy)]
struct Task {
    comm: &'static str,
    tid: u32,
    prio: i32,
    /// What it works at while it runs, if it is a worker of which that is recorded.
    work: Option<&'static str>,
}

const fn task(comm: &'static str, tid: u32, prio: i32) -> Task {
    Task { comm, tid, prio, work: None }
}

const fn worker(comm: &'static str, tid: u32, work: &'static str) -> Task {
    Task { comm, tid, prio: 120, work: Some(work) }
}

const IDLE: Task = task("swapper/3", 0, 120);

/// Those that serve others.
const SERVING: [Task; 6] = [
    worker("kworker/3:1", 52, "iomap_dio_complete_work"),
    task("ksoftirqd/3", 40, 120),
    task("rcu_preempt", 17, 120),
    task("jbd2/vda1-8", 300, 120),
    task("nfsd", 700, 120),
    task("kswapd0", 90, 120),
];
const HOUSEKEEPING: [Task; 3] =
    [task("kworker/3:1", 52, 120), worker("kworker/3:2", 53, "vmstat_update"), task("kcompactd0", 91, 120)];
const REAL_TIME: [Task; 2] = [task("motor-ctl", 77, 59), task("irq/27-eth0", 78, 59)];
const PROGRAMS: [Task; 1] = [task("postgres", 800, 120)];
const LAST: [Task; 2] = [task("updatedb", 900, 139), task("khugepaged", 92, 139)];

/// Text of ftrace.
struct Scene(String);

impl Scene {
    fn new() -> Scene {
        Scene("# tracer: nop\n#\n".to_owned())
    }

    fn line(&mut self, us: u64, on: Task, cpu: u32, flags: &str, event: &str) {
        let (comm, tid) = if on.tid == 0 { ("<idle>", 0) } else { (on.comm, on.tid) };
        let time = format!("{}.{:06}", 100 + us / 1_000_000, us % 1_000_000);
        writeln!(self.0, "{:>16}-{tid:<7} [{cpu:03}] {flags} {time}: {event}", comm).expect("text");
    }

    fn wake(&mut self, us: u64, by: Task, flags: &str, cpu: u32, who: Task, target: u32) {
        let Task { comm, tid, prio, .. } = who;
        let of = format!("comm={comm} pid={tid} prio={prio} target_cpu={target:03}");
        self.line(us, by, cpu, flags, &format!("sched_waking: {of}"));
        self.line(us + 1, by, cpu, flags, &format!("sched_wakeup: {of}"));
    }

    fn switch(&mut self, us: u64, cpu: u32, prev: Task, state: &str, next: Task) {
        let event = format!(
            "sched_switch: prev_comm={} prev_pid={} prev_prio={} prev_state={state} ==> next_comm={} next_pid={} next_prio={}",
            prev.comm, prev.tid, prev.prio, next.comm, next.tid, next.prio
        );
        self.line(us, prev, cpu, "d..2.", &event);
    }
}

/// How the victim is kept off.
#[derive(Clone, Copy)]
struct Scenario {
    victim: Task,
    /// Who has the CPU meanwhile; idle is nobody.
    occupant: Task,
    ms: u64,
    is_open: bool,
    /// Whether a program sleeps until the victim has run.
    has_payer: bool,
}

impl Scenario {
    fn text(&self) -> String {
        let Scenario { victim, occupant, ms, is_open, has_payer } = *self;
        let client = task("client", 950, 120);
        let idle1 = Task { comm: "swapper/1", ..IDLE };
        let begin = if is_open { SPAN_MS - ms } else { BEGIN_MS } * 1000;
        let end = begin + ms * 1000;
        let mut events: Vec<(u64, Scene)> = Vec::new();
        let mut at = |us: u64, write: &dyn Fn(&mut Scene)| {
            let mut scene = Scene(String::new());
            write(&mut scene);
            events.push((us, scene));
        };
        let before = if occupant.tid == 0 { task("cat", 951, 120) } else { IDLE };
        at(0, &|scene| scene.switch(0, 3, before, if before.tid == 0 { "R" } else { "S" }, occupant));
        // The CPU is heard until the end, and so is another one.
        let goes_on = !is_open && victim.prio < occupant.prio && occupant.tid != 0;
        for tick in (0..=SPAN_MS).step_by(100) {
            let us = tick * 1000 + 50;
            let running = if !is_open && us > end && !goes_on { IDLE } else { occupant };
            at(us, &|scene| {
                scene.line(us, running, 3, "d.h2.", "irq_handler_entry: irq=27 name=arch_timer");
                scene.line(us + 5, running, 3, "d.h2.", "irq_handler_exit: irq=27 ret=handled");
            });
        }
        for second in 0..SPAN_MS / 1000 {
            let (us, sshd) = (second * 1_000_000 + 500, task("sshd", 60, 120));
            let idle = Task { comm: "swapper/0", ..IDLE };
            at(us, &|scene| {
                scene.wake(us, idle, "d.h3.", 0, sshd, 0);
                scene.switch(us + 10, 0, idle, "R", sshd);
                scene.switch(us + 300, 0, sshd, "S", idle);
            });
        }
        if has_payer {
            at(begin - 200, &|scene| {
                scene.switch(begin - 200, 1, idle1, "R", client);
                scene.switch(begin - 100, 1, client, "S", idle1);
            });
        }
        at(begin, &|scene| scene.wake(begin, occupant, "dNh4.", 3, victim, 3));
        if !is_open {
            at(end, &|scene| {
                // One that is not preempted for long is preempted in the end; others leave.
                scene.switch(end, 3, occupant, if goes_on || occupant.tid == 0 { "R" } else { "S" }, victim);
                if let Some(work) = victim.work {
                    let event = format!("workqueue_execute_start: work struct 00000000cafe0001: function {work}");
                    scene.line(end + 10, victim, 3, ".....", &event);
                    let event = format!("workqueue_execute_end: work struct 00000000cafe0001: function {work}");
                    scene.line(end + 150, victim, 3, ".....", &event);
                }
                if has_payer {
                    scene.wake(end + 160, victim, "d..2.", 3, client, 1);
                    scene.switch(end + 170, 1, idle1, "R", client);
                }
                scene.switch(end + 200, 3, victim, "S", if goes_on { occupant } else { IDLE });
                if has_payer {
                    scene.switch(end + 900, 1, client, "S", idle1);
                }
            });
        } else if let Some(work) = victim.work {
            // What it works at is known from an earlier turn.
            let us = 1_000_000 + 100;
            at(us, &|scene| {
                scene.wake(us, occupant, "dNh4.", 3, victim, 3);
                scene.switch(us + 10, 3, occupant, "R+", victim);
                let event = format!("workqueue_execute_start: work struct 00000000cafe0001: function {work}");
                scene.line(us + 20, victim, 3, ".....", &event);
                let event = format!("workqueue_execute_end: work struct 00000000cafe0001: function {work}");
                scene.line(us + 30, victim, 3, ".....", &event);
                scene.switch(us + 40, 3, victim, "S", occupant);
            });
        }
        events.sort_by_key(|(us, _)| *us);
        events.iter().fold(Scene::new().0, |text, (_, scene)| text + &scene.0)
    }

    fn explained(&self) -> Report {
        let text = self.text();
        let input =
            Input::from_stream(Box::new(std::io::Cursor::new(text.into_bytes())), "scene".into()).expect("text");
        explain(open_input(input).expect("text of ftrace"), &Options::default(), |_| {}).expect("events")
    }

    /// `critical poller`: how bad, and who is to blame.
    fn verdict(&self) -> String {
        let report = self.explained();
        let victim = self.victim;
        let of_victim = report.findings.iter().find(|finding| finding.victim.tids.contains(&victim.tid));
        let severity = of_victim.map(|finding| finding.severity);
        let loud = report.findings.iter().filter(|finding| finding.severity > Severity::Info);
        for finding in loud {
            let accused = finding.culprits.first().map(|culprit| culprit.comm.as_str());
            let is_victim = finding.victim.tids.contains(&victim.tid) || finding.victim.comm == "client";
            assert!(is_victim, "{}: {} is no victim", self.name(), finding.sentence);
            let expected = if self.occupant.tid == 0 { "idle" } else { self.occupant.comm };
            assert_eq!(accused, Some(expected), "{}: {}", self.name(), finding.sentence);
        }
        if self.ms >= 1_000 && self.victim.prio < 139 {
            assert!(!report.verdict.text.starts_with("Nobody is starved."), "{}: {}", self.name(), report.verdict.text);
            assert!(report.verdict.severity >= Some(Severity::Warning), "{}: {}", self.name(), report.verdict.text);
        }
        let remedies =
            report.findings.iter().flat_map(|finding| finding.remedies.iter().map(|remedy| remedy.id.as_str()));
        if victim.prio < 100 {
            let harmful = ["fair-server", "rt-throttling"];
            assert!(
                !remedies.clone().any(|id| harmful.contains(&id)),
                "{}: takes time from real-time victims",
                self.name()
            );
        }
        severity.map_or("-".to_owned(), |severity| format!("{severity:?}").to_lowercase())
    }

    fn name(&self) -> String {
        let open = if self.is_open { "open" } else { "ended" };
        format!("{} behind {} for {} ms, {open}", self.victim.comm, self.occupant.comm, self.ms)
    }
}

/// A row of verdicts by length; the same for each of the victims, open or ended.
fn row(victims: &[Task], occupant: Task, has_payer: bool) -> String {
    let mut rows: Vec<(String, String)> = Vec::new();
    for victim in victims {
        for is_open in [false, true] {
            // Who never ran has waked nobody.
            if is_open && has_payer {
                continue;
            }
            let cells = LENGTHS_MS.map(|ms| Scenario { victim: *victim, occupant, ms, is_open, has_payer }.verdict());
            let name = format!("{} {}", victim.comm, if is_open { "open" } else { "ended" });
            rows.push((name, cells.join(" ")));
        }
    }
    let (first, cells) = rows.first().expect("a victim").clone();
    for (name, other) in &rows {
        assert_eq!(*other, cells, "{name} is judged otherwise than {first}");
    }
    cells
}

const HOG: Task = task("poller", 1000, 49);
const HIGHER: Task = task("audio", 1001, 9);
const EQUAL: Task = task("reactor_0", 1002, 120);
const HEAVY: Task = task("cruncher", 1003, 100);

#[test]
fn behind_a_real_time_hog() {
    insta::assert_snapshot!(row(&SERVING, HOG, false), @"- info warning warning warning critical critical");
    insta::assert_snapshot!(row(&HOUSEKEEPING, HOG, false), @"- - info info warning critical critical");
    insta::assert_snapshot!(row(&PROGRAMS, HOG, false), @"- warning critical critical critical critical critical");
    insta::assert_snapshot!(row(&LAST, HOG, false), @"- - info info info info info");
}

#[test]
fn behind_a_real_time_hog_while_a_program_sleeps() {
    insta::assert_snapshot!(row(&SERVING, HOG, true), @"- warning critical critical critical critical critical");
    insta::assert_snapshot!(row(&HOUSEKEEPING, HOG, true), @"- warning critical critical critical critical critical");
}

#[test]
fn real_time_behind_a_higher_priority() {
    insta::assert_snapshot!(row(&REAL_TIME, HIGHER, false), @"- info warning warning warning critical critical");
}

#[test]
fn real_time_behind_what_is_not_preempted() {
    insta::assert_snapshot!(row(&REAL_TIME, EQUAL, false), @"info warning critical critical critical critical critical");
}

#[test]
fn behind_an_equal_that_does_not_leave() {
    for victims in [&SERVING[..], &HOUSEKEEPING, &PROGRAMS] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(row(victims, EQUAL, false), @"- - info info warning warning critical");
        }
    }
}

#[test]
fn behind_what_weighs_more() {
    insta::assert_snapshot!(row(&SERVING, HEAVY, false), @"- - warning warning warning critical critical");
    insta::assert_snapshot!(row(&HOUSEKEEPING, HEAVY, false), @"- - - - warning critical critical");
    insta::assert_snapshot!(row(&PROGRAMS, HEAVY, false), @"- - warning warning critical critical critical");
}

#[test]
fn beside_its_own_idle_cpu() {
    for victims in [&SERVING[..], &HOUSEKEEPING] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(row(victims, IDLE, false), @"- - warning warning warning critical critical");
        }
    }
    insta::assert_snapshot!(row(&PROGRAMS, IDLE, false), @"- - warning warning warning critical critical");
}
