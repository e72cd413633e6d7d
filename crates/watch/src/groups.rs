//! The top-level cgroups of the hierarchy that shares out CPU time.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Groups looked at; a host has a handful at the top, and one that leaks them must not cost more.
const MOST: usize = 512;

/// A top-level cgroup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TopGroup {
    /// The kernel's number of it, which is its directory's inode.
    pub id: u64,
    /// Below the mount, with a leading slash.
    pub path: String,
    /// Beside nice 0 = 1024.
    pub weight: Option<u32>,
}

/// Where they are.
#[derive(Clone, Debug)]
pub(crate) struct Hierarchy {
    mount: PathBuf,
    /// v2; else v1's cpu controller.
    pub unified: bool,
}

impl Hierarchy {
    /// The one with the cpu controller, of this process's mounts.
    pub fn find() -> Option<Hierarchy> {
        Hierarchy::of(&fs::read_to_string("/proc/self/mounts").ok()?)
    }

    fn of(mounts: &str) -> Option<Hierarchy> {
        let mut unified = None;
        for line in mounts.lines() {
            let mut fields = line.split(' ');
            let (Some(_), Some(mount), Some(kind), Some(options)) =
                (fields.next(), fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            if kind == "cgroup" && options.split(',').any(|option| option == "cpu") {
                return Some(Hierarchy { mount: mount.into(), unified: false });
            }
            if kind == "cgroup2" {
                unified = Some(Hierarchy { mount: mount.into(), unified: true });
            }
        }
        unified
    }

    /// The groups at the top now, heaviest first; those of one weight by name.
    pub fn top(&self) -> io::Result<Vec<TopGroup>> {
        let mut groups = Vec::new();
        for entry in fs::read_dir(&self.mount)?.take(MOST * 16) {
            let entry = entry?;
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            // One that has gone meanwhile.
            let Ok(metadata) = entry.metadata() else { continue };
            let path = format!("/{}", entry.file_name().to_string_lossy());
            groups.push(TopGroup { id: metadata.ino(), path, weight: self.weight(&entry.path()) });
        }
        groups.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.path.cmp(&b.path)));
        groups.truncate(MOST);
        Ok(groups)
    }

    /// 100 in `cpu.weight` is 1024 of the scheduler's (`sched_weight_from_cgroup` in kernel/sched/core.c).
    fn weight(&self, group: &Path) -> Option<u32> {
        let number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u32>().ok();
        if number("cpu.idle") == Some(1) {
            return Some(3);
        }
        if self.unified { number("cpu.weight").map(|weight| (weight * 1024 + 50) / 100) } else { number("cpu.shares") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_with_the_cpu_controller_is_taken() {
        let hybrid = "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nsdelegate 0 0\n";
        let found = Hierarchy::of(hybrid).expect("one");
        assert_eq!((found.mount.to_str(), found.unified), (Some("/sys/fs/cgroup/cpu,cpuacct"), false));
        let found = Hierarchy::of("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n").expect("one");
        assert!(found.unified);
        assert!(Hierarchy::of("proc /proc proc rw 0 0\n").is_none());
    }

    #[test]
    fn groups_are_the_directories_heaviest_first() {
        let directory = tempfile::tempdir().expect("a directory");
        for (name, weight) in [("a.slice", "100"), ("b.slice", "300"), ("c \"quoted\"", "100")] {
            fs::create_dir(directory.path().join(name)).expect("made");
            fs::write(directory.path().join(name).join("cpu.weight"), weight).expect("written");
        }
        fs::write(directory.path().join("cgroup.procs"), "").expect("written");
        let groups = Hierarchy { mount: directory.path().into(), unified: true }.top().expect("read");
        let shown: Vec<_> = groups.iter().map(|group| (group.path.as_str(), group.weight)).collect();
        assert_eq!(shown, [("/b.slice", Some(3072)), ("/a.slice", Some(1024)), ("/c \"quoted\"", Some(1024))]);
    }
}
