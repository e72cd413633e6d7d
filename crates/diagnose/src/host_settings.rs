//! What is known of the recorded host besides its events: groups and weights, sessions, limits, CPUs.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use unstarve_facts::{Snapshot, TaskFacts};
use unstarve_model::{CpuId, CpuSet, Nanos, Prio, SchedPolicy, Tid, Time, TraceInfo, WallClock};
use unstarve_sched::load_weight_of_nice;
use unstarve_sched::{GroupId, Groups};
use unstarve_timeline::Settings;

use crate::origin;

/// `WEIGHT_IDLEPRIO` in `kernel/sched/sched.h`.
const WEIGHT_OF_IDLE: u32 = 3;

/// What is known of the recorded host besides its events: from its snapshot and from the file's header.
#[derive(Debug)]
pub(crate) struct HostSettings {
    snapshot: Option<Arc<Snapshot>>,
    wall: Option<WallClock>,
    host: Option<String>,
    groups: Groups,
    by_path: BTreeMap<String, GroupId>,
    sessions: Option<Sessions>,
    marks_overwritten: bool,
    nothing_overwritten: bool,
}

/// Autogroup sessions, each of which competes as a whole: for programs in the root cgroup and in cgroups without a weight.
#[derive(Debug)]
struct Sessions {
    /// Sessions that need a group of their own: those with nice tasks, and those with a nice value as a whole.
    by_autogroup: BTreeMap<u64, GroupId>,
    /// One group that stands for all other sessions, which are equal.
    others: GroupId,
}

impl Sessions {
    fn of(snapshot: &Snapshot, by_path: &BTreeMap<String, GroupId>, groups: &mut Groups) -> Option<Sessions> {
        let (_, enabled) = snapshot.setting("sched_autogroup_enabled")?;
        if enabled.trim() != "1" {
            return None;
        }
        let others = groups.add(None, load_weight_of_nice(0));
        groups.share(others);
        let mut by_autogroup = BTreeMap::new();
        let in_root = |task: &&TaskFacts| group_of_path(by_path, task.cgroup.as_deref().unwrap_or_default()).is_none();
        for task in snapshot.tasks.iter().filter(in_root) {
            let Some(autogroup) = task.autogroup.filter(|group| group.nice != 0 || weighs_otherwise(task)) else {
                continue;
            };
            let weight = load_weight_of_nice(autogroup.nice.clamp(-20, 19));
            by_autogroup.entry(autogroup.id).or_insert_with(|| groups.add(None, weight));
        }
        Some(Sessions { by_autogroup, others })
    }

    /// The group of a task in the root cgroup. A task without a session (kernel threads, and what the first process started)
    /// competes by itself.
    fn group(&self, task: &TaskFacts) -> Option<GroupId> {
        let autogroup = task.autogroup?;
        Some(self.by_autogroup.get(&autogroup.id).copied().unwrap_or(self.others))
    }
}

/// The nearest group of this path or above it that has a weight.
fn group_of_path(by_path: &BTreeMap<String, GroupId>, path: &str) -> Option<GroupId> {
    let mut path = path;
    while !path.is_empty() {
        if let Some(id) = by_path.get(path) {
            return Some(*id);
        }
        path = above(path);
    }
    None
}

impl HostSettings {
    pub fn of(info: &TraceInfo, snapshot: Option<&Arc<Snapshot>>) -> HostSettings {
        let known = snapshot.map(|snapshot| &**snapshot);
        let (mut groups, by_path) = known.map(competing).unwrap_or_default();
        let sessions = known.and_then(|snapshot| Sessions::of(snapshot, &by_path, &mut groups));
        let (wall, host) = (origin::wall(info, known), origin::host(info, known));
        let marks_overwritten = info.marks_overwritten();
        let nothing_overwritten = info.nothing_overwritten;
        let snapshot = snapshot.map(Arc::clone);
        HostSettings { snapshot, wall, host, groups, by_path, sessions, marks_overwritten, nothing_overwritten }
    }
}

impl Settings for HostSettings {
    fn groups(&self) -> Groups {
        self.groups.clone()
    }

    fn knows(&self, tid: Tid) -> bool {
        self.snapshot.as_ref().is_some_and(|snapshot| snapshot.task(tid).is_some())
    }

