//! One CPU's ring buffer in an instance.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;
use rustix::io::{Errno, retry_on_intr};
use unstarve_readers::Endian;
use unstarve_readers::kbuffer::PageFormat;

use crate::instance::Instance;
use crate::tracefs::TraceFs;
use crate::{RecordError, capture};

pub(crate) struct RingBuffer(File);

impl RingBuffer {
    pub(crate) fn open(instance: &Instance, cpu: u32) -> Result<RingBuffer, RecordError> {
        let name = format!("per_cpu/cpu{cpu}/trace_pipe_raw");
        OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open(instance.path(&name))
            .map(RingBuffer)
            .map_err(|source| instance.error(&name, source))
    }

    /// Takes the next page out of the buffer. False if there is none. What the kernel does not write is zero: readers
    /// expect whole pages, and the header says how much of one is used.
    pub(crate) fn read_page(&self, page: &mut [u8]) -> io::Result<bool> {
        match retry_on_intr(|| rustix::io::read(&self.0, &mut *page)) {
            Ok(0) | Err(Errno::AGAIN) => Ok(false),
            Ok(length) => {
                page[length..].fill(0);
                Ok(true)
            }
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for RingBuffer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// How this kernel's pages are laid out. `action` is what cannot be done if that is not known.
pub(crate) fn page_format(tracefs: &TraceFs, action: &'static str) -> Result<PageFormat, RecordError> {
    let header = capture::header(tracefs, "events/header_page")?;
    PageFormat::parse(Endian::HOST, &String::from_utf8_lossy(&header))
        .map_err(|error| RecordError::system(action)(io::Error::other(error)))
}

pub(crate) fn empty_page() -> Vec<u8> {
    vec![0; rustix::param::page_size()]
}
