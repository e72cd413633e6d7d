//! Reads fio's JSON output and latency logs.

use serde_json::Value;
use unstarve_model::Nanos;

use crate::log::{Collector, Log, LogError, Point, Stats};

const MILLISECOND_NS: u64 = 1_000_000;

/// fio's `--output-format=json`: distributions without times. Source: fio's HOWTO, "JSON output".
pub fn json(text: &str) -> Result<Log, LogError> {
    let report: Value = serde_json::from_str(text).map_err(|error| {
        let line = error.line() as u64;
        let found = text.lines().nth(error.line().saturating_sub(1)).unwrap_or("");
        LogError::line(line, found, "JSON of fio")
    })?;
    let jobs = report["jobs"].as_array().ok_or(LogError::Unknown)?;
    let directions = jobs.iter().flat_map(|job| ["read", "write", "trim"].map(|direction| &job[direction]));
    // If completion latency is not reported separately, there is only the total latency.
    let distribution = |direction: &Value| {
        let lists = ["clat_ns", "lat_ns"].map(|name| &direction[name]);
        lists.into_iter().find(|list| list["N"].as_u64().is_some_and(|count| count > 0)).cloned()
    };
    let lists: Vec<Value> = directions.filter_map(distribution).collect();
    let worst = lists.iter().max_by_key(|list| list["max"].as_u64()).ok_or(LogError::Empty { format: FIO_FORMAT })?;
    let percentile = |name: &str| match lists.as_slice() {
        // Percentiles of several jobs cannot be combined.
        [one] => one["percentile"][name].as_u64(),
        _ => None,
    };
    let stats = Stats {
        count: lists.iter().filter_map(|list| list["N"].as_u64()).fold(0, u64::saturating_add),
        p50_ns: percentile("50.000000"),
        p99_ns: percentile("99.000000"),
        max_ns: worst["max"].as_u64().ok_or(LogError::Unknown)?,
    };
    Ok(Log { format: FIO_FORMAT, stats, worst: Vec::new(), span: None, zero: None })
}

const FIO_FORMAT: &str = "fio JSON";

/// `time, value, direction, block size, offset[, …]`, all numbers.
pub fn is_log_line(line: &str) -> bool {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    fields.len() >= 4 && fields.iter().all(|field| field.parse::<u64>().is_ok() || field.starts_with("0x"))
}

/// fio's `--write_lat_log`: when an operation ended, in milliseconds since the start of the job (or on the clock that
/// `log_alternate_epoch` names), and its latency in nanoseconds. Source: fio's HOWTO, "Log File Formats".
pub fn log(text: &str) -> Result<Log, LogError> {
    let mut collector = Collector::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let bad = || LogError::line(index as u64 + 1, line, "fio's `time, value, direction, block size, offset`");
        let mut fields = line.split(',').map(|field| field.trim().parse::<u64>());
        let (Some(Ok(time)), Some(Ok(value))) = (fields.next(), fields.next()) else { return Err(bad()) };
        let ended = time.checked_mul(MILLISECOND_NS).ok_or_else(bad)?;
        // Times are truncated to milliseconds.
        let point = Point {
            latency: Nanos(value),
            start: ended.saturating_sub(value),
            end: ended.saturating_add(MILLISECOND_NS),
        };
        collector.add(point);
    }
    let mut log = collector.log("fio latency log")?;
    // No job runs for weeks: a larger time is on a clock, a smaller one counts from the start of the job, by which the
    // log can be aligned.
    const WEEKS: u64 = 30 * 86_400 * 1_000_000_000;
    if let Some((first, last)) = log.span
        && last < WEEKS
        && first < last
    {
        log.zero = Some(0);
    }
    Ok(log)
}
