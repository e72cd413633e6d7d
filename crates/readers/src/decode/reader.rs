//! Reads the fields of one record according to its layout.

use std::ops::Deref;

use unstarve_model::{BlockRequest, Comm, Context, CpuId, EventKind, NameId, Prio, TaskRef, Tid};

use super::context;
use super::layout::{Body, Common, Int, Request, Switch, Task, Text};
use crate::endian::Endian;
use crate::interner::Interner;
use crate::prev_state::StateBits;
use crate::task_names::name_of_program;

impl Body {
    /// The event-specific part; `None` if a value is impossible.
    pub(super) fn read(&self, reader: &mut Reader<'_, '_>) -> Option<EventKind> {
        Some(match *self {
            Body::Switch { switch, ref bits } => reader.switch(switch, bits)?,
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
            Body::Exec { tid, program } => {
                let program = program.and_then(|program| reader.text(program)).unwrap_or_default();
                EventKind::Exec { tid: reader.tid(tid), comm: name_of_program(program) }
            }
            Body::Rename { tid, comm } => {
                EventKind::Rename { tid: tid.map(|tid| reader.tid(tid)), comm: reader.comm(comm)? }
            }
            Body::SetPrio { tid, prio } => {
                EventKind::SetPrio { tid: reader.tid(tid), prio: Prio(reader.int(prio) as i32) }
            }
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
            Body::BlockInsert(request) => EventKind::BlockInsert(reader.request(request)),
            Body::BlockIssue(request) => EventKind::BlockIssue(reader.request(request)),
            Body::BlockComplete(request) => EventKind::BlockComplete(reader.request(request)),
        })
    }
}

/// The fields of one record.
#[derive(Clone, Copy)]
pub(super) struct Fields<'r> {
    pub(super) record: &'r [u8],
    pub(super) endian: Endian,
}

/// One record being read, and the interner for the names in it.
pub(super) struct Reader<'r, 'n> {
    pub(super) fields: Fields<'r>,
    pub(super) names: &'n mut Interner,
}

impl<'r> Deref for Reader<'r, '_> {
    type Target = Fields<'r>;

    fn deref(&self) -> &Fields<'r> {
        &self.fields
    }
}

impl<'r> Fields<'r> {
    #[inline(always)]
    pub(super) fn little(record: &'r [u8]) -> Fields<'r> {
        Fields { record, endian: Endian::Little }
    }

    #[inline(always)]
    pub(super) fn int(&self, slot: Int) -> i64 {
        slot.read(self.record, self.endian)
    }

    #[inline(always)]
    pub(super) fn tid(&self, slot: Int) -> Tid {
        Tid(self.int(slot) as u32)
    }

    #[inline(always)]
    pub(super) fn cpu(&self, slot: Int) -> Option<CpuId> {
        u32::try_from(self.int(slot)).ok().filter(|&cpu| cpu < CpuId::LIMIT).map(CpuId)
    }

    pub(super) fn request(&self, request: Request) -> BlockRequest {
        BlockRequest {
            device: self.int(request.device) as u64,
            sector: self.int(request.sector) as u64,
            sectors: self.int(request.sectors) as u32,
        }
    }

    pub(super) fn vector(&self, slot: Int) -> Option<u8> {
        u8::try_from(self.int(slot)).ok()
    }

    /// The current task and the context of the record.
    #[inline(always)]
    pub(super) fn common(&self, common: Common) -> (Option<Tid>, Context) {
        let flags = common.flags.map_or(Context::Unknown, |slot| context(self.int(slot)));
        (common.pid.map(|slot| self.tid(slot)), flags)
    }

    #[inline(always)]
    pub(super) fn switch(&self, switch: Switch, bits: &StateBits) -> Option<EventKind> {
        Some(EventKind::Switch {
            prev: self.task(switch.prev)?,
            prev_state: bits.decode(self.int(switch.prev_state) as u64),
            next: self.task(switch.next)?,
        })
    }

    #[inline(always)]
    pub(super) fn task(&self, task: Task) -> Option<TaskRef> {
        Some(TaskRef::new(self.tid(task.tid), self.comm(task.comm)?, task.prio.map(|slot| Prio(self.int(slot) as i32))))
    }

    #[inline(always)]
    pub(super) fn comm(&self, text: Text) -> Option<Comm> {
        self.text(text).map(Comm::new)
    }

    /// The bytes of a text field, including NULs; `None` if its locator points outside the record.
    #[inline(always)]
    pub(super) fn text(&self, text: Text) -> Option<&'r [u8]> {
        match text {
            Text::Fixed { offset, size } => self.record.get(offset..offset + size),
            Text::Located { locator, base } => {
                let locator = self.int(locator) as u64 as usize;
                let (offset, length) = (base + (locator & 0xffff), locator >> 16);
                self.record.get(offset..offset + length)
            }
        }
    }
}

impl Reader<'_, '_> {
    /// Interns the text of a field. The outer `None` means that the text lies outside the record.
    #[inline]
    pub(super) fn name(&mut self, text: Option<Text>) -> Option<Option<NameId>> {
        let Some(text) = text else { return Some(None) };
        let bytes = self.text(text)?;
        let bytes = &bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())];
        if bytes.is_empty() {
            return Some(None);
        }
        Some(Some(self.names.intern(bytes)))
    }

    /// The name of a function; empty if it has none.
    pub(super) fn symbol(&mut self, slot: Int) -> &[u8] {
        let address = self.int(slot) as u64;
        self.names.symbol(address).unwrap_or_default()
    }

    #[inline]
    pub(super) fn function(&mut self, slot: Option<Int>) -> Option<NameId> {
        let address = self.int(slot?) as u64;
        self.names.function(address)
    }
}
