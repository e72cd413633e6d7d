/// The calling thread's involuntary switches so far; `None` where /proc does not say.
///
/// Source: `nonvoluntary_ctxt_switches` in Documentation/filesystems/proc.rst.
pub(super) fn involuntary() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:")?.trim().parse().ok())
}
