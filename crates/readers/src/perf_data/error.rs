//! Errors of the perf.data reader.

use std::io;

use thiserror::Error;

use crate::format::FormatError;

/// Why a perf.data file cannot be read at all. Damage further on ends the stream and is reported as a loss.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PerfDataError {
    /// A system call failed.
    #[error("byte {offset}: cannot read further")]
    Read {
        /// Where.
        offset: u64,
        /// The system's error.
        source: io::Error,
    },
    /// The header, or a table it points to, is invalid.
    #[error("byte {offset}: expected {expected}; the file is damaged or was cut: copy or record it again")]
    Header {
        /// Where.
        offset: u64,
        /// What was expected there.
        expected: &'static str,
    },
    /// The file has events, but not their event formats.
    #[error(
        "no event formats in it (HEADER_TRACING_DATA): perf was killed before it finished the file, or recorded no \
         tracepoints; record with `perf sched record`"
    )]
    NoFormats,
    /// A format text does not parse.
    #[error("byte {offset} of the event formats: {source}")]
    Format {
        /// Where in the tracing data.
        offset: usize,
        /// What is wrong with it.
        source: FormatError,
    },
    /// The event formats are truncated or invalid.
    #[error("byte {offset} of the event formats: expected {expected}")]
    TracingData {
        /// Where in the tracing data.
        offset: usize,
        /// What was expected there.
        expected: &'static str,
    },
    /// It has no event that unstarve reads.
    #[error("it records no scheduler events; record with `perf sched record`")]
    NoSchedulerEvents,
    /// Samples lack a field that is needed.
    #[error("its samples lack {missing}; record with `perf sched record`, or with `perf record -a -R -T --sample-cpu`")]
    SampleType {
        /// The missing field.
        missing: &'static str,
    },
}
