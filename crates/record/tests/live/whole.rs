//! The content of a file: every event, the names, the host; and how much is missing.

use std::path::Path;
use std::process::{Command, Stdio};

use libtest_mimic::Completion;
use tempfile::TempDir;
use unstarve_facts::Snapshot;
use unstarve_model::{Batch, Comm, Event, EventKind, EventType, LossKind, TraceInfo};

use crate::Outcome;
use crate::child::Task;
use crate::host::{MountedTracefs, instances_of};

/// The content of a recording, as our reader yields it.
pub struct Contents {
    pub info: TraceInfo,
    counts: [u64; EventType::ALL.len()],
    /// Missing events, if the page had room for their number.
    pub lost: u64,
    /// Gaps without a number.
    pub gaps: u64,
}

impl Contents {
    pub fn of(path: &std::path::Path) -> Contents {
        let mut source = unstarve_readers::open(path).expect("a trace");
        let mut contents = Contents { info: TraceInfo::default(), counts: [0; EventType::ALL.len()], lost: 0, gaps: 0 };
        let mut batch = Batch::default();
        while source.read(&mut batch).expect("a batch") {
            for event in &batch.events {
                match (event.kind, event.kind.event_type()) {
                    (EventKind::Lost { count: Some(count) }, _) => contents.lost += count,
                    (EventKind::Lost { count: None }, _) => contents.gaps += 1,
                    (_, Some(kind)) => contents.counts[kind as usize] += 1,
                    _ => {}
                }
            }
        }
        for loss in source.losses() {
            let expected =
                matches!(loss.kind, LossKind::LostEvents | LossKind::UncountedGap | LossKind::NotRecorded(_));
            assert!(expected, "{loss}");
        }
        contents.info = source.info().clone();
        contents
    }

