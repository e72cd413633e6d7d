//! Watches that run with another state directory, by the table of processes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use unstarve_watch::config::STATE_DIRECTORY;

/// A watch that runs.
pub(super) struct Other {
    /// Its process.
    pub(super) pid: u32,
    /// Where it can be asked.
    pub(super) state: PathBuf,
}

/// Those that run with another directory than this one. Who may not see all processes sees not all of them.
pub(super) fn others(than: &Path) -> Vec<Other> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut others: Vec<Other> = pids
        .filter_map(|pid: u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            Some(Other { pid, state: state_of(&line)? })
        })
        .filter(|other| other.state != than)
        .collect();
    others.sort_by_key(|other| other.pid);
    others
}

/// The state directory of a watch that was started by this command line; `None` if it is none.
fn state_of(line: &[u8]) -> Option<PathBuf> {
    let mut words = line.split(|&byte| byte == 0).filter(|word| !word.is_empty()).map(OsStr::from_bytes);
    if Path::new(words.next()?).file_name() != Some(OsStr::new("unstarve")) {
        return None;
    }
    let (mut is_watch, mut state) = (false, PathBuf::from(STATE_DIRECTORY));
    while let Some(word) = words.next() {
        match word.as_bytes() {
            b"--state" => state = words.next()?.into(),
            b"--config" | b"-c" | b"--for" | b"--tables" | b"--color" => _ = words.next(),
            b"--print-config" | b"--print-schema" | b"--help" | b"-h" => return None,
            option if option.starts_with(b"--state=") => state = OsStr::from_bytes(&option[8..]).into(),
            option if option.starts_with(b"-") => {}
            // What comes behind it is a subcommand.
            b"watch" if !is_watch => is_watch = true,
            _ => return None,
        }
    }
    is_watch.then_some(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_is_known_by_its_command_line() {
        let state = |line: &str| {
            let line: Vec<u8> = line.bytes().map(|byte| if byte == b' ' { 0 } else { byte }).collect();
            state_of(&line).map(|state| state.display().to_string())
        };
        for (line, expected) in [
            ("unstarve watch", Some("/run/unstarve")),
            ("/usr/local/bin/unstarve watch --state /tmp/a -c w.toml", Some("/tmp/a")),
            ("unstarve --color never watch --for 10s --state=/tmp/b", Some("/tmp/b")),
            ("unstarve watch status --state /tmp/a", None),
            ("unstarve watch --print-config", None),
            ("sudo unstarve watch", None),
            ("unstarve top", None),
            ("unstarve", None),
            ("", None),
        ] {
            assert_eq!(state(line).as_deref(), expected, "{line}");
        }
    }
}
