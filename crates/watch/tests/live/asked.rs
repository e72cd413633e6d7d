//! Who asks to come last loses to nobody; who is outweighed does.

use std::time::Duration;

use unstarve_model::Nanos;
use unstarve_sched::Rule;
use unstarve_watch::{Engine, Reading, RoleKind};

use crate::stage::{self, Ended, Group, Load, Stop};

const LASTS: Duration = Duration::from_secs(4);
/// Groups are looked for once a second.
const KNOWN_AFTER: Duration = Duration::from_millis(1200);
const COUNTED: Duration = Duration::from_millis(1500);
/// Of the light one's waits at least this is seen, whatever else runs here.
const ENOUGH: Nanos = Nanos::from_millis(100);

pub fn last_is_fair() -> Ended {
    if !std::path::Path::new("/sys/devices/system/cpu/cpu1").exists() {
        return Err(Stop::Skip("needs a second CPU".to_owned()));
    }
    let mut engine = stage::engine()?;
    let asks = within(&mut engine, "asks", "15", "0", Load::spin)?;
    if asks.fair.max(asks.weight) < ENOUGH {
        return Err(Stop::Skip(format!("nobody waited long enough: {asks:?}")));
    }
    assert!(asks.weight == Nanos::ZERO, "by weight {}, though it is nice itself", asks.weight);
    let outweighed = within(&mut engine, "outweighed", "0", "-15", Load::spin)?;
    assert!(outweighed.weight >= ENOUGH, "by weight {} beside one of nice -15", outweighed.weight);
    let preempted = within(&mut engine, "preempted", "15", "0", Load::wake)?;
    assert!(preempted.fair >= ENOUGH, "{preempted:?}");
    // The one that wakes is preempted by nobody of its group.
    assert_eq!(preempted.wakeup, Nanos::ZERO, "by wakeups, though it is nice itself");
    let equals = within(&mut engine, "equals", "0", "-5", Load::wake)?;
    assert!(equals.wakeup >= ENOUGH, "{equals:?}");
    Ok(())
}

/// How long tasks of one group waited for each other.
#[derive(Debug)]
struct Waited {
    fair: Nanos,
    weight: Nanos,
    wakeup: Nanos,
}

/// A task of one nice value that runs all the time, beside a load of another.
fn within(
    engine: &mut impl Engine,
    name: &str,
    light: &str,
    heavy: &str,
    load: fn(&[&str], Duration) -> Result<Load, Stop>,
) -> Result<Waited, Stop> {
    let group = Group::make(name, 1024)?;
    let loads = [Load::spin(&["nice", "-n", light], LASTS), load(&["nice", "-n", heavy], LASTS)];
    for load in &loads {
        match load {
            Ok(load) => group.add(load)?,
            Err(_) => return Err(Stop::Skip("a load does not start".to_owned())),
        }
    }
    std::thread::sleep(KNOWN_AFTER);
    stage::read(engine)?;
    std::thread::sleep(COUNTED);
    let reading = stage::read(engine)?;
    let sum = |rule| blamed(&reading, &group.name, rule);
    Ok(Waited { fair: sum(Rule::Fair), weight: sum(Rule::Weight), wakeup: sum(Rule::WakeupPreemption) })
}

fn blamed(reading: &Reading, group: &str, rule: Rule) -> Nanos {
    let Some(role) = reading.find(RoleKind::Group, Some(group)) else { return Nanos::ZERO };
    let rows = reading.blame.iter().filter(|row| row.victim == role && row.occupant == role && row.rule == rule);
    rows.map(|row| row.ns).sum()
}
