//! Finds the top-level cgroups of the hierarchy with the cpu controller, and their weights.

use std::cmp::Reverse;
use std::fs;
use std::io;
use std::os::unix::fs::DirEntryExt;
#[cfg(any(feature = "bpf", test))]
use std::os::unix::fs::MetadataExt;
#[cfg(any(feature = "bpf", test))]
use std::path::Component;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use unstarve_sched::IDLE_WEIGHT;
use unstarve_sched::setting::cgroup::{self, CgroupVersion};

/// New groups are looked for every second; a reading may be slightly early.
const EVERY: Duration = Duration::from_millis(900);
/// Weights of known groups are read again at every fifth look.
const WEIGHTS_AT: u64 = 5;
/// Maximum groups considered. A host has a handful at the top; one that leaks cgroups must not cost more.
const MAX_GROUPS: usize = 8192;
/// Maximum weights read per look, except the first.
const MOST_WEIGHTS: usize = 512;

/// A top-level cgroup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TopGroup {
    /// The kernel's id of the group: the inode of its directory.
    pub id: u64,
    /// Path below the mount, with a leading slash.
    pub path: String,
    /// Load weight, where nice 0 is 1024.
    pub weight: Option<u32>,
}

/// The top-level cgroups of the hierarchy.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct TopGroups {
    /// Heaviest first; groups of equal weight by name.
    pub groups: Vec<TopGroup>,
    /// Number of groups left out.
    pub more: u64,
}

/// A mounted cgroup hierarchy.
#[derive(Clone, Debug)]
pub(crate) struct Hierarchy {
    mount: PathBuf,
    /// Whether it is cgroup v2; otherwise the cpu controller of v1.
    pub unified: bool,
}

impl Hierarchy {
    /// The hierarchy with the cpu controller among this process's mounts.
    pub fn find() -> Option<Hierarchy> {
        Hierarchy::of(&fs::read_to_string("/proc/self/mountinfo").ok()?)
    }

    /// proc_pid_mountinfo(5): `36 35 98:0 /root /mount options … - kind source super-options`. A bind mount of a subtree is ignored: its
    /// top-level groups are not those of the hierarchy. In a cgroup namespace, the host's tree has the root `/../..`, and a
    /// container's own part has `/`.
    fn of(mounts: &str) -> Option<Hierarchy> {
        let found = mounts.lines().filter_map(|line| {
            let (place, kind) = line.split_once(" - ")?;
            let mut fields = place.split(' ').skip(3);
            let (root, mount) = (fields.next()?, fields.next()?);
            let above = root.split('/').filter(|part| *part == "..").count();
            let is_whole = root.split('/').all(|part| part.is_empty() || part == "..");
            let mut kind = kind.split(' ');
            let unified = match (kind.next()?, kind.nth(1)?) {
                ("cgroup", options) if options.split(',').any(|option| option == "cpu") => false,
                ("cgroup2", _) => true,
                _ => return None,
            };
            is_whole.then(|| (above, Hierarchy { mount: mount.into(), unified }))
        });
        // Among equals, the first.
        found.min_by_key(|(above, hierarchy)| (hierarchy.unified, Reverse(*above))).map(|(_, hierarchy)| hierarchy)
    }

    /// The root group's directory.
    pub fn mount(&self) -> &Path {
        &self.mount
    }

    /// Whether a path of `/proc/PID/cgroup` is that of the group with this id, the inode of its directory in both versions (kernfs). It is not
    /// if the task has moved since it was seen in the group, or the group is gone, or cannot be seen from this process's namespace.
    #[cfg(any(feature = "bpf", test))]
    pub fn is_path_of(&self, path: &str, id: u64) -> bool {
        let below = Path::new(path.trim_start_matches('/'));
        let is_plain = below.components().all(|part| matches!(part, Component::Normal(_)));
        is_plain && fs::symlink_metadata(self.mount.join(below)).is_ok_and(|directory| directory.ino() == id)
    }

    /// A hierarchy for tests.
    #[cfg(test)]
    pub fn at(mount: &Path, unified: bool) -> Hierarchy {
        Hierarchy { mount: mount.to_owned(), unified }
    }

    /// Names and ids of the top-level groups now; those that `is_known` come first.
    fn names(&self, is_known: impl Fn(u64, &str) -> bool) -> io::Result<Names> {
        let (mut known, mut new, mut count) = (Vec::new(), Vec::new(), 0);
        for entry in fs::read_dir(&self.mount)? {
            let entry = entry?;
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            count += 1;
            let name = entry.file_name();
            let path = format!("/{}", name.to_string_lossy());
            let of_kind = if is_known(entry.ino(), &path) { &mut known } else { &mut new };
            if of_kind.len() < MAX_GROUPS {
                of_kind.push(Name { id: entry.ino(), path, directory: entry.path() });
            }
        }
        known.extend(new);
        known.truncate(MAX_GROUPS);
        Ok(Names { groups: known, count })
    }

