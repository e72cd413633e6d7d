//! What this machine is and runs.

use crate::episode::Episode;

/// The episode, of the kernel and the boot that run now.
pub(crate) fn on_this_machine(episode: Episode) -> Episode {
    Episode { kernel: Some(kernel()), boot_id: boot_id(), ..episode }
}

/// The running kernel, as `uname -r` has it.
pub(crate) fn kernel() -> String {
    text(rustix::system::uname().release())
}

/// Which boot this is; `None` where the kernel does not say.
pub(crate) fn boot_id() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(boot.trim().to_owned()).filter(|boot| !boot.is_empty())
}

/// A word of uname(2), harmless everywhere.
pub(crate) fn text(word: &std::ffi::CStr) -> String {
    unstarve_model::clean(&word.to_string_lossy()).into_owned()
}
