//! Reads cgroups.

use unstarve_facts::{Bandwidth, CgroupFacts, CgroupVersion, Hierarchy, Missing, Throttled};

use super::Gaps;
use super::devices::unescape;
use crate::Root;
use crate::group_walk::{Cut, GroupWalk, MAX_CHILDREN, MAX_GROUPS_WALKED, Why};

pub(super) fn find_hierarchy(root: &Root, missing: &mut Gaps) -> Option<Hierarchy> {
    let mounts = missing.text(root, "/proc/mounts")?;
    let mut unified = None;
    for line in mounts.lines() {
        let mut words = line.split(' ').skip(1);
        let (Some(target), Some(fs), Some(options)) = (words.next(), words.next(), words.next()) else { continue };
        // On a hybrid system the CPU controller is on the v1 hierarchy, if that is mounted.
        if fs == "cgroup" && options.split(',').any(|option| option == "cpu") {
            return Some(Hierarchy { version: CgroupVersion::V1, mount: unescape(target) });
        }
        if fs == "cgroup2" {
            unified.get_or_insert_with(|| unescape(target));
        }
    }
    if unified.is_none() {
        missing.note("cgroups", "no hierarchy with the CPU controller is mounted");
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
