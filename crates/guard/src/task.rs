//! A task as the policy's rules see it: kind, name, cgroup, owner, work items, attributes.

use std::fmt;

use serde::{Deserialize, Serialize};
use unstarve_change::TaskKey;
use unstarve_executor::Attributes;
use unstarve_facts::flag;
use unstarve_model::Tid;

use crate::owner::Owner;

/// What a task is to the scheduler's user. Kernel threads are told by `PF_KTHREAD` and `PF_WQ_WORKER`, which no program
/// can set, and only then by name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A thread of a program.
    User,
    /// Any kernel thread: in a rule this matches all the kinds below.
    Kthread,
    /// A workqueue's worker, rescuers included.
    Kworker,
    /// Runs the softirqs of a CPU.
    Ksoftirqd,
    /// Runs timers where interrupts are forced into threads.
    Ktimers,
    /// Makes all other kernel threads.
    Kthreadd,
    /// Reclaims memory.
    Kswapd,
    /// RCU's own threads.
    Rcu,
    /// Handles one interrupt (`irq/24-nvme0q1`).
    IrqThread,
    /// Polls a network queue (`napi/eth0-3`).
    Napi,
    /// Above everybody: migration, cpuhp, watchdog and idle injection. No rule changes one.
    Untouchable,
}

impl Kind {
    /// The kind of a task with this name and these `PF_*` flags.
    pub fn of(comm: &str, flags: u64) -> Kind {
        if flags & flag::KTHREAD == 0 {
            return Kind::User;
        }
        if flags & flag::WQ_WORKER != 0 || comm.starts_with("kworker/") {
            return Kind::Kworker;
        }
        let (stem, numbered) = comm.split_once('/').map_or((comm, false), |(stem, _)| (stem, true));
        match stem {
            "ksoftirqd" if numbered => Kind::Ksoftirqd,
            "ktimers" if numbered => Kind::Ktimers,
            "irq" if numbered => Kind::IrqThread,
            "napi" if numbered => Kind::Napi,
            "migration" | "cpuhp" | "watchdog" | "idle_inject" if numbered => Kind::Untouchable,
            "watchdogd" => Kind::Untouchable,
            "kthreadd" => Kind::Kthreadd,
            "rcuc" | "rcuog" | "rcuop" | "rcuos" | "rcub" if numbered => Kind::Rcu,
            stem if stem.starts_with("kswapd") => Kind::Kswapd,
            stem if stem.starts_with("rcu_") => Kind::Rcu,
            _ => Kind::Kthread,
        }
    }

    /// Whether a rule for this kind matches a task of the other kind.
    pub fn covers(self, other: Kind) -> bool {
        self == other || (self == Kind::Kthread && other != Kind::User)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::User => "user",
            Kind::Kthread => "kthread",
            Kind::Kworker => "kworker",
            Kind::Ksoftirqd => "ksoftirqd",
            Kind::Ktimers => "ktimers",
            Kind::Kthreadd => "kthreadd",
            Kind::Kswapd => "kswapd",
            Kind::Rcu => "rcu",
            Kind::IrqThread => "irq-thread",
            Kind::Napi => "napi",
            Kind::Untouchable => "untouchable",
        })
    }
}

/// A work item: the workqueue and the function, if known.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Work {
    /// `dio/nvme0n1`; /proc cuts it to 24 or 32 characters, and a work item can replace it by a description.
    pub workqueue: Option<String>,
    /// `iomap_dio_complete_work`.
    pub function: Option<String>,
}

/// A task, as rules see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Task {
    /// Its identity.
    pub key: TaskKey,
    /// Its process.
    pub tgid: Tid,
    /// Pid and name of the parent process.
    pub parent: Option<(Tid, String)>,
    /// Its name; a worker's without the work item.
    pub comm: String,
    /// Its arguments, joined by blanks; `None` for kernel threads.
    pub cmdline: Option<String>,
    /// Its cgroup in the hierarchy with the CPU controller.
    pub cgroup: Option<String>,
    /// The unit of the system's service manager in its cgroup path: never one that a user or a container created below it.
    pub unit: Option<String>,
    /// What it is.
    pub kind: Kind,
    /// Whether user space may not change its affinity.
    pub affinity_fixed: bool,
    /// Its owner; `None` if not read, or not readable.
    pub owner: Option<Owner>,
    /// Work items that it was seen to execute.
    pub works: Vec<Work>,
    /// The attributes that rules can set.
    pub attributes: Attributes,
}

/// The files to read for each task: without a rule that needs a command line, none is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// `cmdline`.
    pub cmdline: bool,
    /// `cgroup`, for the group and the unit.
    pub cgroup: bool,
    /// The parent's name.
    pub parent: bool,
    /// `status`, for the owner.
    pub owner: bool,
    /// Files that are settings.
    pub settings: bool,
}

impl Wanted {
    /// All files.
    pub fn all() -> Wanted {
        Wanted { cmdline: true, cgroup: true, parent: true, owner: true, settings: true }
    }
}
