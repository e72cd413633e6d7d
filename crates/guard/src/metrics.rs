//! Counters of a running guard, as Prometheus text and for `guard status`.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::births::SourceName;

/// Upper bounds of the histogram's buckets, in µs.
const BUCKETS_US: [u64; 13] = [25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 50_000, 100_000, 1_000_000, 10_000_000];

/// What a guard counts.
#[derive(Debug)]
pub struct Metrics {
    /// From a task's birth to its attributes being set, in ns.
    births: Histogram<u64>,
    /// Sum of the same.
    births_ns: u64,
    /// How many fell into each bucket of [`BUCKETS_US`]; counting them in the histogram would take milliseconds.
    buckets: [u64; BUCKETS_US.len()],
    /// Plain counters.
    pub counts: Counts,
}

/// Plain counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// News of any kind.
    pub events: u64,
    /// News that was lost.
    pub events_lost: u64,
    /// Looks at everything.
    pub scans: u64,
    /// Values set.
    pub applied: u64,
    /// Values that the system refused.
    pub failed: u64,
    /// Tasks that ended before their values were set.
    pub gone: u64,
    /// Tasks found only by looking at everything, though they were born under our eyes.
    pub missed: u64,
    /// Values that somebody else changed.
    pub drift: u64,
    /// Of these, put back.
    pub corrected: u64,
    /// Values taken back.
    pub restored: u64,
    /// Times that real-time tasks took too much.
    pub over_budget: u64,
    /// Tasks in the guard's care now.
    pub managed: u64,
    /// Values that tasks were born with, from a parent on which they were set.
    #[serde(default)]
    pub inherited: u64,
    /// News of users who started too many tasks at a time.
    #[serde(default)]
    pub throttled: u64,
    /// Lines of the audit that could not be written.
    #[serde(default)]
    pub audit_lost: u64,
    /// Times that the dead-man process was replaced.
    #[serde(default)]
    pub dead_man_restarts: u64,
}

/// What `guard status` shows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// `unstarve.guard-status/1`; additions only.
    pub schema: String,
    /// The guard's process.
    pub pid: u32,
    /// The policy's file.
    pub policy: String,
    /// Where its news comes from.
    pub source: SourceName,
    /// What does not work here.
    pub gaps: Vec<String>,
    /// The dead-man's process; `None` while there is none.
    #[serde(default)]
    pub dead_man: Option<u32>,
    /// Its counters.
    pub counts: Counts,
    /// Births that led to a change.
    pub births: u64,
    /// From birth to applied: median, in ns.
    pub birth_p50_ns: u64,
    /// The 99th percentile.
    pub birth_p99_ns: u64,
    /// The longest.
    pub birth_max_ns: u64,
}

impl Default for Metrics {
    fn default() -> Metrics {
        // Three digits up to a minute; `new_with_max` fails only for bounds that make no sense.
        let births = Histogram::new_with_max(60_000_000_000, 3).unwrap_or_else(|_| unreachable!("constant bounds"));
        Metrics { births, births_ns: 0, buckets: [0; BUCKETS_US.len()], counts: Counts::default() }
    }
}

impl Metrics {
    /// Notes a birth whose task has its attributes now.
    pub fn birth(&mut self, ns: u64) {
        self.births.saturating_record(ns);
        self.births_ns = self.births_ns.saturating_add(ns);
        if let Some(bucket) = BUCKETS_US.iter().position(|bound| ns <= bound * 1000) {
            self.buckets[bucket] += 1;
        }
    }

    /// For `guard status`.
    pub fn status(&self, policy: &Path, source: SourceName, gaps: &[String], dead_man: Option<u32>) -> Status {
        Status {
            schema: "unstarve.guard-status/1".to_owned(),
            pid: std::process::id(),
            policy: policy.display().to_string(),
            source,
            gaps: gaps.to_vec(),
            dead_man,
            counts: self.counts.clone(),
            births: self.births.len(),
            birth_p50_ns: self.births.value_at_quantile(0.5),
            birth_p99_ns: self.births.value_at_quantile(0.99),
            birth_max_ns: self.births.max(),
        }
    }

