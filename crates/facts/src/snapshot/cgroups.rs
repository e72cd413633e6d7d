//! Cgroups in a snapshot.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use unstarve_model::{CpuSet, Nanos};
use unstarve_sched::setting::cgroup::CgroupVersion;

/// The cgroup hierarchy with the CPU controller.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hierarchy {
    /// The version of its interface.
    pub version: CgroupVersion,
    /// Where it is mounted.
    pub mount: String,
}

/// The CPU settings of a cgroup. The field of a file that the group lacks is absent. (In v2 a group lacks the files if
/// the CPU controller is not enabled for it; its tasks then compete in the nearest ancestor that has it.)
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CgroupFacts {
    /// The path below the mount point, beginning with `/`.
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
    /// The CPU limit; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Bandwidth>,
    /// How often the limit was hit since the group was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<Throttled>,
    /// `cpuset.cpus.effective`; v2 only, and only if the group has a cpuset of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuSet>,
}

/// A CPU limit: `quota_us` in every `period_us`, summed over all CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bandwidth {
    /// Microseconds of CPU time.
    pub quota_us: u64,
    /// Per this many microseconds.
    pub period_us: u64,
}

impl Bandwidth {
    /// From v1 `cpu.cfs_quota_us` and `cpu.cfs_period_us`; `None` for a quota of −1, no limit, and for what no kernel takes: a period
    /// is 1 ms to 1 s, a quota 1 ms to 2⁴⁴ µs (tg_set_cfs_bandwidth in kernel/sched/core.c, MAX_BW in kernel/sched/sched.h).
    pub fn of_v1(quota: &str, period: &str) -> Option<Bandwidth> {
        let limit = Bandwidth { quota_us: quota.trim().parse().ok()?, period_us: period.trim().parse().ok()? };
        let is_possible = (1_000..=1_000_000).contains(&limit.period_us) && (1_000..1 << 44).contains(&limit.quota_us);
        is_possible.then_some(limit)
    }

    /// From v2 `cpu.max`; `None` for `max 100000`, no limit.
    pub fn of_v2(text: &str) -> Option<Bandwidth> {
        let (quota, period) = text.trim().split_once(' ')?;
        Bandwidth::of_v1(quota, period)
    }
}

/// Throttling counters (`cpu.stat`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Throttled {
    /// Periods in which the group had runnable tasks (`nr_periods`).
    pub periods: u64,
    /// Periods in which it was throttled (`nr_throttled`).
    pub count: u64,
    /// Throttled time, summed over CPUs.
    pub ns: Nanos,
}

impl Throttled {
    /// Parses `cpu.stat`: v1 has `throttled_time` in nanoseconds, v2 `throttled_usec` in microseconds. `None` if there
    /// are no counters.
    pub fn parse(text: &str) -> Option<Throttled> {
        let value = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok())
        };
        let ns = match value("throttled_usec") {
            Some(us) => Nanos::from_micros(us),
            None => Nanos(value("throttled_time")?),
        };
        Some(Throttled { periods: value("nr_periods")?, count: value("nr_throttled")?, ns })
    }
}

impl CgroupFacts {
    /// The load weight (nice 0 = 1024) with which the group as a whole competes: `cpu.shares` itself, or `cpu.weight`
    /// converted by [`unstarve_sched::load_weight_of_cpu_weight`]. On a single CPU it is at most this, and less if the
    /// group's load is spread over several (`calc_group_shares()` in kernel/sched/fair.c).
    pub fn load_weight(&self) -> Option<u32> {
        if self.idle {
            return Some(unstarve_sched::IDLE_WEIGHT);
        }
        self.shares.or(self.weight.map(unstarve_sched::load_weight_of_cpu_weight))
    }
}

/// How much the counters grew, for groups where they did. New groups count from zero, and so do groups that were
/// removed and created again (their counters went back).
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
