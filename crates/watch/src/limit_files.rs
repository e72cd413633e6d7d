//! Which groups have limits, and their counters: looked for bit by bit, since a host may have thousands of groups.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use unstarve_facts::{Bandwidth, Throttled};

use crate::RoleId;
use crate::groups::Hierarchy;
use crate::limits::{LimitedGroup, Stops};
use crate::role_table::RoleTable;
use crate::totals::Totals;

/// Another walk begins so long after the one before, once that is through.
const EVERY: Duration = Duration::from_secs(2);
/// Groups that a reading looks at, some 30 µs each; the first one.
const STEPS: usize = 8;
const FIRST_STEPS: usize = 1024;
/// Groups with limits that are kept in mind.
const MOST: usize = 512;
/// Counters that a reading reads: with cgroup v2 the kernel sums up over all CPUs for each.
const MOST_COUNTERS: usize = 32;

/// The groups of a hierarchy that have limits.
#[derive(Debug)]
pub(crate) struct LimitFiles {
    mount: PathBuf,
    unified: bool,
    known: BTreeMap<String, Known>,
    /// Where the walk goes on.
    pending: Vec<String>,
    /// The groups with limits that this walk has come by.
    met: BTreeSet<String>,
    begun: Option<Instant>,
    /// Whose counters were read last.
    last: Option<String>,
}

/// A group that has a limit.
#[derive(Clone, Copy, Debug)]
struct Known {
    limit: Bandwidth,
    counted: Throttled,
}

impl LimitFiles {
    pub fn new(hierarchy: &Hierarchy) -> LimitFiles {
        LimitFiles {
            mount: hierarchy.mount().to_owned(),
            unified: hierarchy.unified,
            known: BTreeMap::new(),
            pending: Vec::new(),
            met: BTreeSet::new(),
            begun: None,
            last: None,
        }
    }

    /// Goes on with the walk, and reads the counters of groups whose role waits: where nobody waits nobody is stopped.
    pub fn look(&mut self, role_of: impl Fn(&str) -> RoleId, waits: impl Fn(RoleId) -> bool) -> Vec<LimitedGroup> {
        self.walk();
        let due = |path: &String| waits(role_of(path));
        let (after, up_to): (Vec<&String>, Vec<&String>) = self
            .known
            .keys()
            .filter(|path| due(path))
            .partition(|path| self.last.as_ref().is_none_or(|last| *path > last));
        let paths: Vec<String> = after.into_iter().chain(up_to).take(MOST_COUNTERS).cloned().collect();
        for path in &paths {
            let counted = counters(&self.directory(path));
            if let (Some(known), Some(counted)) = (self.known.get_mut(path), counted) {
                known.counted = counted;
            }
        }
        self.last = paths.into_iter().next_back().or(self.last.take());
        let of = |(path, known): (&String, &Known)| LimitedGroup {
            path: path.clone(),
            role: role_of(path),
            limit: known.limit,
            counted: known.counted,
        };
        self.known.iter().map(of).collect()
    }

    fn walk(&mut self) {
        let steps = if self.begun.is_none() { FIRST_STEPS } else { STEPS };
        if self.pending.is_empty() {
            if self.begun.is_some_and(|begun| begun.elapsed() < EVERY) {
                return;
            }
            self.begun = Some(Instant::now());
            self.pending.push(String::new());
        }
        for _ in 0..steps {
            let Some(path) = self.pending.pop() else { break };
            self.visit(&path);
        }
        if self.pending.is_empty() {
            let met = std::mem::take(&mut self.met);
            self.known.retain(|path, _| met.contains(path));
        }
    }

    fn visit(&mut self, path: &str) {
        let directory = self.directory(path);
        if !path.is_empty() {
            self.see(path, &directory);
        }
        let Ok(entries) = fs::read_dir(&directory) else { return };
        for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            if let Ok(name) = entry.file_name().into_string() {
                self.pending.push(format!("{path}/{name}"));
            }
        }
    }

    fn see(&mut self, path: &str, directory: &Path) {
        let Some(limit) = limit(directory, self.unified) else { return };
        if let Some(known) = self.known.get_mut(path) {
            known.limit = limit;
        } else if self.known.len() < MOST
            && let Some(counted) = counters(directory)
        {
            self.known.insert(path.to_owned(), Known { limit, counted });
        }
        self.met.insert(path.to_owned());
    }

    fn directory(&self, path: &str) -> PathBuf {
        self.mount.join(path.trim_start_matches('/'))
    }
}

/// Whose waits are shorter than this within a reading was hardly stopped: its counters keep until later.
const WAITED: u64 = 1_000_000;

