//! Finds a cgroup whose file was set and whose path may have changed.
//!
//! In version 1 any user who may write the parent directory can rename a group (rename(2), `cgroup1_rename()` in
//! kernel/cgroup/cgroup-v1.c), and create another one at the old path.
//!
//! | at its path | hierarchy there | it is |
//! |---|---|---|
//! | the same file | any | here |
//! | nothing, or another's | version 2, which refuses renames | gone |
//! | nothing, or another's | version 1, and the file is found below its mount | moved |
//! | nothing, or another's | version 1, and the kernel has no node with its number | gone |
//! | nothing, or another's | version 1, and the kernel has the node, but the search does not find it | unknown: an error |
//! | nothing, or another's | version 1, the kernel cannot tell, and two complete searches find nothing | gone |
//! | nothing, or another's | version 1, and the search hit its limit | unknown: an error |
//! | nothing, or another's | no longer mounted | unknown: an error |
//!
//! A file's inode number identifies its kernfs node (`kernfs_new_node()`, fs/kernfs/dir.c) for the node's lifetime.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use unstarve_sched::setting::cgroup::CgroupVersion;

/// Where a group's file is that is not at its path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Whereabouts {
    /// Moved to this path.
    Moved(String),
    /// The group was removed.
    Gone,
}

/// Limits the search for groups that are not at their paths.
#[derive(Clone, Copy, Debug)]
struct Limit {
    groups: usize,
    time: Duration,
}

/// A host with more groups is slow anyway, and a search of this many takes a second.
const LIMIT: Limit = Limit { groups: 200_000, time: Duration::from_secs(4) };

/// How long a search result is reused: many groups can disappear at once.
const FRESH: Duration = Duration::from_secs(1);

/// Finds the file of a cgroup that is not at its path.
///
/// # Errors
/// If the file may still exist.
pub(crate) fn find(path: &str, inode: u64) -> io::Result<Whereabouts> {
    let mounts = fs::read("/proc/self/mounts")?;
    find_below(&String::from_utf8_lossy(&mounts), path, inode, LIMIT)
}

fn find_below(mounts: &str, path: &str, inode: u64, limit: Limit) -> io::Result<Whereabouts> {
    let unknown = |why: String| {
        let group = Path::new(path).parent().unwrap_or(Path::new("/")).display();
        io::Error::other(format!("{group} is not there, and may still be there at another name: {why}"))
    };
    let (mount, version) =
        mount_of(mounts, path).ok_or_else(|| unknown("its hierarchy is not mounted where it was".to_owned()))?;
    if version == CgroupVersion::V2 {
        return Ok(Whereabouts::Gone);
    }
    // The kernel finds it by number, so a rename faster than a directory listing cannot hide it.
    let is_there = node_exists(&mount, inode);
    if is_there == Some(false) {
        return Ok(Whereabouts::Gone);
    }
    let name = Path::new(path).file_name().unwrap_or_default().to_owned();
    // The group that was found may have been renamed again since.
    for _ in 0..3 {
        let Some(found) =
            look_up(&mount, Path::new(&name), inode, limit).map_err(|error| unknown(error.to_string()))?
        else {
            if is_there == Some(true) {
                *SEEN.lock().unwrap_or_else(PoisonError::into_inner) = None;
                continue;
            }
            return Ok(Whereabouts::Gone);
        };
        if fs::symlink_metadata(&found).is_ok_and(|metadata| metadata.ino() == inode) {
            let found = found.into_os_string().into_string();
            return found.map(Whereabouts::Moved).map_err(|_| unknown("its name is no UTF-8".to_owned()));
        }
        *SEEN.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
    Err(unknown("it is being renamed again and again".to_owned()))
}

/// Whether a hierarchy has a node of this number; `None` if the kernel cannot tell.
///
/// A kernfs file handle is the node's number (`FILEID_KERNFS`, include/linux/exportfs.h; `kernfs_fh_to_dentry()`,
/// fs/kernfs/mount.c, since 5.5, for both cgroup versions).
fn node_exists(mount: &Path, inode: u64) -> Option<bool> {
    #[repr(C)]
    struct Handle {
        bytes: u32,
        kind: i32,
        node: u64,
    }
    const FILEID_KERNFS: i32 = 0xfe;
    const CGROUP_SUPER_MAGIC: i64 = 0x0027_e0eb;
    let directory = fs::File::open(mount).ok()?;
    let system = rustix::fs::fstatfs(&directory).ok()?;
    if system.f_type as i64 != CGROUP_SUPER_MAGIC {
        return None;
    }
    let mut handle = Handle { bytes: 8, kind: FILEID_KERNFS, node: inode };
    // SAFETY: the handle has the layout of `struct file_handle` followed by eight bytes, and lives until the call returns.
    let opened = unsafe {
        libc::open_by_handle_at(
            directory.as_raw_fd(),
            std::ptr::from_mut(&mut handle).cast::<libc::file_handle>(),
            libc::O_PATH | libc::O_CLOEXEC,
        )
    };
    if opened >= 0 {
        // SAFETY: the call has just opened this descriptor, and nothing else owns it.
        drop(unsafe { OwnedFd::from_raw_fd(opened) });
        return Some(true);
    }
    (io::Error::last_os_error().raw_os_error() == Some(libc::ESTALE)).then_some(false)
}

/// The hierarchy of a path: the innermost mount above it.
fn mount_of(mounts: &str, path: &str) -> Option<(PathBuf, CgroupVersion)> {
    let of_line = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let mount = PathBuf::from(unescaped(words.next()?));
        Path::new(path).starts_with(&mount).then_some((mount, words.next()?.to_owned()))
    };
    // Of two mounts at one place, the later one hides the other.
    let all = mounts.lines().filter_map(of_line);
    let (mount, kind) = all.max_by_key(|(mount, _)| mount.components().count())?;
    match kind.as_str() {
        "cgroup" => Some((mount, CgroupVersion::V1)),
        "cgroup2" => Some((mount, CgroupVersion::V2)),
        _ => None,
    }
}

