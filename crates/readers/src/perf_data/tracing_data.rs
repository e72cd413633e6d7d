//! Parses `HEADER_TRACING_DATA`: the event formats, in the header layout of trace.dat versions 0.5 and 0.6. Source:
//! `tools/perf/util/trace-event-info.c` and `trace-event-read.c`.

use super::bytes::Bytes;
use super::error::PerfDataError;
use crate::decode::Decoder;
use crate::endian::Endian;

const TRACING_DATA_MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// The content of the tracing data.
pub struct TracingData {
    /// Has the formats of all events that unstarve reads.
    pub decoder: Decoder,
    /// The text of kallsyms. perf has left it empty since 2016.
    pub symbols: Vec<u8>,
}

/// Parses the tracing data.
pub fn parse(data: &[u8]) -> Result<TracingData, PerfDataError> {
    let endian = match data.get(TRACING_DATA_MAGIC.len()..).and_then(|rest| {
        // A version text and its NUL, then the byte order.
        let version = memchr::memchr(0, rest.get(..8)?)?;
        rest.get(version + 1)
    }) {
        Some(0) if data.starts_with(TRACING_DATA_MAGIC) => Endian::Little,
        Some(1) if data.starts_with(TRACING_DATA_MAGIC) => Endian::Big,
        _ => return Err(PerfDataError::TracingData { offset: 0, expected: "a tracing header with its byte order" }),
    };
    let mut reader = Reader { bytes: Bytes::new(data, endian) };
    reader.need("a tracing header", |bytes| {
        bytes.take(TRACING_DATA_MAGIC.len() as u64)?;
        bytes.until_nul()?;
        // Byte order, size of a long, page size.
        bytes.take(1 + 1 + 4)
    })?;
    reader.section(b"header_page")?;
    reader.section(b"header_event")?;
    let mut decoder = Decoder::new(endian);
    let count = reader.need("the number of ftrace's formats", Bytes::u32)?;
    for _ in 0..count {
        reader.format("ftrace", &mut decoder)?;
    }
    let systems = reader.need("the number of event systems", Bytes::u32)?;
    for _ in 0..systems {
        let system = String::from_utf8_lossy(reader.need("an event system's name", Bytes::until_nul)?);
        let count = reader.need("the number of a system's formats", Bytes::u32)?;
        for _ in 0..count {
            reader.format(&system, &mut decoder)?;
        }
    }
    // The rest is optional.
    let symbols = reader.bytes.u32().and_then(|size| reader.bytes.take(u64::from(size))).unwrap_or_default();
    Ok(TracingData { decoder, symbols: symbols.to_vec() })
}

struct Reader<'a> {
    bytes: Bytes<'a>,
}

impl<'a> Reader<'a> {
    fn need<T>(
        &mut self,
        expected: &'static str,
        read: impl FnOnce(&mut Bytes<'a>) -> Option<T>,
    ) -> Result<T, PerfDataError> {
        let offset = self.bytes.position();
        read(&mut self.bytes).ok_or(PerfDataError::TracingData { offset, expected })
    }

    /// Skips a named section. perf's samples have their own times, so `header_page` is not needed.
    fn section(&mut self, name: &'static [u8]) -> Result<(), PerfDataError> {
        self.need("the texts header_page and header_event", |bytes| {
            (bytes.until_nul()? == name).then_some(())?;
            let size = bytes.u64()?;
            bytes.take(size).map(|_| ())
        })
    }

    fn format(&mut self, system: &str, decoder: &mut Decoder) -> Result<(), PerfDataError> {
        let text = self.need("an event's format", |bytes| {
            let size = bytes.u64()?;
            bytes.take(size)
        })?;
        let offset = self.bytes.position() - text.len();
        let text = String::from_utf8_lossy(text);
        decoder.add_format(system, &text).map_err(|source| PerfDataError::Format { offset, source })?;
        Ok(())
    }
}
