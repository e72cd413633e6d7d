//! Version 7: sections anywhere in the file, found through chained option sections.

use crate::endian::Endian;
use crate::input::Positioned;

use super::compression::Compression;
use super::cursor::{Cursor, MAX_BLOB};
use super::tables::{Buffer, CpuData, Kallsyms, Tables};
use super::{TraceDatError, options, truncated};

/// Section flag: compressed.
pub(super) const SECTION_PACKED: u16 = 1;

/// trace-cmd writes two or three option sections, and one more for each instance.
const MAX_OPTION_SECTIONS: usize = 4096;

const MAX_BUFFERS: usize = 4096;

/// Sections that the options point to.
#[derive(Default)]
struct Found {
    headers: Option<u64>,
    formats: Option<u64>,
    cmdlines: Option<u64>,
}

pub(super) fn read(tables: &mut Tables, file: &Positioned, first: u64) -> Result<(), TraceDatError> {
    if first == 0 {
        return Err(TraceDatError::unexpected(
            0,
            "where the options are, in the file's head",
            "0: it was never finished",
        ));
    }
    let mut found = Found::default();
    let mut next = first;
    let mut seen = Vec::new();
    let mut first_end = None;
    while next != 0 {
        if seen.contains(&next) || seen.len() >= MAX_OPTION_SECTIONS {
            tables.undecodable(format!("at byte {next}: the sections of options run in a circle"));
            break;
        }
        seen.push(next);
        match read_options(tables, file, next, &mut found) {
            Ok((after, end)) => {
                next = after;
                first_end = first_end.or(Some(end));
            }
            // What earlier sections said remains valid, if they said where the events are.
            Err(error) if !tables.buffers.is_empty() => {
                tables.damaged(&error);
                break;
            }
            Err(error) if !first_end.is_some_and(|end| truncated::find(tables, file, end)) => return Err(error),
            Err(_) => break,
        }
    }
    if let Some(at) = found.headers
        && let Err(error) =
            section(tables.packing(), file, at, options::HEADER_INFO).and_then(|mut c| tables.read_headers(&mut c))
    {
        if matches!(error, TraceDatError::OldKernel) {
            return Err(error);
        }
        tables.undecodable(format!("{error}; the usual layout of pages is assumed"));
    }
    if let Some(at) = found.formats {
        let outcome = section(tables.packing(), file, at, options::EVENT_FORMATS)
            .and_then(|mut cursor| tables.read_event_formats(&mut cursor));
        match outcome {
            Err(error) if tables.decoder.known() == Default::default() => return Err(error),
            Err(error) => tables.damaged(&error),
            Ok(()) => {}
        }
    }
    if let Some(at) = found.cmdlines
        && let Err(error) = section(tables.packing(), file, at, options::CMDLINES)
            .and_then(|mut cursor| tables.read_cmdlines(&mut cursor))
    {
        tables.damaged(&error);
    }
    Ok(())
}

/// Reads one option section. Returns the offset of the next one, 0 if there is none, and the end of this one.
fn read_options(
    tables: &mut Tables,
    file: &Positioned,
    at: u64,
    found: &mut Found,
) -> Result<(u64, u64), TraceDatError> {
    let mut header = Cursor::file(file, tables.endian, at);
    let (_, size) = section_header(&mut header, options::DONE)?;
    let end = header.offset().saturating_add(size);
    let mut cursor = section(tables.packing(), file, at, options::DONE)?;
    loop {
        let id = cursor.u16("an option")?;
        let data = cursor.blob32("an option's data")?;
        let offset = tables.endian.u64_at(&data, 0);
        match id {
            options::DONE => return Ok((offset.unwrap_or(0), end)),
            options::HEADER_INFO => found.headers = offset,
            options::EVENT_FORMATS => found.formats = offset,
            options::CMDLINES => found.cmdlines = offset,
            options::KALLSYMS => tables.kallsyms = offset.map(|at| Kallsyms { at }),
            options::BUFFER => read_buffer(tables, file, data, cursor.offset()),
            _ => tables.read_option(id, &data),
        }
    }
}

