//! Finds the cgroups that have a CPU quota, and reads their counters, a few per reading: a host may have thousands of groups.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use unstarve_facts::{Bandwidth, Throttled};
use unstarve_model::Time;

use crate::engine::clocks;
use crate::engine::groups::Hierarchy;
use crate::engine::limits::Stops;
use crate::engine::reading::{LimitedGroup, RoleId};
use crate::engine::role_table::RoleTable;
use crate::engine::totals::Totals;

/// Minimum time from the start of one walk to the next: two seconds; a reading may be slightly early.
const EVERY: Duration = Duration::from_millis(1_900);
/// Groups examined per reading, about 30 µs each; and by the first reading.
const STEPS: usize = 8;
const FIRST_STEPS: usize = 1024;
/// Maximum groups with a quota that are tracked.
const MAX_LIMITED_GROUPS: usize = 512;
/// Maximum counters read per reading: with cgroup v2 the kernel sums over all CPUs for each read.
const MOST_COUNTERS: usize = 32;
/// Bounds of a walk: children per group, levels, groups pending. A user who owns a group can create and nest any number of groups below it.
/// Groups nearer to the root are examined first, so that no user can keep other groups from being examined.
const MOST_BELOW: usize = 1024;
const DEEPEST: usize = 16;
const MOST_PENDING: usize = 16_384;

/// The groups of a hierarchy that have a quota.
#[derive(Debug)]
pub(crate) struct LimitFiles {
    mount: PathBuf,
    unified: bool,
    known: BTreeMap<Arc<str>, Known>,
    /// Groups that this walk has yet to examine, those nearest to the root first.
    pending: VecDeque<Pending>,
    /// Number of the current walk, from 1.
    walk: u64,
    begun: Option<Instant>,
    /// The group whose counters were read last.
    last: Option<Arc<str>>,
}

/// A group that the walk will examine. Siblings share the parent's path.
#[derive(Debug)]
struct Pending {
    above: Arc<str>,
    name: Box<str>,
    depth: usize,
}

/// A group that has a quota.
#[derive(Clone, Copy, Debug)]
struct Known {
    limit: Bandwidth,
    counted: Throttled,
    /// When the counters had these values.
    read: Time,
    /// A task of its role has waited since.
    is_due: bool,
    /// The last walk that found it.
    met: u64,
}

impl LimitFiles {
    pub fn new(hierarchy: &Hierarchy) -> LimitFiles {
        LimitFiles {
            mount: hierarchy.mount().to_owned(),
            unified: hierarchy.unified,
            known: BTreeMap::new(),
            pending: VecDeque::new(),
            walk: 0,
            begun: None,
            last: None,
        }
    }

    /// Continues the walk and reads the counters of groups whose role waits, and once more after it stopped waiting: a group without waiting
    /// tasks is not throttled.
    pub fn look(&mut self, role_of: impl Fn(&str) -> RoleId, waits: impl Fn(RoleId) -> bool) -> Vec<LimitedGroup> {
        let now = clocks::now().trace;
        self.walk(now);
        let mut due = Vec::new();
        for (path, known) in &mut self.known {
            let waits = waits(role_of(path));
            if waits || known.is_due {
                due.push((Arc::clone(path), waits));
            } else {
                // Its counters cannot have changed.
                known.read = now;
            }
            known.is_due |= waits;
        }
        // Continue after the group where the last reading stopped.
        let first = due.partition_point(|(path, _)| self.last.as_ref().is_some_and(|last| path <= last));
        due.rotate_left(first);
        for (path, waits) in due.into_iter().take(MOST_COUNTERS) {
            let counted = counters(&self.directory(&path));
            if let (Some(known), Some(counted)) = (self.known.get_mut(&path), counted) {
                (known.counted, known.read, known.is_due) = (counted, now, waits);
            }
            self.last = Some(path);
        }
        let of = |(path, known): (&Arc<str>, &Known)| LimitedGroup {
            path: Arc::clone(path),
            role: role_of(path),
            limit: known.limit,
            counted: known.counted,
            read: known.read,
        };
        self.known.iter().map(of).collect()
    }

    fn walk(&mut self, now: Time) {
        let steps = if self.begun.is_none() { FIRST_STEPS } else { STEPS };
        if self.pending.is_empty() {
            if self.begun.is_some_and(|begun| begun.elapsed() < EVERY) {
                return;
            }
            (self.begun, self.walk) = (Some(Instant::now()), self.walk + 1);
            self.look_below(&Arc::from(""), 0);
        }
        for _ in 0..steps {
            let Some(Pending { above, name, depth }) = self.pending.pop_front() else { break };
            let path: Arc<str> = format!("{above}/{name}").into();
            self.see(&path, now);
            self.look_below(&path, depth);
        }
        if self.pending.is_empty() {
            let walk = self.walk;
            self.known.retain(|_, known| known.met == walk);
        }
    }

