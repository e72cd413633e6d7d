//! What `/proc` says of a task at the moment.

use std::fs;

use unstarve_model::{Comm, Tid};

use crate::TaskId;

/// Whether the task is there, by the same number and process, and runnable or running.
pub(crate) fn is_runnable(task: TaskId) -> bool {
    let path = format!("/proc/{}/task/{}/stat", task.tgid, task.tid);
    fs::read(path).is_ok_and(|stat| state(&stat) == Some(b'R'))
}

/// The state in a `stat` file: behind the name, which may hold brackets and blanks itself.
fn state(stat: &[u8]) -> Option<u8> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(end + 2).copied()
}

/// A task's name.
pub(crate) fn comm(tid: Tid) -> Option<Comm> {
    let text = fs::read(format!("/proc/{tid}/comm")).ok()?;
    Some(Comm::new(text.strip_suffix(b"\n").unwrap_or(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_pass_for_a_state() {
        assert_eq!(state(b"42 (a) R (b)) S 1 1"), Some(b'S'));
        assert_eq!(state(b"42 (cc1) R 1"), Some(b'R'));
        assert_eq!(state(b"42"), None);
    }

    #[test]
    fn this_thread_runs_and_nobody_has_number_zero() {
        let tid = Tid(rustix::thread::gettid().as_raw_nonzero().get() as u32);
        let tgid = Tid(std::process::id());
        assert!(is_runnable(TaskId { tid, tgid, comm: Comm::default() }));
        assert!(!is_runnable(TaskId { tid: Tid(0), tgid: Tid(0), comm: Comm::default() }));
    }
}
