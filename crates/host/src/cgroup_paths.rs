//! Finds the full paths of cgroups, even from inside a cgroup namespace.
//!
//! `/proc/PID/cgroup` shows paths relative to the reader's namespace (cgroup_namespaces(7)). With cgroup v2, container
//! runtimes give each unprivileged container its own (containerd/cri#1371, KEP-2254), so another pod's group appears as
//! `/../../kubepods-besteffort.slice/…`. If the host's hierarchy is mounted too, this process can find itself in it,
//! and so learn the path of its namespace's root.

use std::borrow::Cow;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use unstarve_facts::CgroupVersion;

use crate::Root;
use crate::group_walk::GroupWalk;

/// Inode of the initial cgroup namespace: `PROC_CGROUP_INIT_INO` in include/linux/proc_ns.h (7.2:
/// include/uapi/linux/nsfs.h).
const INITIAL_NAMESPACE: &str = "cgroup:[4026531835]";

/// A hierarchy, and the path in it of the root of this process's cgroup namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Beginning {
    /// As in `/proc/PID/cgroup`: `cpu,cpuacct`, `name=systemd`, or empty for v2.
    controllers: String,
    path: String,
}

/// The text of a `/proc/PID/cgroup` of this host, with full paths where they are known.
pub fn whole_cgroups(text: String) -> String {
    match beginnings() {
        [] => text,
        beginnings => {
            text.lines().map(|line| whole_line(line, beginnings).unwrap_or(Cow::Borrowed(line)) + "\n").collect()
        }
    }
}

/// Whether the link of a namespace shows that it is the host's own.
pub(crate) fn is_first(link: &Path) -> bool {
    link.to_str() == Some(INITIAL_NAMESPACE)
}

/// Whether the paths in the hierarchy with the CPU controller are full paths although this process is in a namespace.
pub(crate) fn are_whole(version: CgroupVersion) -> bool {
    beginnings().iter().any(|beginning| match version {
        CgroupVersion::V1 => beginning.controllers.split(',').any(|controller| controller == "cpu"),
        CgroupVersion::V2 => beginning.controllers.is_empty(),
    })
}

/// Computed once: this process stays in its groups. Empty in the host's own namespace.
fn beginnings() -> &'static [Beginning] {
    static ALL: OnceLock<Vec<Beginning>> = OnceLock::new();
    ALL.get_or_init(|| {
        let is_hosts = fs::read_link("/proc/self/ns/cgroup").map_or(true, |link| is_first(&link));
        if is_hosts { Vec::new() } else { find(&Root::host(), std::process::id()) }
    })
}

fn find(root: &Root, pid: u32) -> Vec<Beginning> {
    let (Ok(own), Ok(mounts)) = (root.text("/proc/self/cgroup"), root.text("/proc/self/mounts")) else {
        return Vec::new();
    };
    let of_line = |line: &str| {
        let (controllers, shown) = fields(line)?;
        let mount = mounts_of(&mounts, controllers).find(|mount| is_root(root, mount))?;
        let path = group_with(root, mount, pid)?;
        // This process may be in a group below the root of the namespace.
        let path = path.strip_suffix(shown.trim_end_matches('/'))?;
        Some(Beginning { controllers: controllers.to_owned(), path: path.to_owned() })
    };
    own.lines().filter_map(of_line).collect()
}

/// Controllers and path of `7:cpu,cpuacct:/user.slice` (v1) or `0::/user.slice` (v2).
fn fields(line: &str) -> Option<(&str, &str)> {
    line.split_once(':')?.1.split_once(':')
}

fn whole_line<'a>(line: &'a str, beginnings: &[Beginning]) -> Option<Cow<'a, str>> {
    let (controllers, shown) = fields(line)?;
    let beginning = beginnings.iter().find(|beginning| beginning.controllers == controllers)?;
    let head = line.strip_suffix(shown)?;
    Some(Cow::Owned(format!("{head}{}", joined(&beginning.path, shown)?)))
}

/// `None` if the path leads above the root.
fn joined(beginning: &str, shown: &str) -> Option<String> {
    let mut path: Vec<&str> = beginning.split('/').filter(|name| !name.is_empty()).collect();
    for name in shown.split('/').filter(|name| !name.is_empty()) {
        match name {
            ".." => drop(path.pop()?),
            _ => path.push(name),
        }
    }
    Some(format!("/{}", path.join("/")))
}

