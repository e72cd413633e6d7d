use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use unstarve_model::CpuSet;

/// The CPUs of the host. A set that could not be read is `None`; one that the kernel says is empty is empty.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Cpus {
    /// Those in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub online: Option<CpuSet>,
    /// Those that could ever be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub possible: Option<CpuSet>,
    /// Those without load balancing (`isolcpus=`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolated: Option<CpuSet>,
    /// Those whose tick may stop while a task runs (`nohz_full=`). `None` also where the kernel cannot do it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nohz_full: Option<CpuSet>,
}

/// An interrupt and where it may be delivered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct IrqFacts {
    /// Its number, as `irq_handler_entry` gives it.
    pub irq: u32,
    /// Its handlers (`virtio0-input.0`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handlers: Vec<String>,
    /// Where it may go (`smp_affinity_list`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<CpuSet>,
    /// Where it does go (`effective_affinity_list`), on machines that tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective: Option<CpuSet>,
    /// How often it was served since boot, on all CPUs together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The same by CPU; zeros are left out. Not in a recording's snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_cpu: Option<BTreeMap<u32, u64>>,
    /// The devices that raise it: `net/eth0`, `block/nvme0n1`. Not in a recording's snapshot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
}

/// A workqueue that sysfs shows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WorkqueueFacts {
    /// Its name.
    pub name: String,
    /// Its files, name → text: `per_cpu`, `max_active`, and of unbound ones `nice`, `cpumask`, `affinity_scope`.
    pub settings: BTreeMap<String, String>,
}

/// A mounted filesystem.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Mount {
    /// The block device.
    pub device: String,
    /// Where.
    pub target: String,
    /// The filesystem's type.
    pub fs: String,
    /// Mount options.
    pub options: String,
}
