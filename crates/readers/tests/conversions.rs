//! Two formats of the same recording yield the same events.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use unstarve_model::{Batch, Context, Event, EventKind, EventSet, EventType, Issuer, Names, PrevState};

/// Seconds that a converter may take; a hanging one must not hang the tests.
const LIMIT: &str = "120";

/// Runs a program for at most two minutes (`timeout` then kills it), with its output in a file; `None` if it is not
/// installed. A failing program is not a reason to skip a test.
fn run(words: &[&str]) -> Option<File> {
    unstarve_testing::tool(words[0])?;
    let (output, errors) = (tempfile::tempfile().unwrap(), tempfile::NamedTempFile::new().unwrap());
    let status = Command::new("timeout")
        .args(["-k", "1", LIMIT])
        .args(words)
        .stdin(Stdio::null())
        .stdout(output.try_clone().unwrap())
        .stderr(errors.reopen().unwrap())
        .status()
        .unwrap();
    let said = std::fs::read(errors.path()).unwrap();
    assert!(status.success(), "`{}` ended with {status}\n{}", words.join(" "), String::from_utf8_lossy(&said));
    Some(output)
}

/// The events in a program's output.
fn events_printed(mut output: File) -> Vec<String> {
    let mut text = Vec::new();
    std::io::Seek::rewind(&mut output).unwrap();
    output.read_to_end(&mut text).unwrap();
    let input = unstarve_readers::Input::from_stream(Box::new(std::io::Cursor::new(text)), "text".into()).unwrap();
    events(unstarve_readers::open_input(input).unwrap())
}

fn events_of_file(path: &Path) -> Vec<String> {
    events(unstarve_readers::open(path).unwrap())
}

/// The events of a source as text, with names instead of ids, and without the context, which text formats lack.
fn events(mut source: Box<dyn unstarve_model::EventSource>) -> Vec<String> {
    let (mut batch, mut events, mut names) = (Batch::default(), Vec::<Event>::new(), Names::default());
    while source.read(&mut batch).unwrap() {
        events.append(&mut batch.events);
        names.extend(batch.names.drain(..));
    }
    // `perf script` does not print lost events, and a busy machine loses some.
    events.retain(|event| !matches!(event.kind, EventKind::Lost { .. }));
    let shown = |event: &Event| {
        let event = Event { issuer: Issuer::new(event.issuer.current(), Context::Unknown), ..*event };
        let names: Vec<&str> = match event.kind {
            EventKind::IrqEntry { name, .. } => name.iter().map(|&id| names.get(id)).collect(),
            EventKind::WorkQueued { function, workqueue, .. } => {
                function.iter().chain(&workqueue).map(|&id| names.get(id)).collect()
            }
            EventKind::WorkStart { function, .. } | EventKind::WorkEnd { function, .. } => {
                function.iter().map(|&id| names.get(id)).collect()
            }
            _ => Vec::new(),
        };
        format!("{:?} {names:?}", Event { kind: without_ids(event.kind), ..event })
    };
    events.iter().map(shown).collect()
}

/// An id is an index into its own source's table.
fn without_ids(kind: EventKind) -> EventKind {
    match kind {
        EventKind::IrqEntry { irq, .. } => EventKind::IrqEntry { irq, name: None },
        EventKind::WorkQueued { work, .. } => EventKind::WorkQueued { work, function: None, workqueue: None },
        EventKind::WorkStart { work, .. } => EventKind::WorkStart { work, function: None },
        EventKind::WorkEnd { work, .. } => EventKind::WorkEnd { work, function: None },
        other => other,
    }
}

fn assert_same(name: &str, theirs: &[String], ours: &[String]) {
    if let Some(at) = theirs.iter().zip(ours).position(|(a, b)| a != b) {
        panic!("{name}: event {at} of {} differs:\n  text   {}\n  binary {}", ours.len(), theirs[at], ours[at]);
    }
    assert_eq!(theirs.len(), ours.len(), "{name}: one has more events");
}

