//! Recovers version 7 files that were cut before the option that says where each CPU's data is; trace-cmd writes it
//! last.
//!
//! trace-cmd writes the data after the first options, CPU after CPU, each at a page boundary. Compressed chunks contain
//! their own lengths, so the CPUs can be separated. Plain pages do not, so they can be recovered only if there is one
//! CPU.

use unstarve_model::{Loss, LossKind};

use crate::input::Positioned;

use super::TraceDatError;
use super::compression::Compression;
use super::cursor::Cursor;
use super::tables::{Buffer, CpuData, Tables};
use super::v7::{SECTION_PACKED, section_header};

/// No recorder compresses more at once.
const MAX_CHUNK: u32 = 64 << 20;

/// Finds the data after the options, which end at `end`. Returns `false` if it cannot be separated by CPU.
pub(super) fn find(tables: &mut Tables, file: &Positioned, end: u64) -> bool {
    let Some(cpus) = tables.cpus.filter(|&cpus| cpus > 0 && Tables::checked_cpus(end, cpus).is_ok()) else {
        return false;
    };
    let mut header = Cursor::file(file, tables.endian, end);
    let Ok((flags, _)) = section_header(&mut header, super::options::BUFFER) else { return false };
    let align = |at: u64| at.next_multiple_of(u64::from(tables.page_size));
    let mut buffer = Buffer {
        at: end,
        page_size: tables.page_size,
        is_packed: flags & SECTION_PACKED != 0 && tables.compression != Compression::None,
        ..Buffer::default()
    };
    let mut offset = align(header.offset());
    for cpu in (0..cpus).filter(|cpu| !tables.empty_cpus.contains(cpu)) {
        if offset >= file.length() {
            break;
        }
        let left = file.length() - offset;
        // The file was cut in the data of this CPU.
        let size = match buffer.is_packed {
            true => packed_length(&mut Cursor::file(file, tables.endian, offset)).unwrap_or(left),
            false if cpus == 1 => left,
            false => return false,
        };
        buffer.cpus.push(CpuData { cpu, offset, size });
        offset = align(offset + size);
    }
    if buffer.cpus.is_empty() {
        return false;
    }
    let detail = format!(
        "at byte {}, before the index of its data: {} of {cpus} CPUs were found and numbered in their order",
        file.length(),
        buffer.cpus.len()
    );
    tables.losses.push(Loss::new(LossKind::Truncated, 1).with_detail(detail));
    tables.buffers.push(buffer);
    true
}

/// The total length of the chunks at the cursor.
fn packed_length(cursor: &mut Cursor) -> Result<u64, TraceDatError> {
    let start = cursor.offset();
    for _ in 0..cursor.u32("the number of chunks")? {
        let packed = cursor.u32("a chunk's length")?;
        let size = cursor.u32("a chunk's unpacked length")?;
        if packed > MAX_CHUNK || size > MAX_CHUNK {
            return Err(TraceDatError::unexpected(cursor.offset(), "a chunk of at most 64 MiB", packed.max(size)));
        }
        cursor.skip(u64::from(packed), "a chunk")?;
    }
    Ok(cursor.offset() - start)
}
