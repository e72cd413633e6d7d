//! Raw records to [`Event`]s, by layouts compiled from the file's own event formats.
//!
//! A raw record is what the kernel's ring buffer and perf's `PERF_SAMPLE_RAW` hold: the common fields, then the
//! event's own. Compiling resolves names to offsets once, so that decoding an event is a handful of loads; the
//! record's length is checked once against the furthest field.

use unstarve_model::{Comm, Context, CpuId, Event, EventKind, EventSet, EventType, NameId, Prio, TaskRef, Tid, Time};

use crate::endian::Endian;
use crate::format::{EventFormat, Field, FieldKind, FormatError, event_name};
use crate::interner::Interner;
use crate::prev_state::StateBits;

/// A record that does not hold what its format promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a record of {length} bytes is too short for its event's format, or its values are impossible")]
pub struct BadRecord {
    /// The record's length in bytes.
    pub length: usize,
}

/// Decodes the records of one recorded machine (byte order and event ids are the same throughout).
#[derive(Clone, Debug)]
pub struct Decoder {
    endian: Endian,
    /// Where every record's event id is; from the first format.
    id_at: Option<Int>,
    /// Index into `layouts` by event id; [`NO_LAYOUT`] for events that unstarve does not read.
    by_id: Vec<u8>,
    layouts: Vec<Layout>,
    known: EventSet,
}

const NO_LAYOUT: u8 = u8::MAX;

impl Decoder {
    /// A decoder that knows no event yet.
    pub fn new(endian: Endian) -> Decoder {
        Decoder { endian, id_at: None, by_id: Vec::new(), layouts: Vec::new(), known: EventSet::default() }
    }

    /// Compiles the text of `events/<system>/<event>/format`. `None` if unstarve does not read this event: its text
    /// is then not even parsed.
    pub fn add_format(&mut self, system: &str, text: &str) -> Result<Option<EventType>, FormatError> {
        let Some(event) = event_name(text).and_then(EventType::from_name).filter(|event| event.system() == system)
        else {
            return Ok(None);
        };
        let format = EventFormat::parse(text)?;
        let compiler = Compiler { format: &format };
        let (id_at, _) = compiler.int("common_type")?;
        if self.id_at.is_some_and(|known| known != id_at) {
            return Err(FormatError::CommonType { event: format.name });
        }
        let layout = compiler.layout(event)?;
        self.id_at = Some(id_at);
        let id = usize::from(format.id);
        if self.by_id.len() <= id {
            self.by_id.resize(id + 1, NO_LAYOUT);
        }
        match self.by_id[id] {
            NO_LAYOUT if self.layouts.len() < usize::from(NO_LAYOUT) => {
                self.by_id[id] = self.layouts.len() as u8;
                self.layouts.push(layout);
            }
            // A file may give a format twice (one per buffer); the last one stands.
            NO_LAYOUT => {}
            known => self.layouts[usize::from(known)] = layout,
        }
        self.known.insert(event);
        Ok(Some(event))
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

    /// Which type of event has this id; `None` if unstarve does not read it.
    pub fn event_type(&self, id: u16) -> Option<EventType> {
        Some(self.layout(id)?.event)
    }

    #[inline]
    fn layout(&self, id: u16) -> Option<&Layout> {
        let index = *self.by_id.get(usize::from(id))?;
        self.layouts.get(usize::from(index))
    }

    /// Gives the event in `record`, which begins with the common fields, to `emit`; `false` if unstarve does not read
    /// its type.
    ///
    /// An event goes by way of a function and not of the result so that its fields, once read, are written where they
    /// are to stay: a copy of 88 bytes that were written in smaller pieces just before is slow.
    #[inline]
    pub fn decode(
        &self,
        time: Time,
        cpu: CpuId,
        record: &[u8],
        names: &mut Interner,
        emit: impl FnOnce(Event),
    ) -> Result<bool, BadRecord> {
        let bad = BadRecord { length: record.len() };
        let Some(id) = self.id(record) else {
            return if self.id_at.is_some() { Err(bad) } else { Ok(false) };
        };
        let Some(layout) = self.layout(id) else { return Ok(false) };
        if record.len() < layout.needed {
            return Err(bad);
        }
        let mut reader = Reader { record, endian: self.endian, names };
        let current = layout.common_pid.map(|slot| reader.tid(slot));
        let context = layout.common_flags.map_or(Context::Unknown, |slot| context(reader.int(slot)));
        let event = |kind| Event { time, cpu, current, context, kind };
        match &layout.body {
            // The bulk of every trace, each written out.
            Body::Switch { prev, prev_state, bits, next } => {
                let prev = reader.task(*prev).ok_or(bad)?;
                let prev_state = bits.decode(reader.int(*prev_state) as u64);
                let next = reader.task(*next).ok_or(bad)?;
                emit(event(EventKind::Switch { prev, prev_state, next }));
            }
            Body::Waking { task, target_cpu } => {
                let task = reader.task(*task).ok_or(bad)?;
                let target_cpu = reader.cpu(*target_cpu).ok_or(bad)?;
                emit(event(EventKind::Waking { task, target_cpu }));
            }
            Body::Wakeup { task, target_cpu } => {
                let task = reader.task(*task).ok_or(bad)?;
                let target_cpu = reader.cpu(*target_cpu).ok_or(bad)?;
                emit(event(EventKind::Wakeup { task, target_cpu }));
            }
            other => emit(event(other.read(&mut reader).ok_or(bad)?)),
        }
        Ok(true)
    }
}

/// What the CPU was doing, from `common_flags`. The innermost wins: an NMI may interrupt a hard interrupt, which may
/// interrupt a softirq. Source: `enum trace_flag_type` in `include/linux/trace_events.h`, the same from 4.4 to 7.x.
pub(crate) fn context(flags: i64) -> Context {
    const HARDIRQ: i64 = 0x08;
    const SOFTIRQ: i64 = 0x10;
    const NMI: i64 = 0x40;
    match flags {
        f if f & NMI != 0 => Context::Nmi,
        f if f & HARDIRQ != 0 => Context::Hardirq,
        f if f & SOFTIRQ != 0 => Context::Softirq,
        _ => Context::Task,
    }
}

/// An integer field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Int {
    offset: u32,
    size: u8,
    signed: bool,
}

