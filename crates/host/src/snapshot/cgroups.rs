use std::fs;
use std::path::PathBuf;

use unstarve_facts::{Bandwidth, CgroupFacts, CgroupVersion, Hierarchy, Throttled};

use super::Gaps;
use super::devices::unescape;
use crate::Root;
use crate::root::read_text;

/// A host has hundreds; a machine that leaks cgroups must not stall a recording.
const MAX_CGROUPS: usize = 20_000;

pub(super) fn find_hierarchy(root: &Root, missing: &mut Gaps) -> Option<Hierarchy> {
    let mounts = missing.text(root, "/proc/mounts")?;
    let mut unified = None;
    for line in mounts.lines() {
        let mut words = line.split(' ').skip(1);
        let (Some(target), Some(fs), Some(options)) = (words.next(), words.next(), words.next()) else { continue };
        // In a hybrid set-up the CPU controller is on the v1 hierarchy, if that is mounted at all.
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

/// All groups below the root, sorted by path. One that vanishes while it is read is left out.
pub(super) fn read_all(root: &Root, hierarchy: &Hierarchy, missing: &mut Gaps) -> Vec<CgroupFacts> {
    let mut groups = Vec::new();
    let mut pending: Vec<(PathBuf, String)> = vec![(root.path(&hierarchy.mount), String::new())];
    while let Some((directory, path)) = pending.pop() {
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            let Ok(name) = entry.file_name().into_string() else { continue };
            if groups.len() >= MAX_CGROUPS {
                missing.note("cgroups", format!("there are more than {MAX_CGROUPS}"));
                pending.clear();
                break;
            }
            let path = format!("{path}/{name}");
            groups.push(read_one(entry.path(), path.clone(), hierarchy.version));
            pending.push((entry.path(), path));
        }
    }
    groups.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    groups
}

fn read_one(directory: PathBuf, path: String, version: CgroupVersion) -> CgroupFacts {
    let file = |name: &str| read_text(&directory.join(name)).ok();
    let number = |name: &str| file(name)?.trim().parse().ok();
    let mut facts = CgroupFacts { path, ..CgroupFacts::default() };
    facts.idle = number("cpu.idle") == Some(1);
    facts.throttled = file("cpu.stat").and_then(|text| Throttled::parse(&text));
    match version {
        CgroupVersion::V1 => {
            facts.shares = number("cpu.shares");
            facts.limit = file("cpu.cfs_quota_us")
                .zip(file("cpu.cfs_period_us"))
                .and_then(|(quota, period)| Bandwidth::of_v1(&quota, &period));
        }
        CgroupVersion::V2 => {
            facts.weight = number("cpu.weight");
            facts.limit = file("cpu.max").and_then(|text| Bandwidth::of_v2(&text));
            // Empty means the parent's, which is no choice of this group.
            let chosen = file("cpuset.cpus").is_some_and(|text| !text.trim().is_empty());
            facts.cpus = if chosen { file("cpuset.cpus.effective").and_then(|text| text.parse().ok()) } else { None };
        }
    }
    facts
}
