use proptest::prelude::*;
use unstarve_timeline::Rule;

use super::*;
use crate::testing::{Scene, at};
use crate::{Role, RoleId};

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

/// An engine's sums when groups come and go: those of a group that goes become `gone`'s.
#[derive(Clone, Debug)]
struct Model {
    groups: [Option<u64>; 3],
    gone: u64,
    fixed: u64,
}

impl Model {
    fn reading(&self, millis: u64) -> Reading {
        let mut reading = Scene::new().reading(at(millis));
        let mut put = |role: usize, ns: u64| {
            reading.waits[role].waited = Nanos(ns);
            reading.waits[role].count = ns;
            if ns > 0 {
                let victim = RoleId(role as u8);
                let occupant = RoleKind::RealTime.fixed_id().expect("a fixed role");
                reading.blame.push(crate::Blame { victim, occupant, rule: Rule::Class, ns: Nanos(ns) });
            }
        };
        put(RoleKind::Gone.fixed_id().expect("a fixed role").index(), self.gone);
        put(RoleKind::Kworker.fixed_id().expect("a fixed role").index(), self.fixed);
        for (index, ns) in self.groups.iter().enumerate() {
            let role = ns.map(|_| Role { kind: RoleKind::Group, cgroup: Some(format!("/g{index}")), weight: None });
            reading.roles.push(role);
            reading.waits.push(crate::Waits::default());
            let Some(ns) = ns else { continue };
            let at = reading.roles.len() - 1;
            reading.waits[at].waited = Nanos(*ns);
            reading.waits[at].count = *ns;
            if *ns > 0 {
                let occupant = RoleKind::RealTime.fixed_id().expect("a fixed role");
                reading.blame.push(crate::Blame {
                    victim: RoleId(at as u8),
                    occupant,
                    rule: Rule::Class,
                    ns: Nanos(*ns),
                });
            }
        }
        reading
    }

    fn total(&self) -> u64 {
        self.gone + self.fixed + self.groups.iter().flatten().sum::<u64>()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Nothing is lost and nothing counted twice: the intervals add up to what the engine counted, however groups come and go.
    #[test]
    fn intervals_add_up_to_what_was_counted(steps in proptest::collection::vec((0_usize..3, 0_u8..4, 0_u64..1000, any::<bool>()), 0..60)) {
        let mut model = Model { groups: [None; 3], gone: 0, fixed: 0 };
        let mut last = Sums::at_the_start(&model.reading(0));
        let (mut waited, mut blamed) = (0, 0);
        for (at, (group, what, ns, writes)) in steps.into_iter().enumerate() {
            match what {
                0 => model.fixed += ns,
                1 => model.gone += model.groups[group].take().unwrap_or(0),
                _ => *model.groups[group].get_or_insert(0) += ns,
            }
            if writes {
                let now = Sums::of(&model.reading(at as u64 + 1));
                let interval = last.until(&now);
                waited += interval.waits.iter().map(|row| row.ns).sum::<u64>();
                blamed += interval.blame.iter().map(|row| row.ns).sum::<u64>();
                last = now;
            }
        }
        let interval = last.until(&Sums::of(&model.reading(1_000)));
        waited += interval.waits.iter().map(|row| row.ns).sum::<u64>();
        blamed += interval.blame.iter().map(|row| row.ns).sum::<u64>();
        prop_assert_eq!((waited, blamed), (model.total(), model.total()));
    }
}
