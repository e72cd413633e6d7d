//! Which pods and units have series of their own in the metrics, and their sums: the worst by a [`Ranking`]; all else is `other`.

use std::collections::BTreeMap;
use std::sync::Arc;

use unstarve_model::{Nanos, Time};

use super::pod_names::{PodNames, WorkloadName};
use super::ranking::{Parts, Ranking, WINDOW};
use crate::engine::reading::{Place, place_of};
use crate::engine::reading::{Reading, WorkloadSums};

/// A row of the metrics.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkloadRow {
    /// Its name; without a place: all others.
    pub name: Arc<WorkloadName>,
    /// Its sums: of victims behind others, behind its own threads and of an idle CPU; else one sum.
    pub parts: Parts,
}

/// The rows of the metrics.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WorkloadRows {
    /// Waits by who waited.
    pub victims: Vec<WorkloadRow>,
    /// Waits by who had the CPU.
    pub culprits: Vec<WorkloadRow>,
    /// What CPU limits stopped, by the kernel's counters.
    pub throttled: Vec<WorkloadRow>,
}

/// Names the worst workloads.
#[derive(Debug)]
pub struct WorkloadSeries {
    limit: usize,
    names: PodNames,
    victims: Named,
    culprits: Named,
    throttled: Named,
    began: Option<Time>,
    seen: BTreeMap<(Arc<Place>, u64), WorkloadSums>,
    total: WorkloadSums,
    /// By path of a group with a CPU limit.
    stopped: BTreeMap<Arc<str>, Nanos>,
}

/// The rows of one metric, and the sum of all others.
#[derive(Debug, Default)]
struct Named {
    ranking: Ranking<Arc<Place>, Arc<WorkloadName>>,
    other: Parts,
}

impl WorkloadSeries {
    /// Names so many at a time.
    pub fn new(limit: usize, names: PodNames) -> WorkloadSeries {
        let (victims, culprits, throttled) = Default::default();
        let (began, seen, total, stopped) = Default::default();
        WorkloadSeries { limit, names, victims, culprits, throttled, began, seen, total, stopped }
    }

    /// Another number of names at a time; those that are named stay until others take their places.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Adds the growth since the previous reading.
    pub fn see(&mut self, reading: &Reading) {
        let now = reading.at.trace;
        let (mut waits, mut keeps) = (Vec::new(), Vec::new());
        let mut seen = BTreeMap::new();
        for workload in &reading.workloads.each {
            let key = (Arc::clone(&workload.place), workload.number);
            // Sums that include waits in progress can be smaller for a moment: a wait has ended and is not counted yet.
            let before = self.seen.get(&key).copied().unwrap_or_default();
            let new = workload.sums.since(&before);
            waits.push((Arc::clone(&workload.place), victim_parts(&new)));
            keeps.push((Arc::clone(&workload.place), [new.kept.0, 0, 0]));
            seen.insert(key, workload.sums.most(&before));
        }
        self.seen = seen;
        let new = reading.workloads.total.since(&self.total);
        self.total = reading.workloads.total.most(&self.total);
        self.victims.add(waits, victim_parts(&new));
        self.culprits.add(keeps, [new.kept.0, 0, 0]);
        self.see_limits(reading);
        let began = *self.began.get_or_insert(now);
        if now.since(began) >= WINDOW {
            self.began = Some(now);
            for named in [&mut self.victims, &mut self.culprits, &mut self.throttled] {
                named.ranking.end_window(now, self.limit, |place| Arc::new(self.names.of(place)));
            }
        }
    }

    fn see_limits(&mut self, reading: &Reading) {
        let mut stopped = BTreeMap::new();
        let (mut grown, mut total) = (Vec::new(), 0);
        for group in &reading.limits {
            // What was counted before the first look is not of this watch's time.
            let before = self.stopped.get(&group.path).copied().unwrap_or(group.counted.ns);
            let new = group.counted.ns.saturating_sub(before).0;
            stopped.insert(Arc::clone(&group.path), group.counted.ns);
            total += new;
            if new > 0 {
                grown.push((Arc::new(place_of(&group.path)), [new, 0, 0]));
            }
        }
        self.stopped = stopped;
        self.throttled.add(grown, [total, 0, 0]);
    }

    /// The rows now.
    pub fn rows(&self) -> WorkloadRows {
        WorkloadRows { victims: self.victims.rows(), culprits: self.culprits.rows(), throttled: self.throttled.rows() }
    }
}

fn victim_parts(new: &WorkloadSums) -> Parts {
    let own = new.waited.saturating_sub(new.behind).saturating_sub(new.idle);
    [new.behind.0, own.0, new.idle.0]
}

impl Named {
    /// Adds the growth of each, and of all together.
    fn add(&mut self, grown: Vec<(Arc<Place>, Parts)>, mut rest: Parts) {
        for (place, parts) in grown {
            // Waits behind one's own threads are nobody's fault.
            let bad = if *place == Place::default() { 0 } else { parts[0] + parts[2] };
            if self.ranking.add(&place, parts, bad) {
                rest.iter_mut().zip(parts).for_each(|(rest, ns)| *rest = rest.saturating_sub(ns));
            }
        }
        self.other.iter_mut().zip(rest).for_each(|(sum, ns)| *sum += ns);
    }

