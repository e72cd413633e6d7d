//! Where news of tasks comes from: eBPF where it is built in and allowed, else the kernel's process connector.

#[cfg(feature = "bpf")]
mod ebpf;
mod netlink;

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use unstarve_model::Tid;

use crate::task::Work;

use unstarve_executor::registry::Registry;

/// News.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Signal {
    /// A task was made.
    Born(Born),
    /// It has a new name, as a kernel thread has soon after its birth.
    Renamed {
        /// The task.
        tid: Tid,
        /// Its process.
        tgid: Tid,
    },
    /// It has other user ids.
    Reowned {
        /// The task.
        tid: Tid,
        /// Its process.
        tgid: Tid,
    },
    /// A process, or one thread of it, is in another cgroup.
    Moved {
        /// The thread, or the first of the process.
        tid: Tid,
        /// The process.
        tgid: Tid,
    },
    /// It runs another program.
    Executed {
        /// The task, which is its process's only one now.
        tid: Tid,
        /// When, by the monotonic clock, in ns.
        time: u64,
    },
    /// A worker began an item that it was not known for.
    Worked {
        /// The worker.
        tid: Tid,
        /// What.
        work: Work,
    },
    /// Somebody changed its scheduling.
    Changed {
        /// Whose.
        tid: Tid,
        /// The process that did it.
        by: Tid,
        /// Its name.
        by_comm: String,
    },
    /// A task in the guard's care, or a child of one, has ended.
    Ended {
        /// Which.
        tid: Tid,
        /// How long it ran in its life, in ns.
        ran: u64,
        /// The CPU on which it was.
        cpu: u32,
        /// Whether it was real-time.
        realtime: bool,
    },
    /// News was lost: everything has to be looked at.
    Lost(u64),
    /// A user started so many tasks that these were not reported: everything has to be looked at.
    Throttled(u64),
}

/// A birth.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Born {
    /// The task.
    pub tid: Tid,
    /// Its process.
    pub tgid: Tid,
    /// When, by the monotonic clock, in ns.
    pub time: u64,
    /// Whether it is a kernel thread, if that is known. Its name comes later.
    pub kernel: Option<bool>,
    /// The task that made it; `None` where the source knows only the process.
    pub creator: Option<Tid>,
    /// Its parent waits until it runs another program (vfork(2), posix_spawn(3)): until then its name is only its parent's.
    pub will_execute: bool,
}

/// Which programs' births are wanted, beside those of the kernel's threads and of tasks that are followed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Programs {
    /// None.
    None,
    /// Those whose names begin so.
    Named(Vec<String>),
    /// All.
    All,
}

/// What is wanted of a source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interest {
    /// Births of programs' threads, not only of the kernel's.
    pub programs: Programs,
    /// What workers work on.
    pub work: WorkDetail,
    /// Changes of user ids.
    pub owners: bool,
    /// Moves between cgroups.
    pub groups: bool,
}

/// How precisely work is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkDetail {
    /// Not at all.
    None,
    /// The workqueue.
    Workqueue,
    /// The function, too, which takes a look at the kernel's symbols.
    Function,
}

/// A source of news.
pub trait Source {
    /// Becomes readable when there is news.
    fn fd(&self) -> BorrowedFd<'_>;
    /// Takes what is there.
    fn drain(&mut self, into: &mut Vec<Signal>) -> io::Result<()>;
    /// Its name, for people.
    fn name(&self) -> SourceName;
    /// What it could not do, for people.
    fn gaps(&self) -> &[String];
    /// What has to be told which tasks' children are wanted whatever their names; `None` where all are reported.
    fn follower(&self) -> Option<Follower> {
        None
    }
    /// Who has inherited from whom, as the kernel itself notes it; `None` where it does not.
    fn registry(&self) -> Option<Registry> {
        None
    }
}

/// Takes note of a task whose children are wanted from now on.
pub type Follower = Box<dyn Fn(Tid)>;

/// The inode of the initial PID namespace (`PROC_PID_INIT_INO`, include/linux/proc_ns.h).
const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// The inode of this process's PID namespace, if that is not the machine's first: ids there are not the kernel's own.
pub fn pid_namespace() -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let inode = std::fs::metadata("/proc/self/ns/pid").ok()?.ino();
    if inode == INITIAL_PID_NAMESPACE { None } else { u32::try_from(inode).ok() }
}

/// Which source.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
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

/// Tries whether the kernel takes all programs by which a guard can hear of tasks; they are removed at once. Gives what they could not do.
///
/// # Errors
/// Why it does not take them.
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

/// The best source that works here and, for each better one, why it does not. `wanted` is one alone to try.
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
