//! What threads of the lab itself are called in a guest's trace: a reader of traces leaves them out by these names.
//!
//! All of them are this program as `/init`, and would be called `init`, which on a host is somebody else.

use std::ffi::CStr;

/// Process 1, the starter of the loads, and what keeps `threads` steps applied.
pub(super) const OURS: &CStr = c"unstarve-lab";

/// The recorder's first thread; its others are called so on every host.
pub(super) const RECORDER: &CStr = c"unstarve-record";

/// Gives this thread one of the names. What it forks has it, too, up to its exec.
pub(super) fn as_ours(name: &CStr) {
    // The name is all that is lost if the kernel refuses.
    let _ = rustix::thread::set_name(name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_bears_the_name_in_full() {
        for name in [OURS, RECORDER] {
            let of = move || {
                as_ours(name);
                std::fs::read_to_string("/proc/thread-self/comm").expect("a name")
            };
            let comm = std::thread::spawn(of).join().expect("a thread");
            assert_eq!(comm.trim_end().as_bytes(), name.to_bytes());
        }
    }
}
