//! Reader of `trace.dat`, versions 6 and 7, as written by `trace-cmd record` and `unstarve record`.
//!
//! Each CPU of each ring buffer is a stream of pages; streams are merged by time. **Order**: by time; at equal times by
//! CPU number, then by buffer (the top-level one first, instances in the order of the file). Events of one stream keep
//! their order. A time that goes back within a stream is raised to the last one, and counted as a loss.
//!
//! An event that two buffers both recorded is reported once.
//!
//! Memory: each stream holds one window of pages (plain data) or one unpacked chunk (version 7, compressed). Their
//! sizes shrink with the number of streams; nothing grows with the length of the file.
//!
//! Format: trace-cmd's `Documentation/trace-cmd/trace-cmd.dat.v6.5.txt` and `….v7.5.txt`.

mod clock;
mod compression;
mod cursor;
mod duplicates;
mod error;
mod merge;
pub(crate) mod options;
mod parts;
mod stream;
mod tables;
mod truncated;
mod v6;
mod v7;

use unstarve_model::{
    Batch, ClockPair, Context, CpuId, Event, EventKind, EventSet, EventSource, EventType, Issuer, Loss, LossKind,
    SourceError, Time, TraceInfo, WallTime,
};

use crate::decode::{BadRecord, Decoder};
use crate::endian::Endian;
use crate::input::{Input, Positioned};
use crate::interner::Interner;
use crate::kbuffer::Missed;
use crate::malformed::Malformed;
use crate::symbols::Symbols;

use clock::Clock;
use compression::Compression;
use cursor::Cursor;
use duplicates::DuplicateEvents;
pub use error::TraceDatError;
use merge::Merge;
pub use options::SNAPSHOT as SNAPSHOT_OPTION;
use parts::streams;
use tables::Tables;

/// The magic number of every trace.dat file.
pub const TRACE_DAT_MAGIC: &[u8; 10] = b"\x17\x08\x44tracing";

/// Whether a file that begins with `prefix` is a trace.dat.
pub fn sniff(prefix: &[u8]) -> bool {
    prefix.starts_with(TRACE_DAT_MAGIC)
}

/// Opens `input`; for the table of formats.
pub fn open(input: Input) -> Result<Box<dyn EventSource>, SourceError> {
    Ok(Box::new(TraceDat::open(input)?))
}

/// A trace.dat file being read.
pub struct TraceDat {
    info: TraceInfo,
    decoder: Decoder,
    clock: Clock,
    names: Interner,
    merge: Merge,
    /// Set if there is more than one ring buffer.
    duplicates: Option<DuplicateEvents>,
    last: Time,
    losses: Vec<Loss>,
    counts: Counts,
}

/// Losses counted while reading.
#[derive(Debug, Default)]
struct Counts {
    /// Dropped events by CPU.
    dropped: Vec<(CpuId, u64)>,
    gaps: u64,
    malformed: Malformed,
    bad_records: u64,
    out_of_order: u64,
}

impl TraceDat {
    /// Reads the tables of a file and moves to its first event.
    pub fn open(input: Input) -> Result<TraceDat, TraceDatError> {
        let file = input.into_positioned().map_err(|source| TraceDatError::Io { offset: 0, source })?;
        let mut tables = read_tables(&file)?;
        if tables.is_latency && tables.buffers.is_empty() {
            return Err(TraceDatError::Latency);
        }
        if let Some(reason) = file.cut() {
            tables.losses.push(Loss::new(LossKind::Truncated, 1).with_detail(reason));
        }
        let streams = streams(&mut tables, &file);
        let mut names = Interner::new();
        if let Some(kallsyms) = tables.kallsyms {
            let (file, packing, version, endian) = (file.clone(), tables.packing(), tables.version, tables.endian);
            names.set_symbols(match version {
                // The length comes first.
                6 => match Cursor::file(&file, endian, kallsyms.at).u32("the size of kallsyms") {
                    Ok(length) => Symbols::in_file(file, kallsyms.at + 4, u64::from(length)),
                    Err(_) => Symbols::default(),
                },
                _ => Symbols::lazily(Box::new(move || v7::kallsyms(packing, &file, kallsyms.at))),
            });
        }
        check_clock(&tables)?;
        let info = info(&mut tables);
        Ok(TraceDat {
            info,
            decoder: tables.decoder,
            clock: tables.clock,
            names,
            duplicates: streams.iter().any(|stream| stream.buffer != streams[0].buffer).then(DuplicateEvents::default),
            merge: Merge::new(streams),
            last: Time(0),
            losses: tables.losses,
            counts: Counts::default(),
        })
    }

