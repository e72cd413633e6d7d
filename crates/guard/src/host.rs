//! Where values are read and written: this machine, or a test's model of one.

use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::{fs, path::Path};

use crate::aspect::{Aspect, Target, Value};
use crate::{scan, sched};

/// A machine whose values can be read and set.
pub trait Host {
    /// The present value; `None` if the target is gone, or is another one by now.
    fn read(&self, target: &Target, aspect: Aspect) -> io::Result<Option<Value>>;
    /// Whether the target is there, and still the one that was meant.
    fn is_there(&self, target: &Target) -> bool;
    /// Sets a value of a target that was just seen to be there. ESRCH if it is gone.
    fn write(&mut self, target: &Target, value: &Value) -> io::Result<()>;
}

/// This machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisHost;

/// ESRCH has no kind of its own.
fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH) || error.kind() == ErrorKind::NotFound
}

impl Host for ThisHost {
    fn read(&self, target: &Target, aspect: Aspect) -> io::Result<Option<Value>> {
        let value = match target {
            Target::Task(key) => sched::read(key.tid).map(|attributes| attributes.value(aspect)),
            Target::File { path, .. } => {
                let text = fs::read_to_string(path);
                text.map(|text| Some(Value::Text(unstarve_kernel::chosen(path, text.trim()).to_owned())))
            }
            Target::Feature { path, name } => {
                fs::read_to_string(path).map(|text| feature_state(&text, name).map(Value::Text))
            }
        };
        match value {
            // Asked after the value: an id used again meanwhile is noticed.
            Ok(value) => Ok(if is_same(target) { value } else { None }),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn is_there(&self, target: &Target) -> bool {
        is_same(target)
    }

    fn write(&mut self, target: &Target, value: &Value) -> io::Result<()> {
        match (target, value) {
            (Target::Task(key), value) => match value {
                Value::Class { policy, rt_priority, slice } => sched::set_class(key.tid, *policy, *rt_priority, *slice),
                Value::Nice(nice) => sched::set_nice(key.tid, *nice),
                Value::Slice(ns) => sched::set_slice(key.tid, *ns),
                Value::Affinity(cpus) => sched::set_affinity(key.tid, cpus),
                Value::Uclamp { min, max } => sched::set_uclamp(key.tid, *min, *max),
                Value::ResetOnFork(on) => sched::set_reset_on_fork(key.tid, *on),
                Value::Text(_) => Err(ErrorKind::InvalidInput.into()),
            },
            (Target::File { path, .. } | Target::Feature { path, .. }, Value::Text(text)) => write_file(path, text),
            _ => Err(ErrorKind::InvalidInput.into()),
        }
    }
}

/// In one write, as the kernel's files want it, and never making a file.
fn write_file(path: &str, text: &str) -> io::Result<()> {
    use std::io::Write;
    let mut file = fs::OpenOptions::new().write(true).open(path)?;
    file.write_all(text.as_bytes())
}

/// Whether the target is still the one that was meant.
fn is_same(target: &Target) -> bool {
    match target {
        Target::Task(key) => scan::start_of(key.tid) == Some(key.start),
        Target::File { path, inode } => inode_of(Path::new(path)) == Some(*inode),
        Target::Feature { path, .. } => Path::new(path).exists(),
    }
}

/// A file's inode; those of /proc/sys are made up anew whenever the kernel forgets the file, so they count as 0.
pub fn inode_of(path: &Path) -> Option<u64> {
    let inode = fs::metadata(path).ok()?.ino();
    Some(if path.starts_with("/proc") { 0 } else { inode })
}

/// `WA_WEIGHT` or `NO_WA_WEIGHT`, whichever the list of features holds.
fn feature_state(text: &str, name: &str) -> Option<String> {
    text.split_ascii_whitespace()
        .find(|word| *word == name || word.strip_prefix("NO_") == Some(name))
        .map(str::to_owned)
}
