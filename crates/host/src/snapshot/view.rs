//! Determines the viewpoint of a snapshot.

use unstarve_facts::{CgroupVersion, Snapshot, View};

use super::Gaps;
use crate::Root;
use crate::cgroup_paths::{are_whole, is_first};

/// Inode of the initial PID namespace.
///
/// Source: `PROC_PID_INIT_INO` in include/linux/proc_ns.h (7.2: include/uapi/linux/nsfs.h).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

pub(super) fn read(root: &Root, snapshot: &Snapshot, missing: &mut Gaps) -> View {
    let namespace = |name: &str| root.link(&format!("/proc/self/ns/{name}")).ok();
    let view = View {
        all_processes: namespace("pid").map(|link| link.to_str() == Some(FIRST_PID_NAMESPACE)),
        all_cgroups: namespace("cgroup")
            .map(|link| (is_first(&link) || has_whole_paths(root, snapshot)) && !mounts_a_part(root, snapshot)),
        root: root.is_host().then(|| rustix::process::geteuid().is_root()),
        redacted: false,
    };
    if view.all_processes == Some(false) {
        missing.note("tasks of the host", "this is a container with process ids of its own; use --root or run outside");
    } else if !snapshot.tasks.is_empty() && !snapshot.tasks.iter().any(|task| task.tid.0 == 1) {
        missing.note("tasks of other users", "/proc is mounted with hidepid; run as root");
    }
    if view.all_cgroups == Some(false) {
        missing.note("cgroups of the host", "this is a container with cgroups of its own; mount the host's at /sys/fs/cgroup, use --root or run outside");
    }
    view
}

/// A process in a cgroup namespace may still see the host's full paths.
fn has_whole_paths(root: &Root, snapshot: &Snapshot) -> bool {
    root.is_host() && snapshot.hierarchy.as_ref().is_some_and(|hierarchy| are_whole(hierarchy.version))
}

/// Whether only a part of the v2 hierarchy is mounted: every group but the root has the file `cgroup.type`, so the
/// mount point must not have it.
fn mounts_a_part(root: &Root, snapshot: &Snapshot) -> bool {
    snapshot.hierarchy.as_ref().is_some_and(|hierarchy| {
        hierarchy.version == CgroupVersion::V2 && root.exists(&format!("{}/cgroup.type", hierarchy.mount))
    })
}

/// Converts seconds with two decimals to ticks.
pub(super) fn read_uptime(root: &Root) -> Option<u64> {
    let text = root.text("/proc/uptime").ok()?;
    let (seconds, rest) = text.split_once('.')?;
    let hundredths: u64 = rest.get(..2)?.parse().ok()?;
    seconds.parse::<u64>().ok()?.checked_mul(100)?.checked_add(hundredths)
}
