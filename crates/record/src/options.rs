//! Options of a recording.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What to record, for how long, and where to.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file to write. An existing file is renamed to the same name with `.old` when the recording is complete.
    pub output: PathBuf,
    /// What ends the recording. SIGINT, SIGTERM and SIGHUP always do.
    pub until: Until,
    /// Which events.
    pub events: Events,
    /// Size of the kernel's ring buffers.
    pub buffer: BufferSize,
    /// File size in bytes at which the recording ends. It always ends before the disk is full.
    pub max_size: Option<u64>,
    /// Whether names are stored in the file.
    pub names: Names,
}

/// Whether names of processes, cgroups and the host are stored in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Names {
    /// Real names.
    Real,
    /// Pseudonyms, except for kernel threads. No real name is ever written to the disk.
    Redacted,
}

/// What ends a recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Until {
    /// Only a signal.
    Signal,
    /// A duration.
    Elapsed(Duration),
    /// The end of this command (program and arguments), which is started after recording has begun.
    CommandEnds(Vec<OsString>),
}

/// Which events are recorded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Events {
    /// Those that each analysis uses.
    Usual,
    /// Requests to block devices, too.
    WithBlock,
    /// All that settles what a prediction would have to guess: also timers, the CPUs' own interrupts, who raises softirqs, and
    /// moves to other cgroups.
    Predictable,
}

/// The size of the ring buffer of each CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BufferSize {
    /// 16 MiB, or less if that would be much of the memory.
    Auto,
    /// This many KiB.
    KiB(u32),
}
