//! Files of a host in a directory, as they are read below a root of their own (`--root`).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The files. They are in a directory `host` of a temporary one, so that a test can have something beside them.
///
/// All of it panics where a file cannot be made. Paths are those of the host, with the first `/` or without.
#[derive(Debug)]
pub struct HostTree {
    _directory: TempDir,
    root: PathBuf,
}

impl HostTree {
    /// A host with these files; a path that ends in `/` is an empty directory.
    pub fn new(files: &[(&str, &str)]) -> HostTree {
        HostTree::in_directory(tempfile::tempdir().expect("a temporary directory"), files)
    }

    /// The same in memory where there is such a place: a busy disk takes a minute for ten thousand links.
    pub fn in_memory(files: &[(&str, &str)]) -> HostTree {
        match tempfile::tempdir_in("/dev/shm") {
            Ok(directory) => HostTree::in_directory(directory, files),
            Err(_) => HostTree::new(files),
        }
    }

    fn in_directory(directory: TempDir, files: &[(&str, &str)]) -> HostTree {
        let root = directory.path().join("host");
        fs::create_dir(&root).expect("a directory");
        let tree = HostTree { _directory: directory, root };
        tree.add(files);
        tree
    }

    /// The root.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Where a path of the host is.
    pub fn join(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Adds files, or gives them another text; a path that ends in `/` is an empty directory.
    pub fn add(&self, files: &[(&str, &str)]) {
        files.iter().for_each(|(path, text)| self.write(path, text));
    }

    /// The same for one.
    pub fn write(&self, path: &str, text: &str) {
        if path.ends_with('/') {
            fs::create_dir_all(self.join(path)).expect("a directory");
        } else {
            fs::write(self.with_parents(path), text).expect("a file");
        }
    }

    /// Adds a symbolic link.
    pub fn link(&self, path: &str, to: impl AsRef<Path>) {
        symlink(to, self.with_parents(path)).expect("a link");
    }

    /// Where a path is whose directories exist now.
    pub fn with_parents(&self, path: &str) -> PathBuf {
        let full = self.join(path);
        fs::create_dir_all(full.parent().expect("a parent")).expect("a directory");
        full
    }

    /// What a file holds, without blanks at its ends.
    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.join(path)).expect("a file").trim().to_owned()
    }
}