impl Int {
    fn end(self) -> usize {
        self.offset as usize + usize::from(self.size)
    }

    /// Reads it; the caller has checked the record's length.
    #[inline]
    fn read(self, record: &[u8], endian: Endian) -> i64 {
        let at = self.offset as usize;
        let field = |size| record.get(at..at + size).unwrap_or(&[0; 8][..size]);
        match (self.size, self.signed) {
            (4, true) => i64::from(endian.u32(take(field(4))) as i32),
            (4, false) => i64::from(endian.u32(take(field(4)))),
            (8, _) => endian.u64(take(field(8))) as i64,
            (2, true) => i64::from(endian.u16(take(field(2))) as i16),
            (2, false) => i64::from(endian.u16(take(field(2)))),
            (_, true) => i64::from(take::<1>(field(1))[0] as i8),
            (_, false) => i64::from(take::<1>(field(1))[0]),
        }
    }
}

#[inline]
fn take<const N: usize>(field: &[u8]) -> [u8; N] {
    field.try_into().unwrap_or([0; N])
}

/// A text field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Text {
    /// In place.
    Fixed { offset: usize, size: usize },
    /// Where a locator says; its offsets count from `base`.
    Located { locator: Int, base: usize },
}

#[derive(Clone, Copy, Debug)]
struct Task {
    tid: Int,
    comm: Text,
    prio: Option<Int>,
}

#[derive(Clone, Debug)]
struct Layout {
    event: EventType,
    /// The length that all fields at fixed places need.
    needed: usize,
    common_flags: Option<Int>,
    common_pid: Option<Int>,
    body: Body,
}