    /// Reads the next record of the leading stream.
    #[inline]
    fn take(&mut self, batch: &mut Batch) {
        let Some(stream) = self.merge.leader() else { return };
        let Some(raw) = stream.time() else { return };
        let mut time = self.clock.time(raw);
        if time < self.last {
            self.counts.out_of_order += 1;
            time = self.last;
        }
        self.last = time;
        let cpu = stream.cpu;
        if let Some(missed) = stream.take_missed() {
            let count = self.counts.add_missed(cpu, missed);
            let kind = EventKind::Lost { count };
            batch.events.push(Event { time, cpu, issuer: Issuer::new(None, Context::Unknown), kind });
        }
        let (buffer, duplicates) = (stream.buffer, &mut self.duplicates);
        let decoded = self.decoder.decode(time, cpu, stream.record(), &mut self.names, |event| {
            if !duplicates.as_mut().is_some_and(|duplicates| duplicates.has(buffer, &event)) {
                batch.events.push(event);
            }
        });
        match decoded {
            Ok(true) => {}
            Ok(false) => {
                let (current, context) = self.decoder.common(stream.record());
                let Some(sign) = self.decoder.sign(stream.record(), &mut self.names) else {
                    self.info.coverage.note_presence(cpu, time, current);
                    return;
                };
                for kind in sign.events(&mut self.info.coverage, cpu, time, current).into_iter().flatten() {
                    let context = if kind.is_of_tick() { Context::Hardirq } else { context };
                    batch.events.push(Event { time, cpu, issuer: Issuer::new(current, context), kind });
                }
            }
            Err(bad) => self.counts.add_bad(bad, cpu, stream.place()),
        }
    }
}

impl TraceDat {
    /// Withdraws coverage where the file is damaged: the last events of a buffer may be in the damaged part.
    fn judge_coverage(&mut self) {
        let is_damaged = |damage: &stream::Damage| damage.ended.is_some() || damage.bad_parts > 0;
        let is_cut = self.losses.iter().any(|loss| loss.kind == LossKind::Truncated);
        if is_cut || self.merge.damages().any(is_damaged) {
            self.info.coverage.void();
        }
    }
}

impl Counts {
    #[cold]
    fn add_bad(&mut self, bad: BadRecord, cpu: CpuId, page: u64) {
        match bad.event {
            Some(event) => {
                self.malformed.note(event, || format!("in the page at byte {page}, of CPU {cpu}: {bad}"));
            }
            None => self.bad_records += 1,
        }
    }

    #[cold]
    fn add_missed(&mut self, cpu: CpuId, missed: Missed) -> Option<u64> {
        let Missed::Count(count) = missed else {
            self.gaps += 1;
            return None;
        };
        match self.dropped.iter_mut().find(|(known, _)| *known == cpu) {
            Some((_, sum)) => *sum = sum.saturating_add(count),
            None => self.dropped.push((cpu, count)),
        }
        Some(count)
    }

    fn losses(&self) -> impl Iterator<Item = Loss> {
        let dropped = self.dropped.iter().map(|&(cpu, count)| Loss::lost_events(cpu, count));
        let counted = [
            (LossKind::UncountedGap, self.gaps, ""),
            (LossKind::Undecodable, self.bad_records, "records too short to be an event"),
            (LossKind::OutOfOrder, self.out_of_order, ""),
        ];
        let counted = counted.into_iter().filter(|&(_, count, _)| count > 0);
        let counted = counted.map(|(kind, count, detail)| Loss::new(kind, count).with_detail(detail));
        dropped.chain(self.malformed.losses()).chain(counted)
    }
}

impl EventSource for TraceDat {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn read(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        while batch.events.len() < Batch::TARGET && self.merge.is_leading() {
            self.take(batch);
            self.merge.advance();
        }
        self.names.take_new(&mut batch.names);
        if batch.events.is_empty() {
            self.judge_coverage();
        }
        Ok(!batch.events.is_empty())
    }

