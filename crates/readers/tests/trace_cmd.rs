//! Compares our events with `trace-cmd report` of the same file: every event, with its time to the nanosecond, its CPU
//! and its fields.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use unstarve_model::{
    Batch, Comm, Context, CpuId, Event, EventKind, Issuer, Names, PrevState, Prio, TaskRef, Tid, Time,
};
use unstarve_readers::trace_dat_write;

const FILES: [&str; 7] = [
    "linux-5.10-net-good.dat",
    "linux-5.10-net-rt.dat",
    "linux-6.1-dio-good.dat",
    "linux-6.1-dio-weight.dat",
    "linux-6.1-idle.dat",
    "linux-6.1-pool.dat",
    "linux-6.1-preempt.dat",
];

fn trace(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces").join(name)
}

fn events(path: &Path) -> (Vec<Event>, Names) {
    let mut source = unstarve_readers::open(path).unwrap();
    let (mut batch, mut events, mut names) = (Batch::default(), Vec::new(), Names::default());
    while source.read(&mut batch).unwrap() {
        events.append(&mut batch.events);
        names.extend(batch.names.drain(..));
    }
    (events, names)
}

/// What `trace-cmd report` prints.
fn report(path: &Path, options: &[&str]) -> Option<Vec<String>> {
    trace_cmd("report", path, options)
}

/// The output of `trace-cmd`; `None`, with a note, if it is not installed.
fn trace_cmd(what: &str, path: &Path, options: &[&str]) -> Option<Vec<String>> {
    let output = tempfile::NamedTempFile::new().unwrap();
    let mut command = Command::new(unstarve_testing::tool("trace-cmd")?);
    command.arg(what).args(options).arg("-i").arg(path);
    command.stdin(Stdio::null()).stdout(output.reopen().unwrap()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(10)),
            None => {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("trace-cmd did not end within two minutes");
            }
        }
    };
    assert!(status.success(), "trace-cmd {what}: {status}");
    Some(BufReader::new(File::open(output.path()).unwrap()).lines().map(Result::unwrap).collect())
}

/// One line of a report, parsed.
struct Line<'a> {
    cpu: u32,
    nanos: u64,
    event: &'a str,
    fields: &'a str,
}

/// `   fio-126   [000]    10.166060305: sched_switch:   prev_comm=…`; other lines are about CPUs and lost events.
fn parse(line: &str) -> Option<Line<'_>> {
    let (_, rest) = line.split_once(" [")?;
    let (cpu, rest) = rest.split_once(']')?;
    let (time, rest) = rest.split_once(": ")?;
    let (seconds, nanos) = time.trim().split_once('.')?;
    let (event, fields) = rest.split_once(':')?;
    let nanos = seconds.parse::<u64>().ok()? * 1_000_000_000 + nanos.parse::<u64>().ok()?;
    Some(Line { cpu: cpu.parse().ok()?, nanos, event, fields })
}

fn task(prefix: &str, task: &TaskRef) -> String {
    format!("{prefix}comm={} {prefix}pid={} {prefix}prio={}", task.comm(), task.tid(), task.prio().unwrap().0)
}

/// The fields that `trace-cmd report -R` must print for an event, in order.
fn raw_fields(kind: &EventKind, names: &Names) -> Vec<String> {
    match kind {
        EventKind::Switch { prev, prev_state, next } => {
            let state = match prev_state {
                PrevState::Runnable => "0",
                PrevState::Sleeping => "1",
                PrevState::Uninterruptible => "2",
                PrevState::Idle => "128",
                PrevState::Preempted => "256",
                PrevState::Parked => "64",
                PrevState::Stopped => "4",
                // 16 or 32: X and Z are the same state for us.
                PrevState::Dead => "",
                PrevState::Unknown => panic!("all states have names"),
            };
            let state = (!state.is_empty()).then(|| format!("prev_state={state}"));
            [Some(task("prev_", prev)), state, Some(task("next_", next))].into_iter().flatten().collect()
        }
        EventKind::Waking { task: t, target_cpu }
        | EventKind::Wakeup { task: t, target_cpu }
        | EventKind::WakeupNew { task: t, target_cpu } => {
            vec![task("", t), format!("target_cpu={:03}", target_cpu.0)]
        }
        EventKind::Migrate { task: t, orig_cpu, dest_cpu } => {
            vec![task("", t), format!("orig_cpu={orig_cpu}"), format!("dest_cpu={dest_cpu}")]
        }
        EventKind::Fork { parent, child, child_comm } => {
            vec![format!("parent_pid={parent}"), format!("child_comm={child_comm}"), format!("child_pid={child}")]
        }
        EventKind::Exit { tid, comm } => vec![format!("comm={comm} pid={tid}")],
        EventKind::IrqEntry { irq, name } => {
            vec![format!("irq={irq}"), format!("name={}", names.get(name.unwrap()))]
        }
        EventKind::IrqExit { irq } => vec![format!("irq={irq}")],
        EventKind::SoftirqEntry { vec: v } | EventKind::SoftirqExit { vec: v } | EventKind::SoftirqRaise { vec: v } => {
            vec![format!("vec={v}")]
        }
        EventKind::WorkQueued { work, workqueue, .. } => {
            let workqueue = workqueue.map(|name| format!("workqueue={}", names.get(name)));
            [Some(format!("work=0x{work:x}")), workqueue].into_iter().flatten().collect()
        }
        EventKind::WorkStart { work, .. } | EventKind::WorkEnd { work, .. } => vec![format!("work=0x{work:x}")],
        other => panic!("{other:?} is in none of the files"),
    }
}