    fn rows(&self) -> Vec<WorkloadRow> {
        let rows = self.ranking.rows().map(|(_, name, parts)| WorkloadRow { name: Arc::clone(name), parts });
        let other = WorkloadRow { name: Arc::default(), parts: self.other };
        rows.chain([other]).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::testing::{Scene, at};

    const NOBODYS: &str = "/elsewhere";

    fn pod(number: u32) -> String {
        format!("/kubepods/burstable/pod{number:08x}-0a1b-0a1b-0a1b-0a1b2c3d4e5f/{}", "4f".repeat(32))
    }

    fn sum(rows: &[WorkloadRow]) -> u64 {
        rows.iter().flat_map(|row| row.parts).sum()
    }

    fn named(rows: &[WorkloadRow], path: &str) -> Option<Parts> {
        rows.iter().find(|row| row.name.place == place_of(path)).map(|row| row.parts)
    }

    fn series(limit: usize) -> WorkloadSeries {
        WorkloadSeries::new(limit, PodNames::default())
    }

    #[test]
    fn the_worst_have_names_and_sums_stay_exact() {
        let mut series = series(2);
        let mut scene = Scene::new();
        for second in 0..60_u64 {
            for number in 0..5 {
                scene = scene.workloads(&pod(number), NOBODYS, 1_000_000 * (u64::from(number) + 1));
            }
            scene = scene.workloads(&pod(9), &pod(8), 50_000_000);
            series.see(&scene.reading(at(second * 1_000)));
            let rows = series.rows();
            assert_eq!(sum(&rows.victims), (15 + 50) * 1_000_000 * (second + 1), "second {second}");
            assert_eq!(sum(&rows.culprits), (15 + 50) * 1_000_000 * (second + 1), "second {second}");
            assert!(rows.victims.len() <= 3 && rows.culprits.len() <= 3);
        }
        let rows = series.rows();
        assert!(named(&rows.victims, &pod(9)).is_some_and(|parts| parts[0] > 2_000_000_000), "{rows:?}");
        assert!(named(&rows.victims, &pod(4)).is_some() && named(&rows.victims, &pod(3)).is_none());
        assert!(named(&rows.culprits, &pod(8)).is_some_and(|parts| parts[0] > 2_000_000_000));
        assert_eq!(named(&rows.culprits, &pod(4)), None, "it kept nobody waiting");
    }

    #[test]
    fn a_thousand_pods_that_come_and_go_have_few_names_in_a_day() {
        let (mut series, limit, mut names) = (series(20), 20, BTreeSet::new());
        let (mut total, mut before) = (0, BTreeMap::new());
        for step in 0..8640_u32 {
            // Each pod is the worst for a while, and then gone.
            let mut scene = Scene::new();
            for number in 0..40 {
                scene = scene.workloads(&pod(step / 20 * 100 + number), NOBODYS, 5_000_000);
            }
            let mut reading = scene.reading(at(u64::from(step) * 10_000));
            // The sums of a pod that is there for several steps begin anew in this test: so it is another one each time.
            reading.workloads.each.iter_mut().for_each(|workload| workload.number += u64::from(step) * 100);
            total += 40 * 5_000_000;
            reading.workloads.total =
                WorkloadSums { waited: Nanos(total), behind: Nanos(total), kept: Nanos(total), ..Default::default() };
            series.see(&reading);
            let rows = series.rows();
            assert!(rows.victims.len() <= limit + 1);
            // A series that ends takes its sum with it; what is added is in one of those that are there.
            let now: BTreeMap<String, u64> =
                rows.victims.iter().map(|row| (row.name.word(), row.parts.iter().sum())).collect();
            let added: u64 = now.iter().map(|(name, ns)| ns - before.get(name).copied().unwrap_or(0)).sum();
            assert_eq!(added, 40 * 5_000_000, "step {step}");
            before = now;
            names.extend(rows.victims.iter().map(|row| row.name.word()));
        }
        assert!(names.len() > 2 * limit, "others get names, too: {}", names.len());
        assert!(names.len() <= 25 * limit + 1, "{} names in a day", names.len());
    }

    #[test]
    fn a_throttled_pod_is_named_by_what_its_limit_took() {
        let mut series = series(20);
        let mut scene = Scene::new().group("/kubepods");
        for second in 0..30_u64 {
            scene = scene.stopped(&pod(1), 0.2, 800_000_000).stopped("/kubepods/mine", 0.2, 1_000_000);
            series.see(&scene.reading(at(second * 1_000)));
        }
        let rows = series.rows().throttled;
        assert!(named(&rows, &pod(1)).is_some_and(|parts| parts[0] >= 15_000_000_000), "{rows:?}");
        assert_eq!(sum(&rows), 29 * 801_000_000, "without what was counted before the first look");
        assert_eq!(rows.len(), 2, "a group that is no pod and no unit is another one");
    }
}
