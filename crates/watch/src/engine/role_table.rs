//! Maps ids to roles, and keeps the sums of removed groups.

use std::borrow::Cow;

use rustc_hash::FxHashMap;
use unstarve_model::Nanos;
use unstarve_sched::counted::COUNTED;

use crate::engine::groups::{TopGroup, TopGroups};
use crate::engine::reading::{Blame, Role, RoleId, RoleKind, Waits};
use crate::engine::refined_rule::refined_rule;
use crate::engine::totals::Totals;

/// The ids of groups follow the fixed ones.
const FIRST_GROUP: usize = RoleKind::FIXED.len();

/// The table of roles. A group keeps its id while it exists; afterwards its sums move to the role `gone`, and the id is reused.
#[derive(Debug)]
pub(crate) struct RoleTable {
    roles: Vec<Option<Role>>,
    /// The cgroups' ids and weights.
    groups: Vec<Option<(u64, Option<u32>)>>,
    /// Sums counted under an id before its present owner got it.
    base: Totals,
    /// The same of all earlier owners.
    gone: Totals,
    /// Number of groups that have had an id so far.
    generation: u64,
    /// Whether a group was ever removed: until then, the counted sums are reported unchanged.
    has_gone: bool,
    /// Number of groups without an id.
    pub without_id: u64,
}

/// A change that the counting code must apply.
#[cfg_attr(not(feature = "bpf"), allow(dead_code, reason = "the programs look groups up by these"))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// Programs of this cgroup now have this role; weight relative to nice 0 = 1024.
    Added { group: u64, role: RoleId, weight: Option<u32> },
    /// The cgroup was removed.
    Removed { group: u64, role: RoleId },
    /// The cgroup's weight changed.
    Weighs { role: RoleId, weight: Option<u32> },
}

impl RoleTable {
    pub fn new() -> RoleTable {
        let mut roles: Vec<Option<Role>> = RoleKind::FIXED.into_iter().map(|kind| Some(Role::fixed(kind))).collect();
        roles.resize(RoleId::LIMIT, None);
        let groups = vec![None; RoleId::LIMIT];
        let (base, gone) = (Totals::new(), Totals::new());
        RoleTable { roles, groups, base, gone, generation: 0, has_gone: false, without_id: 0 }
    }

    /// Applies the present groups. `counted` are the sums so far under each id, `running` the roles that have a CPU.
    pub fn update(&mut self, top: &TopGroups, counted: &Totals, running: &[RoleId]) -> Vec<Change> {
        let groups = &top.groups;
        let mut changes = Vec::new();
        for index in FIRST_GROUP..RoleId::LIMIT {
            let Some((id, weight)) = self.groups[index] else { continue };
            let role = RoleId(index as u8);
            // A renamed group counts as another one, because readers identify it by name.
            let is_it =
                |path: &String| self.roles[index].as_ref().is_some_and(|role| role.cgroup.as_ref() == Some(path));
            match groups.iter().find(|group| group.id == id && is_it(&group.path)) {
                None => {
                    self.groups[index] = None;
                    self.roles[index] = None;
                    self.has_gone = true;
                    changes.push(Change::Removed { group: id, role });
                }
                Some(group) if group.weight != weight => {
                    let generation = self.roles[index].as_ref().map_or(self.generation, |role| role.generation);
                    self.set(index, group, generation);
                    changes.push(Change::Weighs { role, weight: group.weight });
                }
                Some(_) => {}
            }
        }
        self.without_id = top.more;
        // Ids freed in this update are not reused yet: tasks of the removed group may still be waiting under them.
        let freed: Vec<RoleId> = changes.iter().filter_map(|change| removed(*change)).collect();
        for group in groups {
            if self.groups.iter().flatten().any(|(id, _)| *id == group.id) {
                continue;
            }
            let is_free = |index: &usize| {
                // A task that was moved to another group while waiting continues to wait under the old id.
                let waits = counted.roles[*index].waiting > 0;
                // A running task keeps the old id until the next context switch on its CPU.
                let role = RoleId(*index as u8);
                self.groups[*index].is_none() && !waits && !running.contains(&role) && !freed.contains(&role)
            };
            let Some(index) = (FIRST_GROUP..RoleId::LIMIT).find(is_free) else {
                self.without_id += 1;
                continue;
            };
            self.retire(index, counted);
            self.generation += 1;
            self.set(index, group, self.generation);
            changes.push(Change::Added { group: group.id, role: RoleId(index as u8), weight: group.weight });
        }
        changes
    }

    /// Ids of groups by path.
    pub fn paths(&self) -> FxHashMap<String, RoleId> {
        let groups = self.roles.iter().enumerate().filter_map(|(index, role)| {
            let path = role.as_ref()?.cgroup.clone()?;
            Some((path, RoleId(index as u8)))
        });
        groups.collect()
    }

