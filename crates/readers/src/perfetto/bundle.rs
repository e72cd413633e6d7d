//! Decodes `FtraceEventBundle`: the events of one CPU.

use std::collections::BTreeMap;

use prost::Message;
use rustc_hash::FxHashMap;
use unstarve_model::{
    BlockRequest, Comm, Context, CpuId, Event, EventKind, Issuer, NameId, Presence, Prio, TaskRef, Tid, Time,
};

use super::clocks::{Clocks, Pair};
use super::packets::{Field, take_field};
use super::proto::{self, CompactSched, FtraceEvent, Kind, bundle_field};
use crate::decode::context;
use crate::interner::Interner;
use crate::prev_state::StateBits;
use crate::task_names::{TaskNames, name_of_program};

/// State kept from one bundle to the next.
#[derive(Default)]
pub struct Bundles {
    pub names: Interner,
    pub tasks: TaskNames,
    pub clocks: Clocks,
    /// The name of the events' clock.
    pub clock: Option<&'static str>,
    states: StateBits,
    cpus: BTreeMap<CpuId, Cpu>,
    /// Gaps of unknown length.
    pub gaps: u64,
    /// Events and bundles that could not be decoded.
    pub undecodable: u64,
    /// The last undecoded event of the bundle: its time, on its own clock, and the current task.
    presence: Option<(u64, Option<Tid>)>,
}

#[derive(Default)]
struct Cpu {
    /// The task that the last compact switch put on the CPU. The next compact switch does not name it.
    running: Option<TaskRef>,
    /// Events before the next bundle are missing.
    gap: bool,
}

/// Names of kernel functions by their interned ids in a sequence of packets.
pub type KernelSymbols = FxHashMap<u64, NameId>;

/// The fields of a bundle other than its events.
#[derive(Default)]
struct Header {
    cpu: u64,
    lost_events: bool,
    clock: u64,
    pair: Pair,
}

/// The bits of `prev_state` since 4.14, and before. Perfetto writes the kernel's value without saying what its bits
/// mean. Source: `TRACE_EVENT(sched_switch)` in `include/trace/events/sched.h`, 4.9 and 4.14 to 7.x.
const STATES_SINCE_4_14: &str = r#"__print_flags(REC->prev_state & 0xff, "|", { 0x01, "S" }, { 0x02, "D" }, { 0x04, "T" },
    { 0x08, "t" }, { 0x10, "X" }, { 0x20, "Z" }, { 0x40, "P" }, { 0x80, "I" }) : "R", REC->prev_state & 0x100 ? "+" : """#;
const STATES_BEFORE_4_14: &str = r#"__print_flags(REC->prev_state & 2047, "|", { 1, "S" }, { 2, "D" }, { 4, "T" },
    { 8, "t" }, { 16, "Z" }, { 32, "X" }, { 64, "x" }, { 128, "K" }, { 256, "W" }, { 512, "P" }, { 1024, "N" }) : "R",
    REC->prev_state & 2048 ? "+" : """#;

impl Bundles {
    pub fn new() -> Bundles {
        Bundles { states: StateBits::parse(STATES_SINCE_4_14), ..Bundles::default() }
    }

    /// Decodes `prev_state` as this kernel release encodes it.
    pub fn set_release(&mut self, release: &str) {
        let mut numbers = release.split(['.', '-']).map(|part| part.parse::<u32>().ok());
        let version = numbers.next().flatten().zip(numbers.next().flatten());
        let old = version.is_some_and(|version| version < (4, 14));
        self.states = StateBits::parse(if old { STATES_BEFORE_4_14 } else { STATES_SINCE_4_14 });
    }

    /// Notes that events of all CPUs may be missing before their next bundles.
    pub fn packets_dropped(&mut self) {
        self.gaps += 1;
        for cpu in self.cpus.values_mut() {
            *cpu = Cpu { running: None, gap: true };
        }
    }

