//! Recording begins at once, whoever keeps a CPU for himself.

use std::fs;
use std::time::{Duration, Instant};

use libtest_mimic::Completion;
use rustix::time::{ClockId, clock_gettime};
use unstarve_model::{Batch, EventKind};

use crate::Outcome;
use crate::child::Task;
use crate::ends::{left_only, place};
use crate::loads::{HOG, HOGGED};

const LIMIT: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// RT throttling off; on again on drop.
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

fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The recording's first switch, by its own clock.
fn first_switch(path: &std::path::Path) -> u64 {
    let mut source = unstarve_readers::open(path).expect("a trace");
    assert_eq!(source.info().clock.as_deref(), Some("mono"));
    let mut batch = Batch::default();
    while source.read(&mut batch).expect("a batch") {
        if let Some(event) = batch.events.iter().find(|event| matches!(event.kind, EventKind::Switch { .. })) {
            return event.time.0;
        }
    }
    panic!("no switch");
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
    let mut took = Vec::new();
    for _ in 0..3 {
        let hog = Task::load("hog");
        // Long enough for the scheduler to have served what waited there.
        std::thread::sleep(Duration::from_millis(300));
        let (began, since) = (monotonic(), Instant::now());
        let ended = Task { milliseconds: Some(100), ..Task::to(&output) }.run();
        let whole = since.elapsed();
        let runs = hog.age() < HOG;
        hog.finish();
        ended.report();
        left_only(&["t.dat"], &ended, place.path());
        let first = Duration::from_nanos(first_switch(&output) - began);
        if first < Duration::from_millis(100) && whole < Duration::from_secs(2) && runs {
            return Ok(Completion::Completed);
        }
        took.push((first, whole));
    }
    // Others are at work on the machine's remaining CPUs.
    Err(format!("first event and end after {took:?}").into())
}
