//! Writes a journal's bytes to disk.

use std::fs::File;
use std::io::{self, Write};

/// The file behind a journal. A trait, so that tests can interrupt any write and kill between any two.
pub trait Store {
    /// Appends bytes, and returns when they are safe.
    ///
    /// # Errors
    /// If they are not safe; a part of them may be in the file.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes sure that this many bytes can be appended, plus [`RESERVE`].
    ///
    /// # Errors
    /// If there is no space.
    fn reserve(&mut self, _bytes: u64) -> io::Result<()> {
        Ok(())
    }
}

/// Space reserved for settling reverted changes, which must not fail because the disk is full.
pub const RESERVE: u64 = 64 << 10;
/// Space to allocate at a time.
const ROOM: u64 = 1 << 20;

impl Store for JournalFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(bytes);
        self.length = match &written {
            Ok(()) => self.length + bytes.len() as u64,
            // A part may have been written.
            Err(_) => self.file.metadata()?.len(),
        };
        written.and_then(|()| self.file.sync_data())
    }

    fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        let needed = self.length.saturating_add(bytes).saturating_add(RESERVE);
        if needed <= self.room {
            return Ok(());
        }
        let flags = rustix::fs::FallocateFlags::KEEP_SIZE;
        for room in [needed.saturating_add(ROOM), needed] {
            match rustix::fs::fallocate(&self.file, flags, 0, room) {
                Ok(()) => {
                    self.room = room;
                    return Ok(());
                }
                // The file system cannot preallocate; then there is no reserve, and reverts are not settled if the disk is
                // full.
                Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => return Ok(()),
                Err(_) => {}
            }
        }
        Err(rustix::io::Errno::NOSPC.into())
    }
}

/// A journal's file, positioned at its end.
#[derive(Debug)]
pub struct JournalFile {
    file: File,
    pub(super) length: u64,
    room: u64,
}

impl JournalFile {
    /// Wraps a file opened for appending.
    ///
    /// # Errors
    /// If its length cannot be read.
    pub fn new(file: File) -> io::Result<JournalFile> {
        let length = file.metadata()?.len();
        Ok(JournalFile { file, length, room: 0 })
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }
}
