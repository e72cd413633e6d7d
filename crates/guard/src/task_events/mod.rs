//! Sources of task events: eBPF if it is built in and permitted, else the kernel's process connector.

#[cfg(feature = "bpf")]
mod ebpf;
mod netlink;

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use unstarve_model::Tid;

use crate::task::Work;

use unstarve_executor::registry::Registry;

/// A task event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Signal {
    /// A task was forked.
    Born(Born),
    /// It has a new name, as a kernel thread has soon after its fork.
    Renamed {
        /// The task.
        tid: Tid,
        /// Its process.
        tgid: Tid,
    },
    /// Its user ids changed.
    Reowned {
        /// The task.
        tid: Tid,
        /// Its process.
        tgid: Tid,
    },
    /// A process, or one of its threads, moved to another cgroup.
    Moved {
        /// The thread, or the leader of the process.
        tid: Tid,
        /// The process.
        tgid: Tid,
    },
    /// It executed another program.
    Executed {
        /// The task, now the only one of its process.
        tid: Tid,
        /// Monotonic clock, in ns.
        time: u64,
    },
    /// A worker started an item that it had not been reported for.
    Worked {
        /// The worker.
        tid: Tid,
        /// The work item.
        work: Work,
    },
    /// Another task changed its scheduling attributes.
    Changed {
        /// The changed task.
        tid: Tid,
        /// The process that changed it.
        by: Tid,
        /// Its name.
        by_comm: String,
    },
    /// A managed task, or a child of one, exited.
    Ended {
        /// The task.
        tid: Tid,
        /// Its CPU time, in ns.
        ran: u64,
        /// Its last CPU.
        cpu: u32,
        /// Whether it was real-time.
        realtime: bool,
    },
    /// Events were lost: a full scan is due.
    Lost(u64),
    /// A user started so many tasks that this many were not reported: a full scan is due.
    Throttled(u64),
}

/// A fork.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Born {
    /// The task.
    pub tid: Tid,
    /// Its process.
    pub tgid: Tid,
    /// Monotonic clock, in ns.
    pub time: u64,
    /// Whether it is a kernel thread, if known. Its name is set later.
    pub kernel: Option<bool>,
    /// The thread that forked it; `None` if the source knows only the process.
    pub creator: Option<Tid>,
    /// Its parent is suspended until it executes another program (vfork(2), posix_spawn(3)): until then it has its parent's
    /// name.
    pub will_execute: bool,
}

/// Programs whose forks are wanted, besides those of kernel threads and of followed tasks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Programs {
    /// None.
    None,
    /// Programs whose names start with one of these.
    Named(Vec<String>),
    /// All.
    All,
}

/// Events wanted from a source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interest {
    /// Forks of programs' threads; those of kernel threads are always reported.
    pub programs: Programs,
    /// Work items of workers.
    pub work: WorkDetail,
    /// Changes of user ids.
    pub owners: bool,
    /// Moves between cgroups.
    pub groups: bool,
}

/// How much to report of work items.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkDetail {
    /// Nothing.
    None,
    /// The workqueue.
    Workqueue,
    /// The function as well, which requires reading the kernel's symbols.
    Function,
}

/// A source of task events.
pub trait Source {
    /// Becomes readable when there are events.
    fn fd(&self) -> BorrowedFd<'_>;
    /// Takes all pending events.
    fn drain(&mut self, into: &mut Vec<Signal>) -> io::Result<()>;
    /// Its name, for messages.
    fn name(&self) -> SourceName;
    /// What does not work, for messages.
    fn gaps(&self) -> &[String];
    /// Registers tasks whose children are reported whatever their names; `None` if all forks are reported.
    fn follower(&self) -> Option<Follower> {
        None
    }
    /// The kernel's record of inheritance; `None` if this source keeps none.
    fn registry(&self) -> Option<Registry> {
        None
    }
}

/// Registers a task whose children are wanted from now on.
pub type Follower = Box<dyn Fn(Tid)>;

/// The inode of the initial PID namespace (`PROC_PID_INIT_INO`, include/linux/proc_ns.h).
const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// The inode of this process's PID namespace, unless it is the initial one: in others tids differ from the kernel's.
pub fn pid_namespace() -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let inode = std::fs::metadata("/proc/self/ns/pid").ok()?.ino();
    if inode == INITIAL_PID_NAMESPACE { None } else { u32::try_from(inode).ok() }
}

/// Which source.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SourceName {
    /// BPF programs.
    Ebpf,
    /// Process events by netlink.
    Netlink,
    /// Nothing but looking at everything again and again.
    Scan,
}

impl fmt::Display for SourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SourceName::Ebpf => "eBPF",
            SourceName::Netlink => "netlink",
            SourceName::Scan => "scan",
        })
    }
}

/// Loads all BPF programs that a guard can use, and removes them at once. Returns the gaps.
///
/// # Errors
/// Why the kernel does not load them.
pub fn attempt() -> Result<Vec<String>, String> {
    let (source, mut reasons) = open(
        Interest { programs: Programs::All, work: WorkDetail::Function, owners: true, groups: true },
        Some(SourceName::Ebpf),
    );
    match source {
        Some(source) => Ok(source.gaps().to_vec()),
        None => Err(reasons.swap_remove(0)),
    }
}

/// Opens the best source that works here, and returns why each better one does not work. `wanted` is the only one to try.
pub fn open(interest: Interest, wanted: Option<SourceName>) -> (Option<Box<dyn Source>>, Vec<String>) {
    let mut reasons = Vec::new();
    let may = |name| wanted.is_none_or(|wanted| wanted == name);
    if may(SourceName::Ebpf) {
        #[cfg(feature = "bpf")]
        match ebpf::Ebpf::open(&interest) {
            Ok(source) => return (Some(Box::new(source)), reasons),
            Err(reason) => reasons.push(format!("no eBPF: {reason}")),
        }
        #[cfg(not(feature = "bpf"))]
        reasons.push("no eBPF: this program was built without the feature `bpf`".to_owned());
    }
    if may(SourceName::Netlink) {
        match netlink::Netlink::open(&interest) {
            Ok(source) => return (Some(Box::new(source)), reasons),
            Err(error) => reasons.push(format!("no process events by netlink: {error}")),
        }
    }
    reasons.push(
        "births are not seen: what is born is set at the next look, and children of processes that have ended keep what they \
         inherited"
            .to_owned(),
    );
    (None, reasons)
}