#[derive(Clone, Debug)]
enum Body {
    Switch { prev: Task, prev_state: Int, bits: StateBits, next: Task },
    Waking { task: Task, target_cpu: Int },
    Wakeup { task: Task, target_cpu: Int },
    WakeupNew { task: Task, target_cpu: Int },
    Migrate { task: Task, orig_cpu: Int, dest_cpu: Int },
    Fork { parent: Int, child: Int, child_comm: Text },
    Exec { tid: Int },
    Exit { tid: Int, comm: Text },
    IrqEntry { irq: Int, name: Option<Text> },
    IrqExit { irq: Int },
    SoftirqEntry { vec: Int },
    SoftirqExit { vec: Int },
    SoftirqRaise { vec: Int },
    WorkQueued { work: Int, function: Option<Int>, workqueue: Option<Text> },
    WorkStart { work: Int, function: Option<Int> },
    WorkEnd { work: Int, function: Option<Int> },
    BlockIssue { dev: Int, sector: Int },
    BlockComplete { dev: Int, sector: Int },
}

/// Resolves the names of one format's fields.
struct Compiler<'a> {
    format: &'a EventFormat,
}

impl Compiler<'_> {
    fn missing(&self, field: &'static str) -> FormatError {
        FormatError::MissingField { event: self.format.name.clone(), field }
    }

    fn optional_int(&self, name: &str) -> Option<Int> {
        let field = self.format.field(name)?;
        let usable = field.kind == FieldKind::Integer && matches!(field.size, 1 | 2 | 4 | 8);
        usable.then_some(Int { offset: field.offset as u32, size: field.size as u8, signed: field.signed })
    }

    fn int(&self, name: &'static str) -> Result<(Int, usize), FormatError> {
        let int = self.optional_int(name).ok_or_else(|| self.missing(name))?;
        Ok((int, int.end()))
    }

    fn optional_text(&self, name: &str) -> Option<Text> {
        let Field { kind, offset, size, .. } = *self.format.field(name)?;
        match kind {
            FieldKind::Text => Some(Text::Fixed { offset, size }),
            FieldKind::DataLoc | FieldKind::RelDataLoc if size == 4 => {
                let base = if kind == FieldKind::RelDataLoc { offset + size } else { 0 };
                Some(Text::Located { locator: Int { offset: offset as u32, size: 4, signed: false }, base })
            }
            _ => None,
        }
    }

    fn text(&self, name: &'static str) -> Result<Text, FormatError> {
        self.optional_text(name).ok_or_else(|| self.missing(name))
    }

    fn task(&self, [comm, tid, prio]: [&'static str; 3]) -> Result<Task, FormatError> {
        Ok(Task { tid: self.int(tid)?.0, comm: self.text(comm)?, prio: self.optional_int(prio) })
    }

    fn layout(&self, event: EventType) -> Result<Layout, FormatError> {
        let body = self.body(event)?;
        let (common_flags, common_pid) = (self.optional_int("common_flags"), self.optional_int("common_pid"));
        let needed = [common_flags, common_pid].into_iter().flatten().map(Int::end).fold(body.needed(), usize::max);
        Ok(Layout { event, needed, common_flags, common_pid, body })
    }

    fn body(&self, event: EventType) -> Result<Body, FormatError> {
        let int = |name| self.int(name).map(|(int, _)| int);
        let task = || self.task(["comm", "pid", "prio"]);
        // The kernel's functions are named by pointers; a format that has another kind of field there names none.
        let function = || self.optional_int("function").map(|pointer| Int { signed: false, ..pointer });
        let work = || int("work").map(|pointer| Int { signed: false, ..pointer });
        Ok(match event {
            EventType::Switch => Body::Switch {
                prev: self.task(["prev_comm", "prev_pid", "prev_prio"])?,
                prev_state: int("prev_state")?,
                bits: StateBits::parse(&self.format.print),
                next: self.task(["next_comm", "next_pid", "next_prio"])?,
            },
            EventType::Waking => Body::Waking { task: task()?, target_cpu: int("target_cpu")? },
            EventType::Wakeup => Body::Wakeup { task: task()?, target_cpu: int("target_cpu")? },
            EventType::WakeupNew => Body::WakeupNew { task: task()?, target_cpu: int("target_cpu")? },
            EventType::Migrate => {
                Body::Migrate { task: task()?, orig_cpu: int("orig_cpu")?, dest_cpu: int("dest_cpu")? }
            }
            EventType::Fork => Body::Fork {
                parent: int("parent_pid")?,
                child: int("child_pid")?,
                child_comm: self.text("child_comm")?,
            },
            EventType::Exec => Body::Exec { tid: int("pid")? },
            EventType::Exit => Body::Exit { tid: int("pid")?, comm: self.text("comm")? },
            EventType::IrqEntry => Body::IrqEntry { irq: int("irq")?, name: self.optional_text("name") },
            EventType::IrqExit => Body::IrqExit { irq: int("irq")? },
            EventType::SoftirqEntry => Body::SoftirqEntry { vec: int("vec")? },
            EventType::SoftirqExit => Body::SoftirqExit { vec: int("vec")? },
            EventType::SoftirqRaise => Body::SoftirqRaise { vec: int("vec")? },
            EventType::WorkQueued => Body::WorkQueued {
                work: work()?,
                function: function(),
                // Before 5.12 this is the workqueue's address, which nothing in a file names.
                workqueue: self.optional_text("workqueue"),
            },
            EventType::WorkStart => Body::WorkStart { work: work()?, function: function() },
            EventType::WorkEnd => Body::WorkEnd { work: work()?, function: function() },
            EventType::BlockIssue => Body::BlockIssue { dev: int("dev")?, sector: int("sector")? },
            EventType::BlockComplete => Body::BlockComplete { dev: int("dev")?, sector: int("sector")? },
        })
    }
}

