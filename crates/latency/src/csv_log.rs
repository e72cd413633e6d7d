//! Reads latency logs in CSV.

use unstarve_model::Nanos;

use crate::log::{Collector, Log, LogError, Point};

const EXPECTED_HEADER: &str = "names of two columns with their units, like `time_s,latency_us` (s, ms, us or ns)";

/// CSV with a header line: a column of times (when operations ended) and one of latencies, each with its unit.
pub fn log(text: &str) -> Result<Log, LogError> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).flexible(true).from_reader(text.as_bytes());
    let head = reader.headers().map_err(|_| LogError::Unknown)?.clone();
    let [time, value] = columns(&head).ok_or_else(|| match head.len() {
        0 | 1 => LogError::Unknown,
        _ => LogError::line(1, &head.iter().collect::<Vec<_>>().join(","), EXPECTED_HEADER),
    })?;
    let mut collector = Collector::new();
    for record in reader.records() {
        let record = record.map_err(|error| {
            let line = error.position().map_or(0, csv::Position::line);
            LogError::line(line, &error.to_string(), "CSV in UTF-8")
        })?;
        let line = record.position().map_or(0, csv::Position::line);
        let cell = |(index, unit): (usize, f64)| {
            let text = record.get(index).unwrap_or("");
            let number: f64 = text.parse().map_err(|_| LogError::line(line, text, "a number"))?;
            let ns = number * unit;
            // Nanoseconds of today's clocks are exact as integers, but not quite as floats.
            match text.parse::<u64>() {
                Ok(whole) if unit == 1.0 => Ok(whole),
                _ if (0.0..1.8e19).contains(&ns) => Ok(ns.round() as u64),
                _ => Err(LogError::line(line, text, "a time of 0 or more")),
            }
        };
        let (end, latency) = (cell(time)?, cell(value)?);
        collector.add(Point { latency: Nanos(latency), start: end.saturating_sub(latency), end });
    }
    collector.log("CSV")
}

/// The columns of time and latency, and the unit of each in nanoseconds.
fn columns(head: &csv::StringRecord) -> Option<[(usize, f64); 2]> {
    let unit = |name: &str| {
        let (_, unit) = name.rsplit_once(['_', ' ', '('])?;
        Some(match unit.trim_end_matches(')') {
            "s" | "sec" | "seconds" => 1e9,
            "ms" => 1e6,
            "us" | "µs" => 1e3,
            "ns" => 1.0,
            _ => return None,
        })
    };
    let mut named = head.iter().enumerate().filter_map(|(index, name)| Some((index, name, unit(name)?)));
    let is_time = |name: &str| name.starts_with("time") || name.starts_with("t_") || name.starts_with("end");
    let all: Vec<(usize, &str, f64)> = named.by_ref().collect();
    let time = all.iter().find(|(_, name, _)| is_time(name))?;
    let value = all.iter().find(|column| column.0 != time.0)?;
    Some([(time.0, time.2), (value.0, value.2)])
}
