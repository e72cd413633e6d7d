//! Ids of tasks and CPUs, and task names.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::clean_bytes;

/// A thread id as the tracing files contain it (`common_pid`, `pid`): in the kernel's PID namespace, not a container's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Tid(pub u32);

impl Tid {
    /// The idle task's id; there is one idle task per CPU and all have this id.
    pub const IDLE: Tid = Tid(0);

    /// Whether this is the idle task.
    pub fn is_idle(self) -> bool {
        self == Tid::IDLE
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A logical CPU's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct CpuId(pub u32);

impl CpuId {
    /// Linux on the largest machines stays below this (`NR_CPUS` on x86 is at most 8192). A file with a higher CPU
    /// number is damaged, and tables of that size would exhaust the memory.
    pub const LIMIT: u32 = 8192;

    /// As an index of a per-CPU table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A task's name: at most 15 bytes, padded with NULs, as the kernel stores it (`TASK_COMM_LEN` is 16).
///
/// Any program can choose its tasks' names, so they may contain control characters, characters that reorder text, or
/// invalid UTF-8. `Display` escapes them: no terminal sequence gets through.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Comm([u8; 16]);

impl Comm {
    /// The name in a field, NUL-terminated or full. Bytes beyond the sixteenth are dropped.
    #[inline(always)]
    pub fn new(bytes: &[u8]) -> Comm {
        match bytes.first_chunk::<16>() {
            // A kernel field has all sixteen bytes, and is usually padded with NULs. Readers decode two names per
            // switch.
            Some(field) if is_padded(*field) => Comm(*field),
            _ => Comm::cut(bytes),
        }
    }

    /// Not inlined, so that a name that fits is copied in one piece: a copy made of two parts is slow to read again.
    #[cold]
    fn cut(bytes: &[u8]) -> Comm {
        let bytes = &bytes[..bytes.len().min(16)];
        let length = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        let mut comm = [0; 16];
        comm[..length].copy_from_slice(&bytes[..length]);
        Comm(comm)
    }

    /// The name without its padding.
    pub fn as_bytes(&self) -> &[u8] {
        let length = self.0.iter().position(|&b| b == 0).unwrap_or(16);
        &self.0[..length]
    }

    /// Whether the name is missing: empty, or `<...>`, which ftrace prints if it no longer knows a task's name.
    pub fn is_unknown(&self) -> bool {
        matches!(self.as_bytes(), b"" | b"<...>")
    }
}

/// Whether only NULs follow the first NUL.
#[inline(always)]
fn is_padded(field: [u8; 16]) -> bool {
    let text = !nuls(field) & 0xffff;
    // Adding one carries through the leading bits without a gap, so that none of them remains.
    text & (text + 1) == 0
}

/// A bit for each byte that is NUL, the lowest for the first.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn nuls(field: [u8; 16]) -> u32 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_setzero_si128};
    let text = u128::from_le_bytes(field);
    // SAFETY: these need SSE2, which every x86-64 has, and access no memory.
    unsafe {
        let text = _mm_set_epi64x((text >> 64) as i64, text as i64);
        _mm_movemask_epi8(_mm_cmpeq_epi8(text, _mm_setzero_si128())) as u32
    }
}

/// A bit for each byte that is NUL, the lowest for the first.
#[cfg(not(target_arch = "x86_64"))]
fn nuls(field: [u8; 16]) -> u32 {
    field.iter().rev().fold(0, |nuls, &byte| nuls << 1 | u32::from(byte == 0))
}

impl From<&str> for Comm {
    fn from(text: &str) -> Comm {
        Comm::new(text.as_bytes())
    }
}

impl fmt::Display for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.as_bytes().is_empty() {
            return f.pad("<...>");
        }
        f.pad(&clean_bytes(self.as_bytes()))
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Comm({self})")
    }
}

impl Serialize for Comm {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comm_ends_at_its_first_nul_and_never_exceeds_sixteen_bytes() {
        assert_eq!(Comm::new(b"fio\0garbage").as_bytes(), b"fio");
        assert_eq!(Comm::new(b"0123456789abcdefXYZ").as_bytes(), b"0123456789abcdef");
        assert!(Comm::new(b"\0\0").is_unknown());
        for length in 0..=16 {
            for garbage in 0..=16 {
                let mut field = [b'x'; 16];
                field[length..].fill(0);
                field[(length + 1).min(16)..].iter_mut().rev().take(garbage).for_each(|byte| *byte = 0x81);
                assert_eq!(Comm::new(&field).as_bytes(), &[b'x'; 16][..length], "{field:?}");
                assert_eq!(Comm::new(&field), Comm::new(&field[..length]), "{field:?}");
            }
        }
        assert!(Comm::from("<...>").is_unknown());
    }

    #[test]
    fn a_hostile_comm_cannot_drive_a_terminal() {
        assert_eq!(Comm::new(b"\x1b[31mred").to_string(), "\\u{1b}[31mred");
        assert_eq!(Comm::new("a\u{202e}b".as_bytes()).to_string(), "a\\u{202e}b", "it would turn what follows around");
        assert_eq!(Comm::new(b"a\xffb").to_string(), "a\\xffb");
        assert_eq!(format!("{:>6}|", Comm::from("fio")), "   fio|");
    }
}
