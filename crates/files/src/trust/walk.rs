//! Walks a path one component at a time, checking each before it is passed.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, mkdirat, openat, readlinkat};
use rustix::io::Errno;

use super::Directory;
use super::ownership_check::{
    Distrust, MAX_SYMLINKS, TrustError, distrust, distrust_link, is_magic, is_on_fuse, is_user_mount, us,
};

/// The state of a walk: the directories so far, so that `..` returns to one that was checked.
pub(super) struct Walk {
    stack: Vec<Directory>,
    pending: VecDeque<OsString>,
    links: usize,
    make: Option<Mode>,
    purpose: Purpose,
}

/// What the final directory is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Its content will be trusted.
    Belief,
    /// We create something in it and use it by path: others must not be able to replace it.
    Work,
    /// A result is written there: others may own it, but must not redirect us.
    Result,
}

impl Walk {
    pub(super) fn to(path: &Path, make: Option<Mode>, purpose: Purpose) -> Result<Walk, TrustError> {
        let root = openat(CWD, "/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(TrustError::io(Path::new("/")))?;
        let stat = fstat(&root).map_err(TrustError::io(Path::new("/")))?;
        if purpose != Purpose::Result
            && let Some(why) = distrust(&stat)
        {
            return Err(TrustError::Untrusted { path: PathBuf::from("/"), why });
        }
        let root = Directory { descriptor: root, path: PathBuf::from("/") };
        let mut walk = Walk { stack: vec![root], pending: VecDeque::new(), links: 0, make, purpose };
        if !path.is_absolute() {
            let here = std::env::current_dir().map_err(|source| TrustError::Io { path: path.to_owned(), source })?;
            walk.pending.extend(components(&here));
        }
        walk.pending.extend(components(path));
        Ok(walk)
    }

    fn here(&self) -> &Directory {
        // `..` of the root is the root.
        &self.stack[self.stack.len() - 1]
    }

    /// Walks all pending components as directories.
    pub(super) fn finish(mut self) -> Result<Directory, TrustError> {
        while let Some(name) = self.pending.pop_front() {
            self.step(name)?;
        }
        let last = self.stack.len() - 1;
        let directory = self.stack.swap_remove(last);
        if self.purpose != Purpose::Belief {
            return Ok(directory);
        }
        let stat = fstat(&directory.descriptor).map_err(TrustError::io(&directory.path))?;
        // In a sticky directory others could create the file we look for.
        if stat.st_mode & 0o022 != 0 {
            return Err(TrustError::Untrusted { path: directory.path, why: Distrust::Shared });
        }
        Ok(directory)
    }

    fn step(&mut self, name: OsString) -> Result<(), TrustError> {
        if name == ".." {
            if self.stack.len() > 1 {
                self.stack.pop();
            }
            return Ok(());
        }
        let path = self.here().path.join(&name);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match (openat(&self.here().descriptor, &name, flags, Mode::empty()), self.make) {
            (Err(Errno::NOENT), Some(mode)) => {
                match mkdirat(&self.here().descriptor, &name, mode) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(TrustError::io(&path)(errno)),
                }
                openat(&self.here().descriptor, &name, flags, Mode::empty())
            }
            (opened, _) => opened,
        };
        let opened = opened.map_err(TrustError::io(&path))?;
        let stat = fstat(&opened).map_err(TrustError::io(&path))?;
        let above = fstat(&self.here().descriptor).map_err(TrustError::io(&path))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => {
                if let Some(why) = distrust_link(&above, &stat) {
                    return Err(TrustError::Untrusted { path, why });
                }
                if us() == 0 && is_on_fuse(self.here()) {
                    return Err(TrustError::Untrusted { path, why: Distrust::UserMount });
                }
                self.links += 1;
                if self.links > MAX_SYMLINKS {
                    return Err(TrustError::Untrusted { path, why: Distrust::Links });
                }
                let to = readlinkat(&opened, "", Vec::new()).map_err(TrustError::io(&path))?;
                let to = PathBuf::from(OsString::from_vec(to.into_bytes()));
                if is_magic(self.here(), &to) {
                    return Err(TrustError::Untrusted { path, why: Distrust::MagicLink });
                }
                if to.is_absolute() {
                    self.stack.truncate(1);
                }
                for component in components(&to).into_iter().rev() {
                    self.pending.push_front(component);
                }
                Ok(())
            }
            FileType::Directory => {
                let why = match self.purpose {
                    Purpose::Result => None,
                    _ if is_user_mount(&above, &stat, &opened) => Some(Distrust::UserMount),
                    _ => distrust(&stat),
                };
                if let Some(why) = why {
                    return Err(TrustError::Untrusted { path, why });
                }
                self.stack.push(Directory { descriptor: opened, path });
                Ok(())
            }
            _ => Err(TrustError::io(&path)(Errno::NOTDIR)),
        }
    }
}

fn components(path: &Path) -> Vec<OsString> {
    let kept = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    kept.collect()
}
