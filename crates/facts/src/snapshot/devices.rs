//! CPUs, interrupts, workqueues and mounts in a snapshot.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use unstarve_model::CpuSet;

/// The CPUs of the host. A set that could not be read is `None`; an empty set is empty according to the kernel.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cpus {
    /// Online CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub online: Option<CpuSet>,
    /// Possible CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub possible: Option<CpuSet>,
    /// CPUs without load balancing (`isolcpus=`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolated: Option<CpuSet>,
    /// CPUs whose tick may stop while a task runs (`nohz_full=`). `None` also if the kernel does not support it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nohz_full: Option<CpuSet>,
}

/// An interrupt and its affinity.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IrqFacts {
    /// Its number, as in `irq_handler_entry`.
    pub irq: u32,
    /// Its handlers (`virtio0-input.0`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handlers: Vec<String>,
    /// Where it may be delivered (`smp_affinity_list`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<CpuSet>,
    /// Where it is delivered (`effective_affinity_list`), if the machine reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective: Option<CpuSet>,
    /// How often it was handled since boot, on all CPUs together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The same per CPU, without zeros. Not in a recording's snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_cpu: Option<BTreeMap<u32, u64>>,
    /// The devices that raise it: `net/eth0`, `block/nvme0n1`. Not in a recording's snapshot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
}

/// A workqueue with files in sysfs (WQ_SYSFS).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkqueueFacts {
    /// Its name.
    pub name: String,
    /// Its files, name → text: `per_cpu`, `max_active`, and for unbound workqueues `nice`, `cpumask`, `affinity_scope`.
    pub settings: BTreeMap<String, String>,
}

/// A mounted filesystem.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mount {
    /// The block device.
    pub device: String,
    /// The mount point.
    pub target: String,
    /// The filesystem's type.
    pub fs: String,
    /// Mount options.
    pub options: String,
}
