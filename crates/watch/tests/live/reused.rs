//! A process id that is used again while the engine counts.

use std::time::{Duration, Instant};

use unstarve_model::Tid;

use crate::stage::{self, Ended, Load, Stop};

const LAST_PID: &str = "/proc/sys/kernel/ns_last_pid";
const HOG: Duration = Duration::from_secs(8);
/// Others are born on this machine meanwhile, and may have it first.
const TRIES: usize = 200;

/// Who has the id of a task that was killed while it waited does not wait since then.
pub fn is_another_task() -> Ended {
    if !std::path::Path::new(LAST_PID).exists() {
        return Err(Stop::Skip(format!("this kernel has no {LAST_PID}")));
    }
    let mut engine = stage::engine()?;
    stage::read(&mut engine)?;
    let _hog = Load::spin(&["chrt", "-f", "10"], HOG)?;
    std::thread::sleep(Duration::from_millis(100));
    let first = Load::spin(&[], HOG)?;
    let tid = Tid(first.0.id());
    std::thread::sleep(Duration::from_millis(600));
    let waits = |engine: &mut _| -> Result<Option<Duration>, Stop> {
        let reading = stage::read(engine)?;
        let wait = reading.oldest.iter().find(|wait| wait.task.tid == tid);
        Ok(wait.map(|wait| Duration::from_nanos(wait.ns.0)))
    };
    let before = waits(&mut engine)?;
    // It dies as soon as it has the CPU: real-time tasks leave a part of each second.
    drop(first);
    let (second, born) = born_as(tid)?;
    // Of the first one nothing is left.
    let mut seen = false;
    while born.elapsed() < Duration::from_millis(1500) {
        std::thread::sleep(Duration::from_millis(100));
        if let Some(wait) = waits(&mut engine)? {
            assert!(wait <= born.elapsed(), "{tid} waits for {wait:?}, and is {:?} old", born.elapsed());
            seen = true;
        }
    }
    drop(second);
    match seen && before.is_some() {
        true => Ok(()),
        false => Err(Stop::Skip(format!("{tid} was not seen to wait: {before:?}, then {seen}"))),
    }
}

/// A load that has this id, and when it was born at the earliest.
fn born_as(tid: Tid) -> Result<(Load, Instant), Stop> {
    for _ in 0..TRIES {
        let born = Instant::now();
        std::fs::write(LAST_PID, (tid.0 - 1).to_string())
            .map_err(|error| Stop::Skip(format!("{LAST_PID}: {error}")))?;
        let load = Load::spin(&[], HOG)?;
        if load.0.id() == tid.0 {
            return Ok((load, born));
        }
    }
    Err(Stop::Skip(format!("{tid} was not to be had again")))
}
