use std::io;

use thiserror::Error;

/// Why a trace.dat file gives no events at all. Damage that leaves some is a [`unstarve_model::Loss`] instead.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TraceDatError {
    /// The system refuses.
    #[error("at byte {offset}: {source}")]
    Io {
        /// Where in the file.
        offset: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// The file ends before its data.
    #[error(
        "at byte {offset}: expected {expected}, but the file ends at byte {length}; it was cut, or the recording was not \
         finished: copy or record it again"
    )]
    Truncated {
        /// Where in the file.
        offset: u64,
        /// What should be there.
        expected: &'static str,
        /// The file's (or unpacked section's) length.
        length: u64,
    },
    /// Something else is there.
    #[error("at byte {offset}: expected {expected}, found {found}; the file is damaged here")]
    Unexpected {
        /// Where in the file.
        offset: u64,
        /// What should be there.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// A version that nobody has described yet.
    #[error(
        "version {0:?} of trace.dat is not known; versions 6 and 7 are. `trace-cmd convert --file-version 6` helps"
    )]
    Version(String),
    /// A compression that is not built in.
    #[error("compression {0:?} is not known; `trace-cmd convert --compression none` helps")]
    Compression(String),
    /// Text of a latency tracer instead of events.
    #[error(
        "it holds the text of a latency tracer (`trace-cmd record -p wakeup` and the like), not events: record with \
         `-e sched`, or give the output of `trace-cmd report`"
    )]
    Latency,
    /// Its times are no times.
    #[error(
        "its clock is {0:?}, which counts ticks, and the file does not say how long one is: record with another clock \
         (`trace-cmd record -C mono`; `-C tsc2nsec` keeps the factor), or give the output of `trace-cmd report --ts2secs HZ`"
    )]
    Clock(String),
    /// The ring buffer of before 2009.
    #[error("its pages are of a kernel before 2.6.31, which cannot be read")]
    OldKernel,
}

impl TraceDatError {
    pub(super) fn unexpected(offset: u64, expected: &'static str, found: impl ToString) -> TraceDatError {
        TraceDatError::Unexpected { offset, expected, found: found.to_string() }
    }
}