    /// The role of programs of a group at any depth.
    pub fn of_path(&self, path: &str) -> RoleId {
        let top = path.get(1..).and_then(|rest| rest.find('/')).map_or(path, |at| &path[..=at]);
        let is = |role: &Option<Role>| role.as_ref().is_some_and(|role| role.cgroup.as_deref() == Some(top));
        let own = self.roles.iter().position(is).map(|index| RoleId(index as u8));
        own.or(RoleKind::Other.fixed_id()).unwrap_or(RoleId(0))
    }

    fn set(&mut self, index: usize, group: &TopGroup, generation: u64) {
        self.groups[index] = Some((group.id, group.weight));
        let weight = group.weight.map(unstarve_sched::cpu_weight_of_load_weight);
        self.roles[index] = Some(Role { kind: RoleKind::Group, cgroup: Some(group.path.clone()), weight, generation });
    }

    /// Moves the sums of an id to the removed groups.
    fn retire(&mut self, index: usize, counted: &Totals) {
        let theirs = counted.since(&self.base).only(index);
        let gone = self.place(index);
        // Sums of groups removed earlier can refer to this one as occupant or victim.
        self.gone = self.gone.moved(|role| if role == index { gone } else { role });
        self.gone.merge(&theirs.moved(|role| self.place(role)));
        self.base.copy_role(index, counted);
    }

    /// The id under which a role's sums are reported.
    fn place(&self, role: usize) -> usize {
        let is_there = self.roles.get(role).is_some_and(Option::is_some);
        let gone = RoleKind::Gone.fixed_id().map_or(0, RoleId::index);
        if is_there { role } else { gone }
    }

    /// The sums, with those of removed groups moved to `gone`.
    fn moved(&self, counted: &Totals) -> Totals {
        let mut totals = counted.since(&self.base).moved(|role| self.place(role));
        // A role that existed when another one's sums were moved may itself have been removed since.
        totals.merge(&self.gone.moved(|role| self.place(role)));
        totals
    }

    /// Roles, blame and waits in the form of a reading.
    pub fn report(&self, counted: &Totals) -> (Vec<Option<Role>>, Vec<Blame>, Vec<Waits>) {
        let totals = if self.has_gone { Cow::Owned(self.moved(counted)) } else { Cow::Borrowed(counted) };
        let mut blame: Vec<Blame> = Vec::new();
        for ((victim, occupant, rule), ns) in totals.filled() {
            let (victim, occupant) = (RoleId(victim as u8), RoleId(occupant as u8));
            let Some(counted) = COUNTED.get(rule) else { continue };
            let rule = refined_rule(victim, occupant, *counted);
            // Rows of one victim and occupant are adjacent.
            let same = |row: &&mut Blame| (row.victim, row.occupant) == (victim, occupant);
            let known = blame.iter_mut().rev().take_while(same).find(|row| row.rule == rule);
            match known {
                Some(row) => row.ns += Nanos(ns),
                None => blame.push(Blame { victim, occupant, rule, ns: Nanos(ns) }),
            }
        }
        let waits = totals.roles.iter().map(|role| Waits {
            waited: Nanos(role.waited),
            preferred: Nanos(role.preferred),
            count: role.ended,
            histogram: role.histogram.clone(),
            waiting: role.waiting,
            stopped: Nanos(role.stopped),
        });
        (self.roles.clone(), blame, waits.collect())
    }
}

