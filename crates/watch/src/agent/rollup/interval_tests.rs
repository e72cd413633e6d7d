//! Tests of the growth of sums while groups come and go.

use proptest::prelude::*;

use super::*;
use crate::engine::reading::{Role, RoleId};
use crate::testing::{Scene, at};
use unstarve_sched::Rule;

fn sums(scene: &Scene, millis: u64) -> Sums {
    Sums::of(&scene.reading(at(millis)))
}

#[test]
fn an_interval_has_what_came_in_it() {
    let scene = Scene::new().blame("kworker", RoleKind::RealTime, 5).wait("kworker", 3_000);
    let begun = sums(&scene, 1_000);
    let scene =
        scene.blame("kworker", RoleKind::RealTime, 7).wait("kworker", 9_000_000).blame("rcu", RoleKind::Other, 2);
    let interval = begun.until(&sums(&scene, 301_000));
    assert_eq!((interval.at, interval.span), (at(1_000).wall, Nanos(300_000_000_000)));
    let waits: Vec<_> = interval.waits.iter().map(|row| (row.role.as_str(), row.count, row.ns)).collect();
    assert_eq!(waits, [("kworker", 1, 7), ("rcu", 0, 2)]);
    assert_eq!(interval.waits[0].histogram.count(), 1);
    let blame: Vec<_> = interval.blame.iter().map(|row| (&*row.victim, &*row.occupant, row.rule, row.ns)).collect();
    assert_eq!(blame, [("kworker", "real-time", "class", 7), ("rcu", "other", "class", 2)]);
}

#[test]
fn the_first_interval_begins_with_the_engine() {
    let scene = Scene::new().blame("kworker", RoleKind::RealTime, 5);
    let reading = scene.reading(at(250));
    let interval = Sums::at_the_start(&reading).until(&Sums::of(&reading));
    assert_eq!((interval.at, interval.span, interval.waits[0].ns), (at(0).wall, Nanos(250_000_000), 5));
}

/// Sums of one role.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Counted {
    count: u64,
    ns: u64,
}

impl Counted {
    fn add(&mut self, other: Counted) {
        self.count += other.count;
        self.ns += other.ns;
    }
}

/// A model of an engine's sums: those of a removed group move to `gone`.
#[derive(Clone, Debug, Default)]
struct Model {
    /// Each with its number.
    groups: [Option<(u64, Counted)>; 3],
    come: u64,
    gone: Counted,
    fixed: Counted,
}

impl Model {
    fn reading(&self, millis: u64) -> Reading {
        let mut reading = Scene::new().reading(at(millis));
        let occupant = RoleKind::RealTime.fixed_id().expect("a fixed role");
        let fixed = |kind: RoleKind| kind.fixed_id().expect("a fixed role").index();
        let mut counted = vec![(fixed(RoleKind::Gone), self.gone), (fixed(RoleKind::Kworker), self.fixed)];
        for (index, group) in self.groups.iter().enumerate() {
            let (kind, cgroup) = (RoleKind::Group, Some(format!("/g{index}")));
            counted.extend(group.map(|(_, group)| (reading.roles.len(), group)));
            reading.roles.push(group.map(|(generation, _)| Role { kind, cgroup, weight: None, generation }));
            reading.waits.push(crate::engine::reading::Waits::default());
        }
        for (role, counted) in counted {
            reading.waits[role].waited = Nanos(counted.ns);
            reading.waits[role].count = counted.count;
            reading.waits[role].histogram.add(Nanos(1_000), counted.count);
            if counted.ns > 0 {
                let (victim, ns) = (RoleId(role as u8), Nanos(counted.ns));
                reading.blame.push(crate::engine::reading::Blame { victim, occupant, rule: Rule::Class, ns });
            }
        }
        reading
    }

    /// Adds to a group's sums; creates the group if it does not exist.
    fn counts(&mut self, group: usize, new: Counted) {
        let next = self.come + 1;
        let (number, group) = self.groups[group].get_or_insert((next, Counted::default()));
        self.come = self.come.max(*number);
        group.add(new);
    }

    fn goes(&mut self, group: usize) {
        self.gone.add(self.groups[group].take().map(|(_, counted)| counted).unwrap_or_default());
    }

    fn total(&self) -> Counted {
        let mut total = self.gone;
        total.add(self.fixed);
        self.groups.iter().flatten().for_each(|(_, counted)| total.add(*counted));
        total
    }
}

/// What intervals show of waits, histograms and blame.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Said {
    waited: Counted,
    in_steps: u64,
    blamed: u64,
}

impl Said {
    fn add(&mut self, interval: &Interval) {
        self.waited.ns += interval.waits.iter().map(|row| row.ns).sum::<u64>();
        self.waited.count += interval.waits.iter().map(|row| row.count).sum::<u64>();
        self.in_steps += interval.waits.iter().map(|row| row.histogram.count()).sum::<u64>();
        self.blamed += interval.blame.iter().map(|row| row.ns).sum::<u64>();
    }
}

/// Counts do not identify a group: a finished wait can have been short, and a wait in progress has no end yet.
#[test]
fn a_group_that_came_again_with_as_many_waits_is_another_one() {
    let mut model = Model::default();
    model.counts(0, Counted { count: 3, ns: 1_000 });
    let begun = Sums::of(&model.reading(1));
    model.goes(0);
    model.counts(0, Counted { count: 3, ns: 10 });
    let interval = begun.until(&Sums::of(&model.reading(2)));
    let waits: Vec<_> = interval.waits.iter().map(|row| (row.role.as_str(), row.count, row.ns)).collect();
    assert_eq!(waits, [("/g0", 3, 10)]);
    let blame: Vec<_> = interval.blame.iter().map(|row| (row.victim.as_str(), row.ns)).collect();
    assert_eq!(blame, [("/g0", 10)]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Nothing is lost or counted twice: the intervals add up to what the engine counted, however groups come and go.
    #[test]
    fn intervals_add_up_to_what_was_counted(
        steps in proptest::collection::vec((0_usize..3, 0_u8..5, 0_u64..4, 0_u64..1000, any::<bool>()), 0..60),
    ) {
        let mut model = Model::default();
        let mut last = Sums::at_the_start(&model.reading(0));
        let mut said = Said::default();
        for (at, (group, what, count, ns, writes)) in steps.into_iter().enumerate() {
            let new = Counted { count, ns };
            match what {
                0 => model.fixed.add(new),
                1 => model.goes(group),
                2 => {
                    model.goes(group);
                    model.counts(group, new);
                }
                _ => model.counts(group, new),
            }
            if writes {
                let now = Sums::of(&model.reading(at as u64 + 1));
                said.add(&last.until(&now));
                last = now;
            }
        }
        said.add(&last.until(&Sums::of(&model.reading(1_000))));
        let total = model.total();
        prop_assert_eq!(said, Said { waited: total, in_steps: total.count, blamed: total.ns });
    }
}
