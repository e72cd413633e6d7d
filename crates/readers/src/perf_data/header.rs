//! Parses the header of a perf.data file, the tables it points to, and the feature sections after the data. Source:
//! `tools/perf/Documentation/perf.data-file-format.txt`.

use unstarve_model::{ClockPair, CpuId, Time, WallTime};

use super::attr::{Attr, MIN_ATTR};
use super::bytes::Bytes;
use super::error::PerfDataError;
use crate::endian::Endian;
use crate::input::Positioned;

/// The magic number as a little-endian machine writes it. Big-endian machines write the bytes in reverse.
pub const PERF_DATA_MAGIC: &[u8; 8] = b"PERFILE2";
const SWAPPED_MAGIC: &[u8; 8] = b"2ELIFREP";

/// A pipe's header is the magic number and the header's size.
pub const PIPE_HEADER: u64 = 16;

const FILE_HEADER: u64 = 104;

/// Limit for the event formats. Those of all events of a large kernel are 4 MB of text.
pub const MAX_TRACING_DATA: u64 = 64 << 20;

/// Limit for attributes. A kernel has about 2500 tracepoints.
pub const MAX_ATTRS: u64 = 4096;

/// Limit for the ids of one event, which has one per CPU.
const MAX_IDS: u64 = CpuId::LIMIT as u64 * 4;

/// The feature sections that are read. Others are skipped.
pub mod feature {
    pub const TRACING_DATA: u64 = 1;
    pub const HOSTNAME: u64 = 3;
    pub const OS_RELEASE: u64 = 4;
    pub const NR_CPUS: u64 = 7;
    pub const CLOCK_DATA: u64 = 29;
}

const FEATURES_READ: [u64; 5] =
    [feature::TRACING_DATA, feature::HOSTNAME, feature::OS_RELEASE, feature::NR_CPUS, feature::CLOCK_DATA];

/// The times of the wall clock and of another clock at the same moment. perf records it if `-k` names a clock (5.9 and
/// later).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockData {
    pub clock: i32,
    pub pair: ClockPair,
}

impl ClockData {
    /// `u32 version, u32 clockid, u64 wall_clock_ns, u64 clockid_time_ns`.
    pub fn parse(content: &[u8], endian: Endian) -> Option<ClockData> {
        endian.u32_at(content, 0).filter(|version| *version == 1)?;
        let clock = endian.u32_at(content, 4)? as i32;
        let (wall, trace) = (endian.u64_at(content, 8)?, endian.u64_at(content, 16)?);
        Some(ClockData { clock, pair: ClockPair { trace: Time(trace), wall: WallTime(wall) } })
    }
}

/// The byte order of a perf.data, and whether it is a file or a pipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    pub endian: Endian,
    pub pipe: bool,
}

impl Kind {
    pub fn of(prefix: &[u8]) -> Option<Kind> {
        let endian = match prefix.first_chunk()? {
            PERF_DATA_MAGIC => Endian::Little,
            SWAPPED_MAGIC => Endian::Big,
            _ => return None,
        };
        Some(Kind { endian, pipe: endian.u64_at(prefix, 8)? == PIPE_HEADER })
    }
}

/// The parts of a file before and after its data.
pub struct FileHeader {
    pub attrs: Vec<(Attr, Vec<u64>)>,
    pub data: std::ops::Range<u64>,
    pub tracing_data: Vec<u8>,
    /// The other features that are read, by number.
    pub features: Vec<(u64, Vec<u8>)>,
}

#[derive(Clone, Copy)]
struct Section {
    offset: u64,
    size: u64,
}

impl FileHeader {
    pub fn read(file: &Positioned, endian: Endian) -> Result<FileHeader, PerfDataError> {
        let reader = SectionReader { file, endian };
        let header = reader.read(Section { offset: 0, size: FILE_HEADER }, "a header of 104 bytes")?;
        let mut bytes = Bytes::new(&header, endian);
        let parsed = (|| {
            bytes.take(8)?;
            let size = bytes.u64()?;
            let attr_size = bytes.u64()?;
            let mut section = || Some(Section { offset: bytes.u64()?, size: bytes.u64()? });
            let (attrs, data, _) = (section()?, section()?, section()?);
            let features = [bytes.u64()?, bytes.u64()?, bytes.u64()?, bytes.u64()?];
            Some((size, attr_size, attrs, data, features))
        })();
        let damaged = |offset, expected| PerfDataError::Header { offset, expected };
        let (size, attr_size, attrs, data, features) = parsed.ok_or(damaged(0, "a header of 104 bytes"))?;
        // perf has written this size since 2.6.33, and perf itself accepts no other.
        if size != FILE_HEADER {
            return Err(damaged(8, "a header of 104 bytes"));
        }
        let attrs = reader.attrs(attr_size, attrs)?;
        // perf writes the size when it exits. It is 0 in a recording that was not finished.
        let finished = data.size > 0;
        let data_end = if finished { data.offset.checked_add(data.size) } else { Some(file.length()) };
        let data_end = data_end.ok_or(damaged(48, "a data section that fits into a file"))?;
        let mut this = FileHeader {
            attrs,
            data: data.offset..data_end.min(file.length()),
            tracing_data: Vec::new(),
            features: Vec::new(),
        };
        if finished {
            this.read_features(&reader, data_end, features)?;
        }
        Ok(this)
    }

