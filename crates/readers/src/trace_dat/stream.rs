//! The records of one CPU's ring buffer in a trace.dat.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use unstarve_model::CpuId;

use crate::endian::Endian;
use crate::input::{PAGE_SIZE, Positioned, landing};
use crate::kbuffer::{Missed, PageCursor, PageFormat};

use super::compression::Unpacker;

/// The records of one CPU in one ring buffer, in the order of the file. Holds one window of pages at a time.
pub(super) struct Stream {
    pub(super) cpu: CpuId,
    /// The index of its ring buffer in the file.
    pub(super) buffer: usize,
    pages: Pages,
    format: PageFormat,
    page_size: usize,
    window: Vec<u8>,
    /// File offset of the window (or of its compressed form). The window may have some bytes before its content.
    window_at: u64,
    /// Offset of the current page in the window.
    page: usize,
    cursor: Option<PageCursor>,
    missed: Option<Missed>,
    head: Option<Head>,
    pub(super) damage: Damage,
}

/// The next record.
#[derive(Clone, Debug)]
struct Head {
    time: u64,
    data: Range<usize>,
}

/// The parts of a stream that could not be read.
#[derive(Debug, Default)]
pub(super) struct Damage {
    /// Pages skipped from some entry on, and chunks skipped; and the first of them.
    pub(super) bad_parts: u64,
    pub(super) first_bad: Option<String>,
    /// Where the file ended, or was too damaged to continue.
    pub(super) ended: Option<String>,
}

/// The source of pages.
pub(super) enum Pages {
    /// Plain pages, `window` bytes at a time.
    Plain { file: Positioned, at: u64, end: u64, window: usize },
    /// Compressed chunks, one at a time.
    Packed {
        file: Positioned,
        endian: Endian,
        /// Shared by all streams: it is used only while a chunk is being unpacked.
        unpacker: Arc<Mutex<Unpacker>>,
        at: u64,
        end: u64,
        /// Chunks left; `None` before the first.
        chunks: Option<u32>,
        /// Larger chunks are refused.
        limit: usize,
        packed: Vec<u8>,
    },
}

impl Stream {
    pub(super) fn new(cpu: CpuId, buffer: usize, pages: Pages, format: PageFormat, page_size: usize) -> Stream {
        Stream {
            cpu,
            buffer,
            pages,
            format,
            page_size,
            window: Vec::new(),
            window_at: 0,
            page: 0,
            cursor: None,
            missed: None,
            head: None,
            damage: Damage::default(),
        }
    }

    /// The raw time of the next record.
    #[inline]
    pub(super) fn time(&self) -> Option<u64> {
        self.head.as_ref().map(|head| head.time)
    }

    /// The next record's data; empty at the end.
    #[inline]
    pub(super) fn record(&self) -> &[u8] {
        self.head.as_ref().map_or(&[], |head| &self.window[head.data.clone()])
    }

    /// Whether events were dropped before the next record. Reported once.
    #[inline]
    pub(super) fn take_missed(&mut self) -> Option<Missed> {
        self.missed.take()
    }

    /// Moves to the next record.
    #[inline]
    pub(super) fn advance(&mut self) {
        loop {
            if let Some(cursor) = &mut self.cursor {
                let end = (self.page + self.page_size).min(self.window.len());
                match self.format.next(&self.window[self.page..end], cursor) {
                    Some(Ok((time, data))) => {
                        let data = self.page + data.start..self.page + data.end;
                        self.head = Some(Head { time, data });
                        return;
                    }
                    Some(Err(bad)) => self.bad_page(bad),
                    None => {}
                }
                self.cursor = None;
                self.page += self.page_size;
            }
            if !self.next_page() {
                self.head = None;
                return;
            }
        }
    }

    #[cold]
    fn bad_page(&mut self, bad: impl ToString) {
        let at = match self.pages {
            Pages::Plain { .. } => format!("the page at byte {}", self.window_at.wrapping_add(self.page as u64)),
            Pages::Packed { .. } => {
                format!("page {} of the chunk at byte {}", self.page / self.page_size, self.window_at)
            }
        };
        self.bad_part(format!("{at} of CPU {}: {}", self.cpu, bad.to_string()));
    }

    /// Notes that events are missing between here and the next record.
    fn bad_part(&mut self, what: String) {
        self.damage.bad_parts += 1;
        self.damage.first_bad.get_or_insert(what);
        self.missed.get_or_insert(Missed::Uncounted);
    }

    /// The page at `self.page`; shorter if it is the last one of a file that was cut.
    fn current_page(&self) -> &[u8] {
        let end = (self.page + self.page_size).min(self.window.len());
        &self.window[self.page..end]
    }