fn removed(change: Change) -> Option<RoleId> {
    match change {
        Change::Removed { role, .. } => Some(role),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn top(groups: &[TopGroup]) -> TopGroups {
        TopGroups { groups: groups.to_vec(), more: 0 }
    }

    fn group(id: u64, weight: u32) -> TopGroup {
        TopGroup { id, path: format!("/g{id}"), weight: Some(weight) }
    }

    fn blamed(table: &RoleTable, counted: &Totals, victim: RoleKind, path: Option<&str>) -> u64 {
        let (roles, blame, waits) = table.report(counted);
        let is = |role: &Role| role.kind == victim && role.cgroup.as_deref() == path;
        let id = roles.iter().position(|role| role.as_ref().is_some_and(is)).expect("the role");
        let sum: u64 = blame.iter().filter(|blame| blame.victim.index() == id).map(|blame| blame.ns.0).sum();
        assert_eq!(sum, waits[id].waited.0, "{victim} {path:?}");
        sum
    }

    #[test]
    fn sums_of_groups_that_have_gone_are_kept_apart_when_their_id_is_used_again() {
        let mut table = RoleTable::new();
        let mut counted = Totals::new();
        let changes = table.update(&top(&[group(7, 1024)]), &counted, &[]);
        let first = RoleId(FIRST_GROUP as u8);
        assert_eq!(changes, [Change::Added { group: 7, role: first, weight: Some(1024) }]);
        let other = RoleKind::Other.fixed_id().expect("fixed").index();
        counted.add((FIRST_GROUP, other, 6), 100);
        counted.roles[FIRST_GROUP].waited = 100;
        counted.add((other, FIRST_GROUP, 5), 40);
        counted.roles[other].waited = 40;
        assert_eq!(blamed(&table, &counted, RoleKind::Group, Some("/g7")), 100);

        assert_eq!(table.update(&top(&[]), &counted, &[]), [Change::Removed { group: 7, role: first }]);
        assert_eq!(blamed(&table, &counted, RoleKind::Gone, None), 100);
        table.update(&top(&[group(8, 2048)]), &counted, &[]);
        assert_eq!(blamed(&table, &counted, RoleKind::Gone, None), 100);
        assert_eq!(blamed(&table, &counted, RoleKind::Group, Some("/g8")), 0);
        counted.add((FIRST_GROUP, other, 6), 5);
        counted.roles[FIRST_GROUP].waited += 5;
        assert_eq!(blamed(&table, &counted, RoleKind::Group, Some("/g8")), 5);
        assert_eq!(blamed(&table, &counted, RoleKind::Other, None), 40, "the occupant has gone, the wait has not");
    }

    #[test]
    fn a_storm_of_groups_grows_nothing() {
        let mut table = RoleTable::new();
        let counted = Totals::new();
        let many: Vec<TopGroup> = (0..1000).map(|id| group(id, 1024)).collect();
        assert_eq!(table.update(&top(&many), &counted, &[]).len(), RoleId::LIMIT - FIRST_GROUP);
        assert_eq!(table.without_id, 1000 - (RoleId::LIMIT - FIRST_GROUP) as u64);
        table.update(&TopGroups { groups: many, more: 7 }, &counted, &[]);
        assert_eq!(table.without_id, 1007 - (RoleId::LIMIT - FIRST_GROUP) as u64);
        for round in 0..1000 {
            table.update(&top(&[group(round, 1024)]), &counted, &[]);
        }
        assert!(table.groups.iter().flatten().count() <= 1);
    }

    #[test]
    fn an_id_under_which_somebody_still_waits_is_nobody_elses() {
        let mut table = RoleTable::new();
        let mut counted = Totals::new();
        table.update(&top(&[group(1, 1024)]), &counted, &[]);
        table.update(&top(&[]), &counted, &[]);
        counted.roles[FIRST_GROUP].waiting = 1;
        let added = |changes: &[Change]| match changes {
            [Change::Added { role, .. }] => role.index(),
            other => panic!("{other:?}"),
        };
        assert_eq!(added(&table.update(&top(&[group(2, 1024)]), &counted, &[])), FIRST_GROUP + 1);
        counted.roles[FIRST_GROUP].waiting = 0;
        assert_eq!(added(&table.update(&top(&[group(2, 1024), group(3, 1024)]), &counted, &[])), FIRST_GROUP);
    }

    #[test]
    fn an_id_is_not_used_again_in_the_same_step() {
        let mut table = RoleTable::new();
        let counted = Totals::new();
        table.update(&top(&[group(1, 1024)]), &counted, &[]);
        let changes = table.update(&top(&[group(2, 1024)]), &counted, &[]);
        let roles: Vec<u8> = changes
            .iter()
            .filter_map(|change| match change {
                Change::Added { role, .. } | Change::Removed { role, .. } => Some(role.0),
                Change::Weighs { .. } => None,
            })
            .collect();
        assert_eq!(roles.len(), 2);
        assert_ne!(roles[0], roles[1]);
        assert_eq!(table.update(&top(&[group(2, 10)]), &counted, &[]).len(), 1, "another weight");
    }

    #[test]
    fn an_id_under_which_somebody_runs_is_nobody_elses() {
        let mut table = RoleTable::new();
        let counted = Totals::new();
        table.update(&top(&[group(1, 1024)]), &counted, &[]);
        table.update(&top(&[]), &counted, &[]);
        let added = |changes: &[Change]| match changes {
            [Change::Added { role, .. }] => role.index(),
            other => panic!("{other:?}"),
        };
        let first = RoleId(FIRST_GROUP as u8);
        assert_eq!(added(&table.update(&top(&[group(2, 1024)]), &counted, &[first])), FIRST_GROUP + 1);
        assert_eq!(added(&table.update(&top(&[group(2, 1024), group(3, 1024)]), &counted, &[])), FIRST_GROUP);
    }

    #[test]
    fn a_group_with_a_new_name_is_another_one() {
        let mut table = RoleTable::new();
        let mut counted = Totals::new();
        table.update(&top(&[group(1, 1024)]), &counted, &[]);
        let other = RoleKind::Other.fixed_id().expect("fixed").index();
        counted.add((FIRST_GROUP, other, 6), 100);
        counted.roles[FIRST_GROUP].waited = 100;
        let renamed = TopGroup { path: "/new".to_owned(), ..group(1, 1024) };
        let (old, new) = (RoleId(FIRST_GROUP as u8), RoleId(FIRST_GROUP as u8 + 1));
        let changes = table.update(&top(std::slice::from_ref(&renamed)), &counted, &[]);
        let added = Change::Added { group: 1, role: new, weight: Some(1024) };
        assert_eq!(changes, [Change::Removed { group: 1, role: old }, added], "in this order: it has one number");
        assert_eq!(blamed(&table, &counted, RoleKind::Group, Some("/new")), 0);
        assert_eq!(blamed(&table, &counted, RoleKind::Gone, None), 100);
        assert_eq!(table.update(&top(&[renamed]), &counted, &[]), []);
    }
}
