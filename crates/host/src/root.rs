use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Where `/proc`, `/sys` and `/boot` are found: the real ones, a host's below `/host` in a container, or a test's.
#[derive(Clone, Debug)]
pub struct Root {
    prefix: PathBuf,
}

impl Root {
    /// The machine we run on.
    pub fn host() -> Root {
        Root::at("/")
    }

    /// The tree below `prefix`, which holds `proc` and `sys` (and perhaps `boot`).
    pub fn at(prefix: impl Into<PathBuf>) -> Root {
        Root { prefix: prefix.into() }
    }

    /// Whether system calls speak of the same machine as this tree.
    pub(crate) fn is_host(&self) -> bool {
        self.prefix == Path::new("/")
    }

    /// What a journal calls it: its directory without symbolic links; `None` for the machine's own.
    pub fn name(&self) -> Option<String> {
        let real = fs::canonicalize(&self.prefix).unwrap_or_else(|_| self.prefix.clone());
        (real != Path::new("/")).then(|| real.to_string_lossy().into_owned())
    }

    /// The place of an absolute path in this tree.
    pub fn path(&self, absolute: &str) -> PathBuf {
        self.prefix.join(absolute.trim_start_matches('/'))
    }

    /// A small text file without its last newline. Bytes that are not UTF-8 become U+FFFD: task names may hold them.
    pub(crate) fn text(&self, absolute: &str) -> io::Result<String> {
        read_text(&self.path(absolute))
    }

    /// The names in a directory, sorted so that a snapshot of an unchanged host is unchanged.
    pub(crate) fn names(&self, absolute: &str) -> io::Result<Vec<String>> {
        names_in(&self.path(absolute))
    }
}

/// Files of procfs and sysfs are small; one that is not (a config of many megabytes) is not what it claims to be.
const MAX_FILE: u64 = 16 << 20;

pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MAX_FILE).read_to_end(&mut bytes)?;
    let mut text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    };
    text.truncate(text.trim_end_matches('\n').len());
    Ok(text)
}

pub(crate) fn names_in(path: &Path) -> io::Result<Vec<String>> {
    let mut names: Vec<String> =
        fs::read_dir(path)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort_unstable();
    Ok(names)
}
