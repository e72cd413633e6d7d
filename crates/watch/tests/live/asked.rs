//! Who asks to come last loses to nobody; who is outweighed does.

use std::time::Duration;

use unstarve_model::Nanos;
use unstarve_timeline::Rule;
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
    let asks = within(&mut engine, "asks", "15", "0")?;
    if asks.0.max(asks.1) < ENOUGH {
        return Err(Stop::Skip(format!("nobody waited long enough: {asks:?}")));
    }
    assert!(asks.1 == Nanos::ZERO, "by weight {}, though it is nice itself", asks.1);
    let outweighed = within(&mut engine, "outweighed", "0", "-15")?;
    assert!(outweighed.1 >= ENOUGH, "by weight {} beside one of nice -15", outweighed.1);
    Ok(())
}

/// How long tasks of one group waited for each other, in turn and by weight: a task of this nice value beside one of that.
fn within(engine: &mut impl Engine, name: &str, light: &str, heavy: &str) -> Result<(Nanos, Nanos), Stop> {
    let group = Group::make(name, 1024)?;
    let loads = [light, heavy].map(|nice| Load::spin(&["nice", "-n", nice], LASTS));
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
    Ok((sum(Rule::Fair), sum(Rule::Weight)))
}

fn blamed(reading: &Reading, group: &str, rule: Rule) -> Nanos {
    let Some(role) = reading.find(RoleKind::Group, Some(group)) else { return Nanos::ZERO };
    let rows = reading.blame.iter().filter(|row| row.victim == role && row.occupant == role && row.rule == rule);
    rows.map(|row| row.ns).sum()
}