    fn losses(&self) -> Vec<Loss> {
        let mut losses = self.losses.clone();
        losses.extend(self.counts.losses());
        for damage in self.merge.damages() {
            if let Some(first) = &damage.first_bad {
                losses.push(Loss::new(LossKind::Undecodable, damage.bad_parts).with_detail(first.clone()));
            }
            if let Some(reason) = &damage.ended {
                losses.push(Loss::new(LossKind::Truncated, 1).with_detail(reason.clone()));
            }
        }
        losses
    }
}

/// Reads everything except trace data.
fn read_tables(file: &Positioned) -> Result<Tables, TraceDatError> {
    let mut cursor = Cursor::file(file, Endian::Little, 0);
    cursor.expect(TRACE_DAT_MAGIC, "the magic of trace.dat")?;
    let version = cursor.string("the version")?;
    let version = match version.as_str() {
        "6" => 6,
        "7" => 7,
        _ => return Err(TraceDatError::Version(version)),
    };
    let endian = match cursor.u8("the byte order")? {
        0 => Endian::Little,
        1 => Endian::Big,
        other => return Err(TraceDatError::unexpected(12, "a byte order of 0 or 1", other)),
    };
    cursor.set_endian(endian);
    let long = match cursor.u8("the size of a long")? {
        long @ (4 | 8) => long,
        other => return Err(TraceDatError::unexpected(13, "a long of 4 or 8 bytes", other)),
    };
    let page_size = cursor.u32("the page size")?;
    let page_size = Tables::checked_page_size(14, page_size)?;
    if version == 6 {
        let mut tables = Tables::new(version, endian, long, page_size, Compression::None);
        v6::read(&mut tables, &mut cursor)?;
        return Ok(tables);
    }
    let compression = Compression::from_name(&cursor.string("the compression's name")?)?;
    cursor.string("the compression's version")?;
    let first = cursor.u64("where the options are")?;
    let mut tables = Tables::new(version, endian, long, page_size, compression);
    v7::read(&mut tables, file, first)?;
    Ok(tables)
}

fn info(tables: &mut Tables) -> TraceInfo {
    /// `trace-cmd record -a` saves the formats of all events; a kernel has over a hundred systems of them.
    const ALL_SYSTEMS: u32 = 40;
    let buffer_clock = tables.buffers.iter().find_map(|buffer| buffer.clock.clone());
    TraceInfo {
        format: format!("trace.dat v{}", tables.version),
        clock: tables.clock_name.clone().or(buffer_clock).filter(|name| !name.is_empty()),
        cpus: tables.cpus.or_else(|| {
            let cpus = tables.buffers.iter().flat_map(|buffer| &buffer.cpus).map(|data| data.cpu);
            cpus.filter(|&cpu| cpu < CpuId::LIMIT).max().map(|cpu| cpu + 1)
        }),
        cpus_recorded: None,
        recorded: (tables.systems < ALL_SYSTEMS).then(|| recorded(&tables.decoder)),
        tasks: std::mem::take(&mut tables.tasks),
        snapshot: tables.snapshot.take(),
        kernel_release: tables.kernel_release.take(),
        host: tables.host.take(),
        // The trace's clock is the wall clock then.
        clocks: (tables.is_dated && !tables.is_moved)
            .then_some(ClockPair { trace: Time(0), wall: WallTime(0) })
            .into_iter()
            .collect(),
        nothing_overwritten: false,
        coverage: std::mem::take(&mut tables.coverage),
    }
}

/// The recorded event types: a recorder saves the formats of the events that it enabled.
fn recorded(decoder: &Decoder) -> EventSet {
    EventType::ALL.iter().copied().filter(|&event| decoder.known().contains(event)).collect()
}

fn check_clock(tables: &Tables) -> Result<(), TraceDatError> {
    let name =
        tables.clock_name.as_deref().or_else(|| tables.buffers.iter().find_map(|buffer| buffer.clock.as_deref()));
    if tables.clock.cycles.is_none()
        && let Some(name) = name
        && !name.is_empty()
        && !clock::counts_nanoseconds(name)
    {
        return Err(TraceDatError::Clock(name.to_owned()));
    }
    Ok(())
}
