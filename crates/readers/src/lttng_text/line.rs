//! Parses one line of babeltrace's text into an event.

use unstarve_model::{BlockRequest, Comm, CpuId, EventKind, EventType, NameId, Prio, TaskRef, Tid};

use super::fields::Fields;
use crate::interner::Interner;
use crate::prev_state;
use crate::task_names::name_of_program;
use crate::text::number::leading;

/// An event's line, parsed up to its fields: `[14:03:07.205000000] (+0.000001234) host sched_waking: { cpu_id = 0 }, {
/// comm = "fio", … }`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line<'a> {
    /// Nanoseconds since 1970, since the clock began, or since midnight.
    pub nanos: u64,
    /// Whether the time counts from midnight.
    pub of_day: bool,
    /// `sched_waking`.
    pub name: &'a [u8],
    pub fields: &'a [u8],
}

const SECOND_NS: u64 = 1_000_000_000;

impl<'a> Line<'a> {
    pub fn parse(line: &'a [u8]) -> Option<Line<'a>> {
        let inner = line.strip_prefix(b"[")?;
        let end = memchr::memchr(b']', inner)?;
        let rest = &inner[end + 1..];
        let brace = memchr::memmem::find(rest, b": { ")?;
        let name = rest[..brace].rsplit(u8::is_ascii_whitespace).next()?;
        let (nanos, of_day) = time(&inner[..end])?;
        Some(Line { nanos, of_day, name, fields: &rest[brace + 2..] })
    }

    /// The event type; LTTng uses its own names for softirq events.
    pub fn event(&self) -> Option<EventType> {
        let name = std::str::from_utf8(self.name).ok()?;
        EventType::from_name(name.strip_prefix("irq_").filter(|name| name.starts_with("softirq_")).unwrap_or(name))
    }
}

/// `14:03:07.205000000`, perhaps after a date, or `1234.567890123`.
fn time(text: &[u8]) -> Option<(u64, bool)> {
    let text = text.rsplit(u8::is_ascii_whitespace).next()?;
    let mut parts = text.split(|&byte| byte == b':');
    let (first, second, third) = (parts.next()?, parts.next(), parts.next());
    let (Some(minutes), Some(seconds)) = (second, third) else {
        return Some((seconds_of(first)?, false)).filter(|_| second.is_none());
    };
    let whole = |text| leading(text).filter(|(value, rest)| rest.is_empty() && *value < 60).map(|(value, _)| value);
    let minutes = whole(first)? * 60 + whole(minutes)?;
    Some((minutes * 60 * SECOND_NS + seconds_of(seconds)?, true))
}

fn seconds_of(text: &[u8]) -> Option<u64> {
    let (seconds, rest) = leading(text)?;
    let fraction = rest.strip_prefix(b".").filter(|fraction| fraction.len() == 9)?;
    let (nanos, rest) = leading(fraction)?;
    rest.is_empty().then_some(())?;
    seconds.checked_mul(SECOND_NS)?.checked_add(nanos)
}

/// The CPU that recorded the event.
pub fn cpu(fields: &Fields<'_>) -> Option<CpuId> {
    cpu_of(fields, "cpu_id")
}

/// The event's content; `None` if a field is missing or impossible.
pub fn kind(event: EventType, fields: &Fields<'_>, names: &mut Interner) -> Option<EventKind> {
    let number = |key| fields.number(key);
    let vector = || number("vec").and_then(|vec| u8::try_from(vec).ok());
    let work = || number("work").map(|work| work as u64);
    Some(match event {
        EventType::Switch => {
            let prev = task(fields, "prev_comm", "prev_tid", "prev_prio")?;
            let state = u64::try_from(number("prev_state")?).ok()?;
            EventKind::Switch {
                prev,
                prev_state: prev_state::of_bare_number(state, *prev.comm()),
                next: task(fields, "next_comm", "next_tid", "next_prio")?,
            }
        }
        EventType::Waking => EventKind::Waking { task: named(fields)?, target_cpu: cpu_of(fields, "target_cpu")? },
        EventType::Wakeup => EventKind::Wakeup { task: named(fields)?, target_cpu: cpu_of(fields, "target_cpu")? },
        EventType::WakeupNew => {
            EventKind::WakeupNew { task: named(fields)?, target_cpu: cpu_of(fields, "target_cpu")? }
        }
        EventType::Migrate => EventKind::Migrate {
            task: named(fields)?,
            orig_cpu: cpu_of(fields, "orig_cpu")?,
            dest_cpu: cpu_of(fields, "dest_cpu")?,
        },
        EventType::Fork => EventKind::Fork {
            parent: tid(fields, "parent_tid")?,
            child: tid(fields, "child_tid")?,
            child_comm: Comm::new(fields.text("child_comm")?),
        },
        EventType::Exec => EventKind::Exec {
            tid: tid(fields, "tid")?,
            comm: name_of_program(fields.text("filename").unwrap_or_default()),
        },
        EventType::Exit => EventKind::Exit { tid: tid(fields, "tid")?, comm: Comm::new(fields.text("comm")?) },
        EventType::IrqEntry => {
            EventKind::IrqEntry { irq: u32::try_from(number("irq")?).ok()?, name: name(fields, names) }
        }
        EventType::IrqExit => EventKind::IrqExit { irq: u32::try_from(number("irq")?).ok()? },
        EventType::SoftirqEntry => EventKind::SoftirqEntry { vec: vector()? },
        EventType::SoftirqExit => EventKind::SoftirqExit { vec: vector()? },
        EventType::SoftirqRaise => EventKind::SoftirqRaise { vec: vector()? },
        EventType::WorkStart => EventKind::WorkStart { work: work()?, function: None },
        EventType::WorkEnd => EventKind::WorkEnd { work: work()?, function: None },
        EventType::WorkQueued => EventKind::WorkQueued { work: work()?, function: None, workqueue: None },
        EventType::BlockInsert => EventKind::BlockInsert(block_request(fields)?),
        EventType::BlockIssue => EventKind::BlockIssue(block_request(fields)?),
        EventType::BlockComplete => EventKind::BlockComplete(block_request(fields)?),
        EventType::Rename | EventType::SetPrio => return None,
    })
}

fn block_request(fields: &Fields<'_>) -> Option<BlockRequest> {
    let number = |key| fields.number(key);
    Some(BlockRequest {
        device: number("dev")? as u64,
        sector: number("sector")? as u64,
        sectors: u32::try_from(number("nr_sector")?).ok()?,
    })
}

fn named(fields: &Fields<'_>) -> Option<TaskRef> {
    task(fields, "comm", "tid", "prio")
}

/// LTTng's priorities are the kernel's minus 100.
fn task(fields: &Fields<'_>, comm: &str, id: &str, prio: &str) -> Option<TaskRef> {
    let prio = fields.number(prio).and_then(|prio| i32::try_from(prio.checked_add(100)?).ok()).map(Prio);
    Some(TaskRef::new(tid(fields, id)?, Comm::new(fields.text(comm)?), prio))
}

fn tid(fields: &Fields<'_>, key: &str) -> Option<Tid> {
    u32::try_from(fields.number(key)?).ok().map(Tid)
}

fn cpu_of(fields: &Fields<'_>, key: &str) -> Option<CpuId> {
    u32::try_from(fields.number(key)?).ok().filter(|&cpu| cpu < CpuId::LIMIT).map(CpuId)
}

fn name(fields: &Fields<'_>, names: &mut Interner) -> Option<NameId> {
    fields.text("name").filter(|name| !name.is_empty()).map(|name| names.intern(name))
}
