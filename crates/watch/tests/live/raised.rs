//! A task that becomes real-time while it has a CPU, and keeps it: no event shows that. The host that is read for an episode does, and so does the task
//! when the engine in the kernel looks at it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use unstarve_diagnose::report::Culprit;
use unstarve_diagnose::{Options, explain};
use unstarve_model::{Nanos, Severity, Tid};
use unstarve_record::{BufferSize, Flight};
use unstarve_sched::Rule;
use unstarve_timeline::{Selection, TaskPattern};
use unstarve_watch::{Reading, RoleKind};

use crate::stage::{self, Ended, Group, Load, Stop};

/// The argument by which this program is the load.
pub const LOAD: &str = "raise";
/// How long the task runs as an equal first, and then as a real-time one: less than what throttling allows.
const FAIR: Duration = Duration::from_millis(50);
const RAISED: Duration = Duration::from_millis(700);
/// How much of that is recorded.
const RECORDED: Duration = Duration::from_millis(400);
const PRIORITY: i32 = 20;
/// The run in which it raised itself counts as a whole; a turn among equals is shorter than this.
const TURN: Nanos = Nanos::from_millis(60);

/// Raises itself, says when on the traces' clock, and keeps its CPU.
pub fn run_load() {
    spin(FAIR);
    let priority = libc::sched_param { sched_priority: PRIORITY };
    // SAFETY: of the calling thread, and the structure is there.
    let is_raised = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) } == 0;
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let now = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
    // A pipe with room does not block.
    let _ = writeln!(std::io::stdout(), "{}", if is_raised { now } else { 0 });
    spin(RAISED);
}

fn spin(lasts: Duration) {
    let began = Instant::now();
    while began.elapsed() < lasts {
        std::hint::spin_loop();
    }
}

/// Begins the load; returns it, and when it had raised itself.
fn begin() -> Result<(Load, u64), Stop> {
    let myself = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new("taskset");
    command.args(["-c", "1"]).arg(myself).arg(LOAD).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut raised = Load(command.spawn().map_err(|error| Stop::Skip(format!("{command:?}: {error}")))?);
    let mut said = String::new();
    let output = raised.0.stdout.take().ok_or_else(|| "no pipe".to_owned())?;
    BufReader::new(output).read_line(&mut said).map_err(|error| error.to_string())?;
    let since: u64 = said.trim().parse().map_err(|_| format!("it said {said:?}"))?;
    if since == 0 {
        return Err(Stop::Skip("no task may become real-time here".to_owned()));
    }
    Ok((raised, since))
}

/// The engine in the kernel counts what an equal waits behind it by its class, whether it is read meanwhile or afterwards.
pub fn is_counted() -> Ended {
    let group = Group::make("equal", 1024)?;
    let mut engine = stage::engine()?;
    let equal = Load::spin(&[], Duration::from_secs(20))?;
    group.add(&equal)?;
    // On a machine with much to do, it takes a while to begin.
    let runs = || stage::ran_and_waited(equal.0.id()).is_some_and(|(ran, _)| ran >= 100_000_000);
    let began = Instant::now();
    while !runs() && began.elapsed() < Duration::from_secs(4) {
        thread::sleep(Duration::from_millis(50));
    }
    for between in [RAISED * 2, Duration::from_millis(100)] {
        let first = stage::read(&mut engine)?;
        let (_raised, _) = begin()?;
        let began = Instant::now();
        let mut last = first.clone();
        while began.elapsed() < RAISED * 3 / 2 {
            thread::sleep(between);
            last = stage::read(&mut engine)?;
        }
        let by_class = |reading: &Reading| {
            let victim = reading.find(RoleKind::Group, Some(&group.name));
            let rows = reading.blame.iter().filter(|row| Some(row.victim) == victim && row.rule == Rule::Class);
            rows.filter(|row| Some(row.occupant) == RoleKind::RealTime.fixed_id()).map(|row| row.ns).sum::<Nanos>()
        };
        let ns = by_class(&last).saturating_sub(by_class(&first));
        println!("read each {between:?}: {ns} of {RAISED:?}");
        let most = Nanos(RAISED.as_nanos() as u64) + TURN;
        assert!(ns >= Nanos(RAISED.as_nanos() as u64 * 9 / 10) && ns <= most, "{between:?}: {ns} of {RAISED:?}");
    }
    Ok(())
}

pub fn is_found() -> Ended {
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    let skip = |error: unstarve_record::RecordError| Stop::Skip(error.to_string());
    let mut flight = Flight::prepare(Duration::from_secs(5), BufferSize::KiB(4096), &mut |_| {}).map_err(skip)?;
    flight.run().map_err(skip)?;
    let equal = Load::spin(&[], Duration::from_secs(5))?;
    thread::sleep(Duration::from_millis(100));
    let (raised, since) = begin()?;
    thread::sleep(RECORDED);
    let frozen = flight.freeze().map_err(skip)?.ok_or_else(|| "both are frozen".to_owned())?;
    let until = frozen.clocks().ok_or_else(|| Stop::Skip("the traces' clock cannot be read".to_owned()))?.trace.0;
    let file = place.path().join("t.dat");
    let (saved, _roll) = frozen.save(&file);
    saved.map_err(skip)?;
    let (raised, equal) = (Tid(raised.0.id()), Tid(equal.0.id()));
    // What it had the CPU for, on the clock of its own log; less if it did not get so far.
    let had = Nanos(until.saturating_sub(since).min(RAISED.as_nanos() as u64));
    let selection = Selection { tasks: vec![TaskPattern::Tid(equal)], ..Selection::default() };
    let source = unstarve_readers::open(&file).map_err(|error| error.to_string())?;
    let options = Options { selection, ..Options::default() };
    let report = explain(source, &options, |_| {}).map_err(|error| error.to_string())?;
    let blames = |culprit: &&Culprit| culprit.rule == Rule::Class && culprit.tids.contains(&raised.0);
    let mut loud = report.findings.iter().filter(|finding| finding.severity >= Severity::Warning);
    let is_blamed = loud.any(|finding| finding.culprits.iter().any(|culprit| blames(&culprit)));
    assert!(is_blamed, "{equal} behind {raised} for {had}: {:#?}", report.findings);
    // A finding may be about others of this CPU as well. The equal began to wait before the task raised itself.
    let mut waits = report.worst_waits.iter().filter(|wait| wait.tid == equal.0);
    let culprit = waits.find_map(|wait| wait.blame.iter().find(blames));
    let culprit = culprit.unwrap_or_else(|| panic!("{equal} behind {raised} for {had}: {:#?}", report.worst_waits));
    let ns = Nanos(culprit.ns);
    println!("by its own log {had}, by explain {ns}");
    let is_near = ns >= Nanos(had.0 * 9 / 10) && ns <= had + TURN;
    assert!(is_near, "{raised} kept {equal} waiting for {had} by its own log, for {ns} by explain");
    Ok(())
}
