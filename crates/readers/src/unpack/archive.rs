//! Finds the recording in a tar or zip archive.

use std::io::{self, Read, Seek, SeekFrom};

use super::bounded::Budget;
use super::layer::Layer;
use super::member::InArchive;
use super::{MAX_LAYERS, Tests, tar_list, zip_list};
use crate::input::{Input, Positioned};
use crate::open::OpenError;

/// A kind of archive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArchiveKind {
    Tar,
    Zip,
}

/// A file in an archive. Its name is shown and compared, but never used as a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Safe to print, and limited in length.
    pub name: String,
    pub packing: Packing,
    /// Offset of its bytes in the archive.
    pub begin: u64,
    pub end: u64,
}

/// How a member's bytes are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packing {
    None,
    Deflate,
    /// Encrypted, sparse, or compressed with an unsupported method.
    Unreadable,
}

/// The outcome of looking for a recording in an archive.
pub enum Choice {
    /// The first recording.
    Member(Input, InArchive),
    /// There is none; the names of the first few members.
    None(Vec<String>),
}

/// Limit of members to look at. Bundles of support data have hundreds of files.
const MAX_MEMBERS: usize = 4096;

/// How many members that look like recordings are read up to their first event.
const MAX_MEMBERS_READ: usize = 64;

/// How many member names a message lists.
pub const MAX_MEMBERS_NAMED: usize = 8;

const MAX_NAME_BYTES: usize = 200;

impl Member {
    /// A member with a name from an untrusted archive.
    pub fn new(name: &[u8], packing: Packing, begin: u64, end: u64) -> Member {
        let name = String::from_utf8_lossy(&name[..name.len().min(MAX_NAME_BYTES)]);
        Member { name: unstarve_model::clean(&name).into_owned(), packing, begin, end }
    }

    fn open(&self, file: &Positioned, budget: &mut Budget) -> io::Result<Input> {
        self.open_as(file, format!("{} in {}", self.name, file.name()), budget)
    }

    /// Its bytes, unpacked, with a name for messages.
    pub fn open_as(&self, file: &Positioned, name: String, budget: &mut Budget) -> io::Result<Input> {
        let part = Part { file: file.clone(), at: self.begin, begin: self.begin, end: self.end };
        let packed = budget.source(Box::new(part));
        match self.packing {
            Packing::None => Input::from_stream(packed, name),
            Packing::Deflate => {
                let stream = io::BufReader::with_capacity(1 << 16, packed);
                let unpacked = budget.bounded(flate2::bufread::DeflateDecoder::new(stream));
                Input::from_stream(Box::new(unpacked), name)
            }
            Packing::Unreadable => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Whether the member, decompressed, passes a test.
    fn passes(&self, file: &Positioned, test: impl FnOnce(Input) -> bool) -> bool {
        let mut budget = Budget::default();
        let Ok(mut input) = self.open(file, &mut budget) else { return false };
        for _ in 0..=MAX_LAYERS {
            match Layer::of(input.prefix()) {
                None => return test(input),
                Some(Layer::Archive(_)) => return false,
                Some(Layer::Stream(stream)) => match stream.open(input, &mut budget) {
                    Ok(inner) => input = inner,
                    Err(_) => return false,
                },
            }
        }
        false
    }
}

impl ArchiveKind {
    /// The kind of archive that begins with `prefix`.
    pub fn of(prefix: &[u8]) -> Option<ArchiveKind> {
        match prefix {
            [b'P', b'K', 3, 4, ..] => Some(ArchiveKind::Zip),
            _ if prefix.get(257..262) == Some(b"ustar") => Some(ArchiveKind::Tar),
            _ => None,
        }
    }

    /// Finds the first recording in an archive. If several members look like one, as logs do, the first with any events
    /// is chosen.
    pub fn choose(self, input: Input, budget: &mut Budget, tests: Tests) -> Result<Choice, OpenError> {
        let name = input.name().to_owned();
        let failed = |source| OpenError::Io { name: name.clone(), source };
        let file = input.into_positioned().map_err(failed)?;
        let members = match self {
            ArchiveKind::Tar => tar_list::members(&file, MAX_MEMBERS),
            ArchiveKind::Zip => zip_list::members(&file, MAX_MEMBERS),
        }
        .map_err(failed)?;
        let looks = |member: &&Member| member.passes(&file, |input| (tests.is_recording)(input.prefix()));
        let alike: Vec<&Member> = members.iter().filter(looks).collect();
        let has_events =
            |(index, member): &(usize, &Member)| *index >= MAX_MEMBERS_READ || member.passes(&file, tests.has_events);
        let chosen = match alike[..] {
            [] => {
                return Ok(Choice::None(
                    members.into_iter().take(MAX_MEMBERS_NAMED).map(|member| member.name).collect(),
                ));
            }
            [only] => vec![only],
            // If no member has events, the first one's error is reported.
            [first, ..] => {
                let some: Vec<_> =
                    alike.iter().copied().enumerate().filter(has_events).map(|(_, member)| member).collect();
                if some.is_empty() { vec![first] } else { some }
            }
        };
        let input = chosen[0].open(&file, budget).map_err(failed)?;
        let others = chosen[1..].iter().map(|member| member.name.clone()).collect();
        let member = InArchive { name: chosen[0].name.clone(), others, archive: name.clone(), kind: self };
        Ok(Choice::Member(input, member))
    }

    /// A command that writes a member to standard output.
    pub fn extract(self) -> &'static str {
        match self {
            ArchiveKind::Tar => "tar -xOf",
            ArchiveKind::Zip => "unzip -p",
        }
    }
}

/// A part of a file.
pub struct Part {
    pub file: Positioned,
    pub at: u64,
    pub begin: u64,
    pub end: u64,
}

impl Part {
    /// The whole file.
    pub fn whole(file: &Positioned) -> Part {
        Part { file: file.clone(), at: 0, begin: 0, end: file.length() }
    }
}

impl Read for Part {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_sub(self.at);
        let wanted = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let length = self.file.read_at(self.at, &mut buffer[..wanted])?;
        self.at += length as u64;
        Ok(length)
    }
}

impl Seek for Part {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(offset) => self.begin.checked_add(offset),
            SeekFrom::End(offset) => self.end.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.at.checked_add_signed(offset),
        };
        self.at = at.filter(|&at| at >= self.begin).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at - self.begin)
    }
}
