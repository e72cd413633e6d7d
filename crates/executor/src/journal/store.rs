//! Where a journal is written.

use std::fs::File;
use std::io::{self, Write};

/// Where lines go. A trait so that tests can tear any write and kill between any two.
pub trait Store {
    /// Adds bytes and returns when they are safe.
    ///
    /// # Errors
    /// If they are not; some of them may be there.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes sure that so many bytes can be added, and [`RESERVE`] beyond them.
    ///
    /// # Errors
    /// If there is no room.
    fn reserve(&mut self, _bytes: u64) -> io::Result<()> {
        Ok(())
    }
}

/// Room that is kept for writing down what was taken back, which must not fail because the disk is full.
pub const RESERVE: u64 = 64 << 10;
/// How much room is asked for at a time.
const ROOM: u64 = 1 << 20;

impl Store for JournalFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(bytes);
        self.length = match &written {
            Ok(()) => self.length + bytes.len() as u64,
            // A part of it may be there.
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
                // This file system cannot; then there is no reserve, and taking back goes without writing anything down.
                Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => return Ok(()),
                Err(_) => {}
            }
        }
        Err(rustix::io::Errno::NOSPC.into())
    }
}

/// A journal's file, at its end.
#[derive(Debug)]
pub struct JournalFile {
    file: File,
    pub(super) length: u64,
    room: u64,
}

impl JournalFile {
    /// One that was opened for adding.
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