/// What an engine knows of limits.
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

    /// Puts in its place what limits stopped since the last call; gives the groups that have limits.
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

    /// Puts in its place what was found by the last call.
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
mod tests {
    use unstarve_model::Nanos;

    use super::*;

    fn write(place: &Path, path: &str, files: &[(&str, &str)]) {
        let directory = place.join(path);
        fs::create_dir_all(&directory).expect("made");
        files.iter().for_each(|(name, text)| fs::write(directory.join(name), text).expect("written"));
    }

    fn files(place: &Path, unified: bool) -> LimitFiles {
        LimitFiles::new(&Hierarchy::at(place, unified))
    }

    #[test]
    fn limits_are_found_however_deep_and_their_counters_read_where_somebody_waits() {
        let place = tempfile::tempdir().expect("a directory");
        let place = place.path();
        let stat = "usage_usec 9\nnr_periods 10\nnr_throttled 4\nthrottled_usec 70\n";
        write(place, "kubepods/pod1", &[("cpu.max", "10000 100000\n"), ("cpu.stat", stat)]);
        write(place, "kubepods/pod2", &[("cpu.max", "max 100000\n"), ("cpu.stat", stat)]);
        write(place, "idle", &[("cpu.max", "10000 100000\n"), ("cpu.stat", stat)]);
        let mut files = files(place, true);
        let role_of = |path: &str| RoleId(if path.starts_with("/kubepods") { 12 } else { 13 });
        let seen = files.look(role_of, |role| role == RoleId(12));
        let ns = |seen: &[LimitedGroup]| {
            seen.iter().map(|group| (group.path.clone(), group.counted.ns.0)).collect::<Vec<_>>()
        };
        assert_eq!(ns(&seen), [("/idle".to_owned(), 70_000), ("/kubepods/pod1".to_owned(), 70_000)]);
        assert_eq!((seen[1].role, seen[1].limit.quota_us), (RoleId(12), 10_000));
        let stat = "usage_usec 9\nnr_periods 11\nnr_throttled 5\nthrottled_usec 90\n";
        for path in ["idle", "kubepods/pod1"] {
            fs::write(place.join(path).join("cpu.stat"), stat).expect("written");
        }
        let seen = files.look(role_of, |role| role == RoleId(12));
        assert_eq!(ns(&seen), [("/idle".to_owned(), 70_000), ("/kubepods/pod1".to_owned(), 90_000)]);
        // Who has gone, or has no limit any more, is forgotten with the next walk.
        fs::write(place.join("idle/cpu.max"), "max 100000\n").expect("written");
        files.begun = Instant::now().checked_sub(EVERY);
        assert_eq!(ns(&files.look(role_of, |_| true)), [("/kubepods/pod1".to_owned(), 90_000)]);
    }

    #[test]
    fn the_first_version_has_other_files() {
        let place = tempfile::tempdir().expect("a directory");
        let stat = "nr_periods 9\nnr_throttled 3\nthrottled_time 12345\n";
        let limit = |quota| [("cpu.cfs_quota_us", quota), ("cpu.cfs_period_us", "1000000\n"), ("cpu.stat", stat)];
        write(place.path(), "limited", &limit("3000\n"));
        write(place.path(), "free", &limit("-1\n"));
        let seen = files(place.path(), false).look(|_| RoleId(12), |_| true);
        assert_eq!(seen.len(), 1);
        assert_eq!((seen[0].path.as_str(), seen[0].counted.ns, seen[0].counted.count), ("/limited", Nanos(12_345), 3));
    }

    #[test]
    fn a_reading_reads_so_many_and_the_next_one_goes_on() {
        let place = tempfile::tempdir().expect("a directory");
        let group = |number: usize, count: u64| {
            let stat = format!("nr_periods {count}\nnr_throttled {count}\nthrottled_usec {count}\n");
            write(place.path(), &format!("g{number:03}"), &[("cpu.max", "1000 100000\n"), ("cpu.stat", &stat)]);
        };
        (0..100).for_each(|number| group(number, 1));
        let mut files = files(place.path(), true);
        assert_eq!(files.look(|_| RoleId(12), |_| true).len(), 100);
        (0..100).for_each(|number| group(number, 2));
        let read = |files: &mut LimitFiles| {
            let groups = files.look(|_| RoleId(12), |_| true);
            groups.iter().filter(|group| group.counted.count == 2).count()
        };
        assert_eq!([read(&mut files), read(&mut files), read(&mut files)], [32, 64, 96]);
    }
}
