//! Detects another watch on this machine. Two watches are harmless, but both cost CPU time and memory for a flight recorder.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use unstarve_files::trust::{Directory, How};

const LOCK: &str = "watch-host.lock";
/// Maximum size of the file: a process id and a path.
const LONGEST: u64 = 5000;

/// Held by the first watch on a machine.
#[derive(Debug)]
pub(crate) struct InstanceLock {
    _lock: Option<File>,
    /// The message to print if another watch holds it.
    pub other: Option<String>,
}

impl InstanceLock {
    /// Tries to take the lock; `state` is the directory of this watch's control socket. Without access to the lock there is no message.
    pub fn take(directory: &Path, state: &Path) -> InstanceLock {
        let file = Directory::make(directory).and_then(|directory| directory.file(OsStr::new(LOCK), How::Update));
        let Ok(mut file) = file else { return InstanceLock { _lock: None, other: None } };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let _ = file.set_len(0).and_then(|()| file.rewind());
                let _ = writeln!(file, "process {}, --state {}", std::process::id(), state.display());
                InstanceLock { _lock: Some(file), other: None }
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut who = String::new();
                let _ = (&file).take(LONGEST).read_to_string(&mut who);
                InstanceLock { _lock: None, other: Some(warning(who.trim())) }
            }
            Err(_) => InstanceLock { _lock: None, other: None },
        }
    }
}

/// The process id and state directory of the first watch on this machine. Those of a watch that has ended are ignored: any user may have created
/// the state directory since.
pub fn first_watch(directory: &Path) -> Option<(u32, PathBuf)> {
    let file = Directory::open(directory).ok()?.file(OsStr::new(LOCK), How::Read).ok()?;
    if flock(&file, FlockOperation::NonBlockingLockShared) != Err(rustix::io::Errno::WOULDBLOCK) {
        return None;
    }
    let mut text = String::new();
    (&file).take(LONGEST).read_to_string(&mut text).ok()?;
    let (process, state) = text.strip_suffix('\n')?.strip_prefix("process ")?.split_once(", --state ")?;
    Some((process.parse().ok()?, state.into()))
}

fn warning(who: &str) -> String {
    let who = if who.is_empty() { String::new() } else { format!(" ({})", unstarve_model::clean(who)) };
    format!(
        "another watch runs on this machine{who}: both count and record, at twice the cost, and only one can have the address \
         for metrics"
    )
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn the_second_one_says_who_was_first() {
        let directory = crate::testing::private_directory();
        let first = InstanceLock::take(directory.path(), Path::new("/run/a"));
        assert_eq!(first.other, None);
        let second = InstanceLock::take(directory.path(), Path::new("/run/b"));
        let said = second.other.expect("a warning");
        assert!(said.contains(&format!("process {}, --state /run/a", std::process::id())), "{said}");
        assert_eq!(first_watch(directory.path()), Some((std::process::id(), "/run/a".into())));
        drop(first);
        assert_eq!(first_watch(directory.path()), None, "what it said is there still");
        assert_eq!(InstanceLock::take(directory.path(), Path::new("/run/b")).other, None);
        assert_eq!(first_watch(&directory.path().join("absent")), None);
    }
}
