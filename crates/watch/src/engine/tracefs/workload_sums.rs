//! Sums of waits by pod and unit.

use std::collections::BTreeMap;
use std::sync::Arc;

use unstarve_model::Nanos;

use crate::engine::reading::Place;
use crate::engine::reading::{Workload, WorkloadSums, Workloads};

/// Sums by workload. Once there are [`Workloads::LIMIT`], further ones are in the total alone.
#[derive(Clone, Debug, Default)]
pub(super) struct WorkloadTotals {
    each: BTreeMap<Arc<Place>, WorkloadSums>,
    total: WorkloadSums,
}

/// Who had the CPU.
pub(super) enum Occupant {
    /// Nobody: the CPU was idle.
    Nobody,
    /// A task; of which workload, if that is known.
    Workload(Option<Arc<Place>>),
}

impl WorkloadTotals {
    fn add(&mut self, place: Option<&Arc<Place>>, sums: WorkloadSums) {
        self.total.add(&sums);
        let Some(place) = place else { return };
        if self.each.len() < Workloads::LIMIT || self.each.contains_key(place) {
            self.each.entry(Arc::clone(place)).or_default().add(&sums);
        }
    }

    /// A thread of a workload waited.
    pub fn waits(&mut self, own: Option<&Arc<Place>>, waited: Nanos) {
        self.add(own, WorkloadSums { waited, ..WorkloadSums::default() });
    }

    /// A part of the wait.
    pub fn waits_behind(&mut self, own: Option<&Arc<Place>>, occupant: &Occupant, ns: Nanos) {
        match occupant {
            Occupant::Nobody => self.add(own, WorkloadSums { idle: ns, ..WorkloadSums::default() }),
            Occupant::Workload(Some(by)) if own == Some(by) => {}
            Occupant::Workload(by) => {
                self.add(own, WorkloadSums { behind: ns, ..WorkloadSums::default() });
                self.add(by.as_ref(), WorkloadSums { kept: ns, ..WorkloadSums::default() });
            }
        }
    }

    pub fn report(self) -> Workloads {
        let each = self.each.into_iter();
        // The number is that of the name: nothing is forgotten here.
        let each = each.map(|(place, sums)| Workload { place, number: 0, sums }).collect();
        Workloads { each, total: self.total }
    }
}
