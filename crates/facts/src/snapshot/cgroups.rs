use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use unstarve_model::{CpuSet, Nanos};
use unstarve_sched::setting::cgroup::CgroupVersion;

/// The cgroup hierarchy that the CPU controller is attached to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hierarchy {
    /// Which interface it has.
    pub version: CgroupVersion,
    /// Where it is mounted.
    pub mount: String,
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

impl Bandwidth {
    /// By `cpu.cfs_quota_us` and `cpu.cfs_period_us` of v1; a quota of −1 is no limit.
    pub fn of_v1(quota: &str, period: &str) -> Option<Bandwidth> {
        Some(Bandwidth { quota_us: quota.trim().parse().ok()?, period_us: period.trim().parse().ok()? })
    }

    /// By `cpu.max` of v2; `max 100000` is no limit.
    pub fn of_v2(text: &str) -> Option<Bandwidth> {
        let (quota, period) = text.trim().split_once(' ')?;
        Bandwidth::of_v1(quota, period)
    }
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

impl Throttled {
    /// By `cpu.stat`: v1 counts `throttled_time` in nanoseconds, v2 `throttled_usec` in microseconds. `None` where there are no counters.
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
    /// The weight with which the group as a whole competes, in load-weight units (nice 0 = 1024): `cpu.shares` as they
    /// are, `cpu.weight` by [`unstarve_sched::load_weight_of_cpu_weight`]. On one CPU the group has at most this much, and less
    /// when its load is spread over several (`calc_group_shares()` in kernel/sched/fair.c).
    pub fn load_weight(&self) -> Option<u32> {
        if self.idle {
            return Some(unstarve_sched::IDLE_WEIGHT);
        }
        self.shares.or(self.weight.map(unstarve_sched::load_weight_of_cpu_weight))
    }
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
