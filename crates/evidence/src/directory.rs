//! Walks a directory by its descriptor: no link is followed, nothing but regular files is opened, and other file systems are left out.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, statat};
use unstarve_model::clean_bytes;

/// Directories within directories.
const MAX_DEPTH: usize = 48;

/// Entries of one directory.
const MAX_ENTRIES: usize = 200_000;

/// What a directory has.
pub enum Found {
    /// A regular file, open.
    File(File),
    /// A link, a device, a FIFO or a socket.
    Special,
    /// Another file system.
    OtherFileSystem,
    /// More than allowed.
    TooMany,
    /// It cannot be read.
    Unreadable(io::Error),
}

/// Calls `visit` with the name of each file below `directory`, sorted, until it breaks.
pub fn walk(directory: OwnedFd, name: &str, visit: &mut dyn FnMut(&str, Found) -> ControlFlow<()>) -> ControlFlow<()> {
    match fstat(&directory) {
        Ok(found) => below(directory, name, found.st_dev, MAX_DEPTH, visit),
        Err(error) => visit(name, Found::Unreadable(error.into())),
    }
}

fn below(
    directory: OwnedFd,
    name: &str,
    device: u64,
    depth: usize,
    visit: &mut dyn FnMut(&str, Found) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let Some(depth) = depth.checked_sub(1) else { return visit(name, Found::TooMany) };
    let mut entries = match entries(&directory) {
        Ok(entries) => entries,
        Err(error) => return visit(name, Found::Unreadable(error)),
    };
    if entries.len() > MAX_ENTRIES {
        entries.truncate(MAX_ENTRIES);
        visit(name, Found::TooMany)?;
    }
    entries.sort_unstable();
    for entry in entries {
        let inner = format!("{}/{}", name.trim_end_matches('/'), clean_bytes(entry.as_bytes()));
        match open(&directory, &entry, device) {
            Ok(Opened::Directory(opened)) => below(opened, &inner, device, depth, visit)?,
            Ok(Opened::Other(found)) => visit(&inner, found)?,
            Err(error) => visit(&inner, Found::Unreadable(error))?,
        }
    }
    ControlFlow::Continue(())
}

/// The names in a directory, one more than the limit at most.
fn entries(directory: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
        if names.len() > MAX_ENTRIES {
            break;
        }
    }
    Ok(names)
}

enum Opened {
    Directory(OwnedFd),
    Other(Found),
}

fn open(directory: &OwnedFd, name: &CString, device: u64) -> io::Result<Opened> {
    // A device may act when it is opened, so look first.
    let kind = FileType::from_raw_mode(statat(directory.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode);
    if !matches!(kind, FileType::RegularFile | FileType::Directory) {
        return Ok(Opened::Other(Found::Special));
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = openat(directory.as_fd(), name, flags, Mode::empty())?;
    // Somebody may have replaced it in between.
    let found = fstat(&opened)?;
    Ok(match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory if found.st_dev != device => Opened::Other(Found::OtherFileSystem),
        FileType::Directory => Opened::Directory(opened),
        FileType::RegularFile => Opened::Other(Found::File(File::from(opened))),
        _ => Opened::Other(Found::Special),
    })
}
