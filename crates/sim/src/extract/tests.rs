//! What is taken from events made by hand.

use unstarve_facts::Snapshot;
use unstarve_model::{
    Comm, Context, CpuId, Event, EventKind, Issuer, Names, PrevState, Prio, TaskRef, Tid, Time, Vector,
};
use unstarve_timeline::{NoSettings, Timeline};

use super::*;
use crate::Class;

const SLEEPER: Tid = Tid(10);
const OTHER: Tid = Tid(11);
const US: u64 = 1_000;
/// The timer's clock is not that of the trace.
const CLOCKS_DIFFER: i64 = -5_000_000_000;

fn task(tid: Tid) -> TaskRef {
    let comm = if tid.is_idle() { "swapper/0" } else { "sleeper" };
    TaskRef::new(tid, Comm::from(comm), Some(Prio::NORMAL))
}

/// What CPUs do, one after another.
struct Scene {
    now: u64,
    events: Vec<Event>,
    current: Tid,
    cpu: CpuId,
}

impl Scene {
    fn new() -> Scene {
        Scene { now: 0, events: Vec::new(), current: Tid::IDLE, cpu: CpuId(0) }
    }

    /// So much later.
    fn after(&mut self, micros: u64) -> &mut Scene {
        self.now += micros * US;
        self
    }

    fn add(&mut self, context: Context, kind: EventKind) -> &mut Scene {
        let issuer = Issuer::new(Some(self.current), context);
        self.events.push(Event { time: Time(self.now), cpu: self.cpu, issuer, kind });
        self
    }

    fn switch(&mut self, prev_state: PrevState, next: Tid) -> &mut Scene {
        let (prev, next_ref) = (task(self.current), task(next));
        self.add(Context::Task, EventKind::Switch { prev, prev_state, next: next_ref });
        self.current = next;
        self
    }

    fn wake(&mut self, tid: Tid) -> &mut Scene {
        self.add(Context::Hardirq, EventKind::Waking { task: task(tid), target_cpu: CpuId(0) })
    }

    /// The ops of the sleeper, and how all was inferred.
    fn extract(&self, names: &[&str], snapshot: Option<&Snapshot>) -> Extracted {
        let mut timeline = Timeline::new(None, None, Box::new(NoSettings));
        let mut extractor = Extractor::default();
        timeline.names(names.iter().map(|name| Box::from(*name)));
        self.events.iter().for_each(|event| timeline.push(event, &mut extractor));
        timeline.finish(&mut extractor);
        extractor.finish(timeline.world(), snapshot).expect("a program")
    }
}

fn sleeper(extracted: &Extracted) -> &Actor {
    extracted.program.actors.iter().find(|actor| actor.tid == SLEEPER).expect("the sleeper")
}

/// How a sleep is asked for.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Armed {
    /// The recording has no timers.
    NotRecorded,
    Relative,
    Timeout,
    /// poll with a length.
    TimeOfLength,
    Period,
    /// By another thread.
    ByOther,
    BeforeTheRecording,
}

