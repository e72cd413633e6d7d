use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use unstarve_model::{CpuId, WallTime};

/// Something that whoever records should know at once.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Notice {
    /// The kernel takes long for something.
    Waiting {
        /// For what: `the event buffers of CPU 1`.
        what: String,
    },
    /// An ordinary thread had to wait for these CPUs while the recording was prepared, so the kernel's own worker, which
    /// enlarges a CPU's buffer, would have to as well. Their buffers stay as small as they are in the beginning.
    Starved {
        /// Which.
        cpus: Vec<CpuId>,
        /// For so long at least.
        waited: Duration,
        /// Whether all that waits for RCU waits for them too: then all buffers stay small, and the clock is the kernel's first
        /// choice.
        kernel_waits: bool,
    },
    /// It records, and nothing but a signal ends it.
    UntilSignal {
        /// The file that will be written.
        path: PathBuf,
    },
    /// It records, and the file that it will write is there already.
    Replaces {
        /// Which.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// When it was last written.
        written: WallTime,
    },
    /// A recorder was killed, and what it had recorded is still there.
    Leftover {
        /// The directory that it is in.
        path: PathBuf,
        /// Bytes of pages.
        bytes: u64,
    },
    /// What a killed recorder had recorded was removed, because it was too old.
    Removed {
        /// The directory that it was in.
        path: PathBuf,
        /// Bytes of pages.
        bytes: u64,
    },
}

impl Notice {
    /// What the kernel waits for, or which CPUs do not answer; of others the whole.
    pub fn reason(&self) -> String {
        let Notice::Starved { cpus, waited, kernel_waits } = self else { return self.to_string() };
        let list: Vec<String> = cpus.iter().map(ToString::to_string).collect();
        let rcu = "RCU did not finish in time, because a CPU keeps a kernel thread waiting";
        let busy = format!(
            "the kernel's worker that enlarges the buffer of CPU {} would have to wait {} ms or more (a busy CPU, or a real-time task)",
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

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Waiting { what } => write!(f, "waiting for the kernel: {what}"),
            Notice::Starved { kernel_waits, .. } => {
                let what = if *kernel_waits { "small buffers and the clock `local`" } else { "small buffers there" };
                write!(f, "{}: recording at once, with {what}", self.reason())
            }
            Notice::UntilSignal { path } => write!(f, "recording into {} until Ctrl-C", path.display()),
            Notice::Replaces { path, bytes, written } => {
                let clock = written.clock();
                write!(
                    f,
                    "{} is there already ({} kB, of {} {} UTC): the new recording replaces it when it ends",
                    path.display(),
                    bytes / 1000,
                    written.date(),
                    clock.split('.').next().unwrap_or(&clock)
                )
            }
            Notice::Leftover { path, bytes } => {
                let path = path.display();
                write!(
                    f,
                    "a recorder that was killed left {} kB in {path}: `unstarve record --salvage {path}` makes a recording \
                     of it; a recording to this directory removes it when it is a week old",
                    bytes / 1000
                )
            }
            Notice::Removed { path, bytes } => {
                write!(f, "removed what a killed recorder left a week ago: {} ({} kB)", path.display(), bytes / 1000)
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

    /// A CPU with much to do is none on which nothing runs.
    #[test]
    fn a_busy_cpu_is_not_called_one_on_which_nothing_runs() {
        let text = starved(&[1, 3], false).to_string();
        assert!(
            text.contains("buffer of CPU 1, 3 would have to wait 250 ms or more (a busy CPU, or a real-time task)"),
            "{text}"
        );
        assert!(
            text.ends_with("recording at once, with small buffers there") && !text.contains("no ordinary task"),
            "{text}"
        );
        let text = starved(&[1], true).reason();
        assert!(text.starts_with("RCU did not finish in time") && text.contains("buffer of CPU 1"), "{text}");
        assert!(!starved(&[], true).reason().contains("buffer of CPU"));
    }

    #[test]
    fn a_file_that_is_replaced_is_named_with_its_time() {
        let written = WallTime(1_764_000_187_205_000_123);
        let text = Notice::Replaces { path: "t.dat".into(), bytes: 12_345_678, written }.to_string();
        assert_eq!(
            text,
            "t.dat is there already (12345 kB, of 2025-11-24 16:03:07 UTC): the new recording replaces it when it ends"
        );
    }
}
