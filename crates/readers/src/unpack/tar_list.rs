//! Lists the members of a tar archive.

use std::cell::Cell;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::rc::Rc;

use super::archive::{Member, Packing, Part};
use super::forward::Forward;
use crate::input::Positioned;

/// Limit for what precedes a member: its header, long names, pax attributes, the map of a sparse file. This is read
/// into memory, and an archive can claim any length for it.
const MAX_HEAD_BYTES: u64 = 64 << 10;

/// The regular files in a tar archive, up to `limit`. A truncated archive yields those before the end; one with more
/// than 64 KiB before a member is refused.
pub fn members(file: &Positioned, limit: usize) -> io::Result<Vec<Member>> {
    let mut members = Vec::new();
    let ended = each(Part::whole(file), |entry| {
        if let Entry::File(member) = entry {
            members.push(member);
        }
        if members.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    match ended {
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Err(error),
        _ => Ok(members),
    }
}

/// What an archive has.
pub enum Entry {
    /// A regular file.
    File(Member),
    /// A link or a device, by its name.
    Special(Member),
}

/// Calls `visit` for each file, link and device of an archive, in its order.
pub fn each<A: At>(archive: A, mut visit: impl FnMut(Entry) -> ControlFlow<()>) -> io::Result<()> {
    let left = Rc::new(Cell::new(MAX_HEAD_BYTES));
    let mut archive = tar::Archive::new(Heads { part: archive, left: left.clone(), begin: 0 });
    for entry in archive.entries_with_seek()? {
        let entry = entry?;
        left.set(MAX_HEAD_BYTES);
        let kind = entry.header().entry_type();
        let begin = entry.raw_file_position();
        let member = |packing| Member::new(&entry.path_bytes(), packing, begin, begin.saturating_add(entry.size()));
        let found = match kind {
            _ if kind.is_file() || kind.is_contiguous() => Entry::File(member(Packing::None)),
            _ if kind.is_gnu_sparse() => Entry::File(member(Packing::Unreadable)),
            _ if kind.is_dir() || kind.is_pax_global_extensions() => continue,
            _ => Entry::Special(member(Packing::Unreadable)),
        };
        if visit(found).is_break() {
            break;
        }
    }
    Ok(())
}

/// An archive that is read from its beginning to its end.
pub trait At: Read + Seek {
    /// The offset of the next byte.
    fn at(&self) -> u64;
}

impl At for Part {
    fn at(&self) -> u64 {
        self.at
    }
}

impl At for Forward {
    fn at(&self) -> u64 {
        self.offset()
    }
}

/// The archive as the tar library sees it: only headers, each of limited length.
struct Heads<A> {
    part: A,
    /// How many more bytes may be read for this header.
    left: Rc<Cell<u64>>,
    begin: u64,
}

impl<A: At> Read for Heads<A> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left.get();
        if left == MAX_HEAD_BYTES {
            self.begin = self.part.at();
        }
        if left == 0 && !buffer.is_empty() {
            let what = format!(
                "the member at byte {} of the tar archive has more than {} KiB of header (long names, pax attributes); \
                 expected at most that; unpack it with tar and give the recording itself",
                self.begin,
                MAX_HEAD_BYTES >> 10
            );
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
        }
        let wanted = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let length = self.part.read(&mut buffer[..wanted])?;
        self.left.set(left - length as u64);
        Ok(length)
    }
}

impl<A: At> Seek for Heads<A> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.part.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Input;

    /// An archive with a file, and before a second one a header of type `kind` with a body of `length` zeros (sparse on
    /// disk).
    fn archive(kind: u8, length: u64) -> io::Result<Vec<Member>> {
        let mut file = tempfile::tempfile()?;
        for (kind, name, size) in [(b'0', "one", 3), (kind, "long", length), (b'0', "two", 3)] {
            let mut header = tar::Header::new_gnu();
            header.set_path(name)?;
            header.set_size(size);
            header.set_entry_type(tar::EntryType::new(kind));
            header.set_cksum();
            io::Write::write_all(&mut file, header.as_bytes())?;
            file.seek(SeekFrom::Current(size.next_multiple_of(512).cast_signed()))?;
        }
        let end = file.stream_position()?;
        file.set_len(end + 1024)?;
        file.rewind()?;
        members(&Input::from_file(file, "x.tar".to_owned())?.into_positioned()?, 9)
    }

    #[test]
    fn a_header_without_bounds_is_refused() {
        for kind in *b"LKx" {
            let error = archive(kind, 6 << 30).unwrap_err().to_string();
            assert!(error.starts_with("the member at byte 1024 of the tar archive has more than 64 KiB"), "{error}");
            assert_eq!(archive(kind, 4096).unwrap().len(), 2);
        }
        // Nobody reads the global header.
        assert_eq!(archive(b'g', 6 << 30).unwrap().len(), 2);
    }
}
