//! Splits the data section or a pipe into records, reading large blocks.

use std::io::{self, Read};
use std::num::NonZero;
use std::ops::ControlFlow;
use std::thread;

use super::error::PerfDataError;
use super::read_ahead::{BLOCK_BYTES, BUFFER_BYTES, REST_ROOM, ReadAhead};
use super::sample::RECORD_HEADER_BYTES;
use super::session::kind;
use crate::endian::Endian;
use crate::input::{Positioned, landing};

/// Yields records.
pub struct Records {
    bytes: Source,
    endian: Endian,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The file offset of `start`.
    offset: u64,
}

enum Source {
    Section { file: Positioned, next: u64, end: u64 },
    ReadAhead(ReadAhead),
    Stream(Box<dyn Read + Send>),
}

/// Whether a section is long enough to be read ahead by a thread of its own: copying from the page cache takes as long
/// as decoding. There are already two threads, one that decodes and one that analyses, and the latter is the slowest.
/// With only two CPUs, a third thread would slow it down.
fn is_worth_a_thread(length: u64, cpus: impl FnOnce() -> Option<usize>) -> bool {
    length >= 8 << 20 && cpus().is_some_and(|cpus| cpus > 2)
}

/// One record, including its header.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    pub kind: u32,
    pub bytes: &'a [u8],
    pub endian: Endian,
}

/// What comes next.
pub enum Next<'a> {
    Record(Record<'a>),
    End,
    /// The rest cannot be split into records.
    Truncated {
        offset: u64,
        cut: bool,
    },
}

/// The type and size of a record.
#[inline(always)]
fn parse_header(header: &[u8; RECORD_HEADER_BYTES], endian: Endian) -> (u32, usize) {
    let [k0, k1, k2, k3, _, _, s0, s1] = *header;
    (endian.u32([k0, k1, k2, k3]), usize::from(endian.u16([s0, s1])))
}

impl<'a> Record<'a> {
    /// The record at the start of `data`; `None` if it is incomplete.
    ///
    /// # Errors If its size is smaller than its own header.
    #[inline(always)]
    pub fn first(data: &'a [u8], endian: Endian) -> Result<Option<Record<'a>>, ()> {
        let Some(header) = data.first_chunk() else { return Ok(None) };
        let (kind, size) = parse_header(header, endian);
        if size < RECORD_HEADER_BYTES {
            return Err(());
        }
        Ok(data.get(..size).map(|bytes| Record { kind, bytes, endian }))
    }

    pub fn u32_at(&self, offset: usize) -> Option<u32> {
        self.endian.u32_at(self.bytes, offset)
    }

    pub fn u64_at(&self, offset: usize) -> Option<u64> {
        self.endian.u64_at(self.bytes, offset)
    }

    /// What follows the header.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[RECORD_HEADER_BYTES..]
    }
}

impl Records {
    /// The records between two offsets of a file.
    pub fn section(file: Positioned, start: u64, end: u64, endian: Endian) -> Records {
        let cpus = || thread::available_parallelism().ok().map(NonZero::get);
        if is_worth_a_thread(end.saturating_sub(start), cpus) {
            Records::ahead(file, start, end, endian)
        } else {
            Records::in_turn(file, start, end, endian)
        }
    }

    fn ahead(file: Positioned, start: u64, end: u64, endian: Endian) -> Records {
        Records::new(Source::ReadAhead(ReadAhead::new(file, start, end)), start, endian)
    }

    fn in_turn(file: Positioned, start: u64, end: u64, endian: Endian) -> Records {
        Records::new(Source::Section { file, next: start, end }, start, endian)
    }

    /// The records of a pipe of which `offset` bytes have been read.
    pub fn stream(stream: Box<dyn Read + Send>, offset: u64, endian: Endian) -> Records {
        Records::new(Source::Stream(stream), offset, endian)
    }

    fn new(bytes: Source, offset: u64, endian: Endian) -> Records {
        // The read-ahead thread provides its own buffers.
        let room = if matches!(bytes, Source::ReadAhead(_)) { 0 } else { BUFFER_BYTES };
        Records { bytes, endian, buffer: vec![0; room], start: 0, end: 0, offset }
    }

