//! Pages (sub-buffers) of the kernel's ring buffer, as `trace_pipe_raw` gives them.
//!
//! ```text
//! 0         8              8 + long
//! ┌─────────┬──────────────┬───────┬───────┬─────┬──────────────────────┬─────────┐
//! │ time    │ commit       │ event │ event │  …  │ missed count (long)  │  unused │
//! └─────────┴──────────────┴───────┴───────┴─────┴──────────────────────┴─────────┘
//!             │ bits 0–26: bytes of events        if MISSING_STORED
//!             │ bit 30: MISSING_STORED
//!             └ bit 31: MISSING_EVENTS: events before this page were dropped
//!
//! event:  type_len (5 bits) | time_delta (27 bits), then by type_len
//!   0       array[0] is the length of data + 4; the data follows
//!   1–28    data of type_len × 4 bytes
//!   29      padding: array[0] is its length; time_delta 0 means that nothing follows in this page
//!   30      time extend: array[0] are bits 27–58 of the delta
//!   31      absolute time: bits 0–58; the upper five are those of the time so far
//! ```
//!
//! Sources: `include/linux/ring_buffer.h` and `kernel/trace/ring_buffer.c` (5.10 to 7.x; the same since 2.6.31).

use std::ops::Range;

use thiserror::Error;

use crate::endian::Endian;
use crate::format::{FormatError, parse_fields};

/// The layout of a page; from tracefs `events/header_page`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageFormat {
    endian: Endian,
    commit_at: usize,
    /// Size of the kernel's `long`: 4 or 8. A 32-bit tracing program may run on a 64-bit kernel, so the file's `long`
    /// is not this one.
    commit_size: usize,
    data_at: usize,
}

/// Why `header_page` cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum PageFormatError {
    /// A line does not parse.
    #[error(transparent)]
    Line(#[from] FormatError),
    /// A field is missing, or has a size that no kernel uses.
    #[error("header_page has no usable `{0}` field")]
    Field(&'static str),
}

/// Damage in a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("{what} at byte {at} of the page")]
pub struct BadPage {
    /// Where in the page.
    pub at: usize,
    /// What is wrong.
    pub what: &'static str,
}

/// Events that were dropped before a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missed {
    /// That many.
    Count(u64),
    /// The kernel had no room to store the number.
    Uncounted,
}

/// A position in a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageCursor {
    time: u64,
    at: usize,
    end: usize,
    missed: Option<Missed>,
}

/// The upper bits of a time, which an absolute timestamp record does not hold.
const TIME_MSB: u64 = 0xf8 << 56;

const DATA_MAX: u32 = 28;
const PADDING_ENTRY: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

impl PageFormat {
    /// The layout that every kernel since 2.6.31 uses, if the kernel's `long` has `long` bytes (4 or 8).
    pub fn usual(endian: Endian, long: usize) -> PageFormat {
        let commit_size = if long == 4 { 4 } else { 8 };
        PageFormat { endian, commit_at: 8, commit_size, data_at: 8 + commit_size }
    }

    /// Parses the text of `events/header_page`.
    pub fn parse(endian: Endian, text: &str) -> Result<PageFormat, PageFormatError> {
        let fields = parse_fields(text)?;
        let field =
            |name: &'static str| fields.iter().find(|field| field.name == name).ok_or(PageFormatError::Field(name));
        let (timestamp, commit, data) = (field("timestamp")?, field("commit")?, field("data")?);
        if (timestamp.offset, timestamp.size) != (0, 8) {
            return Err(PageFormatError::Field("timestamp"));
        }
        if !matches!(commit.size, 4 | 8) || commit.offset > 64 {
            return Err(PageFormatError::Field("commit"));
        }
        if data.offset < commit.offset + commit.size || data.offset > 128 {
            return Err(PageFormatError::Field("data"));
        }
        Ok(PageFormat { endian, commit_at: commit.offset, commit_size: commit.size, data_at: data.offset })
    }

    /// Bytes before the first event.
    pub fn header_size(&self) -> usize {
        self.data_at
    }

    fn long_at(&self, page: &[u8], at: usize) -> Option<u64> {
        match self.commit_size {
            4 => self.endian.u32_at(page, at).map(u64::from),
            _ => self.endian.u64_at(page, at),
        }
    }

    /// Starts reading a whole page.
    pub fn begin(&self, page: &[u8]) -> Result<PageCursor, BadPage> {
        let cursor = self.begin_part(page)?;
        if cursor.end > page.len() {
            return Err(BadPage { at: self.commit_at, what: "more bytes of events than the page has" });
        }
        Ok(cursor)
    }

    /// Starts reading a truncated page, the last one of a file that was cut. Its first incomplete event is reported as
    /// damage.
    pub fn begin_part(&self, page: &[u8]) -> Result<PageCursor, BadPage> {
        let short = BadPage { at: page.len(), what: "the header is cut off" };
        if page.len() < self.data_at {
            return Err(short);
        }
        let time = self.endian.u64_at(page, 0).ok_or(short)?;
        let commit = self.long_at(page, self.commit_at).ok_or(short)?;
        let end = self.data_at + (commit & ((1 << 27) - 1)) as usize;
        let missed = (commit & 1 << 31 != 0).then(|| {
            let stored = (commit & 1 << 30 != 0).then(|| self.long_at(page, end)).flatten();
            stored.map_or(Missed::Uncounted, Missed::Count)
        });
        Ok(PageCursor { time, at: self.data_at, end, missed })
    }

