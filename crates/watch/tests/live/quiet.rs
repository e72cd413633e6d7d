//! When the watch may leave out a reading.

use std::thread::sleep;
use std::time::{Duration, Instant};

use unstarve_model::Nanos;
use unstarve_watch::{Engine as _, Reading};

use crate::stage::{self, Ended, Load, Stop};

const BELOW: Nanos = Nanos::from_millis(10);
const STEP: Duration = Duration::from_millis(20);
/// Where nobody waited and it was not quiet, so often in a row: a program may be on its way between two looks.
const MOST_WRONG: usize = 20;

pub fn is_nobody_who_waits() -> Ended {
    if !std::path::Path::new("/sys/devices/system/cpu/cpu1").exists() {
        return Err(Stop::Skip("needs a second CPU".to_owned()));
    }
    let mut engine = stage::engine()?;
    let hog = Load::spin(&["chrt", "-f", "10"], Duration::from_secs(20))?;
    let victim = Load::spin(&[], Duration::from_secs(20))?;
    // Both are on CPU 1 by then, and neither sleeps.
    sleep(Duration::from_secs(1));
    stage::read(&mut engine)?;
    for _ in 0..20 {
        assert!(engine.quiet(BELOW).is_none(), "somebody waits behind a real-time task");
        sleep(STEP);
    }
    stage::read(&mut engine)?;
    drop((victim, hog));
    sleep(Duration::from_millis(100));
    assert!(engine.quiet(BELOW).is_none(), "somebody waited as the last reading began, and for longer than that says");
    let until = Instant::now() + Duration::from_secs(10);
    let (mut before, mut wrong) = (stage::read(&mut engine)?, 0);
    while Instant::now() < until {
        sleep(STEP);
        let quiet = engine.quiet(BELOW);
        let now = stage::read(&mut engine)?;
        if let Some(quiet) = quiet {
            assert!(before.at.trace <= quiet.at.trace && quiet.at.trace <= now.at.trace);
            let is_between = |(cpu, ns): (usize, &Nanos)| before.real_time[cpu] <= *ns && *ns <= now.real_time[cpu];
            assert!(quiet.real_time.iter().enumerate().all(is_between), "{quiet:?}");
            return Ok(());
        }
        wrong = if nobody_waited(&before, &now) { wrong + 1 } else { 0 };
        assert!(wrong < MOST_WRONG, "nobody waits, and it is not quiet");
        before = now;
    }
    Err(Stop::Skip("somebody waited all the time once the loads had ended".to_owned()))
}

/// As far as two readings show.
fn nobody_waited(before: &Reading, now: &Reading) -> bool {
    let waited = |reading: &Reading| reading.waits.iter().map(|waits| waits.waited.0).sum::<u64>();
    let waits = |reading: &Reading| reading.waits.iter().any(|waits| waits.waiting > 0);
    !waits(before) && !waits(now) && waited(now) - waited(before) < BELOW.0 && now.limits.is_empty()
}
