//! Sums of waits by pod and unit.

use std::collections::BTreeMap;
use std::sync::Arc;

use unstarve_model::{Nanos, Time};

use crate::engine::reading::Place;
use crate::engine::reading::{Workload, WorkloadSums, Workloads};

/// While there is no room, an idle workload is looked for this often.
const LOOKED_FOR_EVERY: Nanos = Nanos::from_millis(1_000);

/// Sums by workload, of at most [`Workloads::LIMIT`] at a time: one that was idle for [`Workloads::IDLE`] makes room for another one. What finds no room is in
/// the total alone.
#[derive(Debug, Default)]
pub(super) struct WorkloadTotals {
    each: BTreeMap<Arc<Place>, Sums>,
    total: Both,
    given: u64,
    looked_for_idle: Option<Time>,
}

#[derive(Debug, Default)]
struct Sums {
    number: u64,
    sums: Both,
    grown: Time,
}

/// Sums of waits that are over, and of those in progress.
#[derive(Clone, Copy, Debug, Default)]
struct Both {
    over: WorkloadSums,
    lasting: WorkloadSums,
}

/// Whether a wait is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// It is.
    Over,
    /// It is in progress: it counts until the next reading, which counts it again.
    Lasting,
}

/// Who had the CPU.
pub(super) enum Occupant {
    /// Nobody: the CPU was idle.
    Nobody,
    /// A task; of which workload, if that is known.
    Workload(Option<Arc<Place>>),
}

impl Both {
    fn add(&mut self, stage: Stage, sums: &WorkloadSums) {
        match stage {
            Stage::Over => self.over.add(sums),
            Stage::Lasting => self.lasting.add(sums),
        }
    }

    fn all(&self) -> WorkloadSums {
        let mut all = self.over;
        all.add(&self.lasting);
        all
    }
}

impl WorkloadTotals {
    /// Forgets the waits in progress of the previous reading.
    pub fn begin_reading(&mut self) {
        self.total.lasting = WorkloadSums::default();
        self.each.values_mut().for_each(|sums| sums.sums.lasting = WorkloadSums::default());
    }

    fn add(&mut self, place: Option<&Arc<Place>>, (stage, now): (Stage, Time), sums: WorkloadSums) {
        self.total.add(stage, &sums);
        let Some(place) = place else { return };
        if let Some(known) = self.each.get_mut(place) {
            known.sums.add(stage, &sums);
            known.grown = known.grown.max(now);
        } else if self.has_room(now) {
            self.given += 1;
            let mut new = Sums { number: self.given, grown: now, ..Sums::default() };
            new.sums.add(stage, &sums);
            self.each.insert(Arc::clone(place), new);
        }
    }

    fn has_room(&mut self, now: Time) -> bool {
        if self.each.len() < Workloads::LIMIT {
            return true;
        }
        if self.looked_for_idle.is_some_and(|looked| now.since(looked) < LOOKED_FOR_EVERY) {
            return false;
        }
        self.looked_for_idle = Some(now);
        // All that are idle at once: others may find no room until the next look.
        self.each.retain(|_, sums| now.since(sums.grown) < Nanos(Workloads::IDLE.as_nanos() as u64));
        self.each.len() < Workloads::LIMIT
    }

    /// A thread of a workload waited.
    pub fn waits(&mut self, own: Option<&Arc<Place>>, when: (Stage, Time), waited: Nanos) {
        self.add(own, when, WorkloadSums { waited, ..WorkloadSums::default() });
    }

    /// A part of the wait.
    pub fn waits_behind(&mut self, own: Option<&Arc<Place>>, when: (Stage, Time), occupant: &Occupant, ns: Nanos) {
        match occupant {
            Occupant::Nobody => self.add(own, when, WorkloadSums { idle: ns, ..WorkloadSums::default() }),
            Occupant::Workload(Some(by)) if own == Some(by) => {}
            Occupant::Workload(by) => {
                self.add(own, when, WorkloadSums { behind: ns, ..WorkloadSums::default() });
                self.add(by.as_ref(), when, WorkloadSums { kept: ns, ..WorkloadSums::default() });
            }
        }
    }

    pub fn report(&self) -> Workloads {
        let each = self.each.iter();
        let of = |(place, sums): (&Arc<Place>, &Sums)| Workload {
            place: Arc::clone(place),
            number: sums.number,
            sums: sums.sums.all(),
        };
        Workloads { each: each.map(of).collect(), total: self.total.all() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn pod(number: u64) -> Arc<Place> {
        Arc::new(Place { pod: Some(format!("{number:08x}")), ..Place::default() })
    }

    fn waited(report: &Workloads, place: &Place) -> Option<(u64, u64)> {
        let found = report.each.iter().find(|workload| *workload.place == *place)?;
        Some((found.number, found.sums.waited.0))
    }

    #[test]
    fn a_pod_that_was_idle_for_a_minute_makes_room() {
        let mut totals = WorkloadTotals::default();
        let limit = Workloads::LIMIT as u64;
        for number in 0..limit {
            totals.waits(Some(&pod(number)), (Stage::Over, Time(SECOND)), Nanos(7));
        }
        let idle_after = Workloads::IDLE.as_secs() * SECOND;
        // The first one waits still, and the second one keeps others waiting.
        totals.begin_reading();
        totals.waits(Some(&pod(0)), (Stage::Lasting, Time(idle_after)), Nanos(60));
        totals.waits_behind(None, (Stage::Over, Time(idle_after)), &Occupant::Workload(Some(pod(1))), Nanos(1));
        let new = pod(1000);
        totals.waits(Some(&new), (Stage::Over, Time(idle_after)), Nanos(5));
        assert_eq!(waited(&totals.report(), &new), None, "none is idle for long enough");
        totals.waits(Some(&new), (Stage::Over, Time(idle_after + SECOND)), Nanos(5));
        let report = totals.report();
        assert_eq!(waited(&report, &new), Some((limit + 1, 5)));
        assert_eq!((waited(&report, &pod(0)), waited(&report, &pod(1))), (Some((1, 67)), Some((2, 7))));
        assert_eq!(report.each.len(), 3, "{:?}", report.each);
        assert_eq!(report.total.waited, Nanos(7 * limit + 60 + 10));
        // One that was forgotten begins at 0, with another number.
        totals.waits(Some(&pod(2)), (Stage::Over, Time(idle_after + SECOND)), Nanos(3));
        assert_eq!(waited(&totals.report(), &pod(2)), Some((limit + 2, 3)));
    }

    #[test]
    fn a_wait_in_progress_counts_once_however_often_it_is_read() {
        let mut totals = WorkloadTotals::default();
        for seconds in 1..4 {
            totals.begin_reading();
            totals.waits(Some(&pod(1)), (Stage::Lasting, Time(seconds * SECOND)), Nanos(seconds));
            let report = totals.report();
            assert_eq!((waited(&report, &pod(1)), report.total.waited), (Some((1, seconds)), Nanos(seconds)));
        }
        totals.begin_reading();
        totals.waits(Some(&pod(1)), (Stage::Over, Time(4 * SECOND)), Nanos(4));
        assert_eq!(waited(&totals.report(), &pod(1)), Some((1, 4)));
    }
}
