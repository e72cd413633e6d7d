//! Traces whose analysis would take time by the square of their length, if nothing limited it.
//!
//! `hostile_shapes SHAPE FORMAT BYTES > FILE` writes one of about so many bytes. Formats: `text` (of ftrace), `trace.dat`,
//! `perfetto`. Shapes: see [`SHAPES`]. `docs/decisions/0505-steps-are-counted-and-limited.md` has the times.

use std::error::Error;
use std::io::{self, Write};

use unstarve_model::{Comm, Context, CpuId, Event, EventKind, Issuer, Names, PrevState, Prio, TaskRef, Tid, Time};

#[path = "../tests/synth/mod.rs"]
mod synth;

/// Writes one round of a shape.
type WriteRound = fn(&mut Rounds, u32);

/// What comes in each round, by name.
const SHAPES: [(&str, WriteRound); 9] = [
    ("class-flips", class_flips),
    ("idle-flips", idle_flips),
    ("kinds", kinds),
    ("kinds-at-once", kinds_at_once),
    ("crowd", crowd),
    ("silent-cpus", silent_cpus),
    ("wake-chain", wake_chain),
    ("interrupts", interrupts),
    ("descending", descending),
];

struct Rounds {
    time: u64,
    current: u32,
    events: Vec<Event>,
}

fn task(tid: u32, prio: Prio) -> TaskRef {
    let name = if tid == 0 { "swapper/0".to_owned() } else { format!("t{tid}") };
    TaskRef::new(Tid(tid), Comm::from(name.as_str()), Some(prio))
}

const FAIR: Prio = Prio::NORMAL;
const REAL_TIME: Prio = Prio(49);

fn prio_of(tid: u32) -> Prio {
    if tid >= 3_000_000 { REAL_TIME } else { FAIR }
}

impl Rounds {
    fn push(&mut self, cpu: u32, kind: EventKind) {
        let issuer = Issuer::new(Some(Tid(self.current)), Context::Task);
        self.events.push(Event { time: Time(self.time), cpu: CpuId(cpu), issuer, kind });
    }

    fn wake(&mut self, tid: u32) {
        self.time += 1_000;
        self.push(0, EventKind::Wakeup { task: task(tid, prio_of(tid)), target_cpu: CpuId(0) });
    }

    fn switch_at_once(&mut self, next: u32, prev_state: PrevState) {
        let (prev, next) = (task(self.current, prio_of(self.current)), task(next, prio_of(next)));
        self.push(0, EventKind::Switch { prev, prev_state, next });
        self.current = next.tid().0;
    }

    fn switch(&mut self, next: u32, prev_state: PrevState) {
        self.time += 1_000_000;
        self.switch_at_once(next, prev_state);
    }
}

/// More and more real-time tasks wait while a lower class goes before them, again and again.
fn class_flips(rounds: &mut Rounds, round: u32) {
    rounds.wake(3_000_100 + round % 500_000);
    rounds.switch(3_000_001, PrevState::Preempted);
    rounds.switch(1, PrevState::Preempted);
}

/// More and more tasks wait while their CPU goes idle, again and again.
fn idle_flips(rounds: &mut Rounds, round: u32) {
    rounds.wake(100 + round % 2_000_000);
    rounds.switch(1, PrevState::Preempted);
    rounds.switch(0, PrevState::Sleeping);
}

/// More and more kinds of tasks wait for each other.
fn kinds(rounds: &mut Rounds, round: u32) {
    rounds.wake(100 + round % 60_000);
    rounds.switch(100 + (round.wrapping_mul(7919)) % 60_000, PrevState::Preempted);
}

/// The same, and all of them have the CPU at one moment.
fn kinds_at_once(rounds: &mut Rounds, round: u32) {
    if round.is_multiple_of(60_000) {
        rounds.time += 1_000_000;
    }
    rounds.push(0, EventKind::Wakeup { task: task(100 + round % 60_000, FAIR), target_cpu: CpuId(0) });
    rounds.switch_at_once(100 + (round.wrapping_mul(7919)) % 60_000, PrevState::Preempted);
}

/// All wait, and then all get the CPU in turn, many times.
fn crowd(rounds: &mut Rounds, round: u32) {
    rounds.switch(100 + round % 4_000, PrevState::Preempted);
}

/// Many wait while thousands of CPUs are heard for the first time.
fn silent_cpus(rounds: &mut Rounds, round: u32) {
    rounds.wake(100 + round % 2_000_000);
    rounds.time += 1_000;
    let here = std::mem::replace(&mut rounds.current, 0);
    rounds.push(1 + round % 8_190, EventKind::SoftirqEntry { vec: 1 });
    rounds.current = here;
}

/// Each sleeps until the one before it has run.
fn wake_chain(rounds: &mut Rounds, round: u32) {
    rounds.switch(100 + round % 100_000, PrevState::Sleeping);
    rounds.wake(101 + round % 100_000);
}

/// Interrupts within a wait of many.
fn interrupts(rounds: &mut Rounds, round: u32) {
    rounds.wake(100 + round % 2_000_000);
    rounds.time += 10_000;
    rounds.push(0, EventKind::SoftirqEntry { vec: (round % 10) as u8 });
    if round.is_multiple_of(10) {
        rounds.switch(100 + round / 2 % 2_000_000, PrevState::Preempted);
    }
}

/// Each event is earlier than the one before it.
fn descending(rounds: &mut Rounds, round: u32) {
    rounds.time = 1_000_000_000_000 - u64::from(round) * 5_000;
    rounds.push(round % 3, EventKind::Wakeup { task: task(100 + round % 1_000, FAIR), target_cpu: CpuId(round % 3) });
    let (prev, next) = (task(100 + round % 1_000, FAIR), task(101 + round % 1_000, FAIR));
    rounds.push(round % 3, EventKind::Switch { prev, prev_state: PrevState::Preempted, next });
}

