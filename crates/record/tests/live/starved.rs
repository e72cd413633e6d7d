//! Recording begins at once even if a real-time task monopolises a CPU.

use std::fs;
use std::path::Path;
use std::time::Duration;

use libtest_mimic::Completion;
use unstarve_model::{Batch, EventKind, SchedPolicy, Time};

use crate::Outcome;
use crate::child::{Recorder, Task};
use crate::ends::{left_only, place};
use crate::loads::{HOG, HOGGED};

const LIMIT: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// Turns RT throttling off, and on again on drop.
struct NoThrottling(String);

impl NoThrottling {
    fn now() -> Option<NoThrottling> {
        let before = fs::read_to_string(LIMIT).ok()?;
        fs::write(LIMIT, "-1").ok()?;
        Some(NoThrottling(before))
    }
}

impl Drop for NoThrottling {
    fn drop(&mut self) {
        let _ = fs::write(LIMIT, &self.0);
    }
}

/// The times of the recording's first and last switch.
fn switches(path: &Path) -> (Time, Time) {
    let mut source = unstarve_readers::open(path).expect("a trace");
    let (mut batch, mut times) = (Batch::default(), None);
    while source.read(&mut batch).expect("a batch") {
        for event in batch.events.iter().filter(|event| matches!(event.kind, EventKind::Switch { .. })) {
            times = Some((times.map_or(event.time, |(first, _)| first), event.time));
        }
    }
    times.expect("switches")
}

/// Waits until the hog monopolises its CPU; `false` if it gave up.
fn is_alone(hog: &Recorder) -> bool {
    let policy = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", hog.pid())).ok()?;
        unstarve_facts::Stat::parse(&stat)?.policy
    };
    while hog.age() < HOG {
        if policy() == Some(SchedPolicy::Fifo) {
            // Long enough for the scheduler to have run what waited there.
            std::thread::sleep(Duration::from_millis(300));
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

pub fn events_come_at_once_behind_a_hog() -> Outcome {
    if std::thread::available_parallelism().map_or(1, |count| count.get()) <= HOGGED {
        return Ok(Completion::ignored_with("one CPU only: who has it starts no recorder"));
    }
    let Some(_throttling) = NoThrottling::now() else {
        return Ok(Completion::ignored_with("RT throttling cannot be switched off"));
    };
    let place = place();
    let output = place.path().join("t.dat");
    let hog = Task::load("hog");
    if !is_alone(&hog) {
        return Ok(Completion::ignored_with("no real-time task could be started"));
    }
    let ended = Task { milliseconds: Some(100), ..Task::to(&output) }.run();
    // A recorder that needs the hog's CPU, to begin or to end, finishes after the hog.
    let runs = hog.age() < HOG;
    drop(hog);
    ended.report();
    left_only(&["t.dat"], &ended, place.path());
    assert!(runs, "the recorder waited for the hog");
    // On the recording's own clock: events come soon after its beginning, not near its end.
    let (first, last) = switches(&output);
    let span = Duration::from_nanos(last.0 - first.0);
    assert!(span >= Duration::from_millis(50), "switches of {span:?} out of 100 ms");
    Ok(Completion::Completed)
}
