//! Engines: they count which tasks wait behind which, by which rule, and return a [`Reading`].

pub mod clocks;
#[cfg(feature = "bpf")]
mod ebpf;
mod error_chain;
mod groups;
mod limit_files;
mod limits;
#[cfg(feature = "bpf")]
mod lockdown;
mod open;
#[cfg(feature = "bpf")]
mod place_table;
mod proc;
pub mod reading;
mod recent_runs;
mod recording;
mod refined_rule;
mod role_table;
mod schedstat_check;
mod task_lookup;
mod totals;
mod tracefs;

use std::io;

use unstarve_model::Nanos;

#[cfg(feature = "bpf")]
pub use self::ebpf::Ebpf;
pub(crate) use self::error_chain::error_chain;
pub use self::open::{Opened, open};
use self::reading::{Quiet, Reading};
pub use self::recording::Recording;
pub use self::schedstat_check::{SchedstatCheck, waited};
pub use self::tracefs::Tracefs;

/// Sums up waits continuously and reports the sums on request.
pub trait Engine {
    /// The method of counting, for people and logs: `eBPF`, `tracefs`.
    fn name(&self) -> &'static str;

    /// The sums now. Call it every 250 ms unless the engine is [quiet](Engine::quiet): waits in progress are seen only by calling it.
    ///
    /// # Errors
    /// If the kernel's counts cannot be read. The next call may succeed.
    fn read(&mut self) -> Result<Reading, EngineError>;

    /// Whether every role has waited for less than `below` since the last reading, and no task waits behind another one now. Then another
    /// reading would show nothing. `None` otherwise, and if only a reading could show it.
    fn quiet(&self, below: Nanos) -> Option<Quiet> {
        let _ = below;
        None
    }

    /// Whether the time of a reading is bounded, however much happens on the machine. Only then may the engine run at a priority above ordinary
    /// programs: otherwise a program that causes many events could use it to take CPU time from others.
    fn is_bounded(&self) -> bool {
        false
    }
}

/// A method of counting waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EngineName {
    /// BPF programs: [`crate::engine::Ebpf`].
    Ebpf,
    /// Decodes every scheduler event: [`crate::engine::Tracefs`].
    Tracefs,
}

/// How to count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Use only this engine. `None`: eBPF, or tracefs where eBPF cannot be used.
    pub engine: Option<EngineName>,
    /// Waits in progress that are shorter than this are left out of [`Reading::oldest`].
    pub oldest_from: Nanos,
    /// Where the eBPF engine keeps its data about each task.
    pub tasks: TaskMemory,
}

/// Where the eBPF engine keeps its data about each task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TaskMemory {
    /// In an array while it has a free slot, which is faster; otherwise in task storage (Linux 5.12 or later). Before 5.12, in a table of
    /// 65,536 entries.
    #[default]
    Kernel,
    /// In task storage only, as if all slots of the array were taken.
    Storage,
    /// In a table of this size, as before 5.12.
    Table {
        /// Maximum tasks.
        entries: u32,
    },
}

impl Default for Options {
    fn default() -> Options {
        Options { engine: None, oldest_from: Nanos::from_millis(10), tasks: TaskMemory::Kernel }
    }
}

/// Why an engine does not start or cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The kernel refuses, or lacks what the engine needs.
    #[error("{engine} cannot be used here: {reason}")]
    Unavailable {
        /// The engine's name.
        engine: &'static str,
        /// What is missing and what to do.
        reason: String,
    },
    /// The counts cannot be read.
    #[error("cannot read {what}")]
    Read {
        /// What was read.
        what: &'static str,
        /// The error of the system call.
        #[source]
        source: io::Error,
    },
    /// A recording has no further reading.
    #[error("no reading is left")]
    Ended,
}
