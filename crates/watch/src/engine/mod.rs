//! Counts who waits for whom by which rule, and gives a [`Reading`].

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
mod places;
mod proc;
pub mod reading;
mod recording;
mod role_table;
mod said;
mod schedstat_check;
mod scripted;
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
pub use self::schedstat_check::{Word, waited};
pub use self::scripted::Scripted;
pub use self::tracefs::Tracefs;

/// Sums up waits all the time, and says how things stand when it is asked.
pub trait Engine {
    /// What it counts by, for people and logs: `eBPF`, `tracefs`.
    fn name(&self) -> &'static str;

    /// How things stand now. Meant to be called every 250 ms unless it is [quiet](Engine::quiet): what starves at the moment is seen only then.
    ///
    /// # Errors
    /// If what the kernel has counted cannot be fetched. The next call may succeed.
    fn read(&mut self) -> Result<Reading, EngineError>;

    /// Whether every role has waited for less than this since the last reading, and nobody waits behind a task now. Then another reading
    /// would show nothing. `None`, too, where that cannot be seen without one.
    fn quiet(&self, below: Nanos) -> Option<Quiet> {
        let _ = below;
        None
    }

    /// Whether a reading takes no longer however much happens on the machine. Only then may it go before all ordinary programs: else who
    /// makes much happen would take the CPU from the others by it.
    fn is_bounded(&self) -> bool {
        false
    }
}

/// By what waits are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EngineName {
    /// BPF programs: [`crate::engine::Ebpf`].
    Ebpf,
    /// Every event of the scheduler, decoded: [`crate::engine::Tracefs`].
    Tracefs,
}

/// How to count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// By this one alone. `None`: by eBPF, and by tracefs where that cannot be used.
    pub engine: Option<EngineName>,
    /// Waits that last and are younger than this are not in [`Reading::oldest`].
    pub oldest_from: Nanos,
    /// Where the eBPF engine keeps what it knows of each task.
    pub tasks: TaskMemory,
}

/// Where the eBPF engine keeps what it knows of each task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TaskMemory {
    /// In an array while there is a free place, which is faster, else with the task itself, from Linux 5.12 on; before, in a table of
    /// 65,536 entries.
    #[default]
    Kernel,
    /// With the task itself alone, as where all places of the array are taken.
    Storage,
    /// In a table of so many entries, as before 5.12.
    Table {
        /// Tasks for which there is room.
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
    /// What was counted cannot be fetched.
    #[error("cannot read {what}")]
    Read {
        /// What was asked for.
        what: &'static str,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A [`crate::engine::Scripted`] engine has given all its readings.
    #[error("no reading is left")]
    Ended,
}
