//! Events that a few programs record, each of which shows one thing: a timer tick, an interrupt of the CPU's own, a timer that is
//! armed or expires, a task that is moved to another cgroup. They are no [`unstarve_model::EventType`]: that a recording lacks them
//! is no loss.
//!
//! `sched_stat_runtime` does not serve as a tick: it comes with each tick of a fair task, but also with each wakeup and switch.

use unstarve_model::{Coverage, CpuId, EventKind, Tid, Time, Vector};

use crate::interner::Interner;
use crate::text::body::{split_first, split_last};
use crate::text::number::{hexadecimal, leading, tid};

/// Functions that the tick's timer calls: `tick_sched_timer` up to 6.7 in high resolution mode, `tick_nohz_handler`
/// since (`kernel/time/tick-sched.c`), `tick_nohz_highres_handler` in some versions in between.
pub const TICK_FUNCTIONS: [&[u8]; 3] = [b"tick_sched_timer", b"tick_nohz_handler", b"tick_nohz_highres_handler"];
/// The handler of ARM's timer (`drivers/clocksource/arm_arch_timer.c`). Its interrupt has a number, so
/// `irq_handler_entry` shows it.
const ARM_TIMER: &[u8] = b"arch_timer";
/// What ends the sleep of a thread that asked for a number of jiffies (`kernel/time/timer.c`, since 6.13 `sleep_timeout.c`).
const TIMEOUT_FUNCTION: &[u8] = b"process_timeout";

/// What an event shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sign {
    /// A tick happened.
    Tick,
    /// The tick has been stopped.
    TickStops,
    /// The interrupt of the CPU's timer begins, which may be a tick.
    LocalTimer,
    /// Another event.
    Other(EventKind),
}

impl Sign {
    /// From an event's name and the rest of its line.
    pub fn of_line(name: &[u8], body: &[u8], names: &mut Interner) -> Option<Sign> {
        match name {
            b"hrtimer_expire_entry" => expiry(body),
            b"hrtimer_start" => start(body),
            b"timer_expire_entry" => Sign::of_timeout(value(body, b"function=")?),
            b"irq_handler_entry" => (value(body, b"name=")? == ARM_TIMER).then_some(Sign::Tick),
            b"tick_stop" => (value(body, b"success=")? == b"1").then_some(Sign::TickStops),
            b"cgroup_attach_task" => attachment(body, names),
            _ => Sign::of_vector(name),
        }
    }

    /// From the name of an event of `irq_vectors`.
    pub fn of_vector(name: &[u8]) -> Option<Sign> {
        let named = |end: &[u8]| Vector::from_name(name.strip_suffix(end)?);
        match named(b"_entry") {
            Some(Vector::LocalTimer) => Some(Sign::LocalTimer),
            Some(vector) => Some(Sign::Other(EventKind::VectorEntry { vector })),
            None => Some(Sign::Other(EventKind::VectorExit { vector: named(b"_exit")? })),
        }
    }

    /// From the function of a timer of the timer wheel.
    pub fn of_timeout(function: &[u8]) -> Option<Sign> {
        (function == TIMEOUT_FUNCTION).then_some(Sign::Other(EventKind::TimeoutExpire))
    }

    /// The events to report, in order; the CPU was being recorded, which is noted.
    pub fn events(
        self,
        coverage: &mut Coverage,
        cpu: CpuId,
        time: Time,
        current: Option<Tid>,
    ) -> [Option<EventKind>; 2] {
        let heard = coverage.note_tick(cpu, time, current);
        match self {
            Sign::Tick => [Some(EventKind::Tick { heard }), None],
            Sign::TickStops => [Some(EventKind::TickStop), None],
            Sign::LocalTimer => {
                [Some(EventKind::Tick { heard }), Some(EventKind::VectorEntry { vector: Vector::LocalTimer })]
            }
            Sign::Other(kind) => [None, Some(kind)],
        }
    }
}

/// Whether a timer that calls this function is the tick's.
pub(crate) fn is_of_tick(function: &[u8]) -> bool {
    TICK_FUNCTIONS.contains(&function)
}

/// `hrtimer=00000000a1b2c3d4 function=hrtimer_wakeup now=1234`.
fn expiry(body: &[u8]) -> Option<Sign> {
    if is_of_tick(value(body, b"function=")?) {
        return Some(Sign::Tick);
    }
    let timer = hexadecimal(value(body, b"hrtimer=")?)?;
    Some(Sign::Other(EventKind::TimerExpire { timer, now: signed(value(body, b" now=")?)? }))
}

/// `hrtimer=… function=hrtimer_wakeup expires=… softexpires=… mode=REL`. A recording of `trace-cmd report -R` has the mode's number.
fn start(body: &[u8]) -> Option<Sign> {
    if is_of_tick(value(body, b"function=")?) {
        return None;
    }
    let mode = value(body, b" mode=")?;
    let is_relative = mode.starts_with(b"REL") || leading(mode).is_some_and(|(mode, _)| mode & 1 != 0);
    let timer = hexadecimal(value(body, b"hrtimer=")?)?;
    Some(Sign::Other(EventKind::TimerStart { timer, due: signed(value(body, b"softexpires=")?)?, is_relative }))
}

