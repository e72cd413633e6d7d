//! Detects by content what `unstarve compare` was given: recordings, lab results or snapshots.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The kind of input at a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Recording,
    /// A directory with `outcome.json`, or with several below it.
    Lab,
    Snapshot,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Recording => "recording",
            Kind::Lab => "lab result",
            Kind::Snapshot => "snapshot",
        })
    }
}

/// Detects the kind by content. Anything else counts as a recording, whose reader reports what is wrong with it.
pub fn kind(path: &Path) -> Kind {
    if path.is_dir() {
        return Kind::Lab;
    }
    let mut head = Vec::new();
    // A pipe can be read only once.
    let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
    let read = if is_file { File::open(path).and_then(|file| file.take(4096).read_to_end(&mut head)) } else { Ok(0) };
    let is_snapshot = read.is_ok() && String::from_utf8_lossy(&head).contains("unstarve.snapshot/");
    if is_snapshot && head.first() == Some(&b'{') { Kind::Snapshot } else { Kind::Recording }
}
