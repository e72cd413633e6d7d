//! Identifies the kernel and the boot of this machine.

use crate::episode::Episode;

/// The episode with the kernel and the boot that are running now.
pub(crate) fn on_this_machine(episode: Episode) -> Episode {
    Episode { kernel: Some(kernel()), boot_id: boot_id(), ..episode }
}

/// The running kernel's release, as in `uname -r`.
pub(crate) fn kernel() -> String {
    text(rustix::system::uname().release())
}

/// The id of this boot; `None` if it cannot be read.
pub(crate) fn boot_id() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(boot.trim().to_owned()).filter(|boot| !boot.is_empty())
}

/// A string of uname(2), with control characters escaped.
pub(crate) fn text(word: &std::ffi::CStr) -> String {
    unstarve_model::clean(&word.to_string_lossy()).into_owned()
}
