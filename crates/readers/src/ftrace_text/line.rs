//! Parses one line of ftrace text up to the event's body.

use memchr::memchr_iter;
use unstarve_model::{Comm, Context, CpuId, Tid};

use super::{kernel_log, latency};
use crate::text::number::{Stamp, cpu, leading, stamp, tid};

/// The part before an event's body: `COMM-PID (TGID) [CPU] FLAGS TIME: EVENT: BODY`, where TGID and FLAGS are optional,
/// or in the latency format `COMM-PID CPUFLAGS TIME: EVENT: BODY`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventLine<'a> {
    pub comm: Comm,
    pub tid: Tid,
    pub cpu: CpuId,
    pub context: Context,
    pub stamp: Stamp,
    /// Empty for lines of function tracers and stack traces.
    pub event: &'a [u8],
    pub body: &'a [u8],
}

/// A line that reports lost events, or the beginning of a CPU's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LostLine {
    pub cpu: CpuId,
    pub count: Option<u64>,
}

impl<'a> EventLine<'a> {
    /// Parses a line. The comm may contain any character, even `[000]`: the first bracket after which the rest parses
    /// is the CPU's.
    pub fn parse(line: &'a [u8]) -> Option<EventLine<'a>> {
        let by_bracket = |line| memchr_iter(b'[', line).find_map(|at| EventLine::with_cpu_at(line, at));
        by_bracket(line).or_else(|| {
            let line = kernel_log::message(line).unwrap_or(line);
            by_bracket(line).or_else(|| latency::Head::parse(line).map(EventLine::with_head))
        })
    }

    /// Whether `line` is an event line that ends before the event's name: `kworker/5:1-77 [005] d....`, `bash-9 [000]
    /// 1.000000:`.
    pub fn is_cut(line: &[u8]) -> bool {
        let whole = EventLine::parse(line).map(|event| event.event.is_empty() && event.body.trim_ascii().is_empty());
        whole.unwrap_or_else(|| memchr_iter(b'[', line).any(|at| EventLine::is_cut_at(line, at)))
    }

    fn is_cut_at(line: &[u8], at: usize) -> bool {
        let Some((_, after)) = leading(&line[at + 1..]) else { return false };
        let Some(flags) = after.strip_prefix(b"]").map(<[u8]>::trim_ascii) else { return false };
        let are_flags = flags.len() <= 8 && flags.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'.');
        are_flags && cpu(&line[at + 1..]).is_some() && task(&line[..at]).is_some()
    }