#[test]
fn every_event_is_what_trace_cmd_says() {
    for file in FILES {
        let path = trace(file);
        let Some(report) = report(&path, &["-t", "-R"]) else { return };
        let (events, names) = events(&path);
        let lines: Vec<Line<'_>> = report.iter().filter_map(|line| parse(line)).collect();
        assert!(lines.len() > 200, "{file}: {} lines", lines.len());
        let mut counts = BTreeMap::<&str, i64>::new();
        lines.iter().for_each(|line| *counts.entry(line.event).or_default() += 1);
        for event in &events {
            *counts.entry(event.kind.event_type().unwrap().name()).or_default() -= 1;
        }
        counts.retain(|_, difference| *difference != 0);
        assert_eq!(counts, BTreeMap::new(), "{file}: more or fewer events than trace-cmd has");
        for (event, line) in events.iter().zip(&lines) {
            let name = event.kind.event_type().unwrap().name();
            assert_eq!((event.time.0, event.cpu.0, name), (line.nanos, line.cpu, line.event), "{file}");
            let mut rest = line.fields;
            for field in raw_fields(&event.kind, &names) {
                let at = rest.find(&field).unwrap_or_else(|| panic!("{file}: {field} is not in {:?}", line.fields));
                rest = &rest[at + field.len()..];
                assert!(rest.is_empty() || rest.starts_with(' '), "{file}: {field} in {:?}", line.fields);
            }
        }
    }
}

#[test]
fn work_functions_have_the_names_that_trace_cmd_gives_them() {
    for file in ["linux-5.10-net-good.dat", "linux-6.1-dio-weight.dat"] {
        let path = trace(file);
        let Some(report) = report(&path, &["-t"]) else { return };
        let (events, names) = events(&path);
        let theirs = report.iter().filter_map(|line| parse(line)).filter(|line| line.event.starts_with("workqueue"));
        let ours = events.iter().filter_map(|event| match event.kind {
            EventKind::WorkQueued { function, .. }
            | EventKind::WorkStart { function, .. }
            | EventKind::WorkEnd { function, .. } => Some(function),
            _ => None,
        });
        let mut compared = 0;
        for (function, line) in ours.zip(theirs) {
            // `function=NAME workqueue=…` when queued, `function NAME` afterwards.
            let (_, name) = line.fields.split_once("function").unwrap();
            let name = name[1..].split_whitespace().next().unwrap();
            assert_eq!(function.map(|id| names.get(id)), Some(name), "{file}: {:?}", line.fields);
            compared += 1;
        }
        assert!(compared > 20, "{file}: {compared}");
    }
}

/// trace-cmd must be able to read what our writer writes, and skip the host snapshot in it silently.
#[test]
fn trace_cmd_reads_what_we_write() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.dat");
    let machine = trace_dat_write::Machine::HOST;
    let task = TaskRef::new(Tid(7), Comm::from("fio"), Some(Prio(120)));
    let events: Vec<Event> = (0..300)
        .map(|i| Event {
            time: Time(5_000_000_000 + i * 1_234_567_891),
            cpu: CpuId(i as u32 % 3),
            issuer: Issuer::new(Some(Tid(7)), Context::Task),
            kind: match i % 2 {
                0 => EventKind::Wakeup { task, target_cpu: CpuId(1) },
                _ => EventKind::Switch { prev: task, prev_state: PrevState::Preempted, next: task },
            },
        })
        .collect();
    let recording = crate::synth::recording(machine, &crate::synth::pages(machine, &events, &Names::default()));
    assert!(recording.snapshot.is_some());
    trace_dat_write::write(recording, &path, &mut |_, _| {}).unwrap();
    let Some(report) = report(&path, &["-t", "-R"]) else { return };
    let lines: Vec<Line<'_>> = report.iter().filter_map(|line| parse(line)).collect();
    assert_eq!(lines.len(), events.len(), "{:#?}", &report[..report.len().min(10)]);
    for (event, line) in events.iter().zip(&lines) {
        assert_eq!((event.time.0, event.cpu.0), (line.nanos, line.cpu));
        // The real kernel determines how many digits a CPU has.
        let fields = raw_fields(&event.kind, &Names::default());
        for field in fields.iter().filter(|field| !field.starts_with("target_cpu")) {
            assert!(line.fields.contains(field), "{field} in {}", line.fields);
        }
    }
    assert!(report.iter().all(|line| !line.contains("unknown")), "{:#?}", &report[..10]);
    let dump = trace_cmd("dump", &path, &["--options"]).unwrap();
    assert!(dump.iter().any(|line| line.contains("Linux box 6.6.6-test")), "{dump:#?}");
}