    /// Appends a bundle's events, in any order. Returns its CPU and its last undecoded event; `None` if the bundle is
    /// damaged.
    pub fn decode(
        &mut self,
        data: &[u8],
        symbols: &KernelSymbols,
        events: &mut Vec<Event>,
    ) -> Option<(CpuId, Option<Presence>)> {
        let start = events.len();
        let Some((header, cpu)) = header(data) else {
            self.undecodable += 1;
            return None;
        };
        self.presence = None;
        let (distance, clock) = self.clocks.distance(header.clock, header.pair);
        self.clock = Some(clock);
        let state = self.cpus.entry(cpu).or_default();
        if header.lost_events {
            self.gaps += 1;
            *state = Cpu { running: None, gap: true };
        }
        let gap = std::mem::take(&mut state.gap);
        let mut rest = data;
        while let Some((number, field)) = take_field(&mut rest) {
            match (number, field) {
                (bundle_field::EVENT, Field::Bytes(event)) => match self.event(event, cpu, symbols) {
                    Ok(event) => events.extend(event),
                    Err(BadEvent) => self.undecodable += 1,
                },
                (bundle_field::COMPACT_SCHED, Field::Bytes(compact)) => match CompactSched::decode(compact) {
                    Ok(compact) => self.compact(&compact, cpu, events),
                    Err(_) => self.undecodable += 1,
                },
                _ => {}
            }
        }
        for event in &mut events[start..] {
            event.time = Time(event.time.0.saturating_add_signed(distance));
        }
        if let Some(first) = events[start..].iter().map(|event| event.time).min()
            && gap
        {
            let kind = EventKind::Lost { count: None };
            events.insert(start, Event { time: first, cpu, issuer: Issuer::new(None, Context::Unknown), kind });
        }
        let presence = self.presence.take();
        Some((
            cpu,
            presence.map(|(time, current)| Presence { time: Time(time.saturating_add_signed(distance)), current }),
        ))
    }

    /// Decodes one event; `Ok(None)` if unstarve does not read its type.
    fn event(&mut self, data: &[u8], cpu: CpuId, symbols: &KernelSymbols) -> Result<Option<Event>, BadEvent> {
        let event = FtraceEvent::decode(data).map_err(|_| BadEvent)?;
        let Some(kind) = event.event else {
            self.presence = event.timestamp.map(|time| (time, event.pid.map(Tid))).max(self.presence);
            return Ok(None);
        };
        let Some(kind) = self.kind(kind, symbols)? else { return Ok(None) };
        Ok(Some(Event {
            time: Time(event.timestamp.ok_or(BadEvent)?),
            cpu,
            issuer: Issuer::new(
                event.pid.map(Tid),
                event.common_flags.map_or(Context::Unknown, |flags| context(i64::from(flags))),
            ),
            kind,
        }))
    }