impl Body {
    /// The length of record that its fields at fixed places need.
    fn needed(&self) -> usize {
        let text = |text: Text| match text {
            Text::Fixed { offset, size } => offset + size,
            Text::Located { locator, .. } => locator.end(),
        };
        let task = |t: &Task| t.tid.end().max(text(t.comm)).max(t.prio.map_or(0, Int::end));
        let optional = |int: &Option<Int>| int.map_or(0, Int::end);
        match self {
            Body::Switch { prev, prev_state, next, .. } => task(prev).max(task(next)).max(prev_state.end()),
            Body::Waking { task: t, target_cpu }
            | Body::Wakeup { task: t, target_cpu }
            | Body::WakeupNew { task: t, target_cpu } => task(t).max(target_cpu.end()),
            Body::Migrate { task: t, orig_cpu, dest_cpu } => task(t).max(orig_cpu.end()).max(dest_cpu.end()),
            Body::Fork { parent, child, child_comm } => parent.end().max(child.end()).max(text(*child_comm)),
            Body::Exec { tid } => tid.end(),
            Body::Exit { tid, comm } => tid.end().max(text(*comm)),
            Body::IrqEntry { irq, name } => irq.end().max(name.map_or(0, text)),
            Body::IrqExit { irq: int }
            | Body::SoftirqEntry { vec: int }
            | Body::SoftirqExit { vec: int }
            | Body::SoftirqRaise { vec: int } => int.end(),
            Body::WorkQueued { work, function, workqueue } => {
                work.end().max(optional(function)).max(workqueue.map_or(0, text))
            }
            Body::WorkStart { work, function } | Body::WorkEnd { work, function } => work.end().max(optional(function)),
            Body::BlockIssue { dev, sector } | Body::BlockComplete { dev, sector } => dev.end().max(sector.end()),
        }
    }

