//! Byte order of recorded values.

/// Byte order of a file. Every multi-byte value in trace.dat and perf.data has the recorded machine's byte order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Endian {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl Endian {
    /// The byte order of the machine that runs this code.
    pub const HOST: Endian = if cfg!(target_endian = "big") { Endian::Big } else { Endian::Little };

    /// The 16-bit value in `bytes`.
    #[inline]
    pub fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Endian::Little => u16::from_le_bytes(bytes),
            Endian::Big => u16::from_be_bytes(bytes),
        }
    }

    /// The 32-bit value in `bytes`.
    #[inline]
    pub fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Endian::Little => u32::from_le_bytes(bytes),
            Endian::Big => u32::from_be_bytes(bytes),
        }
    }

    /// The 64-bit value in `bytes`.
    #[inline]
    pub fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Endian::Little => u64::from_le_bytes(bytes),
            Endian::Big => u64::from_be_bytes(bytes),
        }
    }

    /// The 16-bit value at `offset` of `data`; `None` if it does not fit.
    #[inline]
    pub fn u16_at(self, data: &[u8], offset: usize) -> Option<u16> {
        Some(self.u16(*data.get(offset..)?.first_chunk()?))
    }

    /// The 32-bit value at `offset` of `data`; `None` if it does not fit.
    #[inline]
    pub fn u32_at(self, data: &[u8], offset: usize) -> Option<u32> {
        Some(self.u32(*data.get(offset..)?.first_chunk()?))
    }

    /// The 64-bit value at `offset` of `data`; `None` if it does not fit.
    #[inline]
    pub fn u64_at(self, data: &[u8], offset: usize) -> Option<u64> {
        Some(self.u64(*data.get(offset..)?.first_chunk()?))
    }

    /// The bytes of a 16-bit value.
    pub fn bytes16(self, value: u16) -> [u8; 2] {
        match self {
            Endian::Little => value.to_le_bytes(),
            Endian::Big => value.to_be_bytes(),
        }
    }

    /// The bytes of a 32-bit value.
    pub fn bytes32(self, value: u32) -> [u8; 4] {
        match self {
            Endian::Little => value.to_le_bytes(),
            Endian::Big => value.to_be_bytes(),
        }
    }

    /// The bytes of a 64-bit value.
    pub fn bytes64(self, value: u64) -> [u8; 8] {
        match self {
            Endian::Little => value.to_le_bytes(),
            Endian::Big => value.to_be_bytes(),
        }
    }
}
