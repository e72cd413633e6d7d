//! QEMU: finding it, its command line, its supervision.

mod child;
mod find;
mod hand_over;
mod supervise;
mod turns;
mod unprivileged;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use child::{Ended, Limits, boot};
pub use find::{NEEDED_FOR_SMP, Qemu};
pub use supervise::{SUPERVISE_ROLE, supervise};

/// The clock of a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The instruction count (TCG): equal requests give equal bits.
    #[default]
    Virtual,
    /// The host's clock (KVM): fast, but no two runs are equal.
    Host,
}

/// A guest to start.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The kernel image.
    pub kernel: PathBuf,
    /// The initial file system.
    pub initrd: PathBuf,
    /// The raw disk for results.
    pub disk: PathBuf,
    /// Further kernel parameters.
    pub parameters: Vec<String>,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Memory.
    pub memory_mib: u32,
    /// What drives its time.
    pub clock: Clock,
    /// With the virtual clock: how long an instruction takes, a power of 2.
    pub instruction_ns: u32,
    /// The firmware, if not QEMU's default for the machine ([`Qemu::small_firmware`]).
    pub firmware: Option<&'static str>,
}

/// Why QEMU cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QemuError {
    /// Others can have written it, or what it loads.
    #[error(transparent)]
    Program(#[from] unstarve_files::ProgramError),
    /// Root found no unprivileged user to run it as.
    #[error("QEMU is never run as root, and there is no other user to run it as: {0}")]
    NoUser(io::Error),
    /// A file for it cannot be opened.
    #[error("{path}: {source}")]
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It cannot be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// Which.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The host has no usable KVM.
    #[error("--kvm: /dev/kvm cannot be used: {0}")]
    NoKvm(io::Error),
    /// Reading its console or writing the log failed.
    #[error("cannot keep the console's log {path}: {source}")]
    Log {
        /// The log.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// None is there, or it cannot be used: why, and what to do.
    #[error("{0}")]
    Other(String),
}

/// How long a guest may take.
impl Default for Limits {
    fn default() -> Limits {
        Limits { wall: Duration::from_secs(300), stall: Duration::from_secs(200) }
    }
}

impl Machine {
    /// Whether the order in which the host runs QEMU's threads could affect the guest.
    fn needs_turns(&self) -> bool {
        self.clock == Clock::Virtual && self.cpus > 1
    }

    /// The arguments after the firmware's, with all files by path.
    ///
    /// * `-icount shift=N`: an instruction is 2^N nanoseconds, by default one; `sleep=off`: idle time is jumped over.
    /// * `thread=single`: the CPUs take turns in a fixed order.
    /// * `-rtc base=…,clock=vm`, `-seed`: neither the host's date nor its randomness gets in.
    /// * `tsc=reliable`: without it a 5.10 guest with several CPUs falls back to the jiffies clock, 4 ms coarse.
    /// * `nokaslr`, `norandmaps`: addresses are part of traces.
    /// * `cryptomgr.notests`: 6.12 and later test their ciphers in the background, for more than a second.
    /// * `-erms`, `-fsrm`: QEMU's processor claims that copying byte by byte (`rep movsb`) is fast, but an instruction a
    ///   byte costs eight times what eight bytes at once cost, in the guest's time and in the host's.
    /// * `-arch-capabilities`: which mitigations the processor can do without does not matter to a guest that has none, and
    ///   QEMU gives up where KVM does not let it pass that on.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let icount = format!("shift={},sleep=off", self.instruction_ns.ilog2());
        let (accelerator, time): (&[&str], &[&str]) = match self.clock {
            Clock::Virtual => (
                &["-accel", "tcg,thread=single", "-cpu", "max,-erms,-fsrm"],
                &["-icount", &icount, "-rtc", "base=2026-01-01,clock=vm", "-seed", "1"],
            ),
            Clock::Host => (&["-accel", "kvm", "-cpu", "host,-arch-capabilities"], &["-rtc", "base=2026-01-01"]),
        };
        let fixed = ["-nodefaults", "-no-user-config", "-display", "none", "-monitor", "none", "-serial", "stdio"];
        let machine = ["-M", "microvm,rtc=on,isa-serial=on,pit=on,pic=on", "-no-reboot"];
        let mut all: Vec<OsString> = Vec::new();
        all.extend([&fixed[..], &machine, accelerator, time].concat().into_iter().map(OsString::from));
        all.extend([
            "-smp".into(),
            self.cpus.to_string().into(),
            "-m".into(),
            format!("{}M", memory(self.memory_mib)).into(),
        ]);
        all.extend(["-kernel".into(), self.kernel.clone().into(), "-initrd".into(), self.initrd.clone().into()]);
        // The guest reports a full disk; by default QEMU would silently pause.
        all.extend(["-drive".into(), option(RESULT_DISK_OPTION, &self.disk)]);
        all.extend(["-device".into(), "virtio-blk-device,drive=out".into()]);
        all.extend(["-append".into(), self.command_line().into()]);
        if let Some(firmware) = self.firmware {
            all.extend(["-bios".into(), firmware.into()]);
        }
        if self.needs_turns() {
            // The supervisor identifies threads by name.
            all.extend(["-name".into(), "guest,debug-threads=on".into()]);
        }
        all
    }

    fn command_line(&self) -> String {
        let mut line = String::from(
            "console=ttyS0 quiet panic=-1 oops=panic reboot=t nokaslr norandmaps mitigations=off random.trust_cpu=off \
             cryptomgr.notests=1",
        );
        if self.clock == Clock::Virtual {
            line.push_str(" tsc=reliable");
        }
        for parameter in &self.parameters {
            line.push(' ');
            line.push_str(parameter);
        }
        line
    }
}

/// With exactly 2 GiB the loader of QEMU 10 puts the file system over the firmware's ACPI tables, which lie at the top of
/// memory (below and above that it leaves room): 6.12 hung in ACPI, others read a damaged request.
fn memory(mib: u32) -> u32 {
    if mib == 2048 { 2047 } else { mib }
}

/// The option of the disk, before its path.
const RESULT_DISK_OPTION: &str = "if=none,id=out,format=raw,werror=report,file=";

/// QEMU takes a doubled comma for one inside a value.
fn option(before: &str, path: &Path) -> OsString {
    let mut text = OsString::from(before);
    text.push(path.to_string_lossy().replace(',', ",,"));
    text
}
