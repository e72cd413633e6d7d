use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// What a path leads to, as far as it can be compared.
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

/// By content. What is none of the others is left to the readers of recordings, who say what is wrong with it.
pub fn kind(path: &Path) -> Kind {
    if path.is_dir() {
        return Kind::Lab;
    }
    let mut head = Vec::new();
    // Not of a pipe, which could be read only once.
    let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
    let read = if is_file { File::open(path).and_then(|file| file.take(4096).read_to_end(&mut head)) } else { Ok(0) };
    let is_snapshot = read.is_ok() && String::from_utf8_lossy(&head).contains("unstarve.snapshot/");
    if is_snapshot && head.first() == Some(&b'{') { Kind::Snapshot } else { Kind::Recording }
}
