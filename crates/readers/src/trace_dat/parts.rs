//! Selects the parts of a file that contain events, one stream per CPU and buffer, and assigns memory to each.

use std::sync::{Arc, Mutex};

use unstarve_model::{CpuId, Loss, LossKind};

use super::compression::Unpacker;
use super::stream::{Pages, Stream};
use super::tables::{Buffer, CpuData, Tables};
use crate::input::Positioned;

/// The streams of all CPUs and buffers, in the order that applies at equal times.
pub(super) fn streams(tables: &mut Tables, file: &Positioned) -> Vec<Stream> {
    drop_other_clocks(tables);
    let mut parts: Vec<(usize, CpuData)> = Vec::new();
    for (index, buffer) in tables.buffers.iter().enumerate() {
        parts.extend(buffer.cpus.iter().filter(|data| data.size > 0).map(|&data| (index, data)));
    }
    let parts = usable(tables, file, parts);
    let budget = Budget::of(parts.len());
    let unpacker = Arc::new(Mutex::new(Unpacker::new(tables.compression)));
    let mut streams: Vec<((u32, usize), Stream)> = parts
        .into_iter()
        .map(|(index, data)| {
            let buffer = &tables.buffers[index];
            let page_size = buffer.page_size as usize;
            let end = data.offset + data.size;
            let pages = if buffer.is_packed {
                Pages::Packed {
                    file: file.clone(),
                    endian: tables.endian,
                    unpacker: unpacker.clone(),
                    at: data.offset,
                    end,
                    chunks: None,
                    limit: budget.chunk(),
                    packed: Vec::new(),
                }
            } else {
                Pages::Plain { file: file.clone(), at: data.offset, end, window: budget.window(page_size) }
            };
            ((data.cpu, index), Stream::new(CpuId(data.cpu), index, pages, tables.pages, page_size))
        })
        .collect();
    streams.sort_by_key(|&(key, _)| key);
    streams.into_iter().map(|(_, stream)| stream).collect()
}

/// Drops buffers with another clock: instances may have their own, and times of two clocks cannot be merged.
fn drop_other_clocks(tables: &mut Tables) {
    let Some(clock) = tables.buffers.iter().find(|b| b.cpus.iter().any(|c| c.size > 0)).and_then(|b| b.clock.clone())
    else {
        return;
    };
    let differs = |buffer: &Buffer| buffer.clock.as_ref().is_some_and(|other| *other != clock);
    let others: Vec<String> = tables.buffers.iter().filter(|b| differs(b)).map(|b| b.name.clone()).collect();
    tables.buffers.retain(|buffer| !differs(buffer));
    for name in others {
        tables.undecodable(format!("instance {name:?} has another clock than `{clock}`: its events are left out"));
    }
}

/// Each CPU has one stream per buffer; only a hostile file has more.
const MAX_STREAMS: usize = 1 << 15;

/// Drops parts that cannot be read, each with a loss, and truncates those that extend beyond the end of the file.
fn usable(tables: &mut Tables, file: &Positioned, parts: Vec<(usize, CpuData)>) -> Vec<(usize, CpuData)> {
    let mut parts = parts;
    // The data of two CPUs cannot overlap. Refusing overlaps also limits the work that a hostile file can cause.
    parts.sort_by_key(|(index, data)| (data.offset, *index));
    let mut kept: Vec<(usize, CpuData)> = Vec::new();
    let (mut end, mut cut) = (0, 0);
    for (index, mut data) in parts {
        if kept.len() >= MAX_STREAMS {
            tables.undecodable(format!("more than {MAX_STREAMS} CPUs and buffers; the rest is left out"));
            break;
        }
        let CpuData { cpu, offset, size } = data;
        if cpu >= CpuId::LIMIT || offset < end || offset.checked_add(size).is_none() {
            tables.undecodable(format!("CPU {cpu}: {size} bytes of data at byte {offset} cannot be: passed over"));
            continue;
        }
        if offset + size > file.length() {
            cut += 1;
            data.size = file.length().saturating_sub(offset);
        }
        end = offset + data.size;
        if data.size > 0 {
            kept.push((index, data));
        }
    }
    extend_packed(tables, file, &mut kept);
    if cut > 0 {
        let detail = format!("the data of {cut} CPUs goes beyond the file's end at byte {}", file.length());
        tables.losses.push(Loss::new(LossKind::Truncated, 1).with_detail(detail));
    }
    kept
}

/// Extends compressed data up to the data of the next CPU. trace-cmd 3.1 does not count chunk headers in the length of
/// compressed data, and itself reads by the number of chunks.
fn extend_packed(tables: &Tables, file: &Positioned, parts: &mut [(usize, CpuData)]) {
    let mut next = file.length();
    for (index, data) in parts.iter_mut().rev() {
        let is_packed = tables.buffers.get(*index).is_some_and(|buffer| buffer.is_packed);
        if is_packed {
            data.size = next.saturating_sub(data.offset);
        }
        next = data.offset;
    }
}

/// How much memory each stream may use.
#[derive(Clone, Copy)]
struct Budget {
    streams: usize,
}

impl Budget {
    fn of(streams: usize) -> Budget {
        Budget { streams: streams.max(1) }
    }

    /// Bytes of plain pages to read at a time: whole pages, at least one.
    fn window(self, page_size: usize) -> usize {
        const ALL: usize = 32 << 20;
        const MAX: usize = 256 << 10;
        let pages = (ALL / self.streams).min(MAX) / page_size;
        pages.max(1) * page_size
    }

    /// The largest chunk to unpack. trace-cmd compresses ten pages at a time, and pages have 4 to 64 KiB.
    fn chunk(self) -> usize {
        const ALL: usize = 1 << 30;
        (ALL / self.streams).clamp(256 << 10, 4 << 20)
    }
}