    fn group(&self, tid: Tid) -> Option<GroupId> {
        let task = self.snapshot.as_ref()?.task(tid)?;
        let by_path = group_of_path(&self.by_path, task.cgroup.as_deref()?);
        by_path.or_else(|| self.sessions.as_ref()?.group(task))
    }

    fn own_weight(&self, tid: Tid) -> Option<u32> {
        (self.snapshot.as_ref()?.policy_of(tid)? == SchedPolicy::Idle).then_some(WEIGHT_OF_IDLE)
    }

    fn read_prio(&self, tid: Tid) -> Option<(Time, Prio)> {
        self.snapshot.as_ref()?.read_prio(tid)
    }

    fn allowed_cpus(&self, tid: Tid) -> Option<CpuSet> {
        self.snapshot.as_ref()?.allowed_cpus(tid).cloned()
    }

    fn has_only_waited(&self, tid: Tid) -> bool {
        let task = self.snapshot.as_ref().and_then(|snapshot| snapshot.task(tid));
        task.and_then(|task| task.has_only_waited()) == Some(true)
    }

    fn is_idle_if_silent(&self, cpu: CpuId) -> bool {
        let Some(cpus) = self.snapshot.as_ref().map(|snapshot| &snapshot.cpus) else { return false };
        let has = |set: &CpuSet| set.contains(cpu);
        // On a CPU without ticks, one task may run all the time without any event.
        cpus.online.as_ref().is_some_and(has) && !cpus.nohz_full.as_ref().is_some_and(has)
    }

    fn may_stop_its_tick(&self, cpu: CpuId) -> bool {
        let nohz_full = self.snapshot.as_ref().and_then(|snapshot| snapshot.cpus.nohz_full.as_ref());
        nohz_full.is_some_and(|cpus| cpus.contains(cpu))
    }

    fn has_bandwidth_limit(&self, tid: Tid) -> Option<bool> {
        let snapshot = self.snapshot.as_ref()?;
        snapshot.cgroup_of(tid)?;
        Some(snapshot.limited_cgroup_of(tid).is_some())
    }

    fn deadline_runtime(&self, tid: Tid) -> Option<Nanos> {
        self.snapshot.as_ref()?.task(tid)?.deadline.map(|facts| Nanos(facts.runtime_ns))
    }

    fn marks_overwritten(&self) -> bool {
        self.marks_overwritten
    }

    fn nothing_overwritten(&self) -> bool {
        self.nothing_overwritten
    }

    fn process_of(&self, tid: Tid) -> Option<Tid> {
        self.snapshot.as_ref()?.process_of(tid)
    }

    fn cgroup_of(&self, tid: Tid) -> Option<&str> {
        self.snapshot.as_ref()?.cgroup_of(tid)
    }

    fn wall(&self) -> Option<WallClock> {
        self.wall
    }

    fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    fn boot(&self) -> Option<&str> {
        self.snapshot.as_ref()?.boot.as_deref()
    }

    fn is_kernel_thread(&self, tid: Tid) -> Option<bool> {
        self.snapshot.as_ref()?.is_kernel_thread(tid)
    }
}

