//! Decodes raw records into [`Event`]s, with field layouts compiled from the file's own event formats.
//!
//! A raw record is what the kernel's ring buffer and perf's `PERF_SAMPLE_RAW` hold: the common fields, then the event's
//! own. Field names are resolved to offsets once, so that decoding an event is a handful of loads. The record's length
//! is checked once, against the end of the last field.

mod fast_path;
mod layout;
mod reader;
mod sign_layout;
#[cfg(test)]
mod tests;

use unstarve_model::{Context, CpuId, Event, EventSet, EventType, Issuer, Tid, Time};

pub use self::fast_path::FastDecoder;
use self::layout::{Common, Compiler, Int, Layout};
use self::reader::{Fields, Reader};
use self::sign_layout::SignLayout;
use crate::endian::Endian;
use crate::format::{EventFormat, FormatError, event_name};
use crate::interner::Interner;
use crate::sign::Sign;

/// A record that does not match its event format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a record of {length} bytes is too short for its event's format, or its values are impossible")]
pub struct BadRecord {
    /// The record's length in bytes.
    pub length: usize,
    /// The event type; `None` if the record is too short to hold its id.
    pub event: Option<EventType>,
}

/// Decodes the records of one recorded machine: byte order and event ids are the same throughout.
#[derive(Clone, Debug)]
pub struct Decoder {
    endian: Endian,
    /// Where `common_type` is in every record; taken from the first format.
    id_at: Option<Int>,
    /// Whether `common_type` is at its usual offset.
    usual_id: bool,
    /// Index into `layouts` by event id; [`NO_LAYOUT`] for events that unstarve does not read.
    by_id: Vec<u8>,
    layouts: Vec<Layout>,
    known: EventSet,
    /// Signs, by event id.
    signs: Vec<(u16, SignLayout)>,
}

const NO_LAYOUT: u8 = u8::MAX;

impl Decoder {
    /// A decoder without any event format.
    pub fn new(endian: Endian) -> Decoder {
        Decoder {
            endian,
            id_at: None,
            usual_id: false,
            by_id: Vec::new(),
            layouts: Vec::new(),
            known: EventSet::default(),
            signs: Vec::new(),
        }
    }

    /// Compiles the text of `events/<system>/<event>/format`. Returns `None`, without parsing the text, if unstarve
    /// does not read this event.
    pub fn add_format(&mut self, system: &str, text: &str) -> Result<Option<EventType>, FormatError> {
        let Some(event) = event_name(text).and_then(EventType::from_name).filter(|event| event.system() == system)
        else {
            // A sign's format that does not parse is skipped: the recording can be read without it.
            self.signs.extend(self.sign_format(system, text));
            return Ok(None);
        };
        let format = EventFormat::parse(text)?;
        let compiler = Compiler { format: &format, endian: self.endian };
        let (id_at, _) = compiler.int("common_type")?;
        if self.id_at.is_some_and(|known| known != id_at) {
            return Err(FormatError::CommonType { event: format.name });
        }
        let layout = compiler.layout(event)?;
        self.id_at = Some(id_at);
        self.usual_id = id_at == fast_path::ID_FIELD;
        let id = usize::from(format.id);
        if self.by_id.len() <= id {
            self.by_id.resize(id + 1, NO_LAYOUT);
        }
        match self.by_id[id] {
            NO_LAYOUT if self.layouts.len() < usize::from(NO_LAYOUT) => {
                self.by_id[id] = self.layouts.len() as u8;
                self.layouts.push(layout);
            }
            // A file may contain a format twice, once per buffer. The last one wins.
            NO_LAYOUT => {}
            known => self.layouts[usize::from(known)] = layout,
        }
        self.known.insert(event);
        Ok(Some(event))
    }

    fn sign_format(&self, system: &str, text: &str) -> Option<(u16, SignLayout)> {
        let name = event_name(text).filter(|name| SignLayout::reads(system, name))?;
        let format = EventFormat::parse(text).ok()?;
        let layout = SignLayout::of(name, &Compiler { format: &format, endian: self.endian }).ok()?;
        self.signs.iter().all(|(known, _)| *known != format.id).then_some((format.id, layout))
    }

