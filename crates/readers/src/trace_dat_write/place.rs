//! Assigns file offsets to pages, and copies them there.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

use rustix::io::Errno;

/// The offset of each CPU's pages, and the end of the file.
pub(super) struct Places {
    pub(super) cpus: Vec<Place>,
    pub(super) end: u64,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// Copies `place.length` bytes from the start of `from` to `place.offset` of `to`; fewer if `from` is shorter.
pub(super) fn copy(from: &File, to: &mut File, place: Place, progress: &mut dyn FnMut(u64)) -> io::Result<u64> {
    /// Large enough for speed, small enough to show progress.
    const STEP: usize = 64 << 20;
    let (mut source, mut target) = (0, place.offset);
    while source < place.length {
        let step = (place.length - source).min(STEP as u64) as usize;
        match rustix::fs::copy_file_range(from, Some(&mut source), &*to, Some(&mut target), step) {
            Ok(0) => return Ok(source),
            Ok(length) => progress(length as u64),
            Err(Errno::INTR) => {}
            // Another file system on an old kernel, or one without support.
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                return copy_by_hand(from, to, source, place, progress);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(source)
}

fn copy_by_hand(
    from: &File,
    to: &mut File,
    mut source: u64,
    place: Place,
    progress: &mut dyn FnMut(u64),
) -> io::Result<u64> {
    let mut buffer = vec![0; 1 << 20];
    to.seek(SeekFrom::Start(place.offset + source))?;
    while source < place.length {
        let step = (place.length - source).min(buffer.len() as u64) as usize;
        match from.read_at(&mut buffer[..step], source) {
            Ok(0) => break,
            Ok(length) => {
                to.write_all(&buffer[..length])?;
                source += length as u64;
                progress(length as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(source)
}
