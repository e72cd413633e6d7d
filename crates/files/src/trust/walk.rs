//! The way along a path, one component at a time, each checked before it is passed.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, mkdirat, openat, readlinkat};
use rustix::io::Errno;

use super::Directory;
use super::ownership_check::{
    Distrust, MOST_LINKS, TrustError, distrust, distrust_link, is_magic, is_on_fuse, is_user_mount, us,
};

/// Where a walk has come to: the directories on the way, so that `..` goes back to one that was checked.
pub(super) struct Walk {
    stack: Vec<Directory>,
    pending: VecDeque<OsString>,
    links: usize,
    make: Option<Mode>,
    purpose: Purpose,
}

/// What the directory at the end is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// What is in it will be believed.
    Belief,
    /// Something of ours will be made in it and used by its path: others must not be able to swap it.
    Work,
    /// A result goes there: others may own it, but not lead us elsewhere.
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
        // The root stays: `..` there is there.
        &self.stack[self.stack.len() - 1]
    }

    /// Goes through everything that is pending as directories.
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
        // The last one must be ours alone: in a sticky one others could make what we look for.
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
                if self.links > MOST_LINKS {
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