    fn kind(&mut self, kind: Kind, symbols: &KernelSymbols) -> Result<Option<EventKind>, BadEvent> {
        let function = |value: Option<u64>| symbols.get(&value?).copied();
        Ok(Some(match kind {
            Kind::SchedSwitch(e) => EventKind::Switch {
                prev: task(e.prev_pid, e.prev_comm, e.prev_prio)?,
                prev_state: self.states.decode(e.prev_state.ok_or(BadEvent)? as u64),
                next: task(e.next_pid, e.next_comm, e.next_prio)?,
            },
            Kind::SchedWaking(e) => {
                EventKind::Waking { target_cpu: cpu(e.target_cpu)?, task: task(e.pid, e.comm, e.prio)? }
            }
            Kind::SchedWakeup(e) => {
                EventKind::Wakeup { target_cpu: cpu(e.target_cpu)?, task: task(e.pid, e.comm, e.prio)? }
            }
            Kind::SchedWakeupNew(e) => {
                EventKind::WakeupNew { target_cpu: cpu(e.target_cpu)?, task: task(e.pid, e.comm, e.prio)? }
            }
            Kind::SchedMigrateTask(e) => EventKind::Migrate {
                orig_cpu: cpu(e.orig_cpu)?,
                dest_cpu: cpu(e.dest_cpu)?,
                task: task(e.pid, e.comm, e.prio)?,
            },
            Kind::SchedProcessFork(e) => {
                EventKind::Fork { parent: tid(e.parent_pid)?, child: tid(e.child_pid)?, child_comm: comm(e.child_comm) }
            }
            Kind::SchedProcessExec(e) => {
                EventKind::Exec { tid: tid(e.pid)?, comm: name_of_program(e.filename.as_deref().unwrap_or_default()) }
            }
            Kind::SchedProcessExit(e) => EventKind::Exit { tid: tid(e.pid)?, comm: comm(e.comm) },
            Kind::TaskNewtask(e) => {
                self.tasks.note(tid(e.pid)?, comm(e.comm));
                return Ok(None);
            }
            Kind::TaskRename(e) => {
                let (tid, comm) = (tid(e.pid)?, comm(e.newcomm));
                self.tasks.note(tid, comm);
                EventKind::Rename { tid: Some(tid), comm }
            }
            Kind::IrqHandlerEntry(e) => {
                let name = e.name.filter(|name| !name.is_empty()).map(|name| self.names.intern(&name));
                EventKind::IrqEntry { irq: e.irq.unwrap_or(0) as u32, name }
            }
            Kind::IrqHandlerExit(e) => EventKind::IrqExit { irq: e.irq.unwrap_or(0) as u32 },
            Kind::SoftirqEntry(e) => EventKind::SoftirqEntry { vec: vector(&e)? },
            Kind::SoftirqExit(e) => EventKind::SoftirqExit { vec: vector(&e)? },
            Kind::SoftirqRaise(e) => EventKind::SoftirqRaise { vec: vector(&e)? },
            Kind::WorkqueueQueueWork(e) => {
                let workqueue = e.workqueue.filter(|name| !name.is_empty()).map(|name| self.names.intern(&name));
                EventKind::WorkQueued { work: e.work.ok_or(BadEvent)?, function: function(e.function), workqueue }
            }
            Kind::WorkqueueExecuteStart(e) => {
                EventKind::WorkStart { work: e.work.ok_or(BadEvent)?, function: function(e.function) }
            }
            Kind::WorkqueueExecuteEnd(e) => {
                EventKind::WorkEnd { work: e.work.ok_or(BadEvent)?, function: function(e.function) }
            }
            Kind::BlockRqInsert(e) => EventKind::BlockInsert(block_request(&e)?),
            Kind::BlockRqIssue(e) => EventKind::BlockIssue(block_request(&e)?),
            Kind::BlockRqComplete(e) => EventKind::BlockComplete(block_request(&e)?),
        }))
    }

    /// Decodes switches and wakings stored as columns. A switch names only the next task; the previous one is the task
    /// that the last switch put there, so the first switch after a gap yields no event.
    fn compact(&mut self, columns: &CompactSched, cpu: CpuId, events: &mut Vec<Event>) {
        let mut switches = switches(columns, &self.states).peekable();
        let mut wakings = wakings(columns).peekable();
        let state = self.cpus.entry(cpu).or_default();
        loop {
            let switch_is_next = match (switches.peek(), wakings.peek()) {
                (Some(switch), Some(waking)) => switch.as_ref().map_or(0, |s| s.0) < waking.as_ref().map_or(0, |w| w.0),
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => break,
            };
            if switch_is_next {
                let Some(Ok((time, next, prev_state))) = switches.next() else {
                    // Which task runs there now is unknown.
                    *state = Cpu { running: None, gap: true };
                    break self.undecodable += 1;
                };
                if let Some(prev) = state.running.replace(next) {
                    let kind = EventKind::Switch { prev, prev_state, next };
                    let current = Some(prev.tid());
                    events.push(Event { time: Time(time), cpu, issuer: Issuer::new(current, Context::Task), kind });
                }
            } else {
                let Some(Ok((time, task, target_cpu, context))) = wakings.next() else { break self.undecodable += 1 };
                let current = state.running.map(|running| running.tid());
                events.push(Event {
                    time: Time(time),
                    cpu,
                    issuer: Issuer::new(current, context),
                    kind: EventKind::Waking { task, target_cpu },
                });
            }
        }
    }
}

type CompactSwitch = (u64, TaskRef, unstarve_model::PrevState);
type CompactWaking = (u64, TaskRef, CpuId, Context);

