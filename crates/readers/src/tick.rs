//! Detects timer ticks in events that unstarve does not decode.
//!
//! `sched_stat_runtime` does not serve: it comes with each tick of a fair task, but also with each wakeup and switch.

use unstarve_model::{Coverage, CpuId, EventKind, Tid, Time};

/// Functions that the tick's timer calls: `tick_sched_timer` up to 6.7 in high resolution mode, `tick_nohz_handler`
/// since (`kernel/time/tick-sched.c`), `tick_nohz_highres_handler` in some versions in between.
const TICK_FUNCTIONS: [&[u8]; 3] = [b"tick_sched_timer", b"tick_nohz_handler", b"tick_nohz_highres_handler"];
/// The handler of ARM's timer (`drivers/clocksource/arm_arch_timer.c`). Its interrupt has a number, so
/// `irq_handler_entry` shows it.
const ARM_TIMER: &[u8] = b"arch_timer";

/// What an event shows about the tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TickSign {
    /// A tick happened.
    Came,
    /// The tick has been stopped.
    Stops,
}

impl TickSign {
    /// From an event's name and the rest of its line.
    pub fn of_line(name: &[u8], body: &[u8]) -> Option<TickSign> {
        match name {
            b"hrtimer_expire_entry" => TickSign::of_function(value(body, b"function=")?),
            b"local_timer_entry" => Some(TickSign::Came),
            b"irq_handler_entry" => (value(body, b"name=")? == ARM_TIMER).then_some(TickSign::Came),
            b"tick_stop" => (value(body, b"success=")? == b"1").then_some(TickSign::Stops),
            _ => None,
        }
    }

    /// From the function that a timer calls.
    pub fn of_function(function: &[u8]) -> Option<TickSign> {
        TICK_FUNCTIONS.contains(&function).then_some(TickSign::Came)
    }

    /// The event to report, also noted as a sign that the CPU was being recorded.
    pub fn event(self, coverage: &mut Coverage, cpu: CpuId, time: Time, current: Option<Tid>) -> EventKind {
        let heard = coverage.note_tick(cpu, time, current);
        match self {
            TickSign::Came => EventKind::Tick { heard },
            TickSign::Stops => EventKind::TickStop,
        }
    }
}

/// The value of a key: a symbol's name, without its offset.
fn value<'a>(body: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let at = memchr::memmem::find(body, key)? + key.len();
    let word = body[at..].split(|byte| byte.is_ascii_whitespace()).next()?;
    word.split(|byte| *byte == b'+').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_known_by_what_expires() {
        let of = |name: &str, body: &str| TickSign::of_line(name.as_bytes(), body.as_bytes());
        let (came, stops) = (Some(TickSign::Came), Some(TickSign::Stops));
        assert_eq!(of("hrtimer_expire_entry", " hrtimer=0000000012345678 function=tick_nohz_handler now=1234"), came);
        assert_eq!(of("hrtimer_expire_entry", " hrtimer=0xffff9c function=tick_sched_timer+0x0 now=1234"), came);
        assert_eq!(of("hrtimer_expire_entry", " hrtimer=0xffff9c function=hrtimer_wakeup now=1234"), None);
        // A longer name that begins with a tick function's.
        assert_eq!(of("hrtimer_expire_entry", " hrtimer=0xffff9c function=tick_sched_timer_dying now=1"), None);
        assert_eq!(of("local_timer_entry", " vector=236"), came);
        assert_eq!(of("local_timer_exit", " vector=236"), None);
        assert_eq!(of("irq_handler_entry", " irq=27 name=arch_timer"), came);
        assert_eq!(of("irq_handler_entry", " irq=33 name=virtio0"), None);
        assert_eq!(of("tick_stop", " success=1 dependency=NONE"), stops);
        assert_eq!(of("tick_stop", " success=0 dependency=SCHED"), None);
        assert_eq!(of("sched_stat_runtime", " comm=a pid=1 runtime=4000000 [ns]"), None);
        assert_eq!(of("hrtimer_expire_entry", " garbage"), None);
    }
}
