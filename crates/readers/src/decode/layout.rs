//! Field offsets and sizes of an event, compiled from the event format in the file.

use unstarve_model::EventType;

use super::fast_path::FastDecoder;
use crate::endian::Endian;
use crate::format::{EventFormat, Field, FieldKind, FormatError};
use crate::prev_state::StateBits;

/// An integer field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Int {
    pub(super) offset: u32,
    pub(super) size: u8,
    pub(super) signed: bool,
}

impl Int {
    pub(super) fn end(self) -> usize {
        self.offset as usize + usize::from(self.size)
    }

    /// Reads the field. The caller has checked the record's length.
    #[inline(always)]
    pub(super) fn read(self, record: &[u8], endian: Endian) -> i64 {
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
pub(super) enum Text {
    /// In the record itself, at a fixed offset.
    Fixed { offset: usize, size: usize },
    /// Where the locator (`__data_loc`, `__rel_data_loc`) points; its offset counts from `base`.
    Located { locator: Int, base: usize },
}

impl Text {
    /// The end of its fixed part.
    pub(super) fn end(self) -> usize {
        match self {
            Text::Fixed { offset, size } => offset + size,
            Text::Located { locator, .. } => locator.end(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Task {
    pub(super) tid: Int,
    pub(super) comm: Text,
    pub(super) prio: Option<Int>,
}

/// The fields that every event begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Common {
    pub(super) flags: Option<Int>,
    pub(super) pid: Option<Int>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Switch {
    pub(super) prev: Task,
    pub(super) prev_state: Int,
    pub(super) next: Task,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Request {
    pub(super) device: Int,
    pub(super) sector: Int,
    pub(super) sectors: Int,
}

#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) event: EventType,
    /// The record length that all fixed fields need.
    pub(super) needed: usize,
    /// Set if the fields are where most traces have them: such records take a faster path with constant offsets.
    pub(super) usual: Option<FastDecoder>,
    pub(super) common: Common,
    pub(super) body: Body,
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    Switch { switch: Switch, bits: StateBits },
    Waking { task: Task, target_cpu: Int },
    Wakeup { task: Task, target_cpu: Int },
    WakeupNew { task: Task, target_cpu: Int },
    Migrate { task: Task, orig_cpu: Int, dest_cpu: Int },
    Fork { parent: Int, child: Int, child_comm: Text },
    Exec { tid: Int, program: Option<Text> },
    Rename { tid: Option<Int>, comm: Text },
    SetPrio { tid: Int, prio: Int },
    Exit { tid: Int, comm: Text },
    IrqEntry { irq: Int, name: Option<Text> },
    IrqExit { irq: Int },
    SoftirqEntry { vec: Int },
    SoftirqExit { vec: Int },
    SoftirqRaise { vec: Int },
    WorkQueued { work: Int, function: Option<Int>, workqueue: Option<Text> },
    WorkStart { work: Int, function: Option<Int> },
    WorkEnd { work: Int, function: Option<Int> },
    BlockInsert(Request),
    BlockIssue(Request),
    BlockComplete(Request),
}

/// Resolves the names of one format's fields.
pub(super) struct Compiler<'a> {
    pub(super) format: &'a EventFormat,
    pub(super) endian: Endian,
}

impl Compiler<'_> {
    pub(super) fn missing(&self, field: &'static str) -> FormatError {
        FormatError::MissingField { event: self.format.name.clone(), field }
    }

    pub(super) fn optional_int(&self, name: &str) -> Option<Int> {
        let field = self.format.field(name)?;
        let usable = field.kind == FieldKind::Integer && matches!(field.size, 1 | 2 | 4 | 8);
        usable.then_some(Int { offset: field.offset as u32, size: field.size as u8, signed: field.signed })
    }

    pub(super) fn int(&self, name: &'static str) -> Result<(Int, usize), FormatError> {
        let int = self.optional_int(name).ok_or_else(|| self.missing(name))?;
        Ok((int, int.end()))
    }

    pub(super) fn optional_text(&self, name: &str) -> Option<Text> {
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

    pub(super) fn text(&self, name: &'static str) -> Result<Text, FormatError> {
        self.optional_text(name).ok_or_else(|| self.missing(name))
    }

    pub(super) fn task(&self, [comm, tid, prio]: [&'static str; 3]) -> Result<Task, FormatError> {
        Ok(Task { tid: self.int(tid)?.0, comm: self.text(comm)?, prio: self.optional_int(prio) })
    }

    fn request(&self) -> Result<Request, FormatError> {
        let int = |name| self.int(name).map(|(int, _)| int);
        Ok(Request { device: int("dev")?, sector: int("sector")?, sectors: int("nr_sector")? })
    }

    pub(super) fn layout(&self, event: EventType) -> Result<Layout, FormatError> {
        let body = self.body(event)?;
        let common = Common { flags: self.optional_int("common_flags"), pid: self.optional_int("common_pid") };
        let needed = [common.flags, common.pid].into_iter().flatten().map(Int::end).fold(body.needed(), usize::max);
        let usual = (self.endian == Endian::Little).then(|| FastDecoder::of(common, &body)).flatten();
        Ok(Layout { event, needed, usual, common, body })
    }

    pub(super) fn body(&self, event: EventType) -> Result<Body, FormatError> {
        let int = |name| self.int(name).map(|(int, _)| int);
        let task = || self.task(["comm", "pid", "prio"]);
        // The kernel prints functions as pointers. If this format has another kind of field, the function stays
        // unnamed.
        let function = || self.optional_int("function").map(|pointer| Int { signed: false, ..pointer });
        let work = || int("work").map(|pointer| Int { signed: false, ..pointer });
        Ok(match event {
            EventType::Switch => Body::Switch {
                switch: Switch {
                    prev: self.task(["prev_comm", "prev_pid", "prev_prio"])?,
                    prev_state: int("prev_state")?,
                    next: self.task(["next_comm", "next_pid", "next_prio"])?,
                },
                bits: StateBits::parse(&self.format.print),
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
            EventType::Exec => Body::Exec { tid: int("pid")?, program: self.optional_text("filename") },
            EventType::Rename => Body::Rename { tid: self.optional_int("pid"), comm: self.text("newcomm")? },
            EventType::SetPrio => Body::SetPrio { tid: int("pid")?, prio: int("newprio")? },
            EventType::Exit => Body::Exit { tid: int("pid")?, comm: self.text("comm")? },
            EventType::IrqEntry => Body::IrqEntry { irq: int("irq")?, name: self.optional_text("name") },
            EventType::IrqExit => Body::IrqExit { irq: int("irq")? },
            EventType::SoftirqEntry => Body::SoftirqEntry { vec: int("vec")? },
            EventType::SoftirqExit => Body::SoftirqExit { vec: int("vec")? },
            EventType::SoftirqRaise => Body::SoftirqRaise { vec: int("vec")? },
            EventType::WorkQueued => Body::WorkQueued {
                work: work()?,
                function: function(),
                // Before 5.12 this is the workqueue's address, which nothing in the file maps to a name.
                workqueue: self.optional_text("workqueue"),
            },
            EventType::WorkStart => Body::WorkStart { work: work()?, function: function() },
            EventType::WorkEnd => Body::WorkEnd { work: work()?, function: function() },
            EventType::BlockInsert => Body::BlockInsert(self.request()?),
            EventType::BlockIssue => Body::BlockIssue(self.request()?),
            EventType::BlockComplete => Body::BlockComplete(self.request()?),
        })
    }
}

impl Body {
    /// The record length that the fixed fields need.
    fn needed(&self) -> usize {
        let text = Text::end;
        let task = |t: &Task| t.tid.end().max(text(t.comm)).max(t.prio.map_or(0, Int::end));
        let optional = |int: &Option<Int>| int.map_or(0, Int::end);
        match self {
            Body::Switch { switch: Switch { prev, prev_state, next }, .. } => {
                task(prev).max(task(next)).max(prev_state.end())
            }
            Body::Waking { task: t, target_cpu }
            | Body::Wakeup { task: t, target_cpu }
            | Body::WakeupNew { task: t, target_cpu } => task(t).max(target_cpu.end()),
            Body::Migrate { task: t, orig_cpu, dest_cpu } => task(t).max(orig_cpu.end()).max(dest_cpu.end()),
            Body::Fork { parent, child, child_comm } => parent.end().max(child.end()).max(text(*child_comm)),
            Body::Exec { tid, program } => tid.end().max(program.map_or(0, text)),
            Body::Rename { tid, comm } => optional(tid).max(text(*comm)),
            Body::SetPrio { tid, prio } => tid.end().max(prio.end()),
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
            Body::BlockInsert(request) | Body::BlockIssue(request) | Body::BlockComplete(request) => {
                request.device.end().max(request.sector.end()).max(request.sectors.end())
            }
        }
    }
}
