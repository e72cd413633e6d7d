//! Reads HdrHistogram logs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use unstarve_model::Nanos;

use crate::log::{Collector, Log, LogError, Point};

const HDR_FORMAT: &str = "HdrHistogram log";

/// An HdrHistogram log: each line is an interval with the histogram of its values, which are taken as nanoseconds.
///
/// Source: `HistogramLogWriter` of HdrHistogram (Java), and the crate `hdrhistogram`.
pub fn log(text: &str) -> Result<Log, LogError> {
    let (mut collector, mut zero) = (Collector::new(), 0.0);
    let mut deserializer = Deserializer::new();
    for (index, entry) in IntervalLogIterator::new(text.as_bytes()).enumerate() {
        let bad = |what: &str| LogError::line(index as u64 + 1, what, "a line of an HdrHistogram log (V2, compressed)");
        let entry = entry.map_err(|error| bad(&format!("{error:?}")))?;
        let interval = match entry {
            LogEntry::StartTime(time) | LogEntry::BaseTime(time) => {
                zero = time.as_secs_f64();
                continue;
            }
            LogEntry::Interval(interval) => interval,
        };
        let bytes = STANDARD.decode(interval.encoded_histogram()).map_err(|error| bad(&error.to_string()))?;
        let histogram: hdrhistogram::Histogram<u64> =
            deserializer.deserialize(&mut bytes.as_slice()).map_err(|error| bad(&error.to_string()))?;
        let start = ns(relative(interval.start_timestamp().as_secs_f64(), zero));
        let end = start.saturating_add(ns(interval.duration().as_secs_f64()));
        let latency = Nanos(histogram.max());
        collector.add_all(&histogram, Point { latency, start, end });
    }
    collector.log(HDR_FORMAT)
}

/// Start times are relative to the log's start, or with some writers seconds since the epoch, like the log's start.
fn relative(start: f64, zero: f64) -> f64 {
    if zero > 0.0 && start < zero / 2.0 { zero + start } else { start }
}

fn ns(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1e9) as u64
}