#[test]
fn the_text_of_trace_cmd_has_the_events_of_its_trace_dat() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces");
    for file in [
        "linux-5.10-net-good.dat",
        "linux-5.10-net-rt.dat",
        "linux-6.1-dio-good.dat",
        "linux-6.1-dio-weight.dat",
        "linux-6.1-idle.dat",
        "linux-6.1-pool.dat",
        "linux-6.1-preempt.dat",
    ] {
        let path = traces.join(file);
        // With times in nanoseconds.
        let Some(report) = run(&["trace-cmd", "report", "-t", "-i", path.to_str().unwrap()]) else { return };
        let theirs = events_printed(report);
        // trace-cmd prints a preempted task like one that yielded, so text has lost the difference.
        let preempted = format!("{:?}", PrevState::Preempted);
        let yielded = format!("{:?}", PrevState::Runnable);
        let ours: Vec<String> = events_of_file(&path).iter().map(|event| event.replace(&preempted, &yielded)).collect();
        assert!(ours.len() > 200, "{file}: {} events", ours.len());
        assert_same(file, &theirs, &ours);
    }
}

/// Records a load with many switches briefly; `None` without perf, or without permission to record kernel events.
fn record(directory: &Path, options: &[&str]) -> Option<PathBuf> {
    if let Err(why) = std::fs::read_to_string("/sys/kernel/tracing/events/sched/sched_switch/id") {
        unstarve_testing::not_possible_here(format!("tracefs: {why}"));
        return None;
    }
    let path = directory.join("perf.data");
    let load = ["perf", "bench", "sched", "messaging", "-g", "1", "-l", "100"];
    run(&[&["perf"], options, &["-o", path.to_str().unwrap(), "--"], &load].concat())?;
    Some(path)
}

fn assert_script_agrees(options: &[&str], expected: &[EventType]) {
    let directory = tempfile::tempdir().unwrap();
    let Some(path) = record(directory.path(), options) else { return };
    let Some(script) = run(&["perf", "script", "--ns", "-i", path.to_str().unwrap()]) else { return };
    let mut source = unstarve_readers::open(&path).unwrap();
    while source.read(&mut Batch::default()).unwrap() {}
    let recorded = source.info().recorded.unwrap_or_default();
    assert_eq!(recorded, expected.iter().copied().collect::<EventSet>());
    assert!(source.info().kernel_release.is_some() && source.info().cpus.is_some());
    let ours = events_of_file(&path);
    // The number of switches depends on the scheduler: an idle machine does 700 with half the load.
    assert!(ours.len() > 200, "{} events", ours.len());
    let name = options.join(" ");
    // perf prints a task that has exited as -1, so the two differ in the current task, and in the order of equal times
    // on several CPUs.
    assert_same(&name, &without_current(&events_printed(script)), &without_current(&ours));
}

/// Removes the current task and gaps (perf prints those only on request), and sorts events of equal times by CPU.
/// Events of one CPU keep their order: a worker's work item, from its stack, comes before its switch.
fn without_current(events: &[String]) -> Vec<String> {
    let mut kept: Vec<String> = events
        .iter()
        .filter(|event| !event.contains("kind: Lost"))
        .map(|event| {
            let (before, after) = event.split_once("issuer: ").unwrap();
            format!("{before}{}", after.split_once("kind: ").unwrap().1)
        })
        .collect();
    // The sort is stable, and moves only events of equal times.
    kept.sort_by_key(|event| (number(event, "Time("), number(event, "CpuId(")));
    kept
}

fn number(event: &str, before: &str) -> u64 {
    let digits = event.split_once(before).unwrap().1;
    digits[..digits.find(')').unwrap()].parse().unwrap()
}

#[test]
fn perf_script_prints_the_events_of_perf_sched_record() {
    use EventType::*;
    assert_script_agrees(&["sched", "record"], &[Switch, WakeupNew, Migrate, Fork, Waking]);
}

#[test]
fn perf_script_prints_the_events_of_a_compressed_recording_of_everything() {
    use EventType::*;
    let all = [
        Switch,
        Waking,
        Wakeup,
        WakeupNew,
        Migrate,
        Fork,
        Exec,
        Exit,
        IrqEntry,
        IrqExit,
        SoftirqEntry,
        SoftirqExit,
        SoftirqRaise,
        WorkQueued,
        WorkStart,
        WorkEnd,
        SetPrio,
    ];
    assert_script_agrees(&["record", "-z", "-a", "-e", "sched:*,irq:*,workqueue:*"], &all);
}

#[test]
fn perf_script_prints_the_stacks_of_a_recording_with_stacks() {
    use EventType::*;
    assert_script_agrees(&["record", "-g", "-a", "-e", "sched:sched_switch,sched:sched_waking"], &[Switch, Waking]);
}