fn text(events: &[Event]) -> Vec<u8> {
    let mut out = b"# tracer: nop\n#\n#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n".to_vec();
    for event in events {
        let tid = event.issuer.current().unwrap_or(Tid::IDLE);
        let (seconds, rest) = (event.time.0 / 1_000_000_000, event.time.0 % 1_000_000_000 / 1000);
        let (comm, cpu) = (task(tid.0, FAIR), event.cpu.0);
        out.extend(format!("{}-{} [{cpu:03}] d..2. {seconds}.{rest:06}: ", comm.comm(), tid.0).bytes());
        let line = match &event.kind {
            EventKind::Switch { prev, prev_state, next } => {
                let state = if prev_state.is_runnable() { "R+" } else { "S" };
                let prio = |task: &TaskRef| task.prio().map_or(120, |prio| prio.0);
                format!(
                    "sched_switch: prev_comm={} prev_pid={} prev_prio={} prev_state={state} ==> next_comm={} next_pid={} next_prio={}",
                    prev.comm(),
                    prev.tid().0,
                    prio(prev),
                    next.comm(),
                    next.tid().0,
                    prio(next)
                )
            }
            EventKind::Wakeup { task, target_cpu } => format!(
                "sched_wakeup: comm={} pid={} prio={} target_cpu={:03}",
                task.comm(),
                task.tid().0,
                task.prio().map_or(120, |prio| prio.0),
                target_cpu.0
            ),
            EventKind::SoftirqEntry { vec } => format!("softirq_entry: vec={vec} [action=TIMER]"),
            _ => continue,
        };
        out.extend(line.bytes());
        out.push(b'\n');
    }
    out
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn number(field: u64, value: u64, out: &mut Vec<u8>) {
    varint(field << 3, out);
    varint(value, out);
}

fn bytes(field: u64, content: &[u8], out: &mut Vec<u8>) {
    varint(field << 3 | 2, out);
    varint(content.len() as u64, out);
    out.extend(content);
}

/// A packet of Perfetto for 1,000 events: those of one CPU each.
fn perfetto(events: &[Event]) -> Vec<u8> {
    let mut out = Vec::new();
    for some in events.chunk_by(|one, other| one.cpu == other.cpu).flat_map(|of_cpu| of_cpu.chunks(1_000)) {
        let mut bundle = Vec::new();
        number(1, some[0].cpu.0.into(), &mut bundle);
        for event in some {
            let (mut body, mut found) = (Vec::new(), Vec::new());
            let field = match &event.kind {
                EventKind::Switch { prev, prev_state, next } => {
                    let prio = |task: &TaskRef| task.prio().map_or(120, |prio| prio.0);
                    bytes(1, prev.comm().to_string().as_bytes(), &mut body);
                    number(2, prev.tid().0.into(), &mut body);
                    number(3, prio(prev) as u64, &mut body);
                    number(4, if prev_state.is_runnable() { 0x100 } else { 1 }, &mut body);
                    bytes(5, next.comm().to_string().as_bytes(), &mut body);
                    number(6, next.tid().0.into(), &mut body);
                    number(7, prio(next) as u64, &mut body);
                    4
                }
                EventKind::Wakeup { task, target_cpu } => {
                    bytes(1, task.comm().to_string().as_bytes(), &mut body);
                    number(2, task.tid().0.into(), &mut body);
                    number(3, task.prio().map_or(120, |prio| prio.0) as u64, &mut body);
                    number(5, target_cpu.0.into(), &mut body);
                    17
                }
                EventKind::SoftirqEntry { vec } => {
                    number(1, u64::from(*vec), &mut body);
                    24
                }
                _ => continue,
            };
            number(1, event.time.0, &mut found);
            number(2, event.issuer.current().unwrap_or(Tid::IDLE).0.into(), &mut found);
            bytes(field, &body, &mut found);
            bytes(2, &found, &mut bundle);
        }
        let mut packet = Vec::new();
        bytes(1, &bundle, &mut packet);
        bytes(1, &packet, &mut out);
    }
    out
}

fn trace_dat(events: &[Event]) -> Result<Vec<u8>, Box<dyn Error>> {
    let machine = synth::MACHINES[0];
    let pages = synth::pages(machine, events, &Names::default());
    let file = tempfile::NamedTempFile::new()?;
    let mut recording = synth::recording(machine, &pages);
    recording.snapshot = None;
    unstarve_readers::trace_dat_write::write(recording, file.path(), &mut |_, _| {})?;
    Ok(std::fs::read(file.path())?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let names = SHAPES.map(|shape| shape.0).join(", ");
    let [shape, format, size] = &arguments[..] else {
        return Err(format!("usage: hostile_shapes SHAPE text|trace.dat|perfetto BYTES; shapes: {names}").into());
    };
    let (_, round) = SHAPES.into_iter().find(|known| known.0 == shape).ok_or("no such shape")?;
    let size: usize = size.parse()?;
    let each = match format.as_str() {
        "text" => 135,
        "trace.dat" => 60,
        "perfetto" => 48,
        _ => return Err("no such format".into()),
    };
    let mut rounds = Rounds { time: 1_000_000_000, current: 1, events: Vec::new() };
    let mut number = 0;
    while rounds.events.len() < size / each {
        round(&mut rounds, number);
        number += 1;
    }
    let out = match format.as_str() {
        "text" => text(&rounds.events),
        "trace.dat" => trace_dat(&rounds.events)?,
        _ => perfetto(&rounds.events),
    };
    io::stdout().write_all(&out)?;
    Ok(())
}
