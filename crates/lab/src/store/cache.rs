//! The lab's cache directory, and atomic creation of entries in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use unstarve_files::{Directory, TrustError};

use super::StoreError;

/// The directory that keeps kernels, QEMU, images and results: `unstarve/lab` in the user's cache directory.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// The user's cache: `$XDG_CACHE_HOME/unstarve/lab`, or `~/.cache/unstarve/lab`.
    ///
    /// Root trusts and executes what is in its cache: it is used only if nobody else can write it. A home that belongs
    /// to another user (sudo and su may keep `HOME`) is not root's.
    pub fn of_user() -> Result<Cache, StoreError> {
        let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let given = set("XDG_CACHE_HOME");
        let is_root = rustix::process::geteuid().is_root();
        let home = set("HOME").filter(|home| !is_root || Directory::open(home).is_ok());
        let home = home.or_else(|| is_root.then(homes_of_root));
        let base = given.or_else(|| home.map(|home| home.join(".cache")));
        let absent = || StoreError::Other("no cache directory: set XDG_CACHE_HOME or HOME".to_owned());
        let cache = Cache::at(base.ok_or_else(absent)?.join("unstarve/lab"));
        if is_root {
            check_root(&cache.root).map_err(StoreError::NotRoots)?;
        }
        Ok(cache)
    }

    /// A cache at a given path.
    pub fn at(root: PathBuf) -> Cache {
        Cache { root }
    }

    /// The kernels, one directory each.
    pub fn kernels(&self) -> PathBuf {
        self.root.join("kernels")
    }

    /// The lab's own QEMU.
    pub fn qemu(&self) -> PathBuf {
        self.root.join("qemu")
    }

    /// The base images of guests.
    pub fn images(&self) -> PathBuf {
        self.root.join("images")
    }

    /// Results by scenario and kernel.
    pub fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }

    /// The cells of `unstarve lab table`.
    pub fn kernel_cells(&self) -> PathBuf {
        self.root.join("table")
    }

    /// apt's lists of one suite.
    pub(crate) fn apt(&self, suite: &str) -> PathBuf {
        self.root.join("apt").join(suite)
    }
}

/// Root's home in passwd(5).
fn homes_of_root() -> PathBuf {
    home_in(&fs::read_to_string("/etc/passwd").unwrap_or_default()).unwrap_or_else(|| "/root".into())
}

fn home_in(passwd: &str) -> Option<PathBuf> {
    let root =
        passwd.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|fields| fields.get(2) == Some(&"0"))?;
    root.get(5).map(PathBuf::from).filter(|home| home.is_absolute())
}

/// Whether only root can have created a path, or can create it.
fn check_root(path: &Path) -> Result<(), TrustError> {
    match Directory::open(path) {
        Err(TrustError::Io { path, source }) if source.kind() == io::ErrorKind::NotFound => {
            Directory::open(path.parent().unwrap_or(Path::new("/"))).map(drop)
        }
        opened => opened.map(drop),
    }
}

/// A directory or file under construction beside its final name. Removed on drop unless [`PartialEntry::keep`] was
/// called.
#[derive(Debug)]
pub(crate) struct PartialEntry {
    path: PathBuf,
    target: PathBuf,
    kept: bool,
}

/// `.part-PID-name`: the process id shows whether it is still in use.
const PART_PREFIX: &str = ".part-";

impl PartialEntry {
    /// Creates a directory beside `target`, and removes parts of processes that have ended.
    pub(crate) fn directory(target: &Path) -> io::Result<PartialEntry> {
        let part = PartialEntry::name(target)?;
        fs::create_dir(&part.path)?;
        Ok(part)
    }

    /// The name for a new file beside `target`.
    pub(crate) fn file(target: &Path) -> io::Result<PartialEntry> {
        PartialEntry::name(target)
    }