    fn with_head(head: latency::Head<'a>) -> EventLine<'a> {
        let (event, body) = name_and_body(without_difference(head.rest));
        let latency::Head { comm, tid, cpu, context, stamp, .. } = head;
        EventLine { comm, tid, cpu, context, stamp, event, body }
    }

    fn with_cpu_at(line: &'a [u8], at: usize) -> Option<EventLine<'a>> {
        let (_, after_cpu) = leading(&line[at + 1..])?;
        let rest = after_cpu.strip_prefix(b"]").filter(|rest| rest.first().is_some_and(u8::is_ascii_whitespace))?;
        let (comm, tid) = task(&line[..at])?;
        let (context, rest) = flags(after_tgid(rest.trim_ascii_start()));
        let (stamp, rest) = stamp(rest)?;
        let (event, body) = name_and_body(without_difference(rest.strip_prefix(b":")?.trim_ascii_start()));
        Some(EventLine { comm, tid, cpu: cpu(&line[at + 1..])?, context, stamp, event, body })
    }
}

/// Skips the time since the last event, `(+123)`, which `trace-cmd report --ts-diff` prints after the time.
fn without_difference(rest: &[u8]) -> &[u8] {
    let after = rest.strip_prefix(b"(+").and_then(leading).and_then(|(_, rest)| rest.strip_prefix(b")"));
    after.map_or(rest, <[u8]>::trim_ascii_start)
}

/// Splits `sched_switch: …` into the event's name, empty if there is none, and the rest.
fn name_and_body(rest: &[u8]) -> (&[u8], &[u8]) {
    let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    match rest[length..].strip_prefix(b":") {
        Some(body) => (&rest[..length], body),
        None => (&rest[..0], rest),
    }
}

/// systrace replaces the kernel's name of 15 bytes by the name that the program gave the thread, such as an Android
/// package.
const MAX_NAME_BYTES: usize = 128;

/// Parses the part before the CPU: `   comm-123   (   99)  `.
fn task(text: &[u8]) -> Option<(Comm, Tid)> {
    let mut text = text.trim_ascii();
    if let Some(inner) = text.strip_suffix(b")") {
        let open = inner.iter().rposition(|&byte| byte == b'(')?;
        let tgid = inner[open + 1..].trim_ascii();
        // The thread group is dashes if it was not recorded.
        if tgid.is_empty() || !tgid.iter().all(|&byte| byte.is_ascii_digit() || byte == b'-') {
            return None;
        }
        text = inner[..open].trim_ascii_end();
    }
    let dash = text.iter().rposition(|&byte| byte == b'-')?;
    let pid = &text[dash + 1..];
    if pid.is_empty() || !pid.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let mut comm = &text[..dash];
    // A report over several buffers prints `NAME:` before the task. A comm has at most 15 bytes.
    if comm.len() > 15
        && let Some(colon) = memchr::memmem::find(comm, b": ")
    {
        comm = comm[colon + 1..].trim_ascii_start();
    }
    if comm.len() > 16 {
        // The task's events contain the name as the kernel has it.
        return (comm.len() <= MAX_NAME_BYTES).then_some((Comm::default(), tid(pid)?));
    }
    Some((Comm::new(comm), tid(pid)?))
}

/// Skips the thread group that Linux 4.13 to 4.17 print after the CPU: `[000] (  1091) d..2`.
fn after_tgid(text: &[u8]) -> &[u8] {
    let Some(inner) = text.strip_prefix(b"(") else { return text };
    let known = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'-' | b' ');
    let length = inner.iter().take_while(|byte| known(byte)).count();
    inner[length..].strip_prefix(b")").map_or(text, <[u8]>::trim_ascii_start)
}

/// The context from the flags column. It is the third character, or the fourth on real-time kernels, which have one
/// more for a lazy reschedule: `d..2.`, `dNh4.`, `..s1`, `d..h2..`.
pub(super) fn context(flags: &[u8]) -> Context {
    let of = |at: usize| match flags.get(at) {
        Some(b'h' | b'H') => Some(Context::Hardirq),
        Some(b's') => Some(Context::Softirq),
        Some(b'z' | b'Z') => Some(Context::Nmi),
        _ => None,
    };
    let plain = if flags.get(2) == Some(&b'.') { Context::Task } else { Context::Unknown };
    of(2).or_else(|| of(3)).unwrap_or(plain)
}

/// Parses the flags column, if there is one.
fn flags(text: &[u8]) -> (Context, &[u8]) {
    if text.first().is_some_and(u8::is_ascii_digit) {
        return (Context::Unknown, text);
    }
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    let context = if (3..=8).contains(&end) { context(&text[..end]) } else { Context::Unknown };
    (context, text[end..].trim_ascii_start())
}

impl LostLine {
    /// `CPU:3 [LOST 123 EVENTS]` (tracefs), `CPU:3 [123 EVENTS DROPPED]`, `CPU:3 [EVENTS DROPPED]` (trace-cmd), `#####
    /// CPU 2 buffer started ####` (tracefs, if the buffer has wrapped).
    pub fn parse(line: &[u8]) -> Option<LostLine> {
        let line = line.trim_ascii();
        if let Some(rest) = line.strip_prefix(b"##### CPU ") {
            return Some(LostLine { cpu: cpu(rest)?, count: None });
        }
        let rest = line.strip_prefix(b"CPU:")?;
        let cpu = cpu(rest)?;
        let (_, note) = leading(rest)?;
        let note = note.trim_ascii().strip_prefix(b"[")?.strip_suffix(b"]")?;
        let count = match note {
            b"LOST EVENTS" | b"EVENTS DROPPED" => None,
            _ => {
                let (count, unit) = leading(note.strip_prefix(b"LOST ").unwrap_or(note))?;
                (unit.starts_with(b" EVENTS")).then_some(())?;
                Some(count)
            }
        };
        Some(LostLine { cpu, count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        let Some(l) = EventLine::parse(line.as_bytes()) else { return "-".into() };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        format!(
            "{:?} {} cpu {} {:?} {:?} {} | {}",
            l.comm.to_string(),
            l.tid,
            l.cpu,
            l.context,
            l.stamp,
            text(l.event),
            text(l.body)
        )
    }

    #[test]
    fn the_part_before_the_body_in_all_its_shapes() {
        let table = [
            "             fio-126   [000]    10.166060: sched_switch:         sh:126 [120] D ==> x:1 [120]",
            "          <idle>-0       [003] dNh4.  1234.567890: sched_wakeup: comm=a pid=1 prio=120 target_cpu=003",
            "     ksoftirqd/1-21      [001] ..s2   1234.567890: softirq_entry: vec=3 [action=NET_RX]",
            "            bash-1234    (   1230) [001] d..2.  1234.567890123: sched_switch: x",
            "            bash-1091    [000] (   1091) d.h2    28.313544: sched_switch: x",
            "          <idle>-0       [001] d..h2..  1234.567890: sched_waking: x",
            "           <...>-77      (-------) [001] .....  1234.567890: sched_switch: x",
            "    Web Content (-12      [011] d..1.     5.000001: sched_waking: y",
            "     a-1 [000] x-77      [001] .....     5.000001: sched_waking: y",
            "  kworker/u8:3-ev-9      [001] .....     5.000001: sched_waking: y",
            "mybuf:               fio-126   [000]    10.166060: sched_switch: z",
            "            bash-9       [000] .....  987654321: sched_switch: z",
            "            bash-9       [000] .....     1.000000: schedule <-do_exit",
            "            bash-9       [9999] .....     1.000000: sched_switch: z",
            "com.google.android.youtube-23071 (23071) [002] d..5 214168.479892: sched_wakeup: x",
            "  <idle>-0       0d..2.     6.098464: sched_switch:         x",
            "fio 28143 [011] 2038.648954: sched:sched_waking: comm=kworker/11:68",
            " => try_to_wake_up",
        ];
        insta::assert_snapshot!(table.map(shown).join("\n"), @r#"
        "fio" 126 cpu 0 Unknown Seconds(Time(10166060000)) sched_switch |          sh:126 [120] D ==> x:1 [120]
        "<idle>" 0 cpu 3 Hardirq Seconds(Time(1234567890000)) sched_wakeup |  comm=a pid=1 prio=120 target_cpu=003
        "ksoftirqd/1" 21 cpu 1 Softirq Seconds(Time(1234567890000)) softirq_entry |  vec=3 [action=NET_RX]
        "bash" 1234 cpu 1 Task Seconds(Time(1234567890123)) sched_switch |  x
        "bash" 1091 cpu 0 Hardirq Seconds(Time(28313544000)) sched_switch |  x
        "<idle>" 0 cpu 1 Hardirq Seconds(Time(1234567890000)) sched_waking |  x
        "<...>" 77 cpu 1 Task Seconds(Time(1234567890000)) sched_switch |  x
        "Web Content (" 12 cpu 11 Task Seconds(Time(5000001000)) sched_waking |  y
        "a-1 [000] x" 77 cpu 1 Task Seconds(Time(5000001000)) sched_waking |  y
        "kworker/u8:3-ev" 9 cpu 1 Task Seconds(Time(5000001000)) sched_waking |  y
        "fio" 126 cpu 0 Unknown Seconds(Time(10166060000)) sched_switch |  z
        "bash" 9 cpu 0 Task Ticks(987654321) sched_switch |  z
        "bash" 9 cpu 0 Task Seconds(Time(1000000000))  | schedule <-do_exit
        -
        "<...>" 23071 cpu 2 Task Seconds(Time(214168479892000)) sched_wakeup |  x
        "<idle>" 0 cpu 0 Task Seconds(Time(6098464000)) sched_switch |          x
        -
        -
        "#);
    }

    #[test]
    fn lines_that_tell_of_lost_events() {
        let lost = |line: &str| LostLine::parse(line.as_bytes()).map(|lost| (lost.cpu.0, lost.count));
        assert_eq!(lost("CPU:3 [LOST 123 EVENTS]"), Some((3, Some(123))));
        assert_eq!(lost("CPU:3 [LOST EVENTS]"), Some((3, None)));
        assert_eq!(lost("CPU:0 [EVENTS DROPPED]"), Some((0, None)));
        assert_eq!(lost("CPU:1 [12 EVENTS DROPPED]"), Some((1, Some(12))));
        assert_eq!(lost("##### CPU 2 buffer started ####"), Some((2, None)));
        assert_eq!(lost("CPU:1 [12 APPLES]"), None);
    }
}
