//! A bounds-checked reader of bytes in memory.

use crate::endian::Endian;

/// Reads values from the start of a byte slice, checking each against its end.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a> {
    data: &'a [u8],
    at: usize,
    endian: Endian,
}

impl<'a> Bytes<'a> {
    pub fn new(data: &'a [u8], endian: Endian) -> Bytes<'a> {
        Bytes { data, at: 0, endian }
    }

    /// How many bytes have been read.
    pub fn position(&self) -> usize {
        self.at
    }

    pub fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let end = self.at.checked_add(usize::try_from(length).ok()?)?;
        let taken = self.data.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    pub fn u32(&mut self) -> Option<u32> {
        let value = self.endian.u32_at(self.data, self.at)?;
        self.at += 4;
        Some(value)
    }

    pub fn u64(&mut self) -> Option<u64> {
        let value = self.endian.u64_at(self.data, self.at)?;
        self.at += 8;
        Some(value)
    }

    /// The bytes up to the next NUL; the NUL is skipped.
    pub fn until_nul(&mut self) -> Option<&'a [u8]> {
        let length = memchr::memchr(0, &self.data[self.at..])?;
        let text = &self.data[self.at..self.at + length];
        self.at += length + 1;
        Some(text)
    }
}