/// Reads the option that describes a ring buffer. On damage, keeps the buffers and CPUs before it.
fn read_buffer(tables: &mut Tables, file: &Positioned, data: Vec<u8>, at: u64) {
    let mut cursor = Cursor::memory(data, tables.endian, at);
    let mut buffer = Buffer::default();
    let outcome = read_buffer_option(tables, file, &mut cursor, &mut buffer);
    if let Err(error) = outcome {
        tables.undecodable(format!("buffer {:?}: {error}", buffer.name));
    }
    if tables.buffers.len() < MAX_BUFFERS {
        tables.buffers.push(buffer);
    }
}

fn read_buffer_option(
    tables: &Tables,
    file: &Positioned,
    cursor: &mut Cursor,
    buffer: &mut Buffer,
) -> Result<(), TraceDatError> {
    buffer.at = cursor.u64("a buffer's section")?;
    buffer.name = cursor.string("a buffer's name")?;
    buffer.clock = Some(cursor.string("a buffer's clock")?);
    let size = cursor.u32("a buffer's page size")?;
    buffer.page_size = Tables::checked_page_size(cursor.offset(), size)?;
    let mut header = Cursor::file(file, tables.endian, buffer.at);
    let (flags, _) = section_header(&mut header, options::BUFFER)?;
    buffer.is_packed = flags & SECTION_PACKED != 0 && tables.compression != Compression::None;
    let cpus = cursor.u32("a buffer's number of CPUs")?;
    for _ in 0..Tables::checked_cpus(cursor.offset(), cpus)? {
        let cpu = cursor.u32("a CPU's number")?;
        let offset = cursor.u64("where a CPU's data is")?;
        buffer.cpus.push(CpuData { cpu, offset, size: cursor.u64("the length of a CPU's data")? });
    }
    Ok(())
}

/// Reads a section's flags and length.
pub(super) fn section_header(cursor: &mut Cursor, id: u16) -> Result<(u16, u64), TraceDatError> {
    let at = cursor.offset();
    let found = cursor.u16("a section's header")?;
    if found != id {
        return Err(TraceDatError::unexpected(at, section_name(id), format_args!("section {found}")));
    }
    let flags = cursor.u16("a section's header")?;
    cursor.u32("a section's header")?;
    Ok((flags, cursor.u64("a section's header")?))
}

fn section_name(id: u16) -> &'static str {
    match id {
        options::DONE => "a section of options",
        options::BUFFER => "a section of trace data",
        options::HEADER_INFO => "the section of page headers",
        options::EVENT_FORMATS => "the section of event formats",
        options::KALLSYMS => "the section of kallsyms",
        options::CMDLINES => "the section of command lines",
        _ => "a section",
    }
}

/// What is needed to decode a section's content.
#[derive(Clone, Copy)]
pub(super) struct Packing {
    pub(super) endian: Endian,
    pub(super) compression: Compression,
}

/// The unpacked content of section `id` at offset `at`.
fn section(packing: Packing, file: &Positioned, at: u64, id: u16) -> Result<Cursor, TraceDatError> {
    let mut cursor = Cursor::file(file, packing.endian, at);
    let (flags, size) = section_header(&mut cursor, id)?;
    if flags & SECTION_PACKED == 0 {
        cursor.limit(size);
        return Ok(cursor);
    }
    let packed_size = cursor.u32("a packed section's length")?;
    let size = cursor.u32("an unpacked section's length")?;
    let packed = cursor.bytes(u64::from(packed_size), section_name(id))?;
    if u64::from(size) > MAX_BLOB {
        return Err(TraceDatError::unexpected(at, section_name(id), format_args!("{size} bytes of it")));
    }
    let mut content = Vec::new();
    packing.compression.unpack(&packed, size as usize, &mut content).map_err(|reason| {
        TraceDatError::unexpected(at, section_name(id), format_args!("damaged packing ({reason})"))
    })?;
    Ok(Cursor::memory(content, packing.endian, at))
}

/// The text of kallsyms, if its section can be read.
pub(super) fn kallsyms(packing: Packing, file: &Positioned, at: u64) -> Option<Vec<u8>> {
    section(packing, file, at, options::KALLSYMS).and_then(|mut cursor| cursor.blob32("kallsyms")).ok()
}
