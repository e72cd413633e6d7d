//! Reads cgroups.

use std::path::Path;

use unstarve_facts::{Bandwidth, CgroupFacts, CgroupVersion, Hierarchy, Missing, Throttled};

use super::Gaps;
use super::devices::unescape;
use crate::Root;
use crate::group_walk::{Cut, GroupWalk, MAX_CHILDREN, MAX_GROUPS_WALKED, Why};

pub(super) fn find_hierarchy(root: &Root, missing: &mut Gaps) -> Option<Hierarchy> {
    let found = hierarchy_in(&missing.text(root, "/proc/mounts")?, |_| true);
    if found.is_none() {
        missing.note("cgroups", "no hierarchy with the CPU controller is mounted");
    }
    found
}

/// The cgroup hierarchy of this machine that the CPU controller is attached to.
pub fn cpu_hierarchy() -> Option<Hierarchy> {
    // Anybody may have a mount whose name is no UTF-8.
    let mounts = std::fs::read("/proc/self/mounts").ok()?;
    let has_cpu = |mount: &str| {
        let controllers = std::fs::read_to_string(Path::new(mount).join("cgroup.controllers")).unwrap_or_default();
        controllers.split_ascii_whitespace().any(|controller| controller == "cpu")
    };
    hierarchy_in(&String::from_utf8_lossy(&mounts), has_cpu)
}

/// By the text of `/proc/mounts`; a unified hierarchy counts if `has_cpu` says so of its mount.
fn hierarchy_in(mounts: &str, has_cpu: impl Fn(&str) -> bool) -> Option<Hierarchy> {
    let mut unified = None;
    for line in mounts.lines() {
        let mut words = line.split(' ').skip(1);
        let (Some(target), Some(fs), Some(options)) = (words.next(), words.next(), words.next()) else { continue };
        // On a hybrid system the CPU controller is on the v1 hierarchy, if that is mounted.
        if fs == "cgroup" && options.split(',').any(|option| option == "cpu") {
            return Some(Hierarchy { version: CgroupVersion::V1, mount: unescape(target) });
        }
        if fs == "cgroup2" && unified.is_none() {
            unified = Some(unescape(target)).filter(|mount| has_cpu(mount));
        }
    }
    unified.map(|mount| Hierarchy { version: CgroupVersion::V2, mount })
}

/// All groups below the root, sorted by path. Groups that vanish while being read are left out.
pub(super) fn read_all(root: &Root, hierarchy: &Hierarchy, missing: &mut Gaps) -> Vec<CgroupFacts> {
    let mut walk = GroupWalk::new(root, &hierarchy.mount);
    let mut groups: Vec<CgroupFacts> = walk.by_ref().map(|path| read_one(root, &path, hierarchy)).collect();
    note_cut(walk.into_cut(), missing);
    groups.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    groups
}

/// How many groups with unlisted descendants are named; a user may create thousands.
const MAX_GROUPS_NAMED: usize = 16;

fn note_cut(cut: Vec<Cut>, missing: &mut Gaps) {
    let more = cut.len().saturating_sub(MAX_GROUPS_NAMED);
    for Cut { path, why } in cut.into_iter().take(MAX_GROUPS_NAMED) {
        let why = match why {
            Why::TooMany => format!("there are more than {MAX_CHILDREN}"),
            Why::TooDeep => "they are nested too deep".to_owned(),
            Why::NoRoom => format!("no more than {MAX_GROUPS_WALKED} are read in all"),
        };
        missing.note(Missing::below_group(&path), why);
    }
    if more > 0 {
        missing.note("cgroups", format!("of {more} more, some or all of what is below them"));
    }
}

fn read_one(root: &Root, path: &str, hierarchy: &Hierarchy) -> CgroupFacts {
    let file = |name: &str| root.text(&format!("{}{path}/{name}", hierarchy.mount)).ok();
    let number = |name: &str| file(name)?.trim().parse().ok();
    let mut facts = CgroupFacts { path: path.to_owned(), ..CgroupFacts::default() };
    facts.idle = number("cpu.idle") == Some(1);
    facts.throttled = file("cpu.stat").and_then(|text| Throttled::parse(&text));
    match hierarchy.version {
        CgroupVersion::V1 => {
            facts.shares = number("cpu.shares");
            facts.limit = file("cpu.cfs_quota_us")
                .zip(file("cpu.cfs_period_us"))
                .and_then(|(quota, period)| Bandwidth::of_v1(&quota, &period));
        }
        CgroupVersion::V2 => {
            facts.weight = number("cpu.weight");
            facts.limit = file("cpu.max").and_then(|text| Bandwidth::of_v2(&text));
            // Empty means the parent's CPUs.
            let chosen = file("cpuset.cpus").is_some_and(|text| !text.trim().is_empty());
            facts.cpus = if chosen { file("cpuset.cpus.effective").and_then(|text| text.parse().ok()) } else { None };
        }
    }
    facts
}