    /// The next record: its time, and the range of its data in the page. `None` at the end of the page.
    #[inline]
    pub fn next(&self, page: &[u8], cursor: &mut PageCursor) -> Option<Result<(u64, Range<usize>), BadPage>> {
        loop {
            if cursor.at >= cursor.end {
                return None;
            }
            match self.step(page, cursor) {
                Ok(None) => {}
                Ok(Some(data)) => return Some(Ok((cursor.time, data))),
                Err(bad) => {
                    cursor.at = cursor.end;
                    return Some(Err(bad));
                }
            }
        }
    }

    /// Clears the missing-events flag of a page that becomes the first one kept: earlier events were left out on
    /// purpose.
    pub fn make_first(&self, page: &mut [u8]) {
        let flags = self.commit_at..self.commit_at + 4;
        // The flags are in the lower half of the `long`, whose position depends on the byte order.
        let flags = match (self.endian, self.commit_size) {
            (Endian::Big, 8) => flags.start + 4..flags.end + 4,
            _ => flags,
        };
        if let Some(commit) = self.endian.u32_at(page, flags.start)
            && let Some(bytes) = page.get_mut(flags)
        {
            bytes.copy_from_slice(&self.endian.bytes32(commit & !(3 << 30)));
        }
    }

    /// Overwrites the parts of a page that may still contain old events and that no reader looks at: discarded events
    /// and the unused end.
    pub fn clear_unused(&self, page: &mut [u8]) -> Result<(), BadPage> {
        let mut cursor = self.begin(page)?;
        let end = cursor.end;
        let stored = self.long_at(page, self.commit_at).is_some_and(|commit| commit & 3 << 30 == 3 << 30);
        while cursor.at < end {
            let at = cursor.at;
            if self.step(page, &mut cursor)?.is_none() && self.type_len(page, at) == Some(PADDING_ENTRY) {
                page[cursor.at.min(at + 8)..cursor.at].fill(0);
            }
        }
        let unused = end + if stored { self.commit_size } else { 0 };
        if let Some(unused) = page.get_mut(unused..) {
            unused.fill(0);
        }
        Ok(())
    }

    fn type_len(&self, page: &[u8], at: usize) -> Option<u32> {
        let header = self.endian.u32_at(page, at)?;
        Some(match self.endian {
            Endian::Little => header & 31,
            Endian::Big => header >> 27,
        })
    }

    /// Reads one entry and moves the cursor past it. `None` if the entry holds no data.
    #[inline]
    fn step(&self, page: &[u8], cursor: &mut PageCursor) -> Result<Option<Range<usize>>, BadPage> {
        let at = cursor.at;
        let bad = |what| BadPage { at, what };
        let header = self.endian.u32_at(page, at).ok_or(bad("an event's header is cut off"))?;
        // The kernel declares bit fields, so their order follows the byte order.
        let (type_len, delta) = match self.endian {
            Endian::Little => (header & 31, u64::from(header >> 5)),
            Endian::Big => (header >> 27, u64::from(header & ((1 << 27) - 1))),
        };
        if (1..=DATA_MAX).contains(&type_len) {
            let data = at + 4..at + 4 + type_len as usize * 4;
            if data.end > cursor.end.min(page.len()) {
                return Err(bad("an event's data goes beyond the page's events"));
            }
            cursor.time = cursor.time.wrapping_add(delta);
            cursor.at = data.end;
            return Ok(Some(data));
        }
        if type_len == PADDING_ENTRY && delta == 0 {
            cursor.at = cursor.end;
            return Ok(None);
        }
        let word = self.endian.u32_at(page, at + 4).ok_or(bad("an event's second word is cut off"))?;
        let data = match type_len {
            TIME_EXTEND => {
                cursor.time = cursor.time.wrapping_add(u64::from(word) << 27 | delta);
                cursor.at = at + 8;
                return Ok(None);
            }
            TIME_STAMP => {
                cursor.time = absolute(u64::from(word) << 27 | delta, cursor.time);
                cursor.at = at + 8;
                return Ok(None);
            }
            PADDING_ENTRY => at + 4..at + 4 + word as usize,
            _ if word < 4 => return Err(bad("an event's length is less than its own size")),
            // The length includes the length word itself; data is padded to 4 bytes.
            _ => at + 8..at + 8 + (word as usize - 4).next_multiple_of(4),
        };
        if data.end > cursor.end.min(page.len()) || data.end <= at {
            return Err(bad("an event's data goes beyond the page's events"));
        }
        cursor.at = data.end;
        if type_len == PADDING_ENTRY {
            // A discarded event. Later deltas count from it, unless its delta is 1, which only marks that the page does
            // not end here.
            cursor.time = cursor.time.wrapping_add(if delta == 1 { 0 } else { delta });
            return Ok(None);
        }
        cursor.time = cursor.time.wrapping_add(delta);
        Ok(Some(data))
    }
}

/// The time of an absolute timestamp record, after a record at time `before`. A clock passes 2^59 ns after 18 years of
/// uptime, but x86-tsc counts faster and boot loaders do not reset it.
fn absolute(low: u64, before: u64) -> u64 {
    let time = low | before & TIME_MSB;
    let wrapped = before & TIME_MSB != 0 && time < before && before - time > 1 << 58;
    if wrapped { time.wrapping_add(1 << 59) } else { time }
}

impl PageCursor {
    /// The page's timestamp: that of its first event, or slightly earlier.
    pub fn time(&self) -> u64 {
        self.time
    }

    /// Whether events before this page were dropped.
    pub fn missed(&self) -> Option<Missed> {
        self.missed
    }
}

#[cfg(test)]
mod tests;