/// The kernel escapes blanks, tabs, newlines and backslashes in names as `\040` (`mangle()`, fs/proc_namespace.c).
fn unescaped(text: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(text.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}

/// Files of one name in a hierarchy, by inode number.
struct Seen {
    mount: PathBuf,
    name: PathBuf,
    at: Instant,
    files: FxHashMap<u64, PathBuf>,
}

static SEEN: Mutex<Option<Seen>> = Mutex::new(None);

fn look_up(mount: &Path, name: &Path, inode: u64, limit: Limit) -> io::Result<Option<PathBuf>> {
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    let is_fresh = |seen: &Seen| seen.mount == mount && seen.name == name && seen.at.elapsed() < FRESH;
    if !seen.as_ref().is_some_and(is_fresh) {
        *seen = None;
        let mut files = FxHashMap::default();
        let end = Instant::now() + limit.time;
        // A listing can miss a group that is renamed while its siblings are listed, but hardly twice.
        for _ in 0..2 {
            look_through(mount, name, end, limit.groups, &mut files)?;
        }
        *seen = Some(Seen { mount: mount.to_owned(), name: name.to_owned(), at: Instant::now(), files });
    }
    Ok(seen.as_ref().and_then(|seen| seen.files.get(&inode).cloned()))
}

fn look_through(
    mount: &Path,
    name: &Path,
    end: Instant,
    most: usize,
    files: &mut FxHashMap<u64, PathBuf>,
) -> io::Result<()> {
    let (mut pending, mut count) = (vec![mount.to_owned()], 0);
    while let Some(group) = pending.pop() {
        count += 1;
        if count > most || Instant::now() > end {
            return Err(io::Error::other(format!("the search was given up after {} groups", count - 1)));
        }
        let file = group.join(name);
        if let Ok(metadata) = fs::symlink_metadata(&file) {
            files.insert(metadata.ino(), file);
        }
        let entries = match fs::read_dir(&group) {
            Ok(entries) => entries,
            // It was removed or renamed meanwhile; a renamed group is found in the second pass.
            Err(error) if error.kind() == io::ErrorKind::NotFound && group != mount => continue,
            Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", group.display()))),
        };
        let entries = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        pending.extend(entries.map(|entry| entry.path()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory tree in place of a hierarchy: the search uses only names and inode numbers.
    struct Tree {
        directory: tempfile::TempDir,
    }

    impl Tree {
        fn new() -> Tree {
            Tree { directory: tempfile::tempdir().expect("a directory") }
        }

        fn path(&self, name: &str) -> String {
            self.directory.path().join(name).join("cpu.shares").to_str().expect("UTF-8").to_owned()
        }

        fn make(&self, name: &str) -> u64 {
            fs::create_dir_all(self.directory.path().join(name)).expect("a group");
            fs::write(self.path(name), "1024").expect("a file");
            fs::metadata(self.path(name)).expect("a file").ino()
        }

        fn rename(&self, from: &str, to: &str) {
            fs::rename(self.directory.path().join(from), self.directory.path().join(to)).expect("renamed");
        }

        fn mounts(&self, kind: &str) -> String {
            format!("tmpfs / tmpfs rw 0 0\nx {} {kind} rw,cpu 0 0\n", self.directory.path().display())
        }
    }

    #[test]
    fn a_group_is_where_its_file_is_whatever_its_path() {
        let tree = Tree::new();
        let (renamed, above, removed) = (tree.make("a"), tree.make("p/q"), tree.make("r"));
        tree.rename("a", "b");
        tree.rename("p", "moved");
        let another = tree.make("a");
        fs::remove_dir_all(tree.directory.path().join("r")).expect("removed");
        assert_ne!(another, renamed);
        let find = |kind: &str, path: &str, inode| {
            find_below(&tree.mounts(kind), &tree.path(path), inode, LIMIT).map_err(|error| error.to_string())
        };
        for (what, kind, path, inode, expected) in [
            ("renamed, and another one is at its path", "cgroup", "a", renamed, Whereabouts::Moved(tree.path("b"))),
            ("below a renamed one", "cgroup", "p/q", above, Whereabouts::Moved(tree.path("moved/q"))),
            ("removed", "cgroup", "r", removed, Whereabouts::Gone),
            ("removed, of version 2", "cgroup2", "r", removed, Whereabouts::Gone),
        ] {
            assert_eq!(find(kind, path, inode), Ok(expected), "{what}");
        }
        let unmounted = find("ext4", "r", removed).expect_err("not known");
        assert!(unmounted.contains("its hierarchy is not mounted"), "{unmounted}");
    }

    #[test]
    fn a_search_that_is_cut_short_says_that_it_may_still_be_there() {
        let tree = Tree::new();
        let inode = tree.make("a");
        for number in 0..20 {
            tree.make(&format!("other{number}"));
        }
        tree.rename("a", "z");
        let limit = Limit { groups: 5, ..LIMIT };
        let error = find_below(&tree.mounts("cgroup"), &tree.path("a"), inode, limit).expect_err("not known");
        let text = error.to_string();
        assert!(text.contains("may still be there") && text.contains("after 5 groups"), "{text}");
    }

    #[test]
    fn the_kernel_says_whether_a_group_is_there_whatever_it_is_called() {
        let tree = Tree::new();
        let inode = tree.make("a");
        assert_eq!(node_exists(tree.directory.path(), inode), None, "no cgroup file system");
        let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
        let of_line = |line: &str| {
            let mut words = line.split(' ').skip(1);
            let mount = PathBuf::from(unescaped(words.next()?));
            (words.next()? == "cgroup" && line.contains("cpu")).then_some(mount)
        };
        let Some(mount) = mounts.lines().filter_map(of_line).find(|mount| mount.join("cpu.shares").exists()) else {
            return unstarve_testing::not_possible_here("version 1 of cgroups with the cpu controller");
        };
        let name = |what: &str| mount.join(format!("unstarve-test-{}-{what}", std::process::id()));
        if fs::create_dir(name("a")).is_err() {
            return unstarve_testing::not_possible_here("making a cgroup");
        }
        let inode = fs::metadata(name("a").join("cpu.shares")).expect("a file").ino();
        let before = node_exists(&mount, inode);
        fs::rename(name("a"), name("b")).expect("renamed");
        let renamed = node_exists(&mount, inode);
        fs::remove_dir(name("b")).expect("removed");
        // Some kernels and sandboxes do not support handles; then the search decides.
        if before.is_none() {
            return unstarve_testing::not_possible_here("handles of cgroup files");
        }
        assert_eq!((before, renamed, node_exists(&mount, inode)), (Some(true), Some(true), Some(false)));
    }

    #[test]
    fn the_hierarchy_is_the_innermost_mount() {
        let mounts = "t / ext4 rw 0 0\nc /sys/fs/cgroup tmpfs rw 0 0\nc /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      c /mnt/a\\040b cgroup2 rw 0 0\n";
        let of = |path| mount_of(mounts, path).map(|(mount, version)| (mount.display().to_string(), version));
        assert_eq!(of("/sys/fs/cgroup/cpu/x/cpu.shares"), Some(("/sys/fs/cgroup/cpu".to_owned(), CgroupVersion::V1)));
        assert_eq!(of("/mnt/a b/x/cpu.weight"), Some(("/mnt/a b".to_owned(), CgroupVersion::V2)));
        assert_eq!(of("/sys/fs/cgroup/cpuacct/x"), None);
    }
}