    /// Reads the feature sections. Their table follows the data and has one entry per bit set in the header.
    fn read_features(
        &mut self,
        reader: &SectionReader<'_>,
        table: u64,
        features: [u64; 4],
    ) -> Result<(), PerfDataError> {
        let present = (0..256u64).filter(|&bit| features[(bit / 64) as usize] >> (bit % 64) & 1 != 0);
        for (index, feature) in present.enumerate() {
            if !FEATURES_READ.contains(&feature) {
                continue;
            }
            let entry = Section { offset: table.saturating_add(16 * index as u64), size: 16 };
            let entry = reader.read(entry, "the table of feature sections, which follows the data")?;
            let mut bytes = Bytes::new(&entry, reader.endian);
            let (Some(offset), Some(size)) = (bytes.u64(), bytes.u64()) else { continue };
            let content =
                reader.read(Section { offset, size }, "a feature section within the file, of at most 64 MiB")?;
            match feature {
                feature::TRACING_DATA => self.tracing_data = content,
                _ => self.features.push((feature, content)),
            }
        }
        Ok(())
    }
}

struct SectionReader<'a> {
    file: &'a Positioned,
    endian: Endian,
}

impl SectionReader<'_> {
    fn read(&self, section: Section, expected: &'static str) -> Result<Vec<u8>, PerfDataError> {
        let Section { offset, size } = section;
        let fits = offset.checked_add(size).is_some_and(|end| end <= self.file.length());
        if !fits || size > MAX_TRACING_DATA {
            return Err(PerfDataError::Header { offset, expected });
        }
        let mut content = vec![0; size as usize];
        let length =
            self.file.read_at(offset, &mut content).map_err(|source| PerfDataError::Read { offset, source })?;
        if length < content.len() {
            return Err(PerfDataError::Header { offset, expected });
        }
        Ok(content)
    }

    /// Attributes and the ids of their events: `struct { perf_event_attr attr; section ids; }`.
    fn attrs(&self, entry_size: u64, section: Section) -> Result<Vec<(Attr, Vec<u64>)>, PerfDataError> {
        let damaged = |expected| PerfDataError::Header { offset: section.offset, expected };
        let count = section.size.checked_div(entry_size).unwrap_or(0);
        if entry_size < MIN_ATTR as u64 + 16 || entry_size > 4096 || count == 0 || count > MAX_ATTRS {
            return Err(damaged("at least one event attribute"));
        }
        let table = self.read(section, "the table of event attributes")?;
        let mut attrs = Vec::new();
        for entry in table.chunks_exact(entry_size as usize) {
            let (attr, ids) = entry.split_at(entry.len() - 16);
            let attr = Attr::parse(attr, self.endian).ok_or(damaged("an event attribute"))?;
            let mut ids = Bytes::new(ids, self.endian);
            let (Some(offset), Some(size)) = (ids.u64(), ids.u64()) else { continue };
            if size / 8 > MAX_IDS {
                return Err(damaged("an event attribute with a plausible number of ids"));
            }
            let ids = self.read(Section { offset, size }, "the ids of an event")?;
            attrs.push((attr, words(&ids, self.endian)));
        }
        Ok(attrs)
    }
}

/// The 64-bit values in `data`.
pub fn words(data: &[u8], endian: Endian) -> Vec<u64> {
    data.chunks_exact(8).filter_map(|chunk| endian.u64_at(chunk, 0)).collect()
}

/// A string feature: a length, then the text padded with NULs.
pub fn string(content: &[u8], endian: Endian) -> Option<String> {
    let mut bytes = Bytes::new(content, endian);
    let length = bytes.u32()?;
    let text = bytes.take(u64::from(length))?;
    let text = text.split(|&byte| byte == 0).next()?;
    (!text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned())
}

/// The number of CPUs online. The number of CPUs possible precedes it.
pub fn online_cpus(content: &[u8], endian: Endian) -> Option<u32> {
    endian.u32_at(content, 4).filter(|cpus| (1..=CpuId::LIMIT).contains(cpus))
}