    /// The load weight of a group.
    fn weight(&self, group: &Path) -> Option<u32> {
        let number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u32>().ok();
        if number(cgroup::idle(true).0) == Some(1) {
            return Some(IDLE_WEIGHT);
        }
        let version = if self.unified { CgroupVersion::V2 } else { CgroupVersion::V1 };
        number(cgroup::weight_file(version)).map(|weight| cgroup::load_weight(version, weight))
    }
}

/// The result of listing the directory.
struct Names {
    groups: Vec<Name>,
    /// Includes the groups left out.
    count: u64,
}

struct Name {
    id: u64,
    path: String,
    directory: PathBuf,
}

/// Looks at the groups periodically, at a bounded cost: what one look leaves out is read by a later one.
#[derive(Debug)]
pub(crate) struct Lookout {
    hierarchy: Hierarchy,
    /// By id, with the number of the look that read the weight.
    known: FxHashMap<u64, (TopGroup, u64)>,
    looks: u64,
    looked: Option<Instant>,
}

impl Lookout {
    pub fn new(hierarchy: Hierarchy) -> Lookout {
        Lookout { hierarchy, known: FxHashMap::default(), looks: 0, looked: None }
    }

    /// The hierarchy it looks at.
    #[cfg(feature = "bpf")]
    pub fn hierarchy(&self) -> &Hierarchy {
        &self.hierarchy
    }

    /// Whether the hierarchy is cgroup v2.
    pub fn is_unified(&self) -> bool {
        self.hierarchy.unified
    }

    /// The top-level groups now, if a look is due.
    pub fn look_if_due(&mut self) -> io::Result<Option<TopGroups>> {
        if self.looked.is_some_and(|looked| looked.elapsed() < EVERY) {
            return Ok(None);
        }
        self.looked = Some(Instant::now());
        self.look().map(Some)
    }