    /// File offset of the current page, or of the chunk that contained it.
    #[inline]
    pub(super) fn place(&self) -> u64 {
        match self.pages {
            Pages::Plain { .. } => self.window_at.wrapping_add(self.page as u64),
            Pages::Packed { .. } => self.window_at,
        }
    }

    /// Starts the page at `self.page`, refilling the window if needed. Returns `false` at the end.
    fn next_page(&mut self) -> bool {
        if self.page >= self.window.len() && !self.fill() {
            return false;
        }
        let page = self.current_page();
        let cursor = match page.len() == self.page_size {
            true => self.format.begin(page),
            false => self.format.begin_part(page),
        };
        match cursor {
            Ok(cursor) => {
                // A page without events may follow a gap. Then the gap is before the next event.
                self.missed = cursor.missed().or(self.missed);
                self.cursor = Some(cursor);
            }
            Err(bad) => {
                self.bad_page(bad);
                self.page += self.page_size;
            }
        }
        true
    }

    /// Reads the next pages into the window. Returns `false` if there are none.
    fn fill(&mut self) -> bool {
        loop {
            match self.pages.read(&mut self.window) {
                Ok((at, skip)) => {
                    self.page = skip;
                    self.window_at = at.wrapping_sub(skip as u64);
                    return self.window.len() > skip;
                }
                Err(PageError::Chunk(reason)) => self.bad_part(format!("CPU {}: {reason}", self.cpu)),
                Err(PageError::End(reason)) => {
                    self.window.clear();
                    self.page = 0;
                    self.damage.ended = Some(format!("CPU {}: {reason}", self.cpu));
                    return false;
                }
            }
        }
    }
}

/// Why no pages could be read.
enum PageError {
    /// This chunk is damaged; the next one may be intact.
    Chunk(String),
    /// The following data cannot be located.
    End(String),
}

impl Pages {
    /// Replaces `window` by the next pages, none at the end. Returns their offset in the file and in the window.
    fn read(&mut self, window: &mut Vec<u8>) -> Result<(u64, usize), PageError> {
        match self {
            Pages::Plain { file, at, end, window: size } => {
                let start = *at;
                let wanted = (*end - start).min(*size as u64) as usize;
                if wanted == 0 {
                    window.clear();
                    return Ok((start, 0));
                }
                window.reserve_exact((wanted + PAGE_SIZE).saturating_sub(window.len()));
                let skip = landing(window, start);
                window.resize(skip + wanted, 0);
                let length = file.read_at(start, &mut window[skip..]).map_err(|error| at_byte(start, error))?;
                window.truncate(skip + length);
                *at += length as u64;
                if length < wanted {
                    *at = *end;
                }
                Ok((start, skip))
            }
            Pages::Packed { .. } => Ok((self.read_chunk(window)?, 0)),
        }
    }

    fn read_chunk(&mut self, window: &mut Vec<u8>) -> Result<u64, PageError> {
        window.clear();
        let Pages::Packed { file, endian, unpacker, at, end, chunks, limit, packed } = self else {
            return Ok(0);
        };
        let word = |at: &mut u64| {
            let mut bytes = [0; 4];
            let length = file.read_at(*at, &mut bytes).map_err(|error| at_byte(*at, error))?;
            if end.saturating_sub(*at) < 4 || length < 4 {
                return Err(at_byte(*at, "the data ends within its chunks"));
            }
            *at += 4;
            Ok(endian.u32(bytes))
        };
        let left = match *chunks {
            Some(left) => left,
            None => word(at)?,
        };
        *chunks = Some(0);
        if left == 0 {
            return Ok(*at);
        }
        let start = *at;
        let (packed_size, size) = (word(at)? as usize, word(at)? as usize);
        if size > *limit || packed_size > limit.saturating_mul(2) {
            let found = format!("a chunk of {packed_size} bytes that unpacks to {size}");
            return Err(at_byte(start, found));
        }
        packed.resize(packed_size.min(end.saturating_sub(*at) as usize), 0);
        let length = file.read_at(*at, packed).map_err(|error| at_byte(*at, error))?;
        if length < packed_size {
            return Err(at_byte(start, "the data ends within a chunk"));
        }
        *at += length as u64;
        *chunks = Some(left - 1);
        let mut unpacker = unpacker.lock().unwrap_or_else(PoisonError::into_inner);
        match unpacker.unpack(packed, size, window) {
            Ok(()) if window.is_empty() => Err(PageError::Chunk(format!("the chunk at byte {start} holds nothing"))),
            Ok(()) => Ok(start),
            Err(reason) => Err(PageError::Chunk(format!("the chunk at byte {start}: {reason}"))),
        }
    }
}

fn at_byte(at: u64, what: impl std::fmt::Display) -> PageError {
    PageError::End(format!("at byte {at}: {what}"))
}
