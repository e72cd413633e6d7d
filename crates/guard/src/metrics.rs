//! Counters of a running guard, as Prometheus text and for `guard status`.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use hdrhistogram::Histogram;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use unstarve_files::target::{Found, Place, Readers, TargetError, find_at_once};

use crate::task_events::SourceName;

/// Upper bounds of the histogram's buckets, in µs.
const BUCKETS_US: [u64; 13] = [25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 50_000, 100_000, 1_000_000, 10_000_000];

/// The guard's counters and its fork-to-applied latency.
#[derive(Debug)]
pub struct Metrics {
    /// Latency from the fork of a task until its attributes are set, in ns.
    births: Histogram<u64>,
    /// Sum of the latencies.
    births_ns: u64,
    /// Latencies per bucket of [`BUCKETS_US`]; computing them from the histogram would take milliseconds.
    buckets: [u64; BUCKETS_US.len()],
    /// Event counters.
    pub counts: Counts,
}

/// Event counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Counts {
    /// Events of all kinds.
    pub events: u64,
    /// Lost events.
    pub events_lost: u64,
    /// Full scans.
    pub scans: u64,
    /// Values set.
    pub applied: u64,
    /// Values that the kernel refused.
    pub failed: u64,
    /// Tasks that exited before their values were set.
    pub gone: u64,
    /// Tasks found only by a full scan, though the guard ran when they were forked.
    pub missed: u64,
    /// Values that another program changed.
    pub drift: u64,
    /// Of these, corrected.
    pub corrected: u64,
    /// Values reverted.
    pub restored: u64,
    /// How often real-time tasks used more than the budget.
    pub over_budget: u64,
    /// Tasks managed now.
    pub managed: u64,
    /// Values inherited from a managed parent.
    #[serde(default)]
    pub inherited: u64,
    /// Events dropped because a user started too many tasks at a time.
    #[serde(default)]
    pub throttled: u64,
    /// Audit lines that could not be written.
    #[serde(default)]
    pub audit_lost: u64,
    /// Times that the dead-man process was replaced.
    #[serde(default)]
    pub dead_man_restarts: u64,
}

/// What `guard status` shows.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Status {
    /// `unstarve.guard-status/1`; additions only.
    pub schema: String,
    /// The guard's process.
    pub pid: u32,
    /// The policy's file.
    pub policy: String,
    /// Where events come from.
    pub source: SourceName,
    /// What does not work on this machine.
    pub gaps: Vec<String>,
    /// The dead-man process; `None` if there is none.
    #[serde(default)]
    pub dead_man: Option<u32>,
    /// The counters.
    pub counts: Counts,
    /// Forks that led to a change.
    pub births: u64,
    /// From fork to applied: median, in ns.
    pub birth_p50_ns: u64,
    /// The 99th percentile.
    pub birth_p99_ns: u64,
    /// The maximum.
    pub birth_max_ns: u64,
}

impl Default for Metrics {
    fn default() -> Metrics {
        // Three significant digits up to a minute; `new_with_max` fails only for invalid constants.
        let births = Histogram::new_with_max(60_000_000_000, 3).unwrap_or_else(|_| unreachable!("constant bounds"));
        Metrics { births, births_ns: 0, buckets: [0; BUCKETS_US.len()], counts: Counts::default() }
    }
}

impl Metrics {
    /// Records the latency of a fork whose task has its attributes now.
    pub fn birth(&mut self, ns: u64) {
        self.births.saturating_record(ns);
        self.births_ns = self.births_ns.saturating_add(ns);
        if let Some(bucket) = BUCKETS_US.iter().position(|bound| ns <= bound * 1000) {
            self.buckets[bucket] += 1;
        }
    }

    /// The content of `guard status`.
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

    /// The counters in Prometheus' text format.
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

/// Where metrics are written repeatedly. The path is opened once, so that it cannot be redirected later, and writes never
/// block.
#[derive(Debug)]
pub struct Outlet {
    path: PathBuf,
    to: To,
}

#[derive(Debug)]
enum To {
    /// A file, replaced atomically.
    File(Place),
    /// A device, a FIFO or a descriptor, with the part of the last text that did not fit.
    Stream { file: File, rest: Vec<u8> },
    /// A FIFO without a reader.
    Unread,
}

impl Outlet {
    /// Opens it, and fails if it cannot be written.
    ///
    /// # Errors
    /// If the path does not exist, or another user can redirect it.
    pub fn open(path: &Path) -> Result<Outlet, TargetError> {
        let to = match find_at_once(path) {
            Ok(Found::Place(place)) => {
                // Fail at the start if it cannot be written.
                drop(
                    place
                        .again()
                        .and_then(|place| Ok(place.part(Readers::Everybody)?))
                        .map_err(|source| TargetError::Io { path: path.to_owned(), source })?,
                );
                To::File(place)
            }
            Ok(Found::Open(file)) => To::Stream { file, rest: Vec::new() },
            Err(TargetError::Io { source, .. }) if source.raw_os_error() == Some(libc::ENXIO) => To::Unread,
            Err(error) => return Err(error),
        };
        Ok(Outlet { path: path.to_owned(), to })
    }

