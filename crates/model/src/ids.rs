use std::fmt;

use serde::{Deserialize, Serialize};

use crate::clean_bytes;

/// A kernel-schedulable thread's id, as the tracing files give it (`common_pid`, `pid`): the kernel's, not a container's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tid(pub u32);

impl Tid {
    /// The idle task; there is one on every CPU and all have this id.
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
#[serde(transparent)]
pub struct CpuId(pub u32);

impl CpuId {
    /// Linux on the largest machine today stays below this (`NR_CPUS` of x86 is at most 8192). A file that names a
    /// higher CPU is damaged, and sizing tables by it would exhaust memory.
    pub const LIMIT: u32 = 8192;

    /// The number as an index of a per-CPU table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A task's name: at most 15 bytes and NUL padding, as the kernel keeps it (`TASK_COMM_LEN` is 16).
///
/// A task chooses its name freely, so it may hold control characters, such that reorder text, or bytes that are not
/// UTF-8. `Display` escapes them: no terminal sequence gets through.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Comm([u8; 16]);

impl Comm {
    /// The name from a NUL-terminated or full field; bytes beyond the sixteenth are dropped.
    #[inline]
    pub fn new(bytes: &[u8]) -> Comm {
        let mut comm = [0; 16];
        // A kernel's field has all sixteen; readers make two names per switch, so this is not a loop.
        if let Some(field) = bytes.first_chunk::<16>() {
            let text = u128::from_le_bytes(*field);
            const ONES: u128 = u128::MAX / 255;
            let nuls = text.wrapping_sub(ONES) & !text & (ONES << 7);
            // The lowest bit found is always right: a borrow reaches bytes above a NUL alone.
            let kept = (nuls & nuls.wrapping_neg()).checked_sub(1).map_or(u128::MAX, |below| below >> 7);
            if text & !kept == 0 {
                return Comm(*field);
            }
            return Comm::cut(text & kept);
        }
        let length = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        comm[..length].copy_from_slice(&bytes[..length]);
        Comm(comm)
    }

    /// A kernel mostly pads with NULs, so nothing need be cut. A branch on that, and no mask for all, leaves the name to be
    /// copied in one piece: one that is put together from two is slow to copy again.
    #[cold]
    fn cut(text: u128) -> Comm {
        Comm(text.to_le_bytes())
    }

    /// The name without its padding.
    pub fn as_bytes(&self) -> &[u8] {
        let length = self.0.iter().position(|&b| b == 0).unwrap_or(16);
        &self.0[..length]
    }

    /// Whether the name is missing: empty, or ftrace's `<...>` for a task whose name it no longer knew.
    pub fn is_unknown(&self) -> bool {
        matches!(self.as_bytes(), b"" | b"<...>")
    }
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
