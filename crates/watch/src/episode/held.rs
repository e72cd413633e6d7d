//! CPUs that real-time tasks keep for themselves: seen even if a crowd of the same role waits for others for its turn.

use super::above::{Pair, READINGS};
use crate::{CpuWaits, Reading};

impl<'a> Pair<'a> {
    /// What the role waited for each CPU between two readings, where a higher class kept it from one.
    pub(super) fn on_cpus(&self, then: &'a Reading, now: &'a Reading) -> impl Iterator<Item = CpuWaits> + use<'a> {
        let (id, before) = (self.same_role(now), self.same_role(then));
        // What an id's sums were when another one had it says nothing.
        let is_one = id.is_some() && id == before;
        let rows = now.cpus.iter().filter(move |row| is_one && Some(row.role) == id);
        rows.map(move |row| {
            let earlier = then.cpus.iter().find(|old| (old.cpu, old.role) == (row.cpu, row.role));
            earlier.map_or(*row, |old| CpuWaits {
                waited: row.waited.saturating_sub(old.waited),
                by_class: row.by_class.saturating_sub(old.by_class),
                ..*row
            })
        })
    }

    /// For how long the role was kept from the CPU that higher classes had most of since then, if they had most of it all the time.
    pub(super) fn held_since(&self, begin: &'a Reading, limit: f64) -> u64 {
        let held = self.on_cpus(begin, self.reading).filter(is_mostly_by_class);
        let lasts = |here: &CpuWaits| {
            let readings = self.readings_since(begin.at.trace.0);
            let pairs = readings.iter().zip(readings.iter().skip(1));
            pairs.filter(|(then, now)| self.is_held(here, then, now, limit)).count() >= READINGS
        };
        held.filter(lasts).map(|here| here.by_class.0).max().unwrap_or(0)
    }

    /// Whether higher classes had most of a CPU between two readings.
    fn is_held(&self, here: &CpuWaits, then: &'a Reading, now: &'a Reading, limit: f64) -> bool {
        let least = limit / 2.0 * now.at.trace.since(then.at.trace).0 as f64;
        let here = self.on_cpus(then, now).find(|row| row.cpu == here.cpu);
        here.is_some_and(|here| is_mostly_by_class(&here) && here.by_class.0 as f64 >= least)
    }
}

fn is_mostly_by_class(here: &CpuWaits) -> bool {
    here.by_class.0.saturating_mul(2) >= here.waited.0
}