fn switches<'a>(
    columns: &'a CompactSched,
    states: &'a StateBits,
) -> impl Iterator<Item = Result<CompactSwitch, BadEvent>> + 'a {
    let mut time = 0u64;
    columns.switch_timestamp.iter().enumerate().map(move |(row, delta)| {
        time = time.wrapping_add(*delta);
        let pid = *columns.switch_next_pid.get(row).ok_or(BadEvent)?;
        let prio = *columns.switch_next_prio.get(row).ok_or(BadEvent)?;
        let next = interned_task(columns, pid, prio, columns.switch_next_comm_index.get(row))?;
        let state = *columns.switch_prev_state.get(row).ok_or(BadEvent)?;
        Ok((time, next, states.decode(state as u64)))
    })
}

fn wakings(columns: &CompactSched) -> impl Iterator<Item = Result<CompactWaking, BadEvent>> + '_ {
    let mut time = 0u64;
    columns.waking_timestamp.iter().enumerate().map(move |(row, delta)| {
        time = time.wrapping_add(*delta);
        let pid = *columns.waking_pid.get(row).ok_or(BadEvent)?;
        let prio = *columns.waking_prio.get(row).ok_or(BadEvent)?;
        let task = interned_task(columns, pid, prio, columns.waking_comm_index.get(row))?;
        let target = cpu(columns.waking_target_cpu.get(row).copied())?;
        // Perfetto before v33 writes no flags.
        let flags = columns.waking_common_flags.get(row);
        Ok((time, task, target, flags.map_or(Context::Unknown, |&flags| context(i64::from(flags)))))
    })
}

fn interned_task(columns: &CompactSched, pid: i32, prio: i32, comm: Option<&u32>) -> Result<TaskRef, BadEvent> {
    let comm = columns.intern_table.get(*comm.ok_or(BadEvent)? as usize).ok_or(BadEvent)?;
    Ok(TaskRef::new(tid(Some(pid))?, Comm::new(comm), Some(Prio(prio))))
}

/// The fields of a bundle other than its events, and its CPU; `None` if it is damaged.
fn header(mut data: &[u8]) -> Option<(Header, CpuId)> {
    let mut header = Header::default();
    while !data.is_empty() {
        let (number, Field::Number(value)) = take_field(&mut data)? else { continue };
        match number {
            bundle_field::CPU => header.cpu = value,
            bundle_field::LOST_EVENTS => header.lost_events = value != 0,
            bundle_field::FTRACE_CLOCK => header.clock = value,
            bundle_field::FTRACE_TIMESTAMP => header.pair.ftrace = Some(value as i64),
            bundle_field::BOOT_TIMESTAMP => header.pair.boot = Some(value as i64),
            _ => {}
        }
    }
    let cpu = u32::try_from(header.cpu).ok().filter(|&cpu| cpu < CpuId::LIMIT)?;
    Some((header, CpuId(cpu)))
}

/// An event that lacks a needed field, or has an impossible value.
#[derive(Clone, Copy, Debug)]
struct BadEvent;

/// proto3 omits zeros, and the idle task's id is 0; Perfetto's own tools treat a missing id the same way.
fn tid(pid: Option<i32>) -> Result<Tid, BadEvent> {
    u32::try_from(pid.unwrap_or(0)).map(Tid).map_err(|_| BadEvent)
}

fn cpu(number: Option<i32>) -> Result<CpuId, BadEvent> {
    u32::try_from(number.unwrap_or(0)).ok().filter(|&cpu| cpu < CpuId::LIMIT).map(CpuId).ok_or(BadEvent)
}

fn comm(name: Option<Vec<u8>>) -> Comm {
    name.map(|name| Comm::new(&name)).unwrap_or_default()
}

fn task(pid: Option<i32>, name: Option<Vec<u8>>, prio: Option<i32>) -> Result<TaskRef, BadEvent> {
    Ok(TaskRef::new(tid(pid)?, comm(name), prio.map(Prio)))
}

/// proto3 omits zeros: a missing first sector is sector 0.
fn block_request(event: &proto::BlockRq) -> Result<BlockRequest, BadEvent> {
    let (sector, sectors) = (event.sector.unwrap_or(0), event.nr_sector.unwrap_or(0));
    Ok(BlockRequest { device: event.dev.ok_or(BadEvent)?, sector, sectors })
}

fn vector(event: &proto::Softirq) -> Result<u8, BadEvent> {
    event.vec.unwrap_or(0).try_into().map_err(|_| BadEvent)
}
