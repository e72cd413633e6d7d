//! Counts context switches of a thread.

/// The calling thread's involuntary context switches so far; `None` if /proc does not say.
///
/// Source: `nonvoluntary_ctxt_switches` in Documentation/filesystems/proc.rst.
pub(super) fn involuntary() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:")?.trim().parse().ok())
}