    /// The event's own part; `None` if a value is impossible.
    fn read(&self, reader: &mut Reader<'_, '_>) -> Option<EventKind> {
        Some(match *self {
            Body::Switch { prev, prev_state, ref bits, next } => EventKind::Switch {
                prev: reader.task(prev)?,
                prev_state: bits.decode(reader.int(prev_state) as u64),
                next: reader.task(next)?,
            },
            Body::Waking { task, target_cpu } => {
                EventKind::Waking { task: reader.task(task)?, target_cpu: reader.cpu(target_cpu)? }
            }
            Body::Wakeup { task, target_cpu } => {
                EventKind::Wakeup { task: reader.task(task)?, target_cpu: reader.cpu(target_cpu)? }
            }
            Body::WakeupNew { task, target_cpu } => {
                EventKind::WakeupNew { task: reader.task(task)?, target_cpu: reader.cpu(target_cpu)? }
            }
            Body::Migrate { task, orig_cpu, dest_cpu } => EventKind::Migrate {
                task: reader.task(task)?,
                orig_cpu: reader.cpu(orig_cpu)?,
                dest_cpu: reader.cpu(dest_cpu)?,
            },
            Body::Fork { parent, child, child_comm } => EventKind::Fork {
                parent: reader.tid(parent),
                child: reader.tid(child),
                child_comm: reader.comm(child_comm)?,
            },
            Body::Exec { tid } => EventKind::Exec { tid: reader.tid(tid) },
            Body::Exit { tid, comm } => EventKind::Exit { tid: reader.tid(tid), comm: reader.comm(comm)? },
            Body::IrqEntry { irq, name } => {
                EventKind::IrqEntry { irq: reader.int(irq) as u32, name: reader.name(name)? }
            }
            Body::IrqExit { irq } => EventKind::IrqExit { irq: reader.int(irq) as u32 },
            Body::SoftirqEntry { vec } => EventKind::SoftirqEntry { vec: reader.vector(vec)? },
            Body::SoftirqExit { vec } => EventKind::SoftirqExit { vec: reader.vector(vec)? },
            Body::SoftirqRaise { vec } => EventKind::SoftirqRaise { vec: reader.vector(vec)? },
            Body::WorkQueued { work, function, workqueue } => EventKind::WorkQueued {
                work: reader.int(work) as u64,
                function: reader.function(function),
                workqueue: reader.name(workqueue)?,
            },
            Body::WorkStart { work, function } => {
                EventKind::WorkStart { work: reader.int(work) as u64, function: reader.function(function) }
            }
            Body::WorkEnd { work, function } => {
                EventKind::WorkEnd { work: reader.int(work) as u64, function: reader.function(function) }
            }
            Body::BlockIssue { dev, sector } => {
                EventKind::BlockIssue { dev: reader.int(dev) as u32, sector: reader.int(sector) as u64 }
            }
            Body::BlockComplete { dev, sector } => {
                EventKind::BlockComplete { dev: reader.int(dev) as u32, sector: reader.int(sector) as u64 }
            }
        })
    }
}

/// One record being read.
struct Reader<'r, 'n> {
    record: &'r [u8],
    endian: Endian,
    names: &'n mut Interner,
}

impl<'r> Reader<'r, '_> {
    #[inline]
    fn int(&self, slot: Int) -> i64 {
        slot.read(self.record, self.endian)
    }

    #[inline]
    fn tid(&self, slot: Int) -> Tid {
        Tid(self.int(slot) as u32)
    }

    #[inline]
    fn cpu(&self, slot: Int) -> Option<CpuId> {
        u32::try_from(self.int(slot)).ok().filter(|&cpu| cpu < CpuId::LIMIT).map(CpuId)
    }

    fn vector(&self, slot: Int) -> Option<u8> {
        u8::try_from(self.int(slot)).ok()
    }

    #[inline(always)]
    fn task(&self, task: Task) -> Option<TaskRef> {
        Some(TaskRef {
            tid: self.tid(task.tid),
            comm: self.comm(task.comm)?,
            prio: task.prio.map(|slot| Prio(self.int(slot) as i32)),
        })
    }

    #[inline]
    fn comm(&self, text: Text) -> Option<Comm> {
        self.text(text).map(Comm::new)
    }

    /// The bytes of a text field, NULs included; `None` if its locator leads outside the record.
    #[inline]
    fn text(&self, text: Text) -> Option<&'r [u8]> {
        match text {
            Text::Fixed { offset, size } => self.record.get(offset..offset + size),
            Text::Located { locator, base } => {
                let locator = self.int(locator) as u64 as usize;
                let (offset, length) = (base + (locator & 0xffff), locator >> 16);
                self.record.get(offset..offset + length)
            }
        }
    }

    /// The id of a text's name; the outer `None` says that the text lies outside the record.
    #[inline]
    fn name(&mut self, text: Option<Text>) -> Option<Option<NameId>> {
        let Some(text) = text else { return Some(None) };
        let bytes = self.text(text)?;
        let bytes = &bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())];
        if bytes.is_empty() {
            return Some(None);
        }
        Some(Some(self.names.intern(bytes)))
    }

    #[inline]
    fn function(&mut self, slot: Option<Int>) -> Option<NameId> {
        let address = self.int(slot?) as u64;
        self.names.function(address)
    }
}

