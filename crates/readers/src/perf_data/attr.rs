//! Parses `perf_event_attr`: which fields each sample has. Source: `include/uapi/linux/perf_event.h`; new kernels only
//! append to it.

use crate::endian::Endian;

/// The parts of a `perf_event_attr` that determine the layout of samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attr {
    /// The tracepoint's id (`ID:` of its format), if it is a tracepoint.
    pub tracepoint: Option<u16>,
    pub sample_type: u64,
    pub read_format: u64,
    /// Whether records other than samples end with the same ids and times (`sample_id_all`).
    pub sample_id_all: bool,
    /// The clock that was requested; `None` is perf's own, the scheduler's clock.
    pub clock: Option<i32>,
    /// Whether context switches are recorded (`--switch-events`).
    pub context_switch: bool,
}

const TYPE_TRACEPOINT: u32 = 2;

/// Size of the first version (2.6.31). Everything needed is in it.
pub const MIN_ATTR: usize = 64;

impl Attr {
    /// Parses the attribute at the start of `data`, which has the length that the file gives for attributes.
    pub fn parse(data: &[u8], endian: Endian) -> Option<Attr> {
        if data.len() < MIN_ATTR {
            return None;
        }
        let config = endian.u64_at(data, 8)?;
        let flags = Flags { word: endian.u64_at(data, 40)?, endian };
        let tracepoint = endian.u32_at(data, 0)? == TYPE_TRACEPOINT;
        Some(Attr {
            tracepoint: if tracepoint { u16::try_from(config).ok() } else { None },
            sample_type: endian.u64_at(data, 24)?,
            read_format: endian.u64_at(data, 32)?,
            sample_id_all: flags.has(18),
            clock: if flags.has(25) { endian.u32_at(data, 92).map(|id| id as i32) } else { None },
            context_switch: flags.has(26),
        })
    }
}

/// Compilers allocate bit fields from the least significant bit on little-endian machines and from the most significant
/// bit on big-endian ones.
struct Flags {
    word: u64,
    endian: Endian,
}

impl Flags {
    fn has(&self, bit: u32) -> bool {
        let bit = if self.endian == Endian::Little { bit } else { 63 - bit };
        self.word >> bit & 1 != 0
    }
}

/// ftrace's name for a clock id (`clock_gettime`).
pub fn clock_name(id: Option<i32>) -> &'static str {
    match id {
        None => "local",
        Some(0) => "real",
        Some(1) => "mono",
        Some(4) => "mono_raw",
        Some(7) => "boot",
        Some(11) => "tai",
        Some(_) => "unknown",
    }
}
