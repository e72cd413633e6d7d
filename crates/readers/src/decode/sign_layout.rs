//! Where the fields of signs are: events that are no [`unstarve_model::EventType`].

use unstarve_model::EventKind;

use super::layout::{Compiler, Int, Text};
use super::reader::Reader;
use crate::format::FormatError;
use crate::sign::{Sign, is_of_tick};

/// `HRTIMER_MODE_REL` in `include/linux/hrtimer.h`.
const RELATIVE_MODE: i64 = 1;

/// How a record shows a sign.
#[derive(Clone, Copy, Debug)]
pub(super) enum SignLayout {
    /// Every record is this sign.
    Each(Sign),
    /// If this field is not zero, the tick stops on this CPU (`tick_stop`).
    TickStop(Int),
    TimerStart {
        timer: Int,
        function: Int,
        due: Int,
        mode: Int,
    },
    TimerExpire {
        timer: Int,
        function: Int,
        now: Int,
    },
    Timeout {
        function: Int,
    },
    Attach {
        tid: Int,
        hierarchy: Int,
        group: Option<Text>,
    },
}

impl SignLayout {
    /// Whether an event may be a sign.
    pub(super) fn reads(system: &str, name: &str) -> bool {
        match system {
            "timer" => {
                matches!(name, "hrtimer_start" | "hrtimer_expire_entry" | "timer_expire_entry" | "tick_stop")
            }
            "cgroup" => name == "cgroup_attach_task",
            "irq_vectors" => Sign::of_vector(name.as_bytes()).is_some(),
            _ => false,
        }
    }

    pub(super) fn of(name: &str, compiler: &Compiler<'_>) -> Result<SignLayout, FormatError> {
        let int = |name| compiler.int(name).map(|(int, _)| int);
        let pointer = |name| int(name).map(|pointer| Int { signed: false, ..pointer });
        Ok(match name {
            "tick_stop" => SignLayout::TickStop(int("success")?),
            "hrtimer_start" => SignLayout::TimerStart {
                timer: pointer("hrtimer")?,
                function: pointer("function")?,
                due: int("softexpires")?,
                mode: int("mode")?,
            },
            "hrtimer_expire_entry" => {
                SignLayout::TimerExpire { timer: pointer("hrtimer")?, function: pointer("function")?, now: int("now")? }
            }
            "timer_expire_entry" => SignLayout::Timeout { function: pointer("function")? },
            "cgroup_attach_task" => SignLayout::Attach {
                tid: int("pid")?,
                hierarchy: int("dst_root")?,
                group: compiler.optional_text("dst_path"),
            },
            _ => SignLayout::Each(Sign::of_vector(name.as_bytes()).ok_or_else(|| compiler.missing("vector"))?),
        })
    }

    /// What the record shows; `None` for nothing, or if it is too short.
    pub(super) fn read(&self, reader: &mut Reader<'_, '_>) -> Option<Sign> {
        if reader.record.len() < self.needed() {
            return None;
        }
        let kind = match *self {
            SignLayout::Each(sign) => return Some(sign),
            SignLayout::TickStop(success) => return (reader.int(success) != 0).then_some(Sign::TickStops),
            SignLayout::Timeout { function } => {
                let function = reader.int(function) as u64;
                return Sign::of_timeout(reader.names.symbol(function)?);
            }
            SignLayout::TimerStart { timer, function, due, mode } => {
                if is_of_tick(reader.symbol(function)) {
                    return None;
                }
                let is_relative = reader.int(mode) & RELATIVE_MODE != 0;
                EventKind::TimerStart { timer: reader.int(timer) as u64, due: reader.int(due), is_relative }
            }
            SignLayout::TimerExpire { timer, function, now } => {
                if is_of_tick(reader.symbol(function)) {
                    return Some(Sign::Tick);
                }
                EventKind::TimerExpire { timer: reader.int(timer) as u64, now: reader.int(now) }
            }
            SignLayout::Attach { tid, hierarchy, group } => EventKind::Attach {
                tid: reader.tid(tid),
                hierarchy: reader.int(hierarchy) as u32,
                group: reader.name(group)?,
            },
        };
        Some(Sign::Other(kind))
    }

    /// The record length that the fixed fields need.
    fn needed(&self) -> usize {
        let end = |fields: &[Int]| fields.iter().map(|field| field.end()).max().unwrap_or(0);
        match *self {
            SignLayout::Each(_) => 0,
            SignLayout::TickStop(field) | SignLayout::Timeout { function: field } => field.end(),
            SignLayout::TimerStart { timer, function, due, mode } => end(&[timer, function, due, mode]),
            SignLayout::TimerExpire { timer, function, now } => end(&[timer, function, now]),
            SignLayout::Attach { tid, hierarchy, group } => end(&[tid, hierarchy]).max(group.map_or(0, Text::end)),
        }
    }
}
