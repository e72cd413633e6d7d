//! When the watch may leave out a reading.

use std::thread::sleep;
use std::time::{Duration, Instant};

use unstarve_model::Nanos;
use unstarve_watch::Engine as _;

use crate::stage::{self, Ended, Load, Stop};

const BELOW: Nanos = Nanos::from_millis(10);
const STEP: Duration = Duration::from_millis(20);

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
        assert!(!engine.is_quiet(BELOW), "somebody waits behind a real-time task");
        sleep(STEP);
    }
    stage::read(&mut engine)?;
    sleep(Duration::from_millis(100));
    drop((victim, hog));
    sleep(Duration::from_millis(100));
    assert!(!engine.is_quiet(BELOW), "nobody waits any more, and what was waited is in no reading yet");
    let until = Instant::now() + Duration::from_secs(10);
    while Instant::now() < until {
        stage::read(&mut engine)?;
        sleep(STEP);
        if engine.is_quiet(BELOW) {
            return Ok(());
        }
    }
    Err(Stop::Skip("somebody waited all the time once the loads had ended".to_owned()))
}
