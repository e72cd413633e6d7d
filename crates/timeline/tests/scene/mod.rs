//! Small traces written as text, one event a line: `<time> <cpu> <event>`.
//!
//! ```text
//! 10 0 switch  a S > b        a sleeps, b gets CPU 0 (states: R, R+, S, D, X)
//! 20 0 wake    c @1           waking: issued on CPU 0, c was last on CPU 1
//! 21 1 queued  c @1           wakeup
//! 30 0 new     d @0           wakeup_new
//! 40 0 move    c 1>0          migrate
//! 50 0 irq+ 5   ·  60 0 irq- 5  ·  70 0 soft+ 3  ·  80 0 soft- 3
//! 90 0 lost   ·  95 0 exec a   ·  95 0 exec a=prog   ·  96 0 rename a=prog   ·  97 0 prio a!
//! ```
//! A name is a task's comm; its tid comes from [`TASKS`]; `idle` is the idle task; `name!` is real-time, prio 49;
//! `a=prog` is a when it is called prog, `a?` is a of unknown priority.

#![allow(dead_code, reason = "each test uses a part")]

use unstarve_model::{Comm, Context, CpuId, Event, EventKind, Issuer, PrevState, Prio, TaskRef, Tid, Time};
use unstarve_timeline::{ActorKind, Settings, Sink, Timeline, Wait, World};

/// Letters and their tids.
const TASKS: &[&str] = &["idle", "a", "b", "c", "d", "e", "kworker/0:1", "ksoftirqd/0"];

pub fn task(word: &str) -> TaskRef {
    let unknown = word.ends_with('?');
    let word = word.trim_end_matches('?');
    let (name, prio) = match word.strip_suffix('!') {
        Some(name) => (name, Prio(49)),
        None => (word, Prio::NORMAL),
    };
    let (name, prio) = match name.split_once('+') {
        Some((name, nice)) => (name, Prio(120 + nice.parse::<i32>().expect("nice"))),
        None => (name, prio),
    };
    let (who, name) = name.split_once('=').unwrap_or((name, name));
    let tid = TASKS.iter().position(|known| *known == who).expect("a known task") as u32;
    let comm = if tid == 0 { Comm::from("swapper/0") } else { Comm::from(name) };
    TaskRef::new(Tid(tid), comm, (!unknown).then_some(prio))
}

fn event(line: &str) -> Event {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = |word: &str| CpuId(word.trim_start_matches('@').parse().expect("a CPU"));
    let kind = match words[2] {
        "switch" => EventKind::Switch {
            prev: task(words[3]),
            prev_state: match words[4] {
                "R" => PrevState::Runnable,
                "R+" => PrevState::Preempted,
                "S" => PrevState::Sleeping,
                "D" => PrevState::Uninterruptible,
                "X" => PrevState::Dead,
                other => panic!("state {other}"),
            },
            next: task(words[6]),
        },
        "wake" => EventKind::Waking { task: task(words[3]), target_cpu: at(words[4]) },
        "queued" => EventKind::Wakeup { task: task(words[3]), target_cpu: at(words[4]) },
        "new" => EventKind::WakeupNew { task: task(words[3]), target_cpu: at(words[4]) },
        "move" => {
            let (from, to) = words[4].split_once('>').expect("from>to");
            EventKind::Migrate { task: task(words[3]), orig_cpu: at(from), dest_cpu: at(to) }
        }
        "irq+" => EventKind::IrqEntry { irq: words[3].parse().expect("irq"), name: None },
        "irq-" => EventKind::IrqExit { irq: words[3].parse().expect("irq") },
        "soft+" => EventKind::SoftirqEntry { vec: words[3].parse().expect("vec") },
        "soft-" => EventKind::SoftirqExit { vec: words[3].parse().expect("vec") },
        "exec" => {
            let task = task(words[3]);
            EventKind::Exec {
                tid: task.tid(),
                comm: if words[3].contains('=') { *task.comm() } else { Comm::default() },
            }
        }
        "rename" => EventKind::Rename { tid: Some(task(words[3]).tid()), comm: *task(words[3]).comm() },
        "prio" => EventKind::SetPrio { tid: task(words[3]).tid(), prio: task(words[3]).prio().expect("a priority") },
        "lost" => EventKind::Lost { count: None },
        other => panic!("event {other}"),
    };
    Event {
        time: Time(words[0].parse().expect("a time")),
        cpu: at(words[1]),
        issuer: Issuer::new(None, Context::Unknown),
        kind,
    }
}

/// Writes down each wait: `a wakeup 10..30 cpu 0: b 20 fair`.
#[derive(Default)]
struct Notes(Vec<String>);

pub fn name(world: &World, actor: unstarve_timeline::ActorId) -> String {
    match world.actors.get(actor).kind {
        ActorKind::Tasks { comm, .. } => comm.to_string(),
        ActorKind::Idle => "idle".into(),
        ActorKind::Unknown => "unknown".into(),
        ActorKind::Stopped => "stopped".into(),
        ActorKind::Others => "others".into(),
        ActorKind::Irq { irq, .. } => format!("irq{irq}"),
        ActorKind::Vector(vector) => vector.name().into(),
        ActorKind::Softirq { vec } => format!("softirq{vec}"),
    }
}

impl Sink for Notes {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        let pieces: Vec<String> = wait
            .pieces
            .iter()
            .map(|piece| format!("{} {} {}", name(world, piece.occupant), piece.length.0, piece.rule))
            .collect();
        let kind = format!("{:?}", wait.kind).to_lowercase();
        let end = if wait.ended == unstarve_timeline::WaitEnd::TraceEnd { " (trace ends)" } else { "" };
        self.0.push(format!(
            "{} {kind} {}..{} cpu {}: {}{end}",
            name(world, wait.actor),
            wait.start.0,
            wait.end.0,
            wait.cpu,
            pieces.join(", ")
        ));
    }
}

/// The waits of a scene, one a line.
pub fn waits(settings: Box<dyn Settings>, scene: &str) -> String {
    notes(Timeline::new(None, None, settings), scene)
}

/// The same with a timeline that knows more.
pub fn notes(timeline: Timeline, scene: &str) -> String {
    let mut notes = Notes::default();
    run(timeline, scene, &mut notes);
    notes.0.join("\n")
}

/// Tells the sink what happens in a scene.
pub fn play(settings: Box<dyn Settings>, scene: &str, sink: &mut impl Sink) {
    run(Timeline::new(None, None, settings), scene, sink);
}

/// The same of a machine with so many CPUs.
pub fn play_on(cpus: Option<u32>, scene: &str, sink: &mut impl Sink) -> Timeline {
    run(Timeline::new(cpus, None, Box::new(unstarve_timeline::NoSettings)), scene, sink)
}

/// The same with a timeline that knows more.
pub fn run(mut timeline: Timeline, scene: &str, sink: &mut impl Sink) -> Timeline {
    go_on(&mut timeline, scene, sink);
    timeline.finish(sink);
    timeline
}

/// Goes on without an end.
pub fn go_on(timeline: &mut Timeline, scene: &str, sink: &mut impl Sink) {
    for line in scene.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        timeline.push(&event(line), sink);
    }
}

/// The waits that go on when a scene stops.
pub fn so_far(timeline: &Timeline) -> String {
    let mut notes = Notes::default();
    timeline.so_far(unstarve_model::Nanos(1), |_, _| true, &mut notes);
    notes.0.join("\n")
}
