//! Cgroup settings: weight, idle and quota, in both hierarchies.

use serde::{Deserialize, Serialize};

use super::{Content, PolicyKey, Setting, Shows};

/// The two interfaces of cgroups.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CgroupVersion {
    /// `cpu.shares`, `cpu.cfs_quota_us`.
    V1,
    /// `cpu.weight`, `cpu.max`.
    V2,
}

/// A group setting that sets its share or quota.
pub(super) const OF_GROUP: Setting = Setting { gives_more, ..Setting::PLAIN };

pub(super) const WEIGHT: Setting = Setting {
    paths: &["{GROUP}/cpu.weight"],
    version: Some(CgroupVersion::V2),
    systemd: |value| Some(format!("CPUWeight={}", value.parse::<u32>().ok()?)),
    policy: Some(PolicyKey {
        to_file: |value| policy_weight(value).map(Content::of),
        of_file: |value| Some(value.parse::<u32>().ok()?.to_string()),
        ..POLICY_WEIGHT
    }),
    ..OF_GROUP
};

pub(super) const SHARES: Setting = Setting {
    paths: &["{GROUP}/cpu.shares"],
    version: Some(CgroupVersion::V1),
    systemd: |value| Some(format!("CPUWeight={}", crate::systemd_weight_of_shares(value.parse().ok()?))),
    policy: Some(PolicyKey {
        to_file: |value| policy_weight(value).map(|weight| Content::of(weight_in(CgroupVersion::V1, weight))),
        of_file: |value| Some(crate::cpu_weight_of_load_weight(value.parse().ok()?).to_string()),
        ..POLICY_WEIGHT
    }),
    ..OF_GROUP
};

const POLICY_WEIGHT: PolicyKey = PolicyKey {
    name: "weight",
    about: "As `cpu.weight`, 1 to 10000 with 100 for the default; `cpu.shares` of version 1 are computed from it.",
    takes: "1 to 10000",
    range: Some((1, 10_000)),
    to_file: |_| None,
    of_file: |_| None,
};

fn policy_weight(value: &str) -> Option<u32> {
    value.parse().ok().filter(|weight| (1..=10_000).contains(weight))
}

/// Idle groups run after all others. Source: `sched_group_set_idle()` in kernel/sched/fair.c, 5.15.
pub(super) const IDLE: Setting =
    Setting { paths: &["{GROUP}/cpu.idle"], gives_more: |_, new| new.trim() != "1", ..Setting::PLAIN };

pub(super) const MAX: Setting = Setting {
    paths: &["{GROUP}/cpu.max"],
    version: Some(CgroupVersion::V2),
    systemd: |value| {
        let (quota, period) = value.split_once(' ')?;
        let Ok(quota) = quota.parse::<u64>() else { return Some("CPUQuota=".to_owned()) };
        let percent = (u128::from(quota) * 100).div_ceil(period.parse::<u128>().ok()?.max(1)).max(1);
        Some(format!("CPUQuota={percent}%"))
    },
    ..OF_GROUP
};

/// Whether the group's CPUs are its own: `member`, `root`, `isolated`. The kernel shows `root invalid (…)` while it cannot be so, and
/// makes it so once it can.
///
/// Source: `sched_partition_show()` in kernel/cgroup/cpuset.c (5.0; reasons 6.1); Documentation/admin-guide/cgroup-v2.rst.
pub(super) const PARTITION: Setting = Setting {
    paths: &["{GROUP}/cpuset.cpus.partition"],
    version: Some(CgroupVersion::V2),
    shows: Shows::WithReason,
    // It takes the CPUs from all other groups.
    gives_more: |_, _| true,
    ..Setting::PLAIN
};

pub(super) const QUOTA: Setting =
    Setting { paths: &["{GROUP}/cpu.cfs_quota_us"], version: Some(CgroupVersion::V1), ..OF_GROUP };

pub(super) const PERIOD: Setting = Setting {
    paths: &["{GROUP}/cpu.cfs_period_us"],
    version: Some(CgroupVersion::V1),
    // A shorter period turns the same quota into more CPU time; the kernel refuses periods that are too short.
    gives_more: |_, _| true,
    ..OF_GROUP
};

fn gives_more(old: &str, new: &str) -> bool {
    match (share(old), share(new)) {
        (Some(old), Some(new)) => new > old,
        _ => true,
    }
}

/// A weight, a percentage, or a quota divided by its period; "no limit" is above all others.
fn share(text: &str) -> Option<f64> {
    let mut words = text.split_ascii_whitespace();
    let amount = match words.next()? {
        "max" | "-1" => f64::INFINITY,
        number => number.parse::<f64>().ok().filter(|amount| amount.is_finite() && *amount >= 0.0)?,
    };
    let period = words.next().map(|word| word.parse::<u64>().ok().filter(|period| *period > 0));
    match period {
        Some(period) => Some(amount / period? as f64),
        None => Some(amount),
    }
}

/// The name of a group's file, and its content.
pub type GroupFile = (&'static str, Content);

/// The name of a group's weight file.
pub fn weight_file(version: CgroupVersion) -> &'static str {
    match version {
        CgroupVersion::V1 => SHARES.file_name(),
        CgroupVersion::V2 => WEIGHT.file_name(),
    }
}

/// A group's weight, in the unit of its file.
pub fn weight(version: CgroupVersion, own_unit: u32) -> GroupFile {
    (weight_file(version), Content::of(own_unit))
}

/// The default weight of a group, in the unit of its file.
pub fn normal_weight(version: CgroupVersion) -> u32 {
    weight_in(version, 100)
}

/// A weight (100 is the default) in the unit of the file.
pub fn weight_in(version: CgroupVersion, weight: u32) -> u32 {
    match version {
        CgroupVersion::V1 => crate::load_weight_of_cpu_weight(weight),
        CgroupVersion::V2 => weight,
    }
}

/// The weight in a file, as a load weight (nice 0 = 1024).
pub fn load_weight(version: CgroupVersion, own_unit: u32) -> u32 {
    match version {
        CgroupVersion::V1 => own_unit,
        CgroupVersion::V2 => crate::load_weight_of_cpu_weight(own_unit),
    }
}

/// A group's quota per period.
pub fn limit(version: CgroupVersion, quota_us: u64, period_us: u64) -> GroupFile {
    match version {
        CgroupVersion::V1 => (QUOTA.file_name(), Content::of(quota_us)),
        CgroupVersion::V2 => (MAX.file_name(), Content::of(format_args!("{quota_us} {period_us}"))),
    }
}

/// Whether the whole group runs after all others.
pub fn idle(on: bool) -> GroupFile {
    (IDLE.file_name(), Content::of(u8::from(on)))
}