/// A thread that sleeps twelve times for lengths that differ or not; in both cases it computes for so long between that they end a
/// period apart.
fn sleeps(armed: Armed, vary: bool) -> Extracted {
    const PERIOD: u64 = 10_000;
    let mut scene = Scene::new();
    scene.switch(PrevState::Runnable, SLEEPER);
    for round in 0..12_u64 {
        let run = if vary { 1_000 + round * 7 % 5 * 900 } else { 1_000 };
        let length = if armed == Armed::Period || vary { PERIOD - run } else { 6_000 };
        let timer = 0x1000;
        // A wakeup of a preempted timer interrupt comes late: of a length that poll was given, the sleep's end says little.
        let late = if armed == Armed::TimeOfLength && vary { round * 3 % 7 * 400 } else { 0 };
        let asked = if armed == Armed::TimeOfLength { 5_000 } else { length };
        let length = if armed == Armed::TimeOfLength { asked + late } else { length };
        scene.after(run);
        let due = |scene: &Scene| (scene.now + asked * US) as i64 + CLOCKS_DIFFER;
        let start = |scene: &Scene, is_relative| EventKind::TimerStart { timer, due: due(scene), is_relative };
        match armed {
            Armed::Relative => {
                let start = start(&scene, true);
                scene.add(Context::Task, start);
            }
            Armed::TimeOfLength | Armed::Period => {
                let start = start(&scene, false);
                scene.add(Context::Task, start);
            }
            Armed::ByOther => {
                let start = start(&scene, true);
                scene.switch(PrevState::Sleeping, OTHER).add(Context::Task, start);
            }
            Armed::NotRecorded | Armed::Timeout | Armed::BeforeTheRecording => {}
        }
        scene.switch(PrevState::Sleeping, Tid::IDLE).after(length);
        let now = scene.now as i64 + CLOCKS_DIFFER;
        match armed {
            Armed::NotRecorded => {}
            Armed::Timeout => {
                scene.add(Context::Softirq, EventKind::TimeoutExpire);
            }
            _ => {
                scene.add(Context::Hardirq, EventKind::TimerExpire { timer, now });
            }
        }
        scene.wake(SLEEPER).after(5).switch(PrevState::Runnable, SLEEPER);
    }
    scene.after(500).switch(PrevState::Sleeping, Tid::IDLE);
    scene.extract(&[], None)
}

#[test]
fn a_sleep_is_what_its_timer_was_asked_for_and_elsewhere_what_lengths_suggest() {
    // Whether sleeps are lengths where they last equally long, and where they do not; by what it is known.
    let table = [
        (Armed::NotRecorded, true, false),
        (Armed::Relative, true, true),
        (Armed::Timeout, true, true),
        // Where all is as regular as a period, it is taken for one.
        (Armed::TimeOfLength, false, true),
        (Armed::Period, false, false),
        (Armed::ByOther, false, false),
        // Its own, perhaps: as without timers.
        (Armed::BeforeTheRecording, true, false),
    ];
    for (armed, if_equal, if_not) in table {
        for (vary, expected) in [(false, if_equal), (true, if_not)] {
            let extracted = sleeps(armed, vary);
            let ops = &sleeper(&extracted).ops;
            let lengths = ops.iter().filter(|op| matches!(op, Op::SleepFor(_))).count();
            let times = ops.iter().filter(|op| matches!(op, Op::SleepUntil(_))).count();
            assert_eq!((lengths, times), if expected { (12, 0) } else { (0, 12) }, "{armed:?}, vary {vary}: {ops:?}");
            let by_timer = extracted.extraction.inferences.iter().find(|row| row.what.starts_with("their timers"));
            let is_seen = by_timer.is_some_and(|row| row.by == Evidence::Event && row.observations > 0);
            // What poll made of a length stays a guess.
            let by_event = match armed {
                Armed::NotRecorded | Armed::BeforeTheRecording => false,
                Armed::TimeOfLength => !vary,
                _ => true,
            };
            assert_eq!(is_seen, by_event, "{armed:?}, vary {vary}: {:?}", extracted.extraction.inferences);
        }
    }
}

#[test]
fn time_in_the_cpus_own_interrupts_is_nobodys_work() {
    for vector in Vector::ALL {
        let mut scene = Scene::new();
        // The first end says that ends are recorded.
        scene.add(Context::Hardirq, EventKind::VectorExit { vector }).after(1);
        scene.switch(PrevState::Runnable, SLEEPER).after(100);
        scene.add(Context::Hardirq, EventKind::VectorEntry { vector }).after(30);
        scene.add(Context::Hardirq, EventKind::VectorExit { vector }).after(5);
        // What the interrupt raised is served after it, and is not the thread's either.
        scene.add(Context::Softirq, EventKind::SoftirqEntry { vec: 1 }).after(10);
        scene.add(Context::Softirq, EventKind::SoftirqExit { vec: 1 }).after(55);
        scene.switch(PrevState::Sleeping, Tid::IDLE).after(50).wake(SLEEPER).after(1);
        scene.switch(PrevState::Runnable, SLEEPER).after(10).switch(PrevState::Sleeping, Tid::IDLE);
        let extracted = scene.extract(&[], None);
        assert_eq!(sleeper(&extracted).work(), Nanos((100 + 5 + 55 + 10) * US), "{vector:?}");
    }
}