/// `dst_root=0 dst_id=12 dst_level=2 dst_path=/a b/c pid=7 comm=x`. The path and the name may contain anything.
fn attachment(body: &[u8], names: &mut Interner) -> Option<Sign> {
    let hierarchy = leading(value(body, b"dst_root=")?)?.0.try_into().ok()?;
    let (_, rest) = split_first(body, b" dst_path=")?;
    let (rest, _) = split_last(rest, b" comm=")?;
    let (path, task) = split_last(rest, b" pid=")?;
    Some(Sign::Other(EventKind::Attach { tid: tid(task)?, hierarchy, group: Some(names.intern(path)) }))
}

/// A number that the kernel prints as unsigned, although it is not.
fn signed(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse::<i128>().ok().map(|number| number as i64)
}

/// The value of a key: a symbol's name, without its offset.
fn value<'a>(body: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let at = memchr::memmem::find(body, key)? + key.len();
    let word = body[at..].split(|byte| byte.is_ascii_whitespace()).next()?;
    word.split(|byte| *byte == b'+').next()
}

#[cfg(test)]
mod tests {
    use unstarve_model::Names;

    use super::*;

    fn of(name: &str, body: &str) -> Option<Sign> {
        Sign::of_line(name.as_bytes(), body.as_bytes(), &mut Interner::new())
    }

    #[test]
    fn ticks_are_known_by_what_expires() {
        let (came, stops) = (Some(Sign::Tick), Some(Sign::TickStops));
        assert_eq!(of("hrtimer_expire_entry", " hrtimer=0000000012345678 function=tick_nohz_handler now=1234"), came);
        assert_eq!(of("hrtimer_expire_entry", " hrtimer=0xffff9c function=tick_sched_timer+0x0 now=1234"), came);
        assert_eq!(of("local_timer_entry", " vector=236"), Some(Sign::LocalTimer));
        assert_eq!(of("irq_handler_entry", " irq=27 name=arch_timer"), came);
        assert_eq!(of("irq_handler_entry", " irq=33 name=virtio0"), None);
        assert_eq!(of("tick_stop", " success=1 dependency=NONE"), stops);
        assert_eq!(of("tick_stop", " success=0 dependency=SCHED"), None);
        assert_eq!(of("sched_stat_runtime", " comm=a pid=1 runtime=4000000 [ns]"), None);
        assert_eq!(of("hrtimer_expire_entry", " garbage"), None);
    }

    #[test]
    fn each_other_sign_in_each_of_its_forms() {
        let table = [
            ("hrtimer_expire_entry", "hrtimer=0xffff9c function=hrtimer_wakeup now=1234"),
            // A longer name that begins with a tick function's.
            ("hrtimer_expire_entry", "hrtimer=0xffff9c function=tick_sched_timer_dying now=1"),
            ("hrtimer_expire_entry", "hrtimer=0xffff9c function=hrtimer_wakeup"),
            (
                "hrtimer_start",
                "hrtimer=00000000a1b2c3d4 function=hrtimer_wakeup expires=5060000 softexpires=5010000 mode=REL was_armed=0",
            ),
            ("hrtimer_start", "hrtimer=0xa1 function=posix_timer_fn expires=7 softexpires=7 mode=ABS|SOFT"),
            (
                "hrtimer_start",
                "hrtimer=0xa1 function=x expires=18446744073709551615 softexpires=18446744073709551615 mode=0x9",
            ),
            ("hrtimer_start", "hrtimer=0xa1 function=tick_sched_timer expires=7 softexpires=7 mode=ABS|PINNED"),
            ("hrtimer_start", "hrtimer=0xa1 function=hrtimer_wakeup expires=7"),
            ("timer_expire_entry", "timer=0xa1 function=process_timeout now=4294937296 baseclk=4294937296"),
            ("timer_expire_entry", "timer=0xa1 function=delayed_work_timer_fn now=4294937296 baseclk=4294937296"),
            ("local_timer_exit", "vector=236"),
            ("reschedule_entry", "vector=253"),
            ("call_function_entry", "vector=252"),
            ("call_function_single_exit", "vector=251"),
            ("thermal_apic_entry", "vector=250"),
            ("cgroup_attach_task", "dst_root=0 dst_id=12 dst_level=2 dst_path=/a pid=1/c pid=7 comm=x y"),
            ("cgroup_attach_task", "dst_root=3 dst_id=12 dst_level=0 dst_path=/ pid=7 comm= pid=9 comm="),
            ("cgroup_attach_task", "dst_root=0 dst_id=12"),
        ];
        let mut text = String::new();
        for (event, body) in table {
            let mut interner = Interner::new();
            let sign = Sign::of_line(event.as_bytes(), body.as_bytes(), &mut interner);
            let (mut new, mut names) = (Vec::new(), Names::default());
            interner.take_new(&mut new);
            names.extend(new);
            let shown = match sign {
                Some(Sign::Other(kind)) => crate::picture::kind(&kind, &names),
                other => format!("{other:?}"),
            };
            text += &format!("{shown:<36} {event}: {body}\n");
        }
        insta::assert_snapshot!(text);
    }
}