    /// Writes a whole text without blocking. What does not fit into a pipe is written on the next call; texts in between are
    /// dropped.
    ///
    /// # Errors
    /// If a system call failed.
    pub fn write(&mut self, text: &str) -> io::Result<()> {
        if matches!(self.to, To::Unread) {
            self.to = Outlet::open(&self.path).map_err(io::Error::other)?.to;
        }
        match &mut self.to {
            To::File(place) => {
                let part = place.again()?.part(Readers::Everybody)?;
                part.file().write_all(text.as_bytes())?;
                part.deliver().map_err(io::Error::other)
            }
            To::Stream { file, rest } => {
                if rest.is_empty() {
                    rest.extend_from_slice(text.as_bytes());
                }
                match send(file, rest) {
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                        // The reader has closed it; another may open it.
                        self.to = To::Unread;
                        Ok(())
                    }
                    Err(error) => {
                        rest.clear();
                        Err(error)
                    }
                    Ok(()) => Ok(()),
                }
            }
            To::Unread => Ok(()),
        }
    }
}

/// Writes as much as fits, and removes it from `rest`.
fn send(file: &mut File, rest: &mut Vec<u8>) -> io::Result<()> {
    // An inherited descriptor (/dev/stdout) may block, and changing its flags would affect its owner. So poll first, and write
    // no more than a writable pipe is guaranteed to take.
    const PIPE_BUF: usize = 4096;
    while !rest.is_empty() {
        let mut ready = [PollFd::new(file, PollFlags::OUT)];
        if poll(&mut ready, Some(&Timespec::default()))? == 0 {
            return Ok(());
        }
        match file.write(&rest[..rest.len().min(PIPE_BUF)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => drop(rest.drain(..written)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
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

    /// The guard must go on when metrics cannot be written; a test that blocks fails by its time limit.
    #[test]
    fn a_fifo_is_written_to_while_somebody_reads_it_and_never_waited_for() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let path = place.path().join("fifo");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).expect("a FIFO");
        let mut outlet = Outlet::open(&path).expect("a FIFO that nobody reads");
        outlet.write("lost\n").expect("nobody to read it");
        let reading = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
        let mut reader = File::from(rustix::fs::open(&path, reading, rustix::fs::Mode::empty()).expect("a reader"));
        // Much more than a pipe holds: each text is written completely or not at all.
        let texts: Vec<String> = (0..40).map(|n| format!("{n:04}-{}\n", "x".repeat(9000))).collect();
        let mut seen = Vec::new();
        for text in &texts {
            outlet.write(text).expect("written or left out");
        }
        for _ in 0..40 {
            let mut bytes = vec![0; 1 << 17];
            match std::io::Read::read(&mut reader, &mut bytes) {
                Ok(count) => seen.extend_from_slice(&bytes[..count]),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
            outlet.write("").expect("the rest");
        }
        let seen = String::from_utf8(seen).expect("text");
        assert!(seen.lines().count() > 5 && seen.lines().count() < 40, "{} texts", seen.lines().count());
        for line in seen.lines() {
            assert!(texts.iter().any(|text| text.trim_end() == line), "torn: {}…", &line[..line.len().min(40)]);
        }
        drop(reader);
        outlet.write("gone").expect("its reader is gone");
        outlet.write("gone").expect("still");
        assert!(std::os::unix::fs::FileTypeExt::is_fifo(&path.metadata().expect("there").file_type()));
    }

    #[test]
    fn a_device_is_written_to_and_a_file_replaced() {
        use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};

        let mut full = Outlet::open(Path::new("/dev/full")).expect("a device");
        assert_eq!(full.write("x").expect_err("full").kind(), io::ErrorKind::StorageFull);
        Outlet::open(Path::new("/dev/null")).expect("there").write("x").expect("written");
        for device in ["/dev/full", "/dev/null"] {
            assert!(std::fs::metadata(device).expect("there").file_type().is_char_device(), "{device}");
        }
        let place = tempfile::tempdir().expect("a temporary directory");
        let (path, victim) = (place.path().join("m.prom"), place.path().join("victim"));
        std::fs::write(&victim, "precious").expect("written");
        // The temporary name that the old code wrote to, following the link.
        symlink(&victim, place.path().join(format!("m.prom.{}", std::process::id()))).expect("a link");
        let mut outlet = Outlet::open(&path).expect("a place");
        assert!(!path.exists(), "nothing is there before it is whole");
        for text in ["one", "two"] {
            outlet.write(text).expect("written");
            assert_eq!(std::fs::read_to_string(&path).expect("read"), text);
        }
        assert_eq!(path.metadata().expect("there").mode() & 0o600, 0o600);
        assert_eq!(std::fs::read_to_string(&victim).expect("read"), "precious");
        assert_eq!(std::fs::read_dir(place.path()).expect("listed").count(), 3);
        assert!(Outlet::open(&place.path().join("none/m.prom")).is_err());
    }
}
