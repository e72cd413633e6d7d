//! Latency logs: distribution and worst latencies.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hdrhistogram::Histogram;
use serde::Serialize;
use thiserror::Error;
use unstarve_model::Nanos;

use crate::{csv_log, fio, hdr};

/// How many of the worst latencies are kept individually; of the others only the distribution.
const MAX_WORST: usize = 1 << 10;

/// Why a latency file cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LogError {
    /// Unknown format.
    #[error(
        "not a latency log: expected fio's JSON (--output-format=json) or latency log (--write_lat_log), an HdrHistogram \
         log, or CSV with a header line like `time_s,latency_us`"
    )]
    Unknown,
    /// A line cannot be parsed.
    #[error("line {line}: {found:?}; expected {expected}")]
    Line {
        /// Line number, from 1.
        line: u64,
        /// The text found.
        found: String,
        /// What was expected.
        expected: &'static str,
    },
    /// It has no latencies.
    #[error("no latencies in this {format}")]
    Empty {
        /// The format.
        format: &'static str,
    },
}

impl LogError {
    pub(crate) fn line(line: u64, found: &str, expected: &'static str) -> LogError {
        LogError::Line { line, found: found.chars().take(60).collect(), expected }
    }
}

/// One latency: of a single operation, or the worst of an interval.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Point {
    /// The latency.
    pub latency: Nanos,
    /// The earliest time at which it can have begun, on the log's clock.
    pub start: u64,
    /// The latest time at which it can have ended.
    pub end: u64,
}

/// A distribution of latencies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, schemars::JsonSchema)]
pub struct Stats {
    /// The number of latencies.
    pub count: u64,
    /// Median.
    pub p50_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// The longest.
    pub max_ns: u64,
}

/// A latency log.
#[derive(Clone, Debug)]
pub struct Log {
    /// The format: `fio latency log`, ….
    pub format: &'static str,
    /// The distribution of all latencies.
    pub stats: Stats,
    /// The worst latencies, longest first; empty if the log has no times.
    pub worst: Vec<Point>,
    /// When the first latency began and the last one ended, on the log's clock; `None` if the log has no times.
    pub span: Option<(u64, u64)>,
    /// When the log itself begins, which may be long before its first latency: fio counts from the start of the job.
    pub zero: Option<u64>,
}

impl Log {
    /// Reads a log in any known format.
    ///
    /// # Errors [`LogError`] with the line and what was expected there.
    pub fn read(text: &str) -> Result<Log, LogError> {
        let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
        if first.trim_start().starts_with('{') {
            return fio::json(text);
        }
        if first.starts_with('#') || first.starts_with("\"StartTimestamp\"") || first.starts_with("Tag=") {
            return hdr::log(text);
        }
        if fio::is_log_line(first) {
            return fio::log(text);
        }
        csv_log::log(text)
    }
}

/// Collects points.
pub(crate) struct Collector {
    histogram: Histogram<u64>,
    worst: BinaryHeap<Reverse<Point>>,
    span: Option<(u64, u64)>,
    max: u64,
}

impl Collector {
    pub fn new() -> Collector {
        // Three significant digits up to an hour, in nanoseconds. Longer ones count as an hour; the maximum is kept
        // separately.
        let histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 3);
        Collector {
            histogram: histogram.unwrap_or_else(|_| unreachable!("the bounds are in order")),
            worst: BinaryHeap::new(),
            span: None,
            max: 0,
        }
    }

    /// Notes that the log begins at this time of its clock, even if nothing has ended yet.
    pub fn begins(&mut self, at: u64) {
        self.span = Some(self.span.map_or((at, at), |(first, last)| (first.min(at), last.max(at))));
    }

    pub fn add(&mut self, point: Point) {
        self.histogram.saturating_record(point.latency.0.max(1));
        self.place(point);
    }

    /// Adds a point that represents many latencies.
    pub fn add_all(&mut self, many: &Histogram<u64>, point: Point) {
        for value in many.iter_recorded() {
            self.histogram.saturating_record_n(value.value_iterated_to().max(1), value.count_at_value());
        }
        self.place(point);
    }

    fn place(&mut self, point: Point) {
        self.begins(point.start);
        self.begins(point.end);
        self.max = self.max.max(point.latency.0);
        if self.worst.len() < MAX_WORST {
            self.worst.push(Reverse(point));
        } else if self.worst.peek().is_some_and(|least| least.0.latency < point.latency) {
            self.worst.pop();
            self.worst.push(Reverse(point));
        }
    }

    pub fn log(self, format: &'static str) -> Result<Log, LogError> {
        if self.histogram.is_empty() {
            return Err(LogError::Empty { format });
        }
        let at = |quantile| Some(self.histogram.value_at_quantile(quantile).min(self.max));
        let stats = Stats { count: self.histogram.len(), p50_ns: at(0.5), p99_ns: at(0.99), max_ns: self.max };
        // The heap's order is reversed, so the longest come first.
        let worst = self.worst.into_sorted_vec().into_iter().map(|Reverse(point)| point).collect();
        let zero = self.span.map(|(first, _)| first);
        Ok(Log { format, stats, worst, span: self.span, zero })
    }
}
