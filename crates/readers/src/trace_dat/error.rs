//! Errors of the trace.dat reader.

use std::io;

use thiserror::Error;

/// Why a trace.dat file yields no events at all. Damage that leaves some events is a [`unstarve_model::Loss`] instead.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TraceDatError {
    /// A system call failed.
    #[error("at byte {offset}: {source}")]
    Io {
        /// Where in the file.
        offset: u64,
        /// The system's error.
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
        /// What was expected there.
        expected: &'static str,
        /// The file's (or unpacked section's) length.
        length: u64,
    },
    /// The content is not what was expected.
    #[error("at byte {offset}: expected {expected}, found {found}; the file is damaged here")]
    Unexpected {
        /// Where in the file.
        offset: u64,
        /// What was expected there.
        expected: &'static str,
        /// What was found.
        found: String,
    },
    /// An unknown version.
    #[error(
        "version {0:?} of trace.dat is not known; versions 6 and 7 are. `trace-cmd convert --file-version 6` helps"
    )]
    Version(String),
    /// An unsupported compression.
    #[error("compression {0:?} is not known; `trace-cmd convert --compression none` helps")]
    Compression(String),
    /// The text of a latency tracer instead of events.
    #[error(
        "it holds the text of a latency tracer (`trace-cmd record -p wakeup` and the like), not events: record with \
         `-e sched`, or give the output of `trace-cmd report`"
    )]
    Latency,
    /// The trace clock does not count time.
    #[error(
        "its clock is {0:?}, which counts ticks, and the file does not say how long one is: record with another clock \
         (`trace-cmd record -C mono`; `-C tsc2nsec` keeps the factor), or give the output of `trace-cmd report --ts2secs HZ`"
    )]
    Clock(String),
    /// The ring buffer format before 2009.
    #[error("its pages are of a kernel before 2.6.31, which cannot be read")]
    OldKernel,
}

impl TraceDatError {
    pub(super) fn unexpected(offset: u64, expected: &'static str, found: impl ToString) -> TraceDatError {
        TraceDatError::Unexpected { offset, expected, found: found.to_string() }
    }
}
