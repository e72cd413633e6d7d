//! Reader of perf.data, which `perf record`, `perf sched record` and `perf trace record` write to files and to pipes.
//!
//! A file has tables before and after its data, so it is read by position. A pipe has them as records among the others,
//! so it is read once from start to end.
//!
//! In each round perf empties the buffers of all CPUs one after the other, so events wait until the round after theirs
//! has ended, as in perf's own tools. A file without rounds (sorted, written by `perf inject`) uses a window of a fixed
//! number of events instead.

mod attr;
mod bytes;
mod error;
mod event_ids;
#[cfg(test)]
mod fixture;
mod header;
mod read_ahead;
mod records;
mod running_kernel;
mod sample;
mod session;
mod stacks;
mod switches;
#[cfg(test)]
mod tests;
mod tracing_data;
mod unpack;

use std::ops::ControlFlow;

use unstarve_model::{Batch, EventSource, Loss, SourceError, TraceInfo};

pub use self::error::PerfDataError;
use self::header::{FileHeader, Kind, MAX_TRACING_DATA, PIPE_HEADER};
use self::records::{Next, Record, Records};
use self::session::{Readiness, Session, kind};
use self::unpack::Unpacker;
use crate::endian::Endian;
use crate::input::Input;

/// Reads perf.data.
pub struct PerfData {
    records: Records,
    session: Session,
    unpacker: Option<Unpacker>,
    endian: Endian,
    cut: Option<String>,
    /// Whether the tables are complete. Those of a pipe are when the first sample comes.
    tables: Tables,
    at_end: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tables {
    /// More may come.
    Open,
    /// They have been checked.
    Checked,
}

/// Whether a file that begins with `prefix` is perf.data.
pub fn recognises(prefix: &[u8]) -> bool {
    Kind::of(prefix).is_some()
}

impl PerfData {
    /// Opens a recording: reads the tables of a file, or the header of a pipe.
    pub fn open(input: Input) -> Result<PerfData, PerfDataError> {
        let expected = "perf's magic, PERFILE2";
        let kind = Kind::of(input.prefix()).ok_or(PerfDataError::Header { offset: 0, expected })?;
        if kind.pipe { PerfData::pipe(input, kind.endian) } else { PerfData::file(input, kind.endian) }
    }

    fn file(input: Input, endian: Endian) -> Result<PerfData, PerfDataError> {
        let file = input.into_positioned().map_err(|source| PerfDataError::Read { offset: 0, source })?;
        let header = FileHeader::read(&file, endian)?;
        let any_switches = header.attrs.iter().any(|(attr, _)| attr.context_switch);
        if header.tracing_data.is_empty() && !any_switches {
            return Err(PerfDataError::NoFormats);
        }
        let mut session = Session::new("perf.data", endian);
        for (attr, ids) in &header.attrs {
            session.add_attr(attr, ids);
        }
        for (feature, content) in &header.features {
            session.note_feature(*feature, content);
        }
        if !header.tracing_data.is_empty() {
            session.add_formats(&header.tracing_data)?;
        }
        session.check()?;
        let cut = file.cut().map(str::to_owned);
        let records = Records::section(file, header.data.start, header.data.end, endian);
        Ok(PerfData::new(records, session, endian, cut, Tables::Checked))
    }

    fn pipe(input: Input, endian: Endian) -> Result<PerfData, PerfDataError> {
        let mut records = Records::stream(input.into_stream(), 0, endian);
        records.skip(PIPE_HEADER)?;
        Ok(PerfData::new(records, Session::new("perf.data (pipe)", endian), endian, None, Tables::Open))
    }

    fn new(records: Records, session: Session, endian: Endian, cut: Option<String>, tables: Tables) -> PerfData {
        PerfData { records, session, unpacker: None, endian, cut, tables, at_end: false }
    }