    /// The next record.
    #[inline]
    pub fn next(&mut self) -> Result<Next<'_>, PerfDataError> {
        // The common case: the record is in the buffer.
        let size = match Record::first(&self.buffer[self.start..self.end], self.endian) {
            Ok(Some(record)) => record.bytes.len(),
            Ok(None) => match self.refill()? {
                Refilled::Record(size) => size,
                Refilled::Nothing => return Ok(Next::End),
                Refilled::Truncated { cut } => return Ok(Next::Truncated { offset: self.offset, cut }),
            },
            Err(()) => return Ok(Next::Truncated { offset: self.offset, cut: false }),
        };
        let at = self.start;
        self.start += size;
        self.offset += size as u64;
        match Record::first(&self.buffer[at..at + size], self.endian) {
            Ok(Some(record)) => Ok(Next::Record(record)),
            _ => Ok(Next::Truncated { offset: self.offset, cut: false }),
        }
    }

    /// Passes the samples that follow in the buffer, with their offsets, to `see`, until `see` stops or another record
    /// comes. Most records are samples, and this avoids the cost of [`Records::next`].
    #[inline(always)]
    pub fn samples(&mut self, see: impl FnMut(Record<'_>, u64) -> ControlFlow<()>) {
        // Two loops, each compiled for one byte order.
        match self.endian {
            Endian::Little => self.samples_in(Endian::Little, see),
            Endian::Big => self.samples_in(Endian::Big, see),
        }
    }

    #[inline(always)]
    fn samples_in(&mut self, endian: Endian, mut see: impl FnMut(Record<'_>, u64) -> ControlFlow<()>) {
        let block = &self.buffer[self.start..self.end];
        let mut rest = block;
        while let Some(header) = rest.first_chunk() {
            let (kind, size) = parse_header(header, endian);
            if kind != kind::SAMPLE || size < RECORD_HEADER_BYTES {
                break;
            }
            let Some((bytes, after)) = rest.split_at_checked(size) else { break };
            let at = block.len() - rest.len();
            rest = after;
            if see(Record { kind, bytes, endian }, self.offset + at as u64).is_break() {
                break;
            }
        }
        let seen = block.len() - rest.len();
        self.start += seen;
        self.offset += seen as u64;
    }

    /// The offset of the next record.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The `length` bytes that follow a record (some record types have data after them); fewer if the file ends.
    pub fn following(&mut self, length: usize) -> Result<Vec<u8>, PerfDataError> {
        let mut taken = Vec::new();
        self.pass(length as u64, |bytes| taken.extend_from_slice(bytes))?;
        Ok(taken)
    }

    /// Skips `length` bytes. Returns whether they were there.
    pub fn skip(&mut self, length: u64) -> Result<bool, PerfDataError> {
        self.pass(length, |_| {})
    }

    fn pass(&mut self, mut length: u64, mut see: impl FnMut(&[u8])) -> Result<bool, PerfDataError> {
        while length > 0 {
            if self.start == self.end && !self.fill()? {
                return Ok(false);
            }
            let here = usize::try_from(length).unwrap_or(usize::MAX).min(self.end - self.start);
            see(&self.buffer[self.start..self.start + here]);
            self.start += here;
            self.offset += here as u64;
            length -= here as u64;
        }
        Ok(true)
    }

    #[cold]
    fn refill(&mut self) -> Result<Refilled, PerfDataError> {
        loop {
            let more = self.fill()?;
            match Record::first(&self.buffer[self.start..self.end], self.endian) {
                Ok(Some(record)) => return Ok(Refilled::Record(record.bytes.len())),
                Err(()) => return Ok(Refilled::Truncated { cut: false }),
                Ok(None) if more => {}
                Ok(None) if self.start == self.end => return Ok(Refilled::Nothing),
                Ok(None) => return Ok(Refilled::Truncated { cut: true }),
            }
        }
    }

    /// Reads another block after the rest of the last one. Returns whether there was anything to read.
    fn fill(&mut self) -> Result<bool, PerfDataError> {
        let rest = self.start..self.end;
        let read = match &mut self.bytes {
            Source::ReadAhead(ahead) => ahead.replace(&mut self.buffer, rest),
            Source::Section { file, next, end } => {
                let begin = REST_ROOM + landing(&self.buffer[REST_ROOM..], *next);
                let start = begin - rest.len();
                self.buffer.copy_within(rest, start);
                (self.start, self.end) = (start, begin);
                let wanted = BLOCK_BYTES.min(usize::try_from(end.saturating_sub(*next)).unwrap_or(BLOCK_BYTES));
                let read = file.read_at(*next, &mut self.buffer[begin..begin + wanted]);
                *next += *read.as_ref().unwrap_or(&0) as u64;
                read.map(|length| (start, length))
            }
            Source::Stream(stream) => {
                let start = REST_ROOM - rest.len();
                self.buffer.copy_within(rest, start);
                (self.start, self.end) = (start, REST_ROOM);
                read_some(stream, &mut self.buffer[REST_ROOM..REST_ROOM + BLOCK_BYTES]).map(|length| (start, length))
            }
        };
        let rest = self.end - self.start;
        let offset = self.offset + rest as u64;
        let (start, length) = read.map_err(|source| PerfDataError::Read { offset, source })?;
        (self.start, self.end) = (start, start + rest + length);
        Ok(length > 0)
    }
}

enum Refilled {
    Record(usize),
    Nothing,
    Truncated { cut: bool },
}

fn read_some(stream: &mut dyn Read, space: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(space) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::*;
    use crate::input::Input;

    /// Bytes before the section, so that records begin anywhere in a page.
    const BEFORE: usize = 1224;

    /// Records of many lengths up to the longest, even ones that perf does not write: more than three blocks, and an
    /// incomplete one at the end.
    fn content() -> Vec<u8> {
        let mut content = vec![0xee; BEFORE];
        let sizes = [8, 16, 112, 120, 4096, 65_528, 9, u16::MAX, 24].into_iter().cycle();
        for (number, size) in (0_u32..).zip(sizes).take_while(|(number, _)| *number < 60) {
            let kind = if number % 5 == 0 { kind::COMPRESSED } else { kind::SAMPLE };
            content.extend_from_slice(&kind.to_le_bytes());
            content.extend_from_slice(&[0, 0]);
            content.extend_from_slice(&size.to_le_bytes());
            content.extend((8..size).map(|at| (u32::from(at) * 7 + number) as u8));
        }
        content.extend_from_slice(&[9, 0, 0, 0, 0, 0, 200, 0, 1, 2, 3]);
        content
    }

    fn file(content: &[u8]) -> Positioned {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        file.rewind().unwrap();
        Input::from_file(file, "test".into()).unwrap().into_positioned().unwrap()
    }

    /// Each record with its offset, and the offset of the truncated one.
    fn all(mut records: Records) -> (Vec<(u64, Vec<u8>)>, Option<u64>) {
        let mut seen = Vec::new();
        loop {
            records.samples(|record, offset| {
                seen.push((offset, record.bytes.to_vec()));
                // Stop now and then, as happens when events are ready to be given out.
                if seen.len() % 4 == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            let offset = records.offset();
            match records.next().unwrap() {
                Next::Record(record) => seen.push((offset, record.bytes.to_vec())),
                Next::End => return (seen, None),
                Next::Truncated { offset, cut } => {
                    assert!(cut);
                    return (seen, Some(offset));
                }
            }
        }
    }

    #[test]
    fn a_long_section_is_read_ahead_where_there_are_more_than_two_cpus() {
        let long = 8 << 20;
        for (length, cpus, ahead) in [
            (long, Some(3), true),
            (u64::MAX, Some(64), true),
            (long, Some(2), false),
            (long, Some(1), false),
            (long, None, false),
            (long - 1, Some(64), false),
        ] {
            assert_eq!(is_worth_a_thread(length, || cpus), ahead, "{length} bytes, {cpus:?} CPUs");
        }
    }

    /// Yields a few bytes at a time, and fails once.
    struct Failing {
        content: Vec<u8>,
        given: usize,
        fails_at: usize,
    }

    impl Read for Failing {
        fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
            if self.given >= self.fails_at {
                self.fails_at = usize::MAX;
                return Err(io::Error::other("for once"));
            }
            let length = space.len().min(10_000).min(self.content.len() - self.given);
            space[..length].copy_from_slice(&self.content[self.given..self.given + length]);
            self.given += length;
            Ok(length)
        }
    }

    #[test]
    fn an_error_says_where_and_loses_nothing() {
        let content = content()[BEFORE..].to_vec();
        let expected = all(Records::stream(Box::new(io::Cursor::new(content.clone())), 0, Endian::Little));
        // Fails in the middle of a long record that has been read in part.
        let failing = Failing { content, given: 0, fails_at: 50_000 };
        let mut records = Records::stream(Box::new(failing), 0, Endian::Little);
        let mut seen = Vec::new();
        let error = loop {
            let offset = records.offset();
            match records.next() {
                Ok(Next::Record(record)) => seen.push((offset, record.bytes.to_vec())),
                Ok(_) => panic!("the end before the error"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, PerfDataError::Read { offset: 50_000, .. }), "{error}");
        let (rest, truncated) = all(records);
        seen.extend(rest);
        assert!((seen, truncated) == expected);
    }

    #[test]
    fn records_are_the_same_for_every_source() {
        let content = content();
        let (start, end) = (BEFORE as u64, content.len() as u64);
        let truncated = end - 11;
        let in_turn = all(Records::in_turn(file(&content), start, end, Endian::Little));
        assert_eq!((in_turn.0.len(), in_turn.1), (60, Some(truncated)));
        let mut at = BEFORE;
        for (offset, bytes) in &in_turn.0 {
            assert_eq!(*offset, at as u64);
            assert!(content[at..].starts_with(bytes), "at {at}");
            at += bytes.len();
        }
        let ahead = all(Records::ahead(file(&content), start, end, Endian::Little));
        assert!(ahead == in_turn, "read ahead");
        let piped = Records::stream(Box::new(io::Cursor::new(content[BEFORE..].to_vec())), start, Endian::Little);
        assert!(all(piped) == in_turn, "from a pipe");
        let whole = all(Records::in_turn(file(&content), start, truncated, Endian::Little));
        assert_eq!((whole.0.len(), whole.1), (60, None));
    }
}
