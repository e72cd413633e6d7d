//! A faster decoder for the commonest events, if their fields are at the usual offsets.
//!
//! All little-endian 64-bit recordings of 5.10 to 7.2 seen so far have this layout. The file's own formats decide: this
//! path is used only if they match it exactly.

use unstarve_model::{CpuId, Event, EventKind, Issuer, Time};

use super::layout::{Body, Common, Int, Switch, Task, Text};
use super::reader::Fields;
use crate::endian::Endian;
use crate::prev_state::StateBits;

const fn int(offset: u32) -> Int {
    Int { offset, size: 4, signed: true }
}

const fn task(comm: usize, tid: u32, prio: u32) -> Task {
    Task { tid: int(tid), comm: Text::Fixed { offset: comm, size: 16 }, prio: Some(int(prio)) }
}

pub(super) const ID_FIELD: Int = Int { offset: 0, size: 2, signed: false };
const COMMON_FIELDS: Common = Common { flags: Some(Int { offset: 2, size: 1, signed: false }), pid: Some(int(4)) };
/// `sched_switch`; a record has at least [`SWITCH_LENGTH`] bytes.
const SWITCH_FIELDS: Switch =
    Switch { prev: task(8, 24, 28), prev_state: Int { offset: 32, size: 8, signed: true }, next: task(40, 56, 60) };
const SWITCH_LENGTH: usize = 64;
/// `sched_waking` and `sched_wakeup`; a record has at least [`WAKEE_LENGTH`] bytes. The offset of the target CPU
/// differs between kernels.
const WAKEE_FIELDS: Task = task(8, 24, 28);
const WAKEE_LENGTH: usize = 32;

/// An event type whose field offsets are constants here.
#[derive(Clone, Debug)]
pub struct FastDecoder(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Switch(StateBits),
    /// With the offset of `target_cpu`.
    Waking(usize),
    Wakeup(usize),
}

impl FastDecoder {
    /// Returns the fast decoder if `body` is one of the commonest events and its fields are at the usual offsets.
    pub(super) fn of(common: Common, body: &Body) -> Option<FastDecoder> {
        let kind = match body {
            Body::Switch { switch, bits } if *switch == SWITCH_FIELDS => Kind::Switch(bits.clone()),
            Body::Waking { task, target_cpu } if *task == WAKEE_FIELDS && target_cpu.size == 4 => {
                Kind::Waking(target_cpu.offset as usize)
            }
            Body::Wakeup { task, target_cpu } if *task == WAKEE_FIELDS && target_cpu.size == 4 => {
                Kind::Wakeup(target_cpu.offset as usize)
            }
            _ => return None,
        };
        (common == COMMON_FIELDS).then_some(FastDecoder(kind))
    }

    /// The event id (`common_type`) of a record.
    #[inline(always)]
    pub fn id(record: &[u8]) -> Option<u16> {
        Endian::Little.u16_at(record, ID_FIELD.offset as usize)
    }

    /// Reads a record. All offsets are constants and the length is checked once, so this compiles to plain loads.
    /// Returns `false` if the record is too short or a value is impossible.
    #[inline(always)]
    pub fn read(&self, time: Time, cpu: CpuId, record: &[u8], emit: impl FnOnce(Event)) -> bool {
        let event = |fields: Fields<'_>, kind| {
            let (current, context) = fields.common(COMMON_FIELDS);
            Event { time, cpu, issuer: Issuer::new(current, context), kind }
        };
        match self.0 {
            Kind::Switch(ref bits) => {
                let Some(record) = record.first_chunk::<SWITCH_LENGTH>() else { return false };
                let fields = Fields::little(record);
                let Some(kind) = fields.switch(SWITCH_FIELDS, bits) else { return false };
                emit(event(fields, kind));
            }
            Kind::Waking(target) => {
                let Some((fields, target_cpu)) = wakee(record, target) else { return false };
                let Some(task) = fields.task(WAKEE_FIELDS) else { return false };
                emit(event(fields, EventKind::Waking { task, target_cpu }));
            }
            Kind::Wakeup(target) => {
                let Some((fields, target_cpu)) = wakee(record, target) else { return false };
                let Some(task) = fields.task(WAKEE_FIELDS) else { return false };
                emit(event(fields, EventKind::Wakeup { task, target_cpu }));
            }
        }
        true
    }
}

/// The fields of a wakeup record long enough for [`WAKEE_FIELDS`], and its target CPU.
#[inline(always)]
fn wakee(record: &[u8], target: usize) -> Option<(Fields<'_>, CpuId)> {
    let cpu = CpuId(Endian::Little.u32_at(record, target)?);
    let record = record.first_chunk::<WAKEE_LENGTH>()?;
    (cpu.0 < CpuId::LIMIT).then(|| (Fields::little(record), cpu))
}