#[cfg(test)]
mod tests {
    use unstarve_model::{Names, PrevState};

    use super::*;
    use crate::symbols::Symbols;

    const COMMON: &str = "format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
";

    /// A format text of `fields`, each `TYPE NAME offset size`.
    fn format(name: &str, id: u16, fields: &[(&str, usize, usize)], print: &str) -> String {
        let mut text = format!("name: {name}\nID: {id}\n{COMMON}\n");
        for (declaration, offset, size) in fields {
            text += &format!("\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:1;\n");
        }
        text + "\nprint fmt: " + print + "\n"
    }

    /// A record of the common fields and `body`.
    fn record(endian: Endian, id: u16, flags: u8, pid: u32, body: &[&[u8]]) -> Vec<u8> {
        let mut record = endian.bytes16(id).to_vec();
        record.extend([flags, 0]);
        record.extend(endian.bytes32(pid));
        body.iter().for_each(|part| record.extend_from_slice(part));
        record
    }

    fn decode(decoder: &Decoder, names: &mut Interner, record: &[u8]) -> Result<Option<Event>, BadRecord> {
        let mut event = None;
        let known = decoder.decode(Time(5), CpuId(1), record, names, |found| event = Some(found))?;
        assert_eq!(known, event.is_some());
        Ok(event)
    }

    fn decoded(decoder: &Decoder, names: &mut Interner, record: &[u8]) -> Option<Event> {
        decode(decoder, names, record).unwrap()
    }

    #[test]
    fn switch_in_both_byte_orders() {
        let text = format(
            "sched_switch",
            314,
            &[
                ("char prev_comm[16]", 8, 16),
                ("pid_t prev_pid", 24, 4),
                ("int prev_prio", 28, 4),
                ("long prev_state", 32, 8),
                ("char next_comm[16]", 40, 16),
                ("pid_t next_pid", 56, 4),
                ("int next_prio", 60, 4),
            ],
            r#"__print_flags(REC->prev_state & 0xff, "|", { 0x1, "S" }) : "R", REC->prev_state & 256 ? "+" : """#,
        );
        for endian in [Endian::Little, Endian::Big] {
            let mut decoder = Decoder::new(endian);
            assert_eq!(decoder.add_format("sched", &text), Ok(Some(EventType::Switch)));
            let record = record(
                endian,
                314,
                0,
                7,
                &[
                    b"fio\0\0\0\0\0\0\0\0\0\0\0\0\0",
                    &endian.bytes32(7),
                    &endian.bytes32(120),
                    &endian.bytes64(0x100),
                    b"migration/1\0\0\0\0\0",
                    &endian.bytes32(20),
                    &endian.bytes32((-1i32) as u32),
                ],
            );
            let mut names = Interner::new();
            let event = decoded(&decoder, &mut names, &record).unwrap();
            let task = |tid, comm, prio| TaskRef { tid: Tid(tid), comm: Comm::from(comm), prio: Some(Prio(prio)) };
            assert_eq!(event.current, Some(Tid(7)));
            assert_eq!(event.context, Context::Task);
            assert_eq!(
                event.kind,
                EventKind::Switch {
                    prev: task(7, "fio", 120),
                    prev_state: PrevState::Preempted,
                    next: task(20, "migration/1", -1),
                }
            );
            for length in 2..record.len() {
                assert!(decode(&decoder, &mut names, &record[..length]).is_err(), "{length}");
            }
        }
    }

