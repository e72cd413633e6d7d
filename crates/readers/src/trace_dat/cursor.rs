//! Reads the tables of a trace.dat value by value.

use crate::endian::Endian;
use crate::input::Positioned;

use super::TraceDatError;

/// Reads a file's tables value by value, from the file or from an unpacked section in memory.
pub(super) struct Cursor {
    endian: Endian,
    source: Source,
    at: u64,
    end: u64,
}

enum Source {
    File {
        file: Positioned,
        window: Vec<u8>,
        window_at: u64,
    },
    /// An unpacked section; `base` is the offset of its packed form in the file, for messages.
    Memory {
        bytes: Vec<u8>,
        base: u64,
    },
}

/// Bytes read from the file at a time.
const WINDOW_BYTES: usize = 1 << 16;

/// The longest blob read into memory. kallsyms of the largest kernels takes 20 MB.
pub(super) const MAX_BLOB: u64 = 64 << 20;

impl Cursor {
    /// A cursor at offset `at` of `file`.
    pub(super) fn file(file: &Positioned, endian: Endian, at: u64) -> Cursor {
        let source = Source::File { file: file.clone(), window: Vec::new(), window_at: 0 };
        Cursor { endian, source, at, end: file.length() }
    }

    /// A cursor over `bytes`, which were unpacked from offset `base` of the file.
    pub(super) fn memory(bytes: Vec<u8>, endian: Endian, base: u64) -> Cursor {
        let end = bytes.len() as u64;
        Cursor { endian, source: Source::Memory { bytes, base }, at: 0, end }
    }

    pub(super) fn set_endian(&mut self, endian: Endian) {
        self.endian = endian;
    }

    /// Forbids reading beyond `length` bytes from here.
    pub(super) fn limit(&mut self, length: u64) {
        self.end = self.end.min(self.at.saturating_add(length));
    }

    /// The current offset in the file.
    pub(super) fn offset(&self) -> u64 {
        match self.source {
            Source::File { .. } => self.at,
            Source::Memory { base, .. } => base,
        }
    }

    pub(super) fn seek(&mut self, at: u64) {
        self.at = at;
    }

    fn truncated(&self, expected: &'static str) -> TraceDatError {
        TraceDatError::Truncated { offset: self.offset(), expected, length: self.end }
    }

    /// The next `length` bytes.
    pub(super) fn bytes(&mut self, length: u64, expected: &'static str) -> Result<Vec<u8>, TraceDatError> {
        if length > self.end.saturating_sub(self.at) {
            return Err(self.truncated(expected));
        }
        if length > MAX_BLOB {
            return Err(TraceDatError::unexpected(self.offset(), expected, format_args!("{length} bytes of it")));
        }
        let mut bytes = vec![0; length as usize];
        self.fill(&mut bytes, expected)?;
        Ok(bytes)
    }

    /// Skips `length` bytes.
    pub(super) fn skip(&mut self, length: u64, expected: &'static str) -> Result<(), TraceDatError> {
        if length > self.end.saturating_sub(self.at) {
            return Err(self.truncated(expected));
        }
        self.at += length;
        Ok(())
    }

    fn fill(&mut self, buffer: &mut [u8], expected: &'static str) -> Result<(), TraceDatError> {
        if buffer.len() as u64 > self.end.saturating_sub(self.at) {
            return Err(self.truncated(expected));
        }
        let at = self.at;
        let filled = match &mut self.source {
            Source::Memory { bytes, .. } => {
                let start = at as usize;
                buffer.copy_from_slice(&bytes[start..start + buffer.len()]);
                true
            }
            Source::File { file, window, window_at } => {
                let io = |source| TraceDatError::Io { offset: at, source };
                let held = at.checked_sub(*window_at).map(|skip| skip as usize);
                let range = held.and_then(|skip| Some(skip..skip.checked_add(buffer.len())?));
                if let Some(bytes) = range.and_then(|range| window.get(range)) {
                    buffer.copy_from_slice(bytes);
                    true
                } else if buffer.len() >= WINDOW_BYTES {
                    file.read_at(at, buffer).map_err(io)? == buffer.len()
                } else {
                    window.resize(WINDOW_BYTES, 0);
                    let length = file.read_at(at, window).map_err(io)?;
                    window.truncate(length);
                    *window_at = at;
                    window.get(..buffer.len()).map(|bytes| buffer.copy_from_slice(bytes)).is_some()
                }
            }
        };
        if !filled {
            // The file has shrunk since it was opened.
            return Err(self.truncated(expected));
        }
        self.at += buffer.len() as u64;
        Ok(())
    }

    fn array<const N: usize>(&mut self, expected: &'static str) -> Result<[u8; N], TraceDatError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes, expected)?;
        Ok(bytes)
    }

    pub(super) fn u8(&mut self, expected: &'static str) -> Result<u8, TraceDatError> {
        Ok(self.array::<1>(expected)?[0])
    }

    pub(super) fn u16(&mut self, expected: &'static str) -> Result<u16, TraceDatError> {
        Ok(self.endian.u16(self.array(expected)?))
    }

    pub(super) fn u32(&mut self, expected: &'static str) -> Result<u32, TraceDatError> {
        Ok(self.endian.u32(self.array(expected)?))
    }

    pub(super) fn u64(&mut self, expected: &'static str) -> Result<u64, TraceDatError> {
        Ok(self.endian.u64(self.array(expected)?))
    }

    /// The bytes up to the next NUL; the NUL is skipped.
    pub(super) fn string(&mut self, expected: &'static str) -> Result<String, TraceDatError> {
        /// Names of systems, instances, clocks and compressions are far shorter.
        const MAX: usize = 4096;
        let start = self.offset();
        let mut bytes = Vec::new();
        loop {
            match self.u8(expected)? {
                0 => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
                _ if bytes.len() >= MAX => return Err(TraceDatError::unexpected(start, expected, "no end of it")),
                byte => bytes.push(byte),
            }
        }
    }

    /// A blob preceded by its 64-bit length.
    pub(super) fn blob64(&mut self, expected: &'static str) -> Result<Vec<u8>, TraceDatError> {
        let length = self.u64(expected)?;
        self.bytes(length, expected)
    }

    /// The same for a blob that is a few pages long in any real file.
    pub(super) fn short_blob64(&mut self, expected: &'static str) -> Result<Vec<u8>, TraceDatError> {
        const MAX: u64 = 1 << 20;
        let at = self.offset();
        let length = self.u64(expected)?;
        if length > MAX {
            return Err(TraceDatError::unexpected(at, expected, format_args!("{length} bytes of it")));
        }
        self.bytes(length, expected)
    }

    /// A blob preceded by its 32-bit length.
    pub(super) fn blob32(&mut self, expected: &'static str) -> Result<Vec<u8>, TraceDatError> {
        let length = self.u32(expected)?;
        self.bytes(u64::from(length), expected)
    }

    /// Skips a fixed text; anything else is an error.
    pub(super) fn expect(&mut self, text: &[u8], expected: &'static str) -> Result<(), TraceDatError> {
        let offset = self.offset();
        let found = self.bytes(text.len() as u64, expected)?;
        if found != text {
            return Err(TraceDatError::unexpected(
                offset,
                expected,
                format_args!("{:?}", found.escape_ascii().to_string()),
            ));
        }
        Ok(())
    }
}
