//! The engine for machines that take no BPF programs.

use std::time::{Duration, Instant};

use unstarve_sched::Rule;
use unstarve_watch::{Options, RoleKind, Tracefs};

use crate::stage::{self, Ended, Load, Stop};

const HOG: Duration = Duration::from_millis(400);

pub fn names_the_hog() -> Ended {
    if !std::path::Path::new("/sys/devices/system/cpu/cpu1").exists() {
        return Err(Stop::Skip("needs a second CPU".to_owned()));
    }
    let mut engine = Tracefs::open(Options::default())?;
    let _victim = Load::spin(&[], Duration::from_secs(10))?;
    let began = Instant::now();
    let mut hog = None;
    let mut last = stage::read(&mut engine)?;
    while began.elapsed() < Duration::from_millis(1500) {
        if hog.is_none() && began.elapsed() > Duration::from_millis(500) {
            hog = Some(Load::spin(&["chrt", "-f", "10"], HOG)?);
        }
        std::thread::sleep(Duration::from_millis(50));
        last = stage::read(&mut engine)?;
    }
    if last.lost.events > 0 {
        return Err(Stop::Skip(format!("{} events of the recording were lost", last.lost.events)));
    }
    let hog = last.find(RoleKind::RealTime, None);
    let by_hog = last.blame.iter().filter(|blame| Some(blame.occupant) == hog && blame.rule == Rule::Class);
    let ns: u64 = by_hog.map(|blame| blame.ns.0).sum();
    if ns == 0 {
        return Err(Stop::Skip("the hog had no turn beside other real-time tasks".to_owned()));
    }
    assert!(Duration::from_nanos(ns) > HOG / 4, "{:?}", last.blame);
    Ok(())
}