    #[test]
    fn dynamic_text_functions_and_workqueues_get_names() {
        let mut decoder = Decoder::new(Endian::Little);
        let queue = [("void * work", 8, 8), ("void * function", 16, 8), ("__data_loc char[] workqueue", 24, 4)];
        decoder.add_format("workqueue", &format("workqueue_queue_work", 9, &queue, "")).unwrap();
        let mut names = Interner::new();
        names.set_symbols(Symbols::from_text("ffffffff81000000 t iomap_dio_complete_work\n".into()));
        let with_locator = |locator: u32| {
            record(
                Endian::Little,
                9,
                0x08,
                1,
                &[&0x1122u64.to_le_bytes(), &0xffffffff81000000u64.to_le_bytes(), &locator.to_le_bytes(), b"dio/sda\0"],
            )
        };
        let event = decoded(&decoder, &mut names, &with_locator(8 << 16 | 28)).unwrap();
        let mut table = Names::default();
        let mut new = Vec::new();
        names.take_new(&mut new);
        table.extend(new);
        assert_eq!(event.context, Context::Hardirq);
        assert_eq!(
            event.kind,
            EventKind::WorkQueued {
                work: 0x1122,
                function: table.find("iomap_dio_complete_work"),
                workqueue: table.find("dio/sda"),
            }
        );
        assert!(table.find("dio/sda").is_some());
        let outside = decode(&decoder, &mut names, &with_locator(9 << 16 | 28));
        assert_eq!(outside, Err(BadRecord { length: 36 }));
    }

    #[test]
    fn a_comm_may_be_dynamic_and_relative() {
        // sched_process_fork since 6.16.
        let fields = [
            ("__data_loc char[] parent_comm", 8, 4),
            ("pid_t parent_pid", 12, 4),
            ("__rel_data_loc char[] child_comm", 16, 4),
            ("pid_t child_pid", 20, 4),
        ];
        let mut decoder = Decoder::new(Endian::Little);
        decoder.add_format("sched", &format("sched_process_fork", 3, &fields, "")).unwrap();
        let word = |value: u32| value.to_le_bytes();
        let record = record(
            Endian::Little,
            3,
            0x50,
            4,
            &[&word(3 << 16 | 24), &word(4), &word(3 << 16 | 7), &word(5), b"sh\0", b"ls\0"],
        );
        let event = decoded(&decoder, &mut Interner::new(), &record).unwrap();
        assert_eq!(event.kind, EventKind::Fork { parent: Tid(4), child: Tid(5), child_comm: Comm::from("ls") });
        assert_eq!(event.context, Context::Nmi);
    }

    #[test]
    fn other_events_are_passed_over_and_impossible_values_refused() {
        let mut decoder = Decoder::new(Endian::Little);
        let mut names = Interner::new();
        let vec = [("unsigned int vec", 8, 4)];
        assert_eq!(decoder.add_format("kvm", "name: kvm_exit\nnonsense"), Ok(None));
        assert_eq!(decoder.add_format("kprobes", &format("softirq_entry", 8, &vec, "")), Ok(None));
        assert_eq!(decoded(&decoder, &mut names, &[]), None, "nothing is known, so nothing is wrong");
        decoder.add_format("irq", &format("softirq_entry", 8, &vec, "")).unwrap();
        assert!(decoder.known().contains(EventType::SoftirqEntry));
        assert_eq!(decoded(&decoder, &mut names, &record(Endian::Little, 77, 0, 0, &[])), None);
        let softirq = |vec: u32| record(Endian::Little, 8, 0x10, 0, &[&vec.to_le_bytes()]);
        assert_eq!(
            decoded(&decoder, &mut names, &softirq(3)).map(|e| (e.kind, e.context)),
            Some((EventKind::SoftirqEntry { vec: 3 }, Context::Softirq))
        );
        assert!(decode(&decoder, &mut names, &softirq(300)).is_err());
    }

    #[test]
    fn a_format_without_a_needed_field_is_told_by_name() {
        let mut decoder = Decoder::new(Endian::Little);
        let error = decoder.add_format("irq", &format("softirq_entry", 8, &[], "")).unwrap_err();
        assert_eq!(error.to_string(), "format of event softirq_entry has no usable field `vec`");
    }
}