    /// As Prometheus reads it.
    pub fn prometheus(&self) -> String {
        let mut text = String::new();
        let name = "unstarve_guard_birth_to_applied_seconds";
        let _ =
            writeln!(text, "# HELP {name} From a task's birth to its attributes being set.\n# TYPE {name} histogram");
        let mut count = 0;
        for (bound, bucket) in BUCKETS_US.iter().zip(self.buckets) {
            count += bucket;
            let _ = writeln!(text, "{name}_bucket{{le=\"{}\"}} {count}", *bound as f64 / 1e6);
        }
        let count = self.births.len();
        let _ = writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {count}");
        let _ = writeln!(text, "{name}_sum {}\n{name}_count {count}", self.births_ns as f64 / 1e9);
        let counts = &self.counts;
        for (name, help, value) in [
            ("events_total", "News of tasks.", counts.events),
            ("events_lost_total", "News of tasks that was lost.", counts.events_lost),
            ("scans_total", "Looks at every task.", counts.scans),
            ("applied_total", "Values set.", counts.applied),
            ("failed_total", "Values that the system refused.", counts.failed),
            ("gone_total", "Tasks that ended before their values were set.", counts.gone),
            ("missed_total", "Tasks born under the guard's eyes and found only by a look at all.", counts.missed),
            ("drift_total", "Values that somebody else changed.", counts.drift),
            ("corrected_total", "Values put back after that.", counts.corrected),
            ("restored_total", "Values taken back.", counts.restored),
            (
                "inherited_total",
                "Values that tasks were born with, from a parent on which they were set.",
                counts.inherited,
            ),
            ("throttled_total", "News of users who started too many tasks at a time.", counts.throttled),
            ("audit_lost_total", "Lines of the audit that could not be written.", counts.audit_lost),
            ("dead_man_restarts_total", "Times that the dead-man process was replaced.", counts.dead_man_restarts),
            ("over_budget_total", "Times that real-time tasks took too much of a CPU.", counts.over_budget),
        ] {
            let _ = writeln!(text, "# HELP unstarve_guard_{name} {help}\n# TYPE unstarve_guard_{name} counter");
            let _ = writeln!(text, "unstarve_guard_{name} {value}");
        }
        let _ = writeln!(text, "# HELP unstarve_guard_managed Tasks in the guard's care.");
        let _ = writeln!(text, "# TYPE unstarve_guard_managed gauge\nunstarve_guard_managed {}", counts.managed);
        text
    }
}

/// Writes a file so that a reader sees either the old or the new one.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    fs::write(&beside, text)?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_count_up_to_their_bounds() {
        let mut metrics = Metrics::default();
        for micros in [10, 60, 90, 600, 2_000_000] {
            metrics.birth(micros * 1000);
        }
        let text = metrics.prometheus();
        let buckets: Vec<&str> = text.lines().filter(|line| line.contains("_bucket")).collect();
        insta::assert_snapshot!(buckets[..6].join("\n"), @r#"
        unstarve_guard_birth_to_applied_seconds_bucket{le="0.000025"} 1
        unstarve_guard_birth_to_applied_seconds_bucket{le="0.00005"} 1
        unstarve_guard_birth_to_applied_seconds_bucket{le="0.0001"} 3
        unstarve_guard_birth_to_applied_seconds_bucket{le="0.00025"} 3
        unstarve_guard_birth_to_applied_seconds_bucket{le="0.0005"} 3
        unstarve_guard_birth_to_applied_seconds_bucket{le="0.001"} 4
        "#);
        assert!(text.contains("_seconds_count 5") && text.contains("le=\"+Inf\"} 5"), "{text}");
    }
}
