//! CPUs that real-time tasks monopolise: found even if a crowd of the same role takes its turns on other CPUs.
//!
//! A role has a row per CPU: nothing here may loop over all rows for each row.

use unstarve_model::CpuId;

use super::pair::{Pair, READINGS};
use crate::engine::reading::{CpuWaits, Reading};

impl<'a> Pair<'a> {
    /// The role's waits per CPU between two readings, for CPUs from which a higher class kept it.
    pub(super) fn on_cpus<'b>(&self, then: &'b Reading, now: &'b Reading) -> impl Iterator<Item = CpuWaits> + use<'b> {
        let (earlier, rows) = self.rows(then, now);
        rows.iter().map(|row| grown(row, earlier))
    }

    /// The same for one CPU.
    pub(super) fn on_cpu(&self, then: &Reading, now: &Reading, cpu: CpuId) -> Option<CpuWaits> {
        let (earlier, rows) = self.rows(then, now);
        find(rows, cpu).map(|row| grown(row, earlier))
    }

    /// The role's rows in two readings.
    fn rows<'b>(&self, then: &'b Reading, now: &'b Reading) -> (&'b [CpuWaits], &'b [CpuWaits]) {
        match self.same_role(now) {
            // Sums of an earlier owner of the id are meaningless.
            Some(id) if self.same_role(then) == Some(id) => (then.cpus_of(id), now.cpus_of(id)),
            _ => (&[], &[]),
        }
    }

    /// How long the role was kept off the CPU that higher classes had most since then, if they had most of it in every interval.
    pub(super) fn held_since(&self, begin: &'a Reading, limit: f64) -> u64 {
        let readings = self.readings_since(begin.at.trace.0);
        let lasts = |cpu: CpuId| {
            let pairs = readings.iter().zip(readings.iter().skip(1));
            pairs.filter(|(then, now)| self.is_held(cpu, then, now, limit)).count() >= READINGS
        };
        let held = self.much_held(begin, limit).filter(|(here, _)| lasts(here.cpu));
        held.map(|(_, lost)| lost).max().unwrap_or(0)
    }

    /// CPUs that higher classes had for most of the waiting time and long enough to matter, with what the role lost there.
    fn much_held(&self, begin: &'a Reading, limit: f64) -> impl Iterator<Item = (CpuWaits, u64)> + use<'a> {
        let (now, least) = (self.reading, least(begin, self.reading, limit));
        let here = self.on_cpus(begin, now).map(move |here| (here, lost(&here, begin, now)));
        here.filter(move |(here, lost)| is_mostly_by_class(here) && *lost as f64 >= least)
    }

    /// Whether higher classes had most of a CPU between two readings.
    fn is_held(&self, cpu: CpuId, then: &Reading, now: &Reading, limit: f64) -> bool {
        let least = least(then, now, limit);
        let here = self.on_cpu(then, now, cpu);
        here.is_some_and(|here| is_mostly_by_class(&here) && lost(&here, then, now) as f64 >= least)
    }

    /// Upper bound of what tasks of the role lost to higher classes since then, each moment counted once per CPU: a thousand tasks that wait at
    /// once for a millisecond lose one millisecond.
    pub(super) fn lost_since(&self, then: &Reading, by_class: u64) -> u64 {
        self.lost_on_its_cpus(then, by_class, |sum, lost| sum.saturating_add(lost))
    }

    /// The same for one task, which waits for one CPU at a time: migration from one monopolised CPU to another is not assumed.
    pub(super) fn lost_by_one_since(&self, then: &Reading, by_class: u64) -> u64 {
        self.lost_on_its_cpus(then, by_class, u64::max)
    }

    fn lost_on_its_cpus(&self, then: &Reading, by_class: u64, together: impl Fn(u64, u64) -> u64) -> u64 {
        let now = self.reading;
        let (mut known, mut on_its_cpus) = (0_u64, 0_u64);
        for here in self.on_cpus(then, now) {
            known = known.saturating_add(here.by_class.0);
            on_its_cpus = together(on_its_cpus, lost(&here, then, now));
        }
        // It is unknown for which CPU the rest was waited.
        let rest = by_class.saturating_sub(known);
        on_its_cpus.saturating_add(rest.min(now.real_time_of_all_since(then).0)).min(by_class)
    }
}

/// What the tasks that waited for a CPU lost to higher classes, each moment counted once: at most the time that real-time tasks ran there.
pub(super) fn lost(here: &CpuWaits, then: &Reading, now: &Reading) -> u64 {
    here.by_class.min(now.real_time_since(then, here.cpu)).0
}

/// Half of the limit between two readings, and at least 1: below that there is no episode, and the detector is not armed.
fn least(then: &Reading, now: &Reading, limit: f64) -> f64 {
    (limit / 2.0 * now.at.trace.since(then.at.trace).0 as f64).floor().max(1.0)
}

/// Growth of a row since the row of the same CPU in an earlier reading.
fn grown(row: &CpuWaits, earlier: &[CpuWaits]) -> CpuWaits {
    find(earlier, row.cpu).map_or(*row, |old| CpuWaits {
        waited: row.waited.saturating_sub(old.waited),
        by_class: row.by_class.saturating_sub(old.by_class),
        ..*row
    })
}

fn find(rows: &[CpuWaits], cpu: CpuId) -> Option<&CpuWaits> {
    rows.binary_search_by_key(&cpu, |row| row.cpu).ok().map(|index| &rows[index])
}

fn is_mostly_by_class(here: &CpuWaits) -> bool {
    here.by_class.0.saturating_mul(2) >= here.waited.0
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Arc;

    use super::*;
    use crate::engine::reading::RoleKind;
    use crate::testing::{Scene, at};

    const MS: u64 = 1_000_000;
    const CPUS: u32 = 256;

    /// One CPU that real-time tasks monopolise, one that they had briefly, and rows that have not grown.
    #[test]
    fn only_cpus_that_are_held_are_looked_at_again() {
        let mut scene = (0..CPUS).fold(Scene::new(), |scene, cpu| scene.on_cpu("kworker", cpu, MS, 5 * MS));
        let mut readings = VecDeque::from([Arc::new(scene.reading(at(0)))]);
        for step in 1..=4 {
            scene =
                scene.on_cpu("kworker", 77, 200 * MS, 0).on_cpu("kworker", 78, MS, 0).on_cpu("kworker", 79, 0, 9 * MS);
            readings.push_back(Arc::new(scene.reading(at(step * 250))));
        }
        let reading = readings.pop_back().expect("five");
        let id = reading.find(RoleKind::Kworker, None).expect("a role");
        assert_eq!(reading.cpus_of(id).len(), CPUS as usize);
        let role = reading.role(id).expect("a role");
        let (begin, before) = (&*readings[0], &*readings[3]);
        let pair = Pair { id, role, before, reading: &reading, past: &readings };
        let looked_at: Vec<_> = pair.much_held(begin, 0.1).map(|(here, lost)| (here.cpu, lost)).collect();
        assert_eq!(looked_at, [(CpuId(77), 800 * MS)]);
        assert_eq!(pair.held_since(begin, 0.1), 800 * MS);
        assert_eq!(pair.held_since(begin, 2.0), 0, "less than half of that limit");
        let grown = pair.on_cpu(begin, &reading, CpuId(78)).expect("a row");
        assert_eq!((grown.by_class.0, grown.waited.0), (4 * MS, 4 * MS));
        assert_eq!(pair.on_cpu(begin, &reading, CpuId(CPUS)), None);
    }
}
