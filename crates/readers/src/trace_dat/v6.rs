//! Version 6: tables in a fixed order, then options, then where each CPU's pages are.

use super::cursor::Cursor;
use super::tables::{Buffer, CpuData, Kallsyms, Tables};
use super::{TraceDatError, clock, options};

/// An instance is a tracefs directory; nobody makes more.
const MAX_BUFFERS: usize = 1024;

pub(super) fn read(tables: &mut Tables, cursor: &mut Cursor) -> Result<(), TraceDatError> {
    tables.read_headers(cursor)?;
    tables.skip_ftrace_formats(cursor)?;
    tables.read_event_formats(cursor)?;
    tables.kallsyms = Some(Kallsyms { at: cursor.offset() });
    let kallsyms = cursor.u32("the length of kallsyms")?;
    cursor.skip(u64::from(kallsyms), "kallsyms")?;
    let printk = cursor.u32("the length of the printk formats")?;
    cursor.skip(u64::from(printk), "the printk formats")?;
    tables.read_cmdlines(cursor)?;

    let cpus_at = cursor.offset();
    tables.cpus = Some(cursor.u32("the number of CPUs")?);
    let mut top = read_buffer(tables, cursor)?;
    top.page_size = tables.page_size;
    let cpus = Tables::checked_cpus(cpus_at, tables.cpus.unwrap_or(0))?;
    top.cpus = read_cpu_table(cursor, cpus)?;
    read_clock(tables, cursor);
    // The options listed the instances; each has its own tables elsewhere.
    for index in 0..tables.buffers.len() {
        let at = tables.buffers[index].at;
        cursor.seek(at);
        let outcome = read_buffer(tables, cursor).and_then(|_| read_cpu_table(cursor, cpus));
        match outcome {
            Ok(cpus) => tables.buffers[index].cpus = cpus,
            Err(error) => {
                let name = &tables.buffers[index].name;
                tables.undecodable(format!("instance {name:?}: {error}"));
            }
        }
    }
    tables.buffers.insert(0, top);
    Ok(())
}

/// Reads what precedes a CPU table: `options`, if there are any, and `flyrecord`.
fn read_buffer(tables: &mut Tables, cursor: &mut Cursor) -> Result<Buffer, TraceDatError> {
    const EXPECTED: &str = "`options`, `flyrecord` or `latency`";
    let at = cursor.offset();
    let mut kind = cursor.bytes(10, EXPECTED)?;
    if kind.starts_with(b"options") {
        read_options(tables, cursor)?;
        kind = cursor.bytes(10, EXPECTED)?;
    }
    if kind.starts_with(b"latency") {
        return Err(TraceDatError::Latency);
    }
    if !kind.starts_with(b"flyrecord") {
        return Err(TraceDatError::unexpected(at, EXPECTED, format_args!("{:?}", kind.escape_ascii().to_string())));
    }
    Ok(Buffer { at, ..Buffer::default() })
}

fn read_options(tables: &mut Tables, cursor: &mut Cursor) -> Result<(), TraceDatError> {
    loop {
        let id = cursor.u16("an option")?;
        if id == options::DONE {
            return Ok(());
        }
        let data = cursor.blob32("an option's data")?;
        if id != options::BUFFER {
            tables.read_option(id, &data);
            continue;
        }
        let (Some(at), Some(name)) = (tables.endian.u64_at(&data, 0), data.get(8..)) else { continue };
        let name = String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
        // The option lists the top-level buffer too, which has been found already.
        if !name.is_empty() && tables.buffers.len() < MAX_BUFFERS {
            tables.buffers.push(Buffer { name, at, page_size: tables.page_size, ..Buffer::default() });
        }
    }
}

fn read_cpu_table(cursor: &mut Cursor, cpus: u32) -> Result<Vec<CpuData>, TraceDatError> {
    (0..cpus)
        .map(|cpu| {
            let offset = cursor.u64("where a CPU's data is")?;
            Ok(CpuData { cpu, offset, size: cursor.u64("the length of a CPU's data")? })
        })
        .collect()
}

/// Reads the clock's name, which follows the CPU table if the options say so. Some writers omit it.
fn read_clock(tables: &mut Tables, cursor: &mut Cursor) {
    /// The names of all clocks together have about a hundred bytes.
    const MAX: u64 = 4096;
    if let Ok(length) = cursor.u64("the clock's name")
        && length <= MAX
        && let Ok(text) = cursor.bytes(length, "the clock's name")
        && let Some(name) = clock::chosen(&String::from_utf8_lossy(&text))
    {
        tables.clock_name = Some(name.to_owned());
    }
}