/// The path of the parent group; empty for a top-level group.
fn above(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// A group with a weight, during the analysis of the hierarchy.
struct Node {
    parent: Option<usize>,
    weight: u32,
    /// The common weight of all groups directly in it, if they have one.
    inside: Option<u32>,
    /// Whether on each level below, all groups have the same weight, and all tasks too: then nothing in this group outweighs
    /// anything else in it.
    flat: bool,
}

/// The groups of the snapshot that must be distinguished, and the group for each path.
///
/// A group in which all weights are equal stands for everything in it and for its equal siblings. So a host with default weights
/// has one group, however many containers it runs. A group with a nice task has an id of its own: nice counts within a group
/// only.
fn competing(snapshot: &Snapshot) -> (Groups, BTreeMap<String, GroupId>) {
    let mut nodes: Vec<Node> = Vec::new();
    let mut index: BTreeMap<&str, usize> = BTreeMap::new();
    // Sorted by path, so parents come before their children. A group without a weight does not compete: in v2 the controller is
    // off for it and everything below.
    for group in &snapshot.cgroups {
        let Some(weight) = group.load_weight() else { continue };
        let parent = index.get(above(&group.path)).copied();
        index.insert(&group.path, nodes.len());
        nodes.push(Node { parent, weight, inside: None, flat: true });
    }
    for group in snapshot.tasks.iter().filter(|task| weighs_otherwise(task)).filter_map(|task| task.cgroup.as_deref()) {
        let mut path = group;
        while !path.is_empty() {
            // Only the nearest group with a weight: the groups above get it from this one below.
            if let Some(node) = index.get(path) {
                nodes[*node].flat = false;
                break;
            }
            path = above(path);
        }
    }
    for child in (0..nodes.len()).rev() {
        let Node { parent, weight, flat, .. } = nodes[child];
        if let Some(parent) = parent.and_then(|parent| nodes.get_mut(parent)) {
            parent.flat &= flat && *parent.inside.get_or_insert(weight) == weight;
        }
    }
    let mut groups = Groups::default();
    let mut ids: Vec<GroupId> = Vec::with_capacity(nodes.len());
    let mut equals: BTreeMap<(Option<GroupId>, u32), GroupId> = BTreeMap::new();
    for node in &nodes {
        let parent = node.parent.and_then(|parent| Some((ids.get(parent).copied()?, nodes[parent].flat)));
        let id = match parent {
            Some((stands_for_all, true)) => {
                groups.share(stands_for_all);
                stands_for_all
            }
            _ => {
                let parent = parent.map(|(id, _)| id);
                if node.flat {
                    match equals.entry((parent, node.weight)) {
                        Entry::Occupied(known) => {
                            groups.share(*known.get());
                            *known.get()
                        }
                        Entry::Vacant(new) => *new.insert(groups.add(parent, node.weight)),
                    }
                } else {
                    groups.add(parent, node.weight)
                }
            }
        };
        ids.push(id);
    }
    let by_path = index.into_iter().filter_map(|(path, node)| Some((path.to_owned(), *ids.get(node)?))).collect();
    (groups, by_path)
}

/// Whether it is a fair task with a weight other than that of nice 0.
fn weighs_otherwise(task: &TaskFacts) -> bool {
    match task.policy {
        SchedPolicy::Idle => true,
        SchedPolicy::Other | SchedPolicy::Batch => task.nice != 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(groups: &[(&str, u32)], tasks: &[(u32, &str)]) -> HostSettings {
        nice_settings(groups, tasks, &[])
    }

    fn nice_settings(groups: &[(&str, u32)], tasks: &[(u32, &str)], nice: &[(u32, i32)]) -> HostSettings {
        let nice_of = |tid: u32| nice.iter().find(|(nice, _)| *nice == tid).map_or(0, |(_, nice)| *nice);
        let groups: Vec<_> =
            groups.iter().map(|(path, weight)| serde_json::json!({"path": path, "weight": weight})).collect();
        let tasks: Vec<_> = tasks
            .iter()
            .map(|(tid, group)| serde_json::json!({"tid": tid, "comm": "t", "policy": "other", "nice": nice_of(*tid), "cgroup": group, "start_ticks": 1}))
            .collect();
        let json = serde_json::json!({
            "schema": "unstarve.snapshot/1", "kernel": {}, "cgroups": groups, "tasks": tasks,
            "hierarchy": {"version": "v2", "mount": "/sys/fs/cgroup"},
        });
        HostSettings::of(&TraceInfo::default(), Some(&Arc::new(Snapshot::from_json(&json.to_string()).unwrap())))
    }

    #[test]
    fn containers_of_one_weight_are_one_group() {
        let groups = [("/a", 100), ("/a/x", 100), ("/a/y", 100), ("/b", 100), ("/c", 300)];
        let host = settings(&groups, &[(1, "/a/x"), (2, "/a/y"), (3, "/b"), (4, "/c"), (5, "/"), (6, "/a/y/off")]);
        let group = |tid| host.group(Tid(tid));
        assert!(group(1).is_some() && group(1) == group(2) && group(2) == group(3) && group(2) == group(6));
        assert_ne!(group(4), group(1));
        assert_eq!((group(5), group(7)), (None, None));
    }

    #[test]
    fn tasks_of_different_groups_compete_by_the_groups_weights_and_never_by_nice() {
        let groups = [("/a", 100), ("/a/x", 100), ("/a/y", 100), ("/b", 100)];
        let (one, other) = ((1, "/a/x"), (2, "/a/y"));
        let tasks = [one, other, (3, "/b"), (4, "/b"), (5, "/a/x")];
        let rivals = |host: &HostSettings, (one, nice): (u32, u32), (other, its): (u32, u32)| {
            host.groups.rivals((host.group(Tid(one)), nice), (host.group(Tid(other)), its))
        };
        // Task 5 has nice 19, which counts only against task 1 in the same group.
        let host = nice_settings(&groups, &tasks, &[(5, 19)]);
        assert_eq!(rivals(&host, (5, 15), (1, 1024)), (15, 1024));
        assert_eq!(rivals(&host, (5, 15), (2, 1024)), (1024, 1024));
        assert_eq!(rivals(&host, (5, 15), (3, 1024)), (1024, 1024));
        assert_ne!(host.group(Tid(5)), host.group(Tid(2)));
        // A task that becomes nice only later is in a group that stands for all.
        let host = nice_settings(&groups, &tasks, &[]);
        assert_eq!(host.group(Tid(1)), host.group(Tid(3)));
        assert_eq!(rivals(&host, (3, 15), (1, 1024)), (1024, 1024));
    }

    #[test]
    fn groups_of_several_weights_are_told_apart_where_they_are() {
        let groups = [("/p", 100), ("/p/heavy", 1000), ("/p/light", 10), ("/q", 100), ("/q/light", 10), ("/q/x", 20)];
        let host = settings(&groups, &[(1, "/p/light"), (2, "/p/heavy"), (3, "/q/light")]);
        let rivals = |one, other| host.groups.rivals((host.group(Tid(one)), 1024), (host.group(Tid(other)), 1024));
        assert_eq!(rivals(1, 2), (102, 10240));
        assert_eq!(rivals(2, 3), (1024, 1024), "p beside q: what they weigh inside is nobody else's business");
    }

    /// Tid, nice, and the session's number and nice.
    type Member = (u32, i32, Option<(u64, i32)>);

    fn sessions(enabled: &str, tasks: &[Member]) -> HostSettings {
        let task = |(tid, nice, autogroup): &Member| {
            let mut task = serde_json::json!({"tid": tid, "comm": "t", "policy": "other", "nice": nice, "cgroup": "/", "start_ticks": 1});
            if let Some((id, nice)) = autogroup {
                task["autogroup"] = serde_json::json!({"id": id, "nice": nice});
            }
            task["kernel_thread"] = (*tid == 2).into();
            task
        };
        let json = serde_json::json!({
            "schema": "unstarve.snapshot/1", "kernel": {}, "cgroups": [{"path": "/web", "weight": 100}],
            "settings": {"/proc/sys/kernel/sched_autogroup_enabled": enabled},
            "tasks": tasks.iter().map(task).collect::<Vec<_>>(), "hierarchy": {"version": "v2", "mount": "/sys/fs/cgroup"},
        });
        HostSettings::of(&TraceInfo::default(), Some(&Arc::new(Snapshot::from_json(&json.to_string()).unwrap())))
    }

    #[test]
    fn nice_counts_inside_a_session_and_not_between_two() {
        let tasks = [
            (2, 0, None),
            (11, 19, Some((1, 0))),
            (12, 0, Some((1, 0))),
            (21, 0, Some((2, 0))),
            (31, 0, Some((3, -5))),
            (41, 5, None),
        ];
        let weight = load_weight_of_nice;
        let rivals = |host: &HostSettings, one: u32, other: u32| {
            let of = |tid: u32| (host.group(Tid(tid)), weight(tasks.iter().find(|task| task.0 == tid).unwrap().1));
            host.groups.rivals(of(one), of(other))
        };
        let on = sessions("1", &tasks);
        assert_eq!(rivals(&on, 11, 12), (weight(19), 1024), "one session");
        assert_eq!(rivals(&on, 11, 21), (1024, 1024), "two sessions");
        assert_eq!(rivals(&on, 31, 21), (weight(-5), 1024), "the session's own nice");
        assert_eq!(rivals(&on, 11, 2), (1024, 1024), "a session beside a kernel thread");
        assert_eq!(rivals(&on, 41, 21), (weight(5), 1024), "of no session");
        let off = sessions("0", &tasks);
        assert_eq!(rivals(&off, 11, 21), (weight(19), 1024));
    }
}
