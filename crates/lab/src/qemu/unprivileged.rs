//! The user that QEMU runs as under root: an id that nothing else on the machine uses.
//!
//! QEMU processes input from guests, whose kernels may be untrusted. It needs no rights of root: it gets its files by
//! descriptor, and runs as a user that owns no file and no other process.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::Errno;

/// Ids that no distribution assigns: between those of homed and those of systemd's dynamic users (systemd,
/// docs/UIDS-GIDS.md).
const UNUSED_UIDS: RangeInclusive<u32> = 60_706..=61_183;

/// A user and a group with this number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Unprivileged {
    id: u32,
}

impl Unprivileged {
    /// A free id, if this process is root. `None` for other users, and for root of a user namespace with a single user,
    /// which is unprivileged on the host.
    pub(super) fn for_a_guest() -> io::Result<Option<Unprivileged>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (users, groups) = (read("/proc/self/uid_map"), read("/proc/self/gid_map"));
        let mapped = |id: u32| is_mapped(&users, id) && is_mapped(&groups, id);
        if !UNUSED_UIDS.clone().any(mapped) {
            return Ok(None);
        }
        let mut taken = ids_in(&read("/etc/passwd"));
        taken.extend(ids_in(&read("/etc/group")));
        taken.extend(owners_of_processes()?);
        let id = first_free(std::process::id(), |id| mapped(id) && !taken.contains(&id));
        id.map(|id| Some(Unprivileged { id })).ok_or_else(|| io::Error::other("all of them are in use"))
    }

    pub(super) fn id(self) -> u32 {
        self.id
    }

    /// Makes a child this user without further groups before it executes anything. `pre_exec` functions added later run
    /// as this user.
    pub(super) fn drop_to(self, command: &mut Command) {
        command.gid(self.id).uid(self.id);
        let id = self.id;
        // SAFETY: between fork and exec only system calls are made that are async-signal-safe.
        unsafe {
            command.pre_exec(move || if is_only(id) { Ok(()) } else { Err(io::Error::from(Errno::PERM)) });
        }
    }
}

/// Whether this process has only this user and group, cannot change them, and has no further groups: the standard
/// library continues if dropping those fails.
fn is_only(id: u32) -> bool {
    let (mut users, mut groups) = ([0; 3], [0; 3]);
    // SAFETY: all pointers are to numbers that live across the calls; getgroups(0) writes nothing.
    let (asked, further) = unsafe {
        let [real, effective, saved] = &mut users;
        let of_user = libc::getresuid(real, effective, saved);
        let [real, effective, saved] = &mut groups;
        (of_user | libc::getresgid(real, effective, saved), libc::getgroups(0, std::ptr::null_mut()))
    };
    asked == 0 && further == 0 && users == [id; 3] && groups == [id; 3]
}

/// The search starts at different ids, so that two labs that start together rarely take the same one.
fn first_free(start: u32, is_free: impl Fn(u32) -> bool) -> Option<u32> {
    let (first, count) = (*UNUSED_UIDS.start(), UNUSED_UIDS.end() - UNUSED_UIDS.start() + 1);
    (0..count).map(|step| first + (start % count + step) % count).find(|id| is_free(*id))
}

/// user_namespaces(7): each line is the first id inside, the first outside, and how many.
fn is_mapped(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let numbers: Vec<u32> = line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        matches!(numbers[..], [first, _, count] if id.checked_sub(first).is_some_and(|below| below < count))
    })
}

/// The ids in passwd(5) and group(5), which have them in the third field.
fn ids_in(text: &str) -> BTreeSet<u32> {
    text.lines().filter_map(|line| line.split(':').nth(2)?.parse().ok()).collect()
}

fn owners_of_processes() -> io::Result<BTreeSet<u32>> {
    let processes = fs::read_dir("/proc")?.filter_map(Result::ok);
    Ok(processes.filter_map(|entry| entry.metadata().ok()).flat_map(|found| [found.uid(), found.gid()]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_one_that_nobody_is() {
        assert_eq!(first_free(0, |_| true), Some(60_706));
        assert_eq!(first_free(477, |_| true), Some(61_183));
        assert_eq!(first_free(478, |_| true), Some(60_706));
        assert_eq!(first_free(477, |id| id != 61_183), Some(60_706));
        assert_eq!(first_free(7, |_| false), None);
        assert_eq!(ids_in("root:x:0:0:root:/root:/bin/sh\nu:x:60706:9::/:\nbad\n"), [0, 60_706].into());
    }

    #[test]
    fn a_namespace_says_which_users_it_has() {
        let all = "         0          0 4294967295\n";
        let container = "0 100000 65536\n";
        let two = "0 1000 1\n1 100000 65536\n";
        for map in [all, container, two] {
            assert!(is_mapped(map, 60_706) && is_mapped(map, 0), "{map}");
        }
        for map in ["0 1000 1\n", "", "0 100000 60000\n"] {
            assert!(!is_mapped(map, 60_706), "{map}");
        }
    }

    #[test]
    fn a_child_of_roots_has_no_rights_left() {
        let Some(user) = Unprivileged::for_a_guest().expect("a free id") else {
            unstarve_testing::not_possible_here("needs root and a user to become");
            return;
        };
        let mut command = Command::new("/bin/cat");
        command.arg("/proc/self/status").current_dir("/");
        user.drop_to(&mut command);
        let output = command.output().expect("it runs");
        let status = String::from_utf8_lossy(&output.stdout).into_owned();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            [field("Uid:"), field("Gid:")],
            [const { [0; 4] }; 2].map(|four| four.map(|_: i32| user.id.to_string()).to_vec())
        );
        assert_eq!(field("Groups:"), Vec::<String>::new());
        for set in ["CapPrm:", "CapEff:", "CapAmb:"] {
            assert_eq!(field(set), ["0000000000000000"], "{status}");
        }
    }
}