    fn look(&mut self) -> io::Result<TopGroups> {
        let is_known = |id, path: &str| self.known.get(&id).is_some_and(|(group, _)| group.path == path);
        let names = self.hierarchy.names(is_known)?;
        let mut before = std::mem::take(&mut self.known);
        let mut due = Vec::new();
        for name in names.groups {
            let known = before.remove(&name.id).filter(|(group, _)| group.path == name.path);
            let read = known.as_ref().map(|(_, read)| *read);
            if read.is_none_or(|read| self.looks - read >= WEIGHTS_AT) {
                due.push((read, name));
            }
            self.known.extend(known.map(|(group, read)| (group.id, (group, read))));
        }
        // Groups never read first, then those read longest ago.
        due.sort_by_key(|(read, _)| *read);
        let most = if self.looks == 0 { MAX_GROUPS } else { MOST_WEIGHTS };
        for (_, Name { id, path, directory }) in due.into_iter().take(most) {
            let weight = self.hierarchy.weight(&directory);
            self.known.insert(id, (TopGroup { id, path, weight }, self.looks));
        }
        self.looks += 1;
        let mut groups: Vec<TopGroup> = self.known.values().map(|(group, _)| group.clone()).collect();
        groups.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.path.cmp(&b.path)));
        let more = names.count.saturating_sub(groups.len() as u64);
        Ok(TopGroups { groups, more })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_with_the_cpu_controller_is_taken() {
        let hybrid = "33 24 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:15 - cgroup cgroup rw,cpu,cpuacct\n\
                      42 24 0:37 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
        let found = Hierarchy::of(hybrid).expect("one");
        assert_eq!((found.mount.to_str(), found.unified), (Some("/sys/fs/cgroup/cpu,cpuacct"), false));
        let bound = "30 24 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n\
                     90 24 0:26 /kubepods.slice /mnt rw shared:4 - cgroup2 cgroup2 rw\n\
                     91 24 0:26 / /mnt/all rw shared:4 - cgroup2 cgroup2 rw\n";
        let found = Hierarchy::of(bound).expect("one");
        assert_eq!(
            (found.mount.to_str(), found.unified),
            (Some("/sys/fs/cgroup"), true),
            "a part of it is another tree"
        );
        assert!(Hierarchy::of("22 1 0:21 / /proc rw - proc proc rw\n").is_none());
    }

    fn make(place: &Path, name: &str, weight: u32) {
        fs::create_dir(place.join(name)).expect("made");
        fs::write(place.join(name).join("cpu.weight"), weight.to_string()).expect("written");
    }

    fn lookout(place: &Path) -> Lookout {
        Lookout::new(Hierarchy { mount: place.into(), unified: true })
    }

    #[test]
    fn a_path_is_that_of_a_group_by_its_inode() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path().join("mount");
        for name in ["mount", "mount/system.slice", "mount/system.slice/containerd.service", "pod"] {
            fs::create_dir(directory.path().join(name)).expect("made");
        }
        let inode = |name: &str| fs::metadata(directory.path().join(name)).expect("there").ino();
        let service = inode("mount/system.slice/containerd.service");
        let hierarchy = Hierarchy::at(&place, true);
        for (path, id, is_it) in [
            ("/system.slice/containerd.service", service, true),
            // The task has moved: the path is another group's.
            ("/system.slice", service, false),
            ("/system.slice/containerd.service", inode("mount/system.slice"), false),
            ("/system.slice/containerd.service (deleted)", service, false),
            ("/", inode("mount"), true),
            // Above the root of this process's namespace.
            ("/../pod", inode("pod"), false),
        ] {
            assert_eq!(hierarchy.is_path_of(path, id), is_it, "{path}");
        }
    }

    #[test]
    fn groups_are_the_directories_heaviest_first() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path();
        for (name, weight) in [("a.slice", 100), ("b.slice", 300), ("c \"quoted\"", 100)] {
            make(place, name, weight);
        }
        fs::write(place.join("cgroup.procs"), "").expect("written");
        let mut lookout = lookout(place);
        let top = lookout.look().expect("read");
        assert_eq!(top.more, 0);
        let shown: Vec<_> = top.groups.iter().map(|group| (group.path.as_str(), group.weight)).collect();
        assert_eq!(shown, [("/b.slice", Some(3072)), ("/a.slice", Some(1024)), ("/c \"quoted\"", Some(1024))]);
        let inode = fs::metadata(place.join("a.slice")).expect("there").ino();
        assert_eq!(top.groups[1].id, inode, "the kernel's number of the group");
        fs::write(place.join("a.slice/cpu.weight"), "700").expect("written");
        make(place, "new", 50);
        for look in 1..WEIGHTS_AT {
            let seen = lookout.look().expect("read").groups;
            assert_eq!(seen[..3], top.groups, "what is known is not read again at look {look}");
            assert_eq!(seen[3].path, "/new");
        }
        assert_eq!(lookout.look().expect("read").groups[0].weight, Some(7168));
        fs::remove_file(place.join("a.slice/cpu.weight")).expect("there");
        fs::remove_dir(place.join("a.slice")).expect("there");
        assert_eq!(lookout.look().expect("read").groups[0].path, "/b.slice", "at once");
        assert!(lookout.look_if_due().expect("read").is_some());
        assert!(lookout.look_if_due().expect("read").is_none());
    }

    #[test]
    fn of_many_the_heaviest_come_first_and_a_look_reads_so_many() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path();
        for number in 0..MOST_WEIGHTS as u32 + 188 {
            make(place, &format!("{number:04}"), 1 + number);
        }
        let mut lookout = lookout(place);
        let top = lookout.look().expect("read");
        assert_eq!((top.groups.len(), top.more), (MOST_WEIGHTS + 188, 0));
        assert_eq!(top.groups[0].path, "/0699", "whatever the order of the directory is");
        // Equally many are created: one look reads a part of them, the next the rest. Groups not read are still counted.
        for number in 0..700 {
            make(place, &format!("new-{number}"), 5000);
        }
        let top = lookout.look().expect("read");
        assert_eq!((top.groups.len(), top.more), (700 + MOST_WEIGHTS, 188));
        let top = lookout.look().expect("read");
        assert_eq!((top.groups.len(), top.more), (1400, 0));
        assert_eq!(top.groups[699].weight, Some(51_200));
        // All weights are read again eventually.
        fs::write(place.join("0000/cpu.weight"), "9000").expect("written");
        let mut looks = 0;
        while lookout.look().expect("read").groups[0].path != "/0000" {
            looks += 1;
            assert!(looks < WEIGHTS_AT + 1400_u64.div_ceil(MOST_WEIGHTS as u64));
        }
    }

    #[test]
    fn those_that_are_known_stay_however_many_come() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path();
        (0..10).for_each(|number| make(place, &format!("old-{number}"), 100));
        let mut lookout = lookout(place);
        lookout.look().expect("read");
        // Directories without files: they have no weight.
        (0..MAX_GROUPS + 5).for_each(|number| fs::create_dir(place.join(format!("{number}"))).expect("made"));
        for _ in 0..MAX_GROUPS / MOST_WEIGHTS + 1 {
            let top = lookout.look().expect("read");
            assert!(top.groups[..10].iter().all(|group| group.path.starts_with("/old-")));
            assert_eq!(top.groups.len() as u64 + top.more, MAX_GROUPS as u64 + 15);
            assert!(top.groups.len() <= MAX_GROUPS && lookout.known.len() <= MAX_GROUPS);
        }
    }
}
