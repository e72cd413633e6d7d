use std::io;

use thiserror::Error;

use crate::format::FormatError;

/// Why a perf.data file cannot be read at all. Damage further on ends the stream and is told as a loss.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PerfDataError {
    /// The operating system said no.
    #[error("byte {offset}: cannot read on")]
    Read {
        /// Where.
        offset: u64,
        /// What it said.
        source: io::Error,
    },
    /// The header, or a table that it points to, is not what it should be.
    #[error("byte {offset}: expected {expected}; the file is damaged or was cut: copy or record it again")]
    Header {
        /// Where.
        offset: u64,
        /// What should have been there.
        expected: &'static str,
    },
    /// The file has events but not the texts that describe them.
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
    /// The event formats end early, or are none.
    #[error("byte {offset} of the event formats: expected {expected}")]
    TracingData {
        /// Where in the tracing data.
        offset: usize,
        /// What should have been there.
        expected: &'static str,
    },
    /// No event that unstarve reads is in it.
    #[error("it records no scheduler events; record with `perf sched record`")]
    NoSchedulerEvents,
    /// Samples do not say when and where they were taken.
    #[error("its samples lack {missing}; record with `perf sched record`, or with `perf record -a -R -T --sample-cpu`")]
    SampleType {
        /// The part that is missing.
        missing: &'static str,
    },
}