    /// Appends the children of a group to the pending groups.
    fn look_below(&mut self, path: &Arc<str>, depth: usize) {
        let room = MOST_PENDING.saturating_sub(self.pending.len()).min(MOST_BELOW);
        if depth >= DEEPEST || room == 0 {
            return;
        }
        let Ok(entries) = fs::read_dir(self.directory(path)) else { return };
        let groups = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let names = groups.filter_map(|entry| entry.file_name().into_string().ok());
        let below =
            names.take(room).map(|name| Pending { above: Arc::clone(path), name: name.into(), depth: depth + 1 });
        self.pending.extend(below);
    }

    fn see(&mut self, path: &Arc<str>, now: Time) {
        let directory = self.directory(path);
        let Some(limit) = limit(&directory, self.unified) else { return };
        if let Some(known) = self.known.get_mut(path) {
            (known.limit, known.met) = (limit, self.walk);
        } else if let Some(counted) = counters(&directory)
            && self.has_room_for(path)
        {
            let known = Known { limit, counted, read: now, is_due: false, met: self.walk };
            self.known.insert(Arc::clone(path), known);
        }
    }

    /// Whether there is room for one more group. If the list is full, a group below the top-level group with the most entries is dropped in
    /// favour of others. So a user who fills the list displaces only groups below the same top-level group.
    fn has_room_for(&mut self, path: &str) -> bool {
        if self.known.len() < MAX_LIMITED_GROUPS {
            return true;
        }
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        self.known.keys().for_each(|path| *counts.entry(top(path)).or_insert(0) += 1);
        let own = counts.get(top(path)).copied().unwrap_or(0);
        let Some((most, count)) = counts.into_iter().max_by_key(|(_, count)| *count) else { return true };
        if count <= own + 1 {
            return false;
        }
        let last = self.known.keys().rev().find(|path| top(path) == most).cloned();
        last.is_some_and(|last| self.known.remove(&last).is_some())
    }

    fn directory(&self, path: &str) -> PathBuf {
        self.mount.join(path.trim_start_matches('/'))
    }
}

/// The top-level group of a path.
fn top(path: &str) -> &str {
    path.get(1..).and_then(|rest| rest.find('/')).map_or(path, |at| &path[..=at])
}

/// A role that waited less than this within a reading was hardly throttled: its counters are read later.
const WAITED: u64 = 1_000_000;

/// The quotas of a hierarchy, and the throttled time not yet attributed.
#[derive(Debug)]
pub(crate) struct LimitLookout {
    files: LimitFiles,
    stops: Stops,
    /// What each role had waited at the last reading.
    waited: Vec<u64>,
}

impl LimitLookout {
    pub fn new(hierarchy: &Hierarchy) -> LimitLookout {
        LimitLookout { files: LimitFiles::new(hierarchy), stops: Stops::default(), waited: Vec::new() }
    }

    /// Attributes the throttled time since the last call; returns the groups that have a quota.
    pub fn settle(&mut self, totals: &mut Totals, roles: &RoleTable) -> Vec<LimitedGroup> {
        let now: Vec<u64> = totals.roles.iter().map(|role| role.waited).collect();
        let before = std::mem::replace(&mut self.waited, now);
        let waits = |role: RoleId| {
            let (Some(now), Some(before)) = (self.waited.get(role.index()), before.get(role.index())) else {
                return true;
            };
            now.saturating_sub(*before) >= WAITED
        };
        let groups = self.files.look(|path| roles.of_path(path), waits);
        self.stops.settle(totals, &groups);
        groups
    }

    /// Whether no throttled time is left to be attributed.
    #[cfg(feature = "bpf")]
    pub fn is_settled(&self) -> bool {
        self.stops.is_settled()
    }

    /// Applies the attributions of the last call to new sums.
    pub fn repeat(&self, totals: &mut Totals) {
        self.stops.repeat(totals);
    }
}

fn limit(directory: &Path, unified: bool) -> Option<Bandwidth> {
    let text = |name: &str| fs::read_to_string(directory.join(name)).ok();
    if unified {
        Bandwidth::of_v2(&text("cpu.max")?)
    } else {
        Bandwidth::of_v1(&text("cpu.cfs_quota_us")?, &text("cpu.cfs_period_us")?)
    }
}

fn counters(directory: &Path) -> Option<Throttled> {
    Throttled::parse(&fs::read_to_string(directory.join("cpu.stat")).ok()?)
}

#[cfg(test)]
#[path = "limit_files_tests.rs"]
mod tests;
