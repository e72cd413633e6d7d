//! The top-level cgroups of the hierarchy that shares out CPU time.

use std::fs;
use std::io;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

/// Groups whose weights are read; a host has a handful at the top, and one that leaks them must not cost more.
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

/// What is at the top of the hierarchy.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct TopGroups {
    /// Heaviest first; those of one weight by name.
    pub groups: Vec<TopGroup>,
    /// How many more there are than were looked at.
    pub more: u64,
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

    /// The groups at the top now.
    ///
    /// Of those that `known` has, their weights are taken from there.
    pub fn top(&self, known: &[TopGroup]) -> io::Result<TopGroups> {
        let (mut groups, mut more) = (Vec::new(), 0);
        for entry in fs::read_dir(&self.mount)? {
            let entry = entry?;
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if groups.len() == MOST {
                more += 1;
                continue;
            }
            let path = format!("/{}", entry.file_name().to_string_lossy());
            let id = entry.ino();
            let known = known.iter().find(|group| group.id == id && group.path == path);
            let weight = known.map_or_else(|| self.weight(&entry.path()), |known| known.weight);
            groups.push(TopGroup { id, path, weight });
        }
        groups.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.path.cmp(&b.path)));
        Ok(TopGroups { groups, more })
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
    use std::os::unix::fs::MetadataExt;

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
        let hierarchy = Hierarchy { mount: directory.path().into(), unified: true };
        let top = hierarchy.top(&[]).expect("read");
        assert_eq!(top.more, 0);
        let shown: Vec<_> = top.groups.iter().map(|group| (group.path.as_str(), group.weight)).collect();
        assert_eq!(shown, [("/b.slice", Some(3072)), ("/a.slice", Some(1024)), ("/c \"quoted\"", Some(1024))]);
        let inode = fs::metadata(directory.path().join("a.slice")).expect("there").ino();
        assert_eq!(top.groups[1].id, inode, "the kernel's number of the group");
        fs::write(directory.path().join("a.slice/cpu.weight"), "700").expect("written");
        assert_eq!(hierarchy.top(&top.groups).expect("read"), top, "what is known is not read again");
        assert_eq!(hierarchy.top(&[]).expect("read").groups[0].weight, Some(7168));
        // One that leaks groups: they are counted all the same.
        (0..600).for_each(|number| fs::create_dir(directory.path().join(number.to_string())).expect("made"));
        let top = hierarchy.top(&[]).expect("read");
        assert_eq!((top.groups.len() as u64, top.more), (512, 91));
    }
}
