//! The guard as a process: its limits and signals.

use std::io;
use std::os::unix::net::UnixStream;

/// Raises resource limits, so that a limit inherited from the caller kills neither the guard nor its dead-man process.
pub(super) fn raise_limits() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    for resource in [Resource::Cpu, Resource::Fsize, Resource::Rttime] {
        let maximum = getrlimit(resource).maximum;
        // Raising the hard limit requires CAP_SYS_RESOURCE.
        if setrlimit(resource, Rlimit { current: None, maximum: None }).is_err() {
            let _ = setrlimit(resource, Rlimit { current: maximum, maximum });
        }
    }
}

/// A stream that becomes readable when one of these signals comes.
pub fn on_signals(signals: &[i32]) -> io::Result<UnixStream> {
    let (read, write) = UnixStream::pair()?;
    for signal in signals {
        signal_hook::low_level::pipe::register(*signal, write.try_clone()?)?;
    }
    Ok(read)
}