    /// What a record of another event shows, if anything.
    pub(crate) fn sign(&self, record: &[u8], names: &mut Interner) -> Option<Sign> {
        let id = self.id(record).filter(|_| !self.signs.is_empty())?;
        let (_, layout) = self.signs.iter().find(|(known, _)| *known == id)?;
        layout.read(&mut Reader { fields: Fields { record, endian: self.endian }, names })
    }

    /// The event types whose formats were added.
    pub fn known(&self) -> EventSet {
        self.known
    }

    /// The event id of a record (`common_type`); `None` if it is too short or no format was added.
    #[inline]
    pub fn id(&self, record: &[u8]) -> Option<u16> {
        let id_at = self.id_at?;
        (record.len() >= id_at.end()).then(|| id_at.read(record, self.endian) as u16)
    }

    /// The task that was current when a record of any type was written, and the context: both are in every record.
    pub(crate) fn common(&self, record: &[u8]) -> (Option<Tid>, Context) {
        let fields = Fields { record, endian: self.endian };
        let has = |slot: &Int| record.len() >= slot.end();
        self.layouts.first().map_or((None, Context::Unknown), |layout| {
            let Common { flags, pid } = layout.common;
            fields.common(Common { flags: flags.filter(has), pid: pid.filter(has) })
        })
    }

    /// The event type of this id; `None` if unstarve does not read it.
    pub fn event_type(&self, id: u16) -> Option<EventType> {
        Some(self.layout(id)?.event)
    }

    #[inline]
    fn layout(&self, id: u16) -> Option<&Layout> {
        let index = *self.by_id.get(usize::from(id))?;
        self.layouts.get(usize::from(index))
    }

    /// Decodes `record`, which begins with the common fields, and passes the event to `emit`. Returns `false` if
    /// unstarve does not read its type.
    ///
    /// The event goes to a callback instead of being returned, so that its fields are written where they stay. Copying
    /// an event just after it was written in smaller pieces stalls on store forwarding.
    #[inline]
    pub fn decode(
        &self,
        time: Time,
        cpu: CpuId,
        record: &[u8],
        names: &mut Interner,
        emit: impl FnOnce(Event),
    ) -> Result<bool, BadRecord> {
        let length = record.len();
        let Some(id) = self.id(record) else {
            return if self.id_at.is_some() { Err(BadRecord { length, event: None }) } else { Ok(false) };
        };
        let Some(layout) = self.layout(id) else { return Ok(false) };
        let bad = BadRecord { length, event: Some(layout.event) };
        if record.len() < layout.needed {
            return Err(bad);
        }
        if let Some(usual) = &layout.usual {
            return if usual.read(time, cpu, record, emit) { Ok(true) } else { Err(bad) };
        }
        let mut reader = Reader { fields: Fields { record, endian: self.endian }, names };
        let kind = layout.body.read(&mut reader).ok_or(bad)?;
        let (current, context) = reader.common(layout.common);
        emit(Event { time, cpu, issuer: Issuer::new(current, context), kind });
        Ok(true)
    }

    /// How to read records of this id on the fast path: one of the commonest events, with its fields at the usual
    /// offsets. Such records have their id at the usual offset, which [`FastDecoder::id`] reads.
    pub fn usual(&self, id: u16) -> Option<FastDecoder> {
        self.layout(id).filter(|_| self.usual_id)?.usual.clone()
    }
}

/// The context an event was recorded in, from `common_flags`. The innermost wins: an NMI may interrupt a hard
/// interrupt, which may interrupt a softirq. Source: `enum trace_flag_type` in `include/linux/trace_events.h`, the same
/// from 4.4 to 7.x.
#[inline(always)]
pub(crate) fn context(flags: i64) -> Context {
    // The hardirq, softirq and NMI flags are in the lowest byte.
    CONTEXT_BY_FLAGS[usize::from(flags as u8)]
}

const CONTEXT_BY_FLAGS: [Context; 256] = {
    const HARDIRQ: usize = 0x08;
    const SOFTIRQ: usize = 0x10;
    const NMI: usize = 0x40;
    let mut contexts = [Context::Task; 256];
    let mut flags = 0;
    while flags < contexts.len() {
        contexts[flags] = match flags {
            f if f & NMI != 0 => Context::Nmi,
            f if f & HARDIRQ != 0 => Context::Hardirq,
            f if f & SOFTIRQ != 0 => Context::Softirq,
            _ => Context::Task,
        };
        flags += 1;
    }
    contexts
};
