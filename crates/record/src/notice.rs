//! Messages for the user while recording.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use unstarve_model::{CpuId, WallTime};

/// Something that the user should know immediately.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Notice {
    /// The kernel takes long for a step.
    Waiting {
        /// The step: `the event buffers of CPU 1`.
        what: String,
    },
    /// An ordinary thread did not get to run on these CPUs while the recording was prepared. The kernel worker that
    /// enlarges a CPU's buffer would not run either, so their buffers keep the initial size.
    Starved {
        /// The CPUs.
        cpus: Vec<CpuId>,
        /// How long the thread waited at least.
        waited: Duration,
        /// Whether RCU grace periods did not end either: then all buffers keep the initial size, and the clock is the
        /// kernel's default.
        kernel_waits: bool,
    },
    /// Recording has begun, and only a signal ends it.
    UntilSignal {
        /// The file that will be written.
        path: PathBuf,
    },
    /// Recording has begun, and the output file already exists.
    KeepsPrevious {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// When it was last written.
        written: WallTime,
    },
    /// A recorder was killed, and its recording can still be salvaged.
    Leftover {
        /// The directory that contains it.
        path: PathBuf,
        /// Bytes of pages.
        bytes: u64,
    },
    /// The leftovers of a killed recorder were removed because they were too old.
    Removed {
        /// The directory that contained them.
        path: PathBuf,
        /// Bytes of pages.
        bytes: u64,
    },
}

impl Notice {
    /// What the kernel waits for, or which CPUs do not respond; for other notices the whole text.
    pub fn reason(&self) -> String {
        let Notice::Starved { cpus, waited, kernel_waits } = self else { return self.to_string() };
        let list: Vec<String> = cpus.iter().map(ToString::to_string).collect();
        let rcu = "an RCU grace period did not end in time, because a CPU keeps a kernel thread waiting";
        let busy = format!(
            "CPU {} keeps ordinary threads waiting for {} ms or more (busy, or held by a real-time task), so the kernel cannot enlarge its event buffer there",
            list.join(", "),
            waited.as_millis()
        );
        match (cpus.is_empty(), kernel_waits) {
            (true, _) => rcu.to_owned(),
            (false, true) => format!("{rcu}, and {busy}"),
            (false, false) => busy,
        }
    }
}

/// A path for a terminal.
fn shown(path: &Path) -> String {
    unstarve_model::clean(&path.display().to_string()).into_owned()
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Waiting { what } => write!(f, "waiting for the kernel: {what}"),
            Notice::Starved { kernel_waits, .. } => {
                let what = if *kernel_waits {
                    "small buffers and the clock `local`"
                } else {
                    "small buffers there, which may lose events"
                };
                write!(f, "{}: recording starts at once, with {what}", self.reason())
            }
            Notice::UntilSignal { path } => write!(f, "recording into {} until Ctrl-C", shown(path)),
            Notice::KeepsPrevious { path, bytes, written } => {
                let clock = written.clock();
                write!(
                    f,
                    "{} ({} kB, of {} {} UTC) will be kept as {}.old",
                    shown(path),
                    bytes / 1000,
                    written.date(),
                    clock.split('.').next().unwrap_or(&clock),
                    shown(path)
                )
            }
            Notice::Leftover { path, bytes } => {
                let path = shown(path);
                write!(
                    f,
                    "a killed recorder left {} kB in {path}: `unstarve record --salvage {path}` makes a recording of it; after \
                     a week the next recording to this directory removes it",
                    bytes / 1000
                )
            }
            Notice::Removed { path, bytes } => {
                write!(
                    f,
                    "removed the leftovers of a recorder killed more than a week ago: {} ({} kB)",
                    shown(path),
                    bytes / 1000
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starved(cpus: &[u32], kernel_waits: bool) -> Notice {
        let cpus = cpus.iter().copied().map(CpuId).collect();
        Notice::Starved { cpus, waited: Duration::from_millis(250), kernel_waits }
    }

    /// A busy CPU is not a CPU on which nothing runs.
    #[test]
    fn a_busy_cpu_is_not_called_one_on_which_nothing_runs() {
        let text = starved(&[1, 3], false).to_string();
        assert!(
            text.contains(
                "CPU 1, 3 keeps ordinary threads waiting for 250 ms or more (busy, or held by a real-time task)"
            ),
            "{text}"
        );
        assert!(
            text.ends_with("recording starts at once, with small buffers there, which may lose events")
                && !text.contains("no ordinary task"),
            "{text}"
        );
        let text = starved(&[1], true).reason();
        assert!(text.starts_with("an RCU grace period did not end in time") && text.contains("CPU 1 keeps"), "{text}");
        assert!(!starved(&[], true).reason().contains("event buffer"));
    }

    #[test]
    fn a_file_that_is_kept_is_named_with_its_time() {
        let written = WallTime(1_764_000_187_205_000_123);
        let text = Notice::KeepsPrevious { path: "t.dat".into(), bytes: 12_345_678, written }.to_string();
        assert_eq!(text, "t.dat (12345 kB, of 2025-11-24 16:03:07 UTC) will be kept as t.dat.old");
    }
}
