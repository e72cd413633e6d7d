use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use unstarve_model::Nanos;

use super::Gaps;
use super::devices::unescape;
use crate::root::read_text;
use crate::{CpuSet, Root};

/// The cgroup hierarchy that the CPU controller is attached to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hierarchy {
    /// Which interface it has.
    pub version: CgroupVersion,
    /// Where it is mounted.
    pub mount: String,
}

/// The two interfaces of cgroups.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CgroupVersion {
    /// `cpu.shares`, `cpu.cfs_quota_us`.
    V1,
    /// `cpu.weight`, `cpu.max`.
    V2,
}

/// What a cgroup says about CPU time. A file that the group does not have (in v2: the CPU controller is not enabled for
/// it, and its tasks compete in the nearest ancestor that has it) leaves its field absent.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CgroupFacts {
    /// The path below the hierarchy's mount, beginning with `/`.
    pub path: String,
    /// v2 `cpu.weight`, 1 to 10000, 100 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// v1 `cpu.shares`, 1024 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<u32>,
    /// `cpu.idle` is 1 (5.15 and later): the group as a whole is SCHED_IDLE.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idle: bool,
    /// The limit; `None` is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Bandwidth>,
    /// How often the limit was hit since the group was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<Throttled>,
    /// `cpuset.cpus.effective`, in v2 and where it differs from the parent's by choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuSet>,
}

/// A limit on CPU time: `quota_us` in every `period_us`, on all CPUs together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Bandwidth {
    /// Microseconds of CPU time.
    pub quota_us: u64,
    /// Per this many microseconds.
    pub period_us: u64,
}

/// Counters of a limit (`cpu.stat`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Throttled {
    /// Periods in which the group had something to run (`nr_periods`).
    pub periods: u64,
    /// Periods in which it was stopped (`nr_throttled`).
    pub count: u64,
    /// For how long, summed over CPUs.
    pub ns: Nanos,
}

/// A host has hundreds; a machine that leaks cgroups must not stall a recording.
const MAX_CGROUPS: usize = 20_000;

/// The weight of an entity of the SCHED_IDLE policy (`WEIGHT_IDLEPRIO` in kernel/sched/sched.h).
const IDLE_WEIGHT: u32 = 3;

impl CgroupFacts {
    /// The weight with which the group as a whole competes, in load-weight units (nice 0 = 1024): `cpu.shares` as they
    /// are, `cpu.weight` by [`crate::load_weight_of_cpu_weight`]. On one CPU the group has at most this much, and less
    /// when its load is spread over several (`calc_group_shares()` in kernel/sched/fair.c).
    pub fn load_weight(&self) -> Option<u32> {
        if self.idle {
            return Some(IDLE_WEIGHT);
        }
        self.shares.or(self.weight.map(crate::load_weight_of_cpu_weight))
    }
}

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
    facts.throttled = file("cpu.stat").and_then(|text| throttled(&text));
    match version {
        CgroupVersion::V1 => {
            facts.shares = number("cpu.shares");
            facts.limit = limit_v1(file("cpu.cfs_quota_us"), file("cpu.cfs_period_us"));
        }
        CgroupVersion::V2 => {
            facts.weight = number("cpu.weight");
            facts.limit = file("cpu.max").and_then(|text| limit_v2(&text));
            // Empty means the parent's, which is no choice of this group.
            let chosen = file("cpuset.cpus").is_some_and(|text| !text.trim().is_empty());
            facts.cpus = if chosen { file("cpuset.cpus.effective").and_then(|text| text.parse().ok()) } else { None };
        }
    }
    facts
}

/// Quota −1 is no limit.
fn limit_v1(quota: Option<String>, period: Option<String>) -> Option<Bandwidth> {
    Some(Bandwidth { quota_us: quota?.trim().parse().ok()?, period_us: period?.trim().parse().ok()? })
}

/// `max 100000` is no limit.
fn limit_v2(text: &str) -> Option<Bandwidth> {
    let (quota, period) = text.trim().split_once(' ')?;
    Some(Bandwidth { quota_us: quota.parse().ok()?, period_us: period.parse().ok()? })
}

/// v1 counts `throttled_time` in nanoseconds, v2 `throttled_usec` in microseconds. `None` where there are no counters.
fn throttled(text: &str) -> Option<Throttled> {
    let value = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok())
    };
    let ns = match value("throttled_usec") {
        Some(us) => Nanos::from_micros(us),
        None => Nanos(value("throttled_time")?),
    };
    Some(Throttled { periods: value("nr_periods")?, count: value("nr_throttled")?, ns })
}

/// What the counters grew by, of groups where they did. A group that is new counts from zero; one removed and made anew
/// (its counters went back) likewise.
pub(super) fn throttled_between(begin: &[CgroupFacts], end: &[CgroupFacts]) -> BTreeMap<String, Throttled> {
    let before: BTreeMap<&str, Throttled> =
        begin.iter().filter_map(|group| Some((group.path.as_str(), group.throttled?))).collect();
    end.iter()
        .filter_map(|group| {
            let now = group.throttled?;
            let then = before.get(group.path.as_str()).copied().filter(|then| then.count <= now.count);
            let then = then.unwrap_or_default();
            let grown = Throttled {
                periods: now.periods.saturating_sub(then.periods),
                count: now.count - then.count,
                ns: now.ns.saturating_sub(then.ns),
            };
            (grown.count > 0 || grown.ns > Nanos::ZERO).then(|| (group.path.clone(), grown))
        })
        .collect()
}