    /// Reads the next samples and one other record, or one piece of a compressed record.
    fn step(&mut self) -> Result<(), PerfDataError> {
        if self.unpacker.as_ref().is_some_and(Unpacker::is_pending) {
            return self.unpack();
        }
        if self.tables == Tables::Checked {
            let mut ripe = Readiness::Not;
            self.records.samples(|record, offset| {
                ripe = self.session.sample(record, offset);
                if ripe == Readiness::Perhaps { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            if ripe == Readiness::Perhaps {
                return Ok(());
            }
        }
        let offset = self.records.offset();
        let record = match self.records.next()? {
            Next::Record(record) => record,
            Next::End => return self.finish(),
            Next::Truncated { offset, cut: true } => {
                self.session.truncated(format!("within a record at byte {offset}"));
                return self.finish();
            }
            Next::Truncated { offset, cut: false } => {
                self.session.truncated(format!("what follows byte {offset} is not a record"));
                return self.finish();
            }
        };
        match record.kind {
            kind::SAMPLE if self.tables == Tables::Open => {
                self.session.check()?;
                self.tables = Tables::Checked;
                self.session.record(record, offset);
            }
            kind::COMPRESSED => feed(&mut self.unpacker, record.payload(), offset)?,
            kind::COMPRESSED2 => {
                // The compressed size, the compressed data, then padding.
                let size = record.u64_at(8).and_then(|size| usize::try_from(size).ok());
                let packed = record.payload().get(8..).unwrap_or_default();
                feed(&mut self.unpacker, &packed[..size.unwrap_or(0).min(packed.len())], offset)?;
            }
            kind::HEADER_TRACING_DATA => {
                let size = record.u32_at(8).unwrap_or(0);
                self.tracing_data(size, offset)?;
            }
            kind::AUXTRACE => {
                // The record is followed by as many bytes as it says.
                let size = record.u64_at(8).unwrap_or(0);
                if !self.records.skip(size)? {
                    self.session.truncated(format!("within the data of a record at byte {offset}"));
                }
            }
            _ => self.session.record(record, offset),
        }
        Ok(())
    }

    fn unpack(&mut self) -> Result<(), PerfDataError> {
        let offset = self.records.offset();
        let Some(unpacker) = &mut self.unpacker else { return Ok(()) };
        let damaged = match unpacker.piece() {
            Ok(unpacked) => {
                let mut used = 0;
                let damaged = loop {
                    match Record::first(&unpacked[used..], self.endian) {
                        Ok(Some(record)) => {
                            if record.kind == kind::SAMPLE && self.tables == Tables::Open {
                                self.session.check()?;
                                self.tables = Tables::Checked;
                            }
                            self.session.record(record, offset);
                            used += record.bytes.len();
                        }
                        Ok(None) => break None,
                        Err(()) => break Some("what a compressed record holds is not records"),
                    }
                };
                unpacker.consume(used);
                damaged
            }
            Err(_) => Some("a compressed record does not unpack"),
        };
        match damaged {
            Some(what) => {
                self.session.truncated(format!("{what}, before byte {offset}"));
                self.unpacker = None;
                self.finish()
            }
            None => Ok(()),
        }
    }

    /// In a pipe the event formats follow their record.
    fn tracing_data(&mut self, size: u32, offset: u64) -> Result<(), PerfDataError> {
        if u64::from(size) > MAX_TRACING_DATA {
            return Err(PerfDataError::Header { offset, expected: "event formats of at most 64 MiB" });
        }
        let data = self.records.following(size as usize)?;
        self.session.add_formats(&data)
    }

    fn finish(&mut self) -> Result<(), PerfDataError> {
        self.at_end = true;
        if let Some(cut) = self.cut.take() {
            self.session.truncated(cut);
        }
        self.session.finish();
        match self.tables {
            Tables::Checked => Ok(()),
            // A pipe without any sample.
            Tables::Open => self.session.check(),
        }
    }
}

fn feed(unpacker: &mut Option<Unpacker>, packed: &[u8], offset: u64) -> Result<(), PerfDataError> {
    if unpacker.is_none() {
        *unpacker = Some(Unpacker::new().map_err(|source| PerfDataError::Read { offset, source })?);
    }
    unpacker.iter_mut().for_each(|unpacker| unpacker.feed(packed));
    Ok(())
}

impl EventSource for PerfData {
    fn info(&self) -> &TraceInfo {
        &self.session.info
    }

    fn read(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        while !self.session.reorder.fill(&mut batch.events) && !self.at_end {
            self.step()?;
        }
        self.session.names.take_new(&mut batch.names);
        Ok(!batch.events.is_empty())
    }

    fn losses(&self) -> Vec<Loss> {
        self.session.losses()
    }
}