    pub fn events(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub fn count(&self, kind: EventType) -> u64 {
        self.counts[kind as usize]
    }
}

fn place() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

pub fn trace_cmd_and_our_reader_see_every_event() -> Outcome {
    let place = place();
    let output = place.path().join("t.dat");
    let report = Task { command: Some("short"), ..Task::to(&output) }.run().report();
    assert_eq!(report.lost, 0);

    let contents = Contents::of(&output);
    assert_eq!(contents.events(), report.events, "what the kernel counted (per_cpu/cpuN/stats)");
    assert!(contents.count(EventType::Switch) > 100 && contents.count(EventType::Waking) > 50);
    assert!(contents.count(EventType::Fork) > 0 && contents.count(EventType::Exit) > 0);
    assert_eq!(contents.info.clock.as_deref(), Some("mono"));
    assert!(contents.info.tasks.iter().any(|task| task.tid.0 == 1), "init has a name");
    assert!(contents.info.tasks.iter().any(|task| task.comm == Comm::from("unstarve-record")), "our own thread too");
    let snapshot = contents.info.snapshot.as_deref().expect("a snapshot in the file");
    let snapshot = Snapshot::from_json(snapshot).expect("our snapshot");
    assert_eq!(snapshot.kernel_release(), contents.info.kernel_release.as_deref());
    assert!(snapshot.throttled_meanwhile.is_some());

    let Some(text) = shown_by_trace_cmd(&output) else {
        return Ok(Completion::ignored_with("no trace-cmd, compared with the kernel's count only"));
    };
    let shown = text.lines().filter(|line| is_event(line)).count() as u64;
    assert_eq!(shown, report.events, "what trace-cmd shows");
    assert!(!text.contains("FAILED TO PARSE") && !text.contains("[UNKNOWN EVENT"), "trace-cmd knows every format");
    Ok(Completion::Completed)
}

/// The output of `trace-cmd report`; `None` if it is not installed.
fn shown_by_trace_cmd(file: &Path) -> Option<String> {
    let shown = Command::new("trace-cmd").args(["report", "-i"]).arg(file).stdin(Stdio::null()).output().ok()?;
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    Some(String::from_utf8_lossy(&shown.stdout).into_owned())
}

pub fn a_command_s_own_tasks_are_in_the_snapshot() -> Outcome {
    let place = place();
    let output = place.path().join("t.dat");
    Task { command: Some("sleep 0.4"), ..Task::to(&output) }.run().report();
    let snapshot = Contents::of(&output).info.snapshot.expect("a snapshot in the file");
    let snapshot = Snapshot::from_json(&snapshot).expect("our snapshot");
    let gone = |tid: u32| !std::path::Path::new(&format!("/proc/{tid}")).exists();
    let slept = snapshot.tasks.iter().find(|task| task.comm == "sleep" && gone(task.tid.0));
    let slept = slept.expect("it lived only in between");
    let own = rustix::process::getpriority_process(None).expect("a priority");
    assert_eq!(slept.nice, own, "the recorder raises itself, and not what it starts");
    Ok(Completion::Completed)
}

pub fn new_names_and_lent_priorities_are_recorded() -> Outcome {
    let place = place();
    let output = place.path().join("t.dat");
    Task { command: Some("sleep 0.2"), ..Task::to(&output) }.run().report();
    let contents = Contents::of(&output);
    let directory = place.path().join("tracefs");
    std::fs::create_dir(&directory).expect("a new directory");
    let _mounted = MountedTracefs::on(&directory);
    let has = |event: &EventType| directory.join(format!("events/{}/{}/enable", event.system(), event.name())).exists();
    let recorded = contents.info.recorded.expect("the file says what was recorded");
    let events = [EventType::Rename, EventType::SetPrio];
    for event in events.into_iter().filter(has) {
        assert!(recorded.contains(event), "{event}");
    }
    if !has(&EventType::Rename) {
        return Ok(Completion::ignored_with("this kernel has no task_rename"));
    }
    assert!(contents.count(EventType::Rename) > 0, "the exec of the command names it anew");
    Ok(Completion::Completed)
}

/// `  fio-128   [000]   812.000001: sched_switch: …`, in contrast to the lines at the beginning of the report.
fn is_event(line: &str) -> bool {
    line.split_once(" [").and_then(|(_, tail)| tail.split_once(']')).is_some_and(|(cpu, _)| cpu.parse::<u32>().is_ok())
}

pub fn nothing_is_lost_at_200k_switches_a_second() -> Outcome {
    let place = place();
    let output = place.path().join("t.dat");
    let report = Task { command: Some("ping-pong"), ..Task::to(&output) }.run().report();
    let contents = Contents::of(&output);
    let rate = contents.count(EventType::Switch) as f64 / report.seconds;
    assert_eq!((report.lost, contents.lost, contents.gaps), (0, 0, 0));
    assert_eq!(contents.events(), report.events);
    if rate < 200_000.0 {
        return Ok(Completion::ignored_with(format!("the machine is too busy: only {rate:.0} switches/s")));
    }
    Ok(Completion::Completed)
}

pub fn lost_events_are_counted_and_in_the_file() -> Outcome {
    let place = place();
    let output = place.path().join("t.dat");
    let report = Task { command: Some("ping-pong"), buffer_kib: Some(64), ..Task::to(&output) }.run().report();
    if report.lost == 0 {
        return Ok(Completion::ignored_with("the machine is too slow to fill 64 KiB in 5 ms"));
    }
    let contents = Contents::of(&output);
    assert_eq!(contents.events(), report.events);
    assert!(contents.lost > 0 && contents.lost <= report.lost, "{} of {}", contents.lost, report.lost);
    if contents.gaps == 0 {
        assert_eq!(contents.lost, report.lost, "each gap is in its place with its size");
    }
    Ok(Completion::Completed)
}

pub fn block_events_are_recorded_on_demand() -> Outcome {
    let place = place();
    let output = place.path().join("t.dat");
    Task { command: Some("write"), ..Task::to(&output) }.run().report();
    let Some(text) = shown_by_trace_cmd(&output) else {
        return Ok(Completion::ignored_with("no trace-cmd, which reads them"));
    };
    assert!(!text.contains(" block_rq_issue:"), "not asked for");
    let report = Task { command: Some("write"), block: true, ..Task::to(&output) }.run().report();
    let text = shown_by_trace_cmd(&output).expect("as before");
    let count = |event: &str| text.lines().filter(|line| line.contains(event)).count() as u64;
    let (issued, completed) = (count(" block_rq_issue:"), count(" block_rq_complete:"));
    if issued == 0 {
        return Ok(Completion::ignored_with("/var/tmp is not on a block device"));
    }
    assert!(completed > 0, "{issued} issued");
    let contents = Contents::of(&output);
    assert_eq!(contents.events(), report.events, "the analysis reads them, too");
    assert_eq!(contents.count(EventType::BlockInsert), count(" block_rq_insert:"));
    assert_eq!((contents.count(EventType::BlockIssue), contents.count(EventType::BlockComplete)), (issued, completed));
    Ok(Completion::Completed)
}

pub fn what_predictions_need_is_recorded_on_demand() -> Outcome {
    let place = place();
    let output = place.path().join("t.dat");
    let task = Task { command: Some("sleep 0.05"), ..Task::to(&output) };
    task.run().report();
    assert_eq!(kinds(&output, is_only_for_predictions).len(), 0, "not asked for");
    Task { predictable: true, ..task }.run().report();
    // sleep asks for a length: the timer that its thread arms expires that much later.
    let mut armed = Vec::new();
    let mut expired = None;
    for event in kinds(&output, is_only_for_predictions) {
        match event.kind {
            EventKind::TimerStart { timer, due, is_relative: true } => armed.push((timer, due, event)),
            EventKind::TimerExpire { timer, now } => {
                let of = armed.iter().rev().find(|(known, due, _)| *known == timer && now >= *due);
                let slept = of.map(|(_, _, start)| event.time.since(start.time));
                expired = expired.or(slept.filter(|slept| (50_000_000..).contains(&slept.0)));
            }
            _ => {}
        }
    }
    assert!(expired.is_some(), "{} timers were armed for a length", armed.len());
    if cfg!(target_arch = "x86_64") {
        let entries = kinds(&output, |kind| matches!(kind, EventKind::VectorEntry { .. })).len();
        let exits = kinds(&output, |kind| matches!(kind, EventKind::VectorExit { .. })).len();
        assert!(entries > 0 && entries.abs_diff(exits) <= 2 * cpus_here(), "{entries} {exits}");
    }
    Ok(Completion::Completed)
}

fn cpus_here() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get())
}

fn is_only_for_predictions(kind: &EventKind) -> bool {
    kind.event_type().is_none() && !kind.is_of_tick() && !matches!(kind, EventKind::Lost { .. })
}

/// The events of these kinds in a recording.
fn kinds(path: &Path, is_wanted: impl Fn(&EventKind) -> bool) -> Vec<Event> {
    let mut source = unstarve_readers::open(path).expect("a trace");
    let (mut batch, mut found) = (Batch::default(), Vec::new());
    while source.read(&mut batch).expect("a batch") {
        found.extend(batch.events.iter().filter(|event| is_wanted(&event.kind)).copied());
    }
    found
}

pub fn works_where_tracefs_is_mounted() -> Outcome {
    let place = place();
    let mounted = place.path().join("tracefs");
    std::fs::create_dir(&mounted).expect("a directory");
    let _tracefs = MountedTracefs::on(&mounted);
    let output = place.path().join("t.dat");
    let ended = Task { milliseconds: Some(100), ..Task::to(&output) }.run();
    assert_eq!(Contents::of(&output).events(), ended.report().events);
    assert_eq!(instances_of(ended.pid), [""; 0]);
    Ok(Completion::Completed)
}