    fn name(target: &Path) -> io::Result<PartialEntry> {
        let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(parent)?;
        check_way(parent)?;
        remove_abandoned(parent)?;
        let name = target.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let path = parent.join(format!("{PART_PREFIX}{}-{name}", std::process::id()));
        remove(&path)?;
        Ok(PartialEntry { path, target: target.to_owned(), kept: false })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Renames it to its final name, replacing what was there.
    pub(crate) fn keep(mut self) -> io::Result<PathBuf> {
        if self.target.is_dir() {
            let old = self.path.with_extension("old");
            fs::rename(&self.target, &old)?;
            fs::rename(&self.path, &self.target)?;
            remove(&old)?;
        } else {
            fs::rename(&self.path, &self.target)?;
        }
        self.kept = true;
        Ok(self.target.clone())
    }
}

impl Drop for PartialEntry {
    fn drop(&mut self) {
        if !self.kept {
            let _ = remove(&self.path);
        }
    }
}

/// Root creates and removes directory trees here: nobody else may replace them by links meanwhile.
pub(crate) fn check_way(parent: &Path) -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        Directory::check_way(parent).map_err(io::Error::other)?;
    }
    Ok(())
}

fn remove_abandoned(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(PART_PREFIX)) else { continue };
        let owner = rest.split('-').next().and_then(|pid| pid.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Removes a file or a directory tree; succeeds if it is absent.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let result = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// SHA-256 of a file, in hex.
pub(crate) fn digest_of_file(path: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    io::copy(&mut fs::File::open(path)?, &mut hash)?;
    Ok(hex(&hash.finalize()))
}

/// SHA-256 of some bytes, in hex.
pub(crate) fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_home_is_that_of_user_0() {
        assert_eq!(home_in("u:x:1000:1000::/home/u:/bin/sh\nroot:x:0:0:root:/root:/bin/bash\n"), Some("/root".into()));
        assert_eq!(home_in("root:x:0:0:root:home:/bin/bash\n"), None);
        assert_eq!(home_in("root:x:0\n"), None);
        assert_eq!(home_in(""), None);
    }

    /// Nobody else may create a missing cache between the check and its use.
    #[test]
    fn a_cache_in_a_directory_of_all_is_not_roots() {
        let scratch = tempfile::tempdir().expect("a directory");
        let mode = |mode| {
            let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
            fs::set_permissions(scratch.path(), permissions).expect("a mode");
        };
        let below = scratch.path().join("unstarve/lab");
        check_root(&below).expect("nobody else can make it");
        check_root(scratch.path()).expect("ours");
        for (all, why) in [(0o777, "mode 0777"), (0o1777, "other users can create files in it")] {
            mode(all);
            for path in [&below, &scratch.path().to_owned()] {
                let error = check_root(path).expect_err("others can make it").to_string();
                assert!(error.contains(why), "{error}");
            }
        }
    }

    #[test]
    fn a_dropped_part_leaves_nothing_and_a_kept_one_replaces() {
        let scratch = tempfile::tempdir().expect("a directory");
        let target = scratch.path().join("result");
        let part = PartialEntry::directory(&target).expect("a part");
        fs::write(part.path().join("a"), "1").expect("written");
        drop(part);
        assert_eq!(fs::read_dir(scratch.path()).expect("listed").count(), 0);
        for text in ["1", "2"] {
            let part = PartialEntry::directory(&target).expect("a part");
            fs::write(part.path().join("a"), text).expect("written");
            part.keep().expect("kept");
        }
        assert_eq!(fs::read_to_string(target.join("a")).expect("read"), "2");
        assert_eq!(fs::read_dir(scratch.path()).expect("listed").count(), 1);
    }

    #[test]
    fn parts_of_dead_processes_are_swept() {
        let scratch = tempfile::tempdir().expect("a directory");
        // Above the largest pid that Linux gives (4194304).
        fs::create_dir(scratch.path().join(".part-4999999-x")).expect("made");
        let part = PartialEntry::directory(&scratch.path().join("y")).expect("a part");
        assert_eq!(fs::read_dir(scratch.path()).expect("listed").count(), 1);
        drop(part);
    }
}
