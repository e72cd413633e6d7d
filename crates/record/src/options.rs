use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What to record, how long, and where to.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file to write. An older one is replaced, but only by a complete new one.
    pub output: PathBuf,
    /// What ends the recording. SIGINT, SIGTERM and SIGHUP always do.
    pub until: Until,
    /// Whether block I/O is recorded too.
    pub block: BlockEvents,
    /// How much of the kernel's memory holds events until they are fetched.
    pub buffer: BufferSize,
    /// The size of the file, in bytes, at which the recording ends. It always ends before the disk is full.
    pub max_size: Option<u64>,
    /// Whose names are in the file.
    pub names: Names,
}

/// Whether names of processes, cgroups and the host are in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Names {
    /// As they are.
    Real,
    /// Pseudonyms, except those of kernel threads. No other name is ever written to the disk.
    Redacted,
}

/// What ends a recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Until {
    /// A signal alone.
    Signal,
    /// This much time.
    Elapsed(Duration),
    /// The end of this command (program and arguments), which is started once events are recorded.
    CommandEnds(Vec<OsString>),
}

/// Whether `block_rq_insert`, `block_rq_issue` and `block_rq_complete` are recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockEvents {
    /// They are not.
    Off,
    /// They are.
    On,
}

/// The size of the ring buffer of each CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BufferSize {
    /// 16 MiB, or less where that would be much of the memory.
    Auto,
    /// This many KiB.
    KiB(u32),
}
