use std::fmt;
use std::path::PathBuf;

use unstarve_model::CpuId;

/// Something that whoever records should know at once.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Notice {
    /// The kernel takes long for something.
    Waiting {
        /// For what: `the event buffers of CPU 1`.
        what: String,
    },
    /// No ordinary task came to run on these CPUs while the recording was prepared, so the kernel's own worker, which
    /// enlarges a CPU's buffer, would not either. Their buffers stay as small as they are in the beginning.
    Starved {
        /// Which.
        cpus: Vec<CpuId>,
        /// Whether all that waits for RCU waits for them too: then all buffers stay small, and the clock is the kernel's first
        /// choice.
        kernel_waits: bool,
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
        let Notice::Starved { cpus, kernel_waits } = self else { return self.to_string() };
        let list: Vec<String> = cpus.iter().map(ToString::to_string).collect();
        match (cpus.is_empty(), kernel_waits) {
            (true, _) => "RCU waits for a CPU".to_owned(),
            (false, true) => format!("RCU waits, and no ordinary task comes to run on CPU {}", list.join(", ")),
            (false, false) => format!("no ordinary task comes to run on CPU {}", list.join(", ")),
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
