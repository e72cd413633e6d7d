//! Synthetic files in all variants of trace.dat, and damaged ones.

mod damage;
mod merging;
mod writing;

use std::io::{Cursor, Write as _};
use std::path::Path;

use crate::synth::{MACHINES, V7, pages, recording};
use proptest::prelude::*;
use unstarve_model::{
    Batch, ClockPair, Comm, Context, CpuId, Event, EventKind, EventSource, Issuer, Loss, LossKind, NameId, Names,
    PrevState, Prio, TaskRef, Tid, Time, TraceInfo, WallTime,
};
use unstarve_readers::{Input, open_input, trace_dat_write};

/// Everything a source yields, with names instead of ids.
struct Read {
    info: TraceInfo,
    events: Vec<Event>,
    names: Names,
    losses: Vec<Loss>,
}

fn drain(mut source: Box<dyn EventSource>) -> Read {
    let (mut batch, mut events, mut names) = (Batch::default(), Vec::new(), Names::default());
    while source.read(&mut batch).unwrap() {
        assert!(batch.events.len() <= Batch::TARGET + 1);
        events.append(&mut batch.events);
        names.extend(batch.names.drain(..));
    }
    assert!(events.windows(2).all(|pair| pair[0].time <= pair[1].time), "times decrease");
    Read { info: source.info().clone(), events, names, losses: source.losses() }
}

fn read(bytes: &[u8]) -> Result<Read, String> {
    let input = Input::from_stream(Box::new(Cursor::new(bytes.to_vec())), "test.dat".into()).unwrap();
    open_input(input).map(drain).map_err(|error| error.to_string())
}

fn loss_kinds(losses: &[Loss]) -> Vec<LossKind> {
    losses.iter().map(|loss| loss.kind).collect()
}

/// `flush_work_fn` and `events_wq`, `eth0`, in the order in which [`story`] uses them.
fn names() -> (Names, [NameId; 3]) {
    let mut names = Names::default();
    let ids = ["eth0", "flush_work_fn", "events_wq"].map(|name| names.push(name));
    (names, ids)
}

fn task(tid: u32, comm: &str, prio: i32) -> TaskRef {
    TaskRef::new(Tid(tid), Comm::from(comm), Some(Prio(prio)))
}

fn event(time: u64, cpu: u32, current: u32, context: Context, kind: EventKind) -> Event {
    Event { time: Time(time), cpu: CpuId(cpu), issuer: Issuer::new(Some(Tid(current)), context), kind }
}

/// ```text
/// CPU 0   fio ──────┐irq: wakes kworker, queues work      ┌── … every 10 µs, 60 times, then a second of nothing
/// CPU 2             └ switch fio (preempted) → kworker ───┘
/// ```
fn story([eth0, function, workqueue]: [NameId; 3]) -> Vec<Event> {
    let (fio, kworker) = (task(7, "fio", 120), task(9, "kworker/0:1", -1));
    let mut events = Vec::new();
    for round in 0..60 {
        let start = 5_000_000_000 + round * 10_000 + if round > 30 { 1_000_000_000 } else { 0 };
        let irq = Context::Hardirq;
        events.extend([
            event(start, 0, 7, irq, EventKind::IrqEntry { irq: 24, name: Some(eth0) }),
            event(
                start + 10,
                0,
                7,
                irq,
                EventKind::WorkQueued { work: 0x8123_4000, function: Some(function), workqueue: Some(workqueue) },
            ),
            event(start + 20, 0, 7, irq, EventKind::Waking { task: kworker, target_cpu: CpuId(2) }),
            event(start + 20, 2, 7, Context::Softirq, EventKind::Wakeup { task: kworker, target_cpu: CpuId(2) }),
            event(
                start + 20,
                2,
                7,
                Context::Task,
                EventKind::Switch { prev: fio, prev_state: PrevState::Preempted, next: kworker },
            ),
            event(
                start + 900,
                2,
                9,
                Context::Task,
                EventKind::Switch { prev: kworker, prev_state: PrevState::Idle, next: fio },
            ),
        ]);
    }
    events
}

/// The bytes of a version 6 file of `events` from the writer that recorders use.
fn v6(machine: trace_dat_write::Machine, events: &[Event], names: &Names) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.dat");
    write(recording(machine, &pages(machine, events, names)), &path);
    std::fs::read(path).unwrap()
}

fn write(recording: trace_dat_write::Recording, path: &Path) {
    trace_dat_write::write(recording, path, &mut |done, total| assert!(done <= total)).unwrap();
}

#[test]
fn what_is_written_is_read_on_every_machine() {
    let (names, ids) = names();
    let events = story(ids);
    for machine in MACHINES {
        let read = read(&v6(machine, &events, &names)).unwrap();
        assert_eq!(read.events, events, "{machine:?}");
        assert_eq!(read.names.since(0), names.since(0));
        assert_eq!(read.losses, []);
        assert_eq!(read.info.format, "trace.dat v6");
        assert_eq!(read.info.clock.as_deref(), Some("mono"));
        assert_eq!(read.info.cpus, Some(4));
        assert_eq!(read.info.kernel_release.as_deref(), Some("6.6.6-test"));
        assert_eq!(read.info.snapshot.as_deref(), Some(r#"{"schema":"test"}"#));
        assert_eq!(
            read.info.tasks.iter().map(|t| (t.tid.0, t.comm)).collect::<Vec<_>>(),
            [(7, Comm::from("fio")), (9, Comm::from("kworker/0:1"))]
        );
        let recorded = read.info.recorded.unwrap();
        assert!(recorded.contains(unstarve_model::EventType::Switch));
        assert!(!recorded.contains(unstarve_model::EventType::Fork));
    }
}

#[test]
fn version_7_in_every_packing_on_every_machine() {
    let (names, ids) = names();
    let events = story(ids);
    for machine in MACHINES {
        for compression in ["none", "zlib", "zstd"] {
            let buffers = [("", "local", pages(machine, &events, &names))];
            let options = [(4, b"[local] mono\0".to_vec()), (8, machine.endian.bytes32(4).to_vec())];
            let bytes = V7 { machine, compression, buffers: &buffers, options: &options }.bytes();
            let read = read(&bytes).unwrap();
            assert_eq!(read.events, events, "{machine:?} {compression}");
            assert_eq!(read.names.since(0), names.since(0));
            assert_eq!(read.losses, []);
            assert_eq!((read.info.format.as_str(), read.info.cpus), ("trace.dat v7", Some(4)));
        }
    }
}
