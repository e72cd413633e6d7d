//! What a plan asks of a host, and whether ids of a recording mean anything there.

use std::io;

use unstarve_change::Place;
use unstarve_model::Tid;
use unstarve_sched::setting::cgroup::CgroupVersion;

use crate::host::Host;

/// What a plan reads of a host besides values.
pub trait Look: Host {
    /// A thread's start time; `None` if there is none of this tid.
    fn start_of(&self, tid: Tid) -> Option<u64>;
    /// Its name.
    fn comm_of(&self, tid: Tid) -> Option<String>;
    /// Its `PF_*` flags.
    fn flags_of(&self, tid: Tid) -> Option<u64>;
    /// Its uid.
    fn user_of(&self, tid: Tid) -> Option<u32>;
    /// The owner of a file's directory: for a cgroup, the user to whom it was delegated.
    fn owner_of_directory(&self, path: &str) -> Option<u32>;
    /// The threads of a process.
    fn threads_of(&self, process: Tid) -> Vec<Tid>;
    /// Kernel threads whose names start with a prefix.
    fn kernel_threads(&self, prefix: &str) -> Vec<Tid>;
    /// The file's place, if it is there.
    fn file(&self, path: &str) -> Option<Place>;
    /// A file's content.
    fn text(&self, path: &str) -> io::Result<String>;
    /// The names of an interrupt's handlers; `None` if there is no such interrupt.
    fn handlers_of(&self, irq: u32) -> Option<Vec<String>>;
    /// The thread's autogroup: the session with which it competes against other sessions.
    fn session_of(&self, tid: Tid) -> Option<u64>;
    /// The weight file of a thread's top-level cgroup, and its hierarchy; `None` in the root group.
    fn weight_file(&self, tid: Tid) -> Option<(String, CgroupVersion)>;
}

/// Whether ids in a recording (of threads, interrupts, queues, CPUs) are valid on this host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ids {
    /// It was recorded here, since this boot.
    Hold,
    /// It was recorded on another host or before this boot.
    AreStrange,
    /// The recording does not say where it was made.
    AreUnknown,
}