#[test]
fn a_raise_says_whose_work_a_softirq_is() {
    // Whether the thread raises NET_RX, an interrupt does, or raises are not recorded; whether the softirq is the thread's work.
    for (raised_in, is_own) in [(Some(Context::Task), true), (Some(Context::Hardirq), false), (None, true)] {
        let mut scene = Scene::new();
        scene.switch(PrevState::Runnable, SLEEPER).after(100);
        if let Some(context) = raised_in {
            scene.add(context, EventKind::SoftirqRaise { vec: 3 });
        }
        scene.after(30).add(Context::Softirq, EventKind::SoftirqEntry { vec: 3 }).after(40);
        scene.add(Context::Softirq, EventKind::SoftirqExit { vec: 3 });
        scene.switch(PrevState::Sleeping, Tid::IDLE).after(50).wake(SLEEPER).after(1);
        scene.switch(PrevState::Runnable, SLEEPER).after(10).switch(PrevState::Sleeping, Tid::IDLE);
        let extracted = scene.extract(&[], None);
        let expected = if is_own { 180 } else { 140 };
        assert_eq!(sleeper(&extracted).work(), Nanos(expected * US), "{raised_in:?}");
        let rows = &extracted.extraction.inferences;
        let by = rows.iter().find(|row| row.what.contains("softirqs are")).map(|row| row.by);
        assert_eq!(by, Some(if raised_in.is_some() { Evidence::Event } else { Evidence::Guess }));
    }
}

fn snapshot(task: &str) -> Snapshot {
    let json = format!(
        r#"{{"schema":"unstarve.snapshot/1","kernel":{{}},"cpus":{{"online":"0-1"}},"settings":{{"/proc/sys/kernel/sched_autogroup_enabled":"1\n"}},
        "cgroups":[{{"path":"/a","weight":100}},{{"path":"/b","weight":200}}],
        "tasks":[{{"tid":10,"comm":"sleeper","policy":"other","start_ticks":1,{task}}}]}}"#
    );
    Snapshot::from_json(&json).expect("a snapshot")
}

fn losses(extracted: &Extracted, of: &str) -> Option<f64> {
    extracted.extraction.losses.iter().find(|loss| loss.what.contains(of)).map(|loss| loss.share)
}

/// Computes for `before`, is changed, and computes for `after`, in µs.
fn changed(kind: EventKind, before: u64, after: u64, back: Option<EventKind>) -> Scene {
    let mut scene = Scene::new();
    scene.switch(PrevState::Runnable, SLEEPER).after(before);
    scene.switch(PrevState::Sleeping, Tid::IDLE).after(10).add(Context::Task, kind).wake(SLEEPER);
    scene.switch(PrevState::Runnable, SLEEPER).after(after);
    scene.switch(PrevState::Sleeping, Tid::IDLE).after(10);
    if let Some(back) = back {
        scene.add(Context::Task, back);
    }
    scene.wake(SLEEPER).switch(PrevState::Runnable, SLEEPER).after(10).switch(PrevState::Sleeping, Tid::IDLE);
    scene
}