/// The mount points of a hierarchy.
fn mounts_of<'a>(mounts: &'a str, controllers: &'a str) -> impl Iterator<Item = &'a str> {
    mounts.lines().filter_map(move |line| {
        let mut fields = line.split(' ').skip(1);
        let (mount, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        let is_it = match controllers {
            "" => kind == "cgroup2",
            all => kind == "cgroup" && all.split(',').all(|one| options.split(',').any(|option| option == one)),
        };
        is_it.then_some(mount)
    })
}

/// Whether the mount point is the root of its hierarchy. In v2 only groups below the root have `cgroup.type`; in v1
/// only the root has `release_agent`.
fn is_root(root: &Root, mount: &str) -> bool {
    let has = |name: &str| root.exists(&format!("{mount}/{name}"));
    match has("cgroup.controllers") {
        true => !has("cgroup.type"),
        false => has("cgroup.sane_behavior"),
    }
}

/// The path of the group that contains a process; empty for the root.
fn group_with(root: &Root, mount: &str, pid: u32) -> Option<String> {
    let pid = pid.to_string();
    let holds = |path: &String| {
        let processes = root.text(&format!("{mount}{path}/cgroup.procs")).unwrap_or_default();
        processes.lines().any(|line| line == pid)
    };
    std::iter::once(String::new()).chain(GroupWalk::new(root, mount)).find(holds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-2.scope";

    #[test]
    fn paths_lead_up_from_the_group_of_the_container() {
        for (shown, whole) in [
            ("/", POD),
            ("/below", &format!("{POD}/below")),
            ("/../../../kubepods-besteffort.slice/pod3", "/kubepods.slice/kubepods-besteffort.slice/pod3"),
            ("/../../../../init.scope", "/init.scope"),
            ("/../../../..", "/"),
        ] {
            assert_eq!(joined(POD, shown).as_deref(), Some(whole), "{shown}");
        }
        assert_eq!(joined(POD, "/../../../../../x"), None);
    }

    #[test]
    fn each_hierarchy_has_its_beginning() {
        let beginnings = ["", "cpu,cpuacct"].map(|controllers| Beginning {
            controllers: controllers.to_owned(),
            path: format!("/in{controllers}/own"),
        });
        let whole = |line: &'static str| whole_line(line, &beginnings).map(Cow::into_owned);
        assert_eq!(whole("0::/../a:b").as_deref(), Some("0::/in/a:b"));
        assert_eq!(whole("7:cpu,cpuacct:/").as_deref(), Some("7:cpu,cpuacct:/incpu,cpuacct/own"));
        assert_eq!(whole("3:memory:/../a"), None);
    }

    fn write(directory: &Path, name: &str, text: &str) {
        fs::create_dir_all(directory).expect("made");
        fs::write(directory.join(name), text).expect("written");
    }

    #[test]
    fn a_process_finds_itself_where_the_hosts_groups_are_mounted() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = Root::at(directory.path());
        let groups = directory.path().join("sys/fs/cgroup");
        write(&directory.path().join("proc/self"), "mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n");
        write(&directory.path().join("proc/self"), "cgroup", "0::/\n");
        write(&groups, "cgroup.controllers", "cpu\n");
        write(&groups, "cgroup.procs", "1\n2\n");
        write(&groups.join("other.slice"), "cgroup.procs", "420\n");
        write(&groups.join(&POD[1..]), "cgroup.procs", "41\n42\n");
        let found = vec![Beginning { controllers: String::new(), path: POD.to_owned() }];
        assert_eq!(find(&root, 42), found);
        // It may have moved further down since the namespace was created.
        write(&groups.join(&POD[1..]).join("down"), "cgroup.procs", "43\n");
        write(&directory.path().join("proc/self"), "cgroup", "0::/down\n");
        assert_eq!(find(&root, 43), found);
        assert_eq!(find(&root, 44), []);
        // The container's own mount begins at the root of the namespace, so it shows nothing.
        write(&groups, "cgroup.type", "domain\n");
        assert_eq!(find(&root, 43), []);
    }

    #[test]
    fn other_users_groups_do_not_hide_this_process() {
        let place = Some(Path::new("/dev/shm")).filter(|place| place.is_dir());
        let directory = tempfile::tempdir_in(place.unwrap_or(&std::env::temp_dir())).expect("a directory");
        let groups = directory.path().join("groups");
        // Groups before and after it, whatever the order of directory entries.
        write(&groups.join("a.slice/pod/container"), "cgroup.procs", "41\n");
        (0..25).for_each(|group| {
            let theirs = groups.join(format!("user.slice/{group}"));
            (0..900).for_each(|below| fs::create_dir_all(theirs.join(below.to_string())).expect("a group"));
        });
        write(&groups.join("b.slice/pod/container"), "cgroup.procs", "42\n");
        let root = Root::at(directory.path());
        for (pid, top) in [(41, "a"), (42, "b")] {
            assert_eq!(group_with(&root, "/groups", pid), Some(format!("/{top}.slice/pod/container")));
        }
        assert_eq!(group_with(&root, "/groups", 43), None);
    }

    #[test]
    fn a_hierarchy_of_version_one_is_found_by_its_controllers() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs ro 0 0\ncgroup /c/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n\
                      cgroup /c/systemd cgroup rw,xattr,name=systemd 0 0\ncgroup2 /c/unified cgroup2 rw 0 0\n";
        for (controllers, mount) in
            [("cpu,cpuacct", "/c/cpu,cpuacct"), ("name=systemd", "/c/systemd"), ("", "/c/unified")]
        {
            assert_eq!(mounts_of(mounts, controllers).collect::<Vec<_>>(), [mount]);
        }
        assert_eq!(mounts_of(mounts, "memory").count(), 0);
    }
}
