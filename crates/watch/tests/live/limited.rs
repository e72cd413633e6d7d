//! A group that a limit stops beside one that has the CPU meanwhile.

use std::time::{Duration, Instant};

use unstarve_model::Nanos;
use unstarve_sched::Rule;
use unstarve_watch::{Engine, Reading, RoleId, RoleKind};

use crate::stage::{self, Ended, Group, Load, Stop};

const LASTS: Duration = Duration::from_secs(3);

/// What the kernel counts as stopped is nobody else's doing: 10 of 100 ms beside a group of the same weight, on one CPU. The limited
/// one may have half of it.
pub fn nobody_is_blamed_for_a_limit() -> Ended {
    let mut engine = stage::engine()?;
    let (limited, other) = (Group::make("limited", 1024)?, Group::make("other", 2048)?);
    limited.limit(10_000, 100_000)?;
    let loads = [Load::spin(&[], LASTS + Duration::from_secs(9))?, Load::spin(&[], LASTS + Duration::from_secs(9))?];
    limited.add(&loads[0])?;
    other.add(&loads[1])?;
    // Roles and limits are looked for each second or two.
    let known = |reading: &Reading| {
        let is_limited = reading.limits.iter().any(|group| *group.path == *limited.name);
        let id = |group: &Group| reading.find(RoleKind::Group, Some(&group.name));
        Some((id(&limited).filter(|_| is_limited)?, id(&other)?))
    };
    let begun = Instant::now();
    let mut first = read(&mut engine)?;
    while known(&first).is_none() {
        if begun.elapsed() > Duration::from_secs(6) {
            return Err(Stop::Fail(format!("{:?} is not seen: {:?}", limited.name, first.limits)));
        }
        first = read(&mut engine)?;
    }
    // What was stopped before the limit was seen is not known; what was lately seen of it is in its place a moment later.
    for _ in 0..4 {
        first = read(&mut engine)?;
    }
    let begun = Instant::now();
    let mut last = read(&mut engine)?;
    while begun.elapsed() < LASTS {
        last = read(&mut engine)?;
    }
    let Some((victim, neighbour)) = known(&last) else { return Err(Stop::Fail("it has gone".to_owned())) };
    let by = |reading: &Reading, rule: Rule, occupant: Option<RoleId>| -> u64 {
        let rows = reading.blame.iter().filter(|row| row.victim == victim && row.rule == rule);
        rows.filter(|row| occupant.is_none_or(|occupant| row.occupant == occupant)).map(|row| row.ns.0).sum()
    };
    let grown = |rule, occupant| Nanos(by(&last, rule, occupant) - by(&first, rule, occupant));
    let counted =
        |reading: &Reading| reading.limits.iter().find(|group| *group.path == *limited.name).map(|it| it.counted);
    let (Some(after), Some(before)) = (counted(&last), counted(&first)) else {
        return Err(Stop::Fail("its counters have gone".to_owned()));
    };
    let stopped = Nanos(after.ns.0 - before.ns.0);
    if stopped < Nanos::from_millis(1000) {
        return Err(Stop::Skip(format!(
            "in {LASTS:?} the kernel stopped it for {stopped}: CPU 1 had little time for it"
        )));
    }
    let throttled = grown(Rule::Throttled, None);
    let behind = Nanos(grown(Rule::Weight, Some(neighbour)).0 + grown(Rule::Fair, Some(neighbour)).0);
    let waited = Nanos(last.waits[victim.index()].waited.0 - first.waits[victim.index()].waited.0);
    // The counters grow at the end of each stop; three of 30 may be of a time before or after.
    assert!(throttled.0 * 10 >= stopped.0 * 8, "{throttled} of {stopped} is throttled");
    let rest = waited.0.saturating_sub(stopped.0) + Nanos::from_millis(300).0;
    assert!(behind.0 <= rest, "{behind} of {waited} behind the other group; stopped for {stopped}");
    Ok(())
}

fn read(engine: &mut impl Engine) -> Result<Reading, Stop> {
    std::thread::sleep(Duration::from_millis(250));
    stage::read(engine)
}