#[test]
fn a_moved_thread_is_in_the_group_where_it_ran_longest() {
    let mut names = Names::default();
    names.extend([Box::from("/b")]);
    let group = names.find("/b");
    // µs before and after the move; the hierarchy; the group; the share that is lost.
    let table = [
        (10, 5_000, 0, Some("/b"), None),
        (5_000, 10, 0, Some("/a"), None),
        (3_000, 1_000, 0, Some("/a"), Some(1010.0 / 4010.0)),
        // Of a v1 hierarchy nothing is known.
        (10, 5_000, 4, Some("/a"), Some(1.0 / 2.0)),
    ];
    for (before, after, hierarchy, is_in, lost) in table {
        let kind = EventKind::Attach { tid: SLEEPER, hierarchy, group };
        let extracted = changed(kind, before, after, None).extract(&["/b"], Some(&snapshot(r#""cgroup":"/a""#)));
        let program = &extracted.program;
        let found = sleeper(&extracted).placement.cgroup.map(|group| program.cgroups[group].path.as_str());
        assert_eq!(found, is_in, "{before} {after}");
        let said = losses(&extracted, "another cgroup");
        assert_eq!(
            said.map(|share| (share * 1000.0) as u64),
            lost.map(|share| (share * 1000.0) as u64),
            "{before} {after}"
        );
    }
}

#[test]
fn an_inherited_priority_is_not_the_threads_own_and_is_a_loss() {
    let raise = |prio| EventKind::SetPrio { tid: SLEEPER, prio: Prio(prio) };
    // With and without the end of the inheritance in the recording.
    for back in [Some(raise(120)), None] {
        let extracted = changed(raise(49), 3_000, 1_000, back).extract(&[], None);
        assert!(matches!(sleeper(&extracted).placement.class, Class::Fair { nice: 0, .. }), "{back:?}");
        assert!(losses(&extracted, "inherited priority").is_some_and(|share| share > 0.2), "{back:?}");
        let index = extracted.program.actors.iter().position(|actor| actor.tid == SLEEPER).expect("it is played");
        assert!(!extracted.sets_itself[index], "{back:?}");
    }
    // It had inherited one before the recording began.
    let lower = EventKind::SetPrio { tid: SLEEPER, prio: Prio(120) };
    let mut scene = Scene::new();
    scene.switch(PrevState::Runnable, SLEEPER).after(10).add(Context::Task, raise(49)).after(10);
    scene.add(Context::Task, lower).after(3_000).switch(PrevState::Sleeping, Tid::IDLE).after(100);
    let extracted = scene.wake(SLEEPER).after(1).switch(PrevState::Runnable, SLEEPER).after(10).extract(&[], None);
    assert!(matches!(sleeper(&extracted).placement.class, Class::Fair { nice: 0, .. }));
}

#[test]
fn cpus_that_changed_are_right_or_a_loss() {
    // CPUs at the beginning and the end; its time on CPU 0 and then on CPU 1, in µs; the CPUs with which it is played; what is lost.
    let table = [
        ("0-1", None, (10, 20), "0-1", false),
        ("0-1", Some("0"), (30, 0), "0", false),
        ("0-1", Some("1"), (1, 50), "1", false),
        ("0-1", Some("1"), (30, 50), "0-1", false),
        ("0", Some("1"), (30, 0), "0", false),
        ("1", Some("0"), (30, 0), "0", false),
        ("0", None, (30, 20), "0", true),
        ("0", None, (1, 50), "0-1", false),
    ];
    for (first, last, (on_first, on_second), expected, is_loss) in table {
        let last = last.map(|last| format!(r#","allowed_last":"{last}""#)).unwrap_or_default();
        let snapshot = snapshot(&format!(r#""allowed":"{first}"{last}"#));
        let mut scene = Scene::new();
        for (cpu, time) in [(0, on_first), (1, on_second)] {
            scene.cpu = CpuId(cpu);
            if time > 0 {
                scene.wake(SLEEPER).after(1).switch(PrevState::Runnable, SLEEPER).after(time);
                scene.switch(PrevState::Sleeping, Tid::IDLE).after(10);
            }
        }
        // So long that it is not said to stay on a CPU.
        scene.after(1_000).switch(PrevState::Runnable, OTHER).after(1_000).switch(PrevState::Sleeping, Tid::IDLE);
        let extracted = scene.extract(&[], Some(&snapshot));
        let case = format!("{first}{last} {on_first} {on_second}");
        assert_eq!(sleeper(&extracted).placement.cpus.to_string(), expected, "{case}");
        assert_eq!(losses(&extracted, "allowed CPUs").is_some(), is_loss, "{case}");
    }
}

#[test]
fn a_session_is_a_group_where_sessions_compete() {
    let extracted = changed(EventKind::TickStop, 100, 100, None)
        .extract(&[], Some(&snapshot(r#""cgroup":"/","autogroup":{"id":7,"nice":5}"#)));
    let group = sleeper(&extracted).placement.cgroup.map(|group| &extracted.program.cgroups[group]);
    assert_eq!(group.map(|group| (group.path.as_str(), group.load_weight)), Some(("/autogroup-7", 335)));
}
