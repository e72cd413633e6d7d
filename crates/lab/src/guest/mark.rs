//! Names of the lab's own threads in a guest's trace: readers of traces exclude threads with these names.
//!
//! They all run this program as `/init` and would be named `init`, which on a host is another process.

use std::ffi::CStr;

/// Process 1, the starter of the loads, and the thread that keeps `threads` steps applied.
pub(super) const OURS: &CStr = c"unstarve-lab";

/// The recorder's first thread; its other threads have this name on every host.
pub(super) const RECORDER: &CStr = c"unstarve-record";

/// Gives the calling thread one of the names. A forked child keeps it until its exec.
pub(super) fn set_thread_name(name: &CStr) {
    // If the kernel refuses, only the name is lost.
    let _ = rustix::thread::set_name(name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_bears_the_name_in_full() {
        for name in [OURS, RECORDER] {
            let of = move || {
                set_thread_name(name);
                std::fs::read_to_string("/proc/thread-self/comm").expect("a name")
            };
            let comm = std::thread::spawn(of).join().expect("a thread");
            assert_eq!(comm.trim_end().as_bytes(), name.to_bytes());
        }
    }
}
