//! Lines in the latency format: `trace-cmd report -l`, tracefs with the option `latency-format`, and the dump of a
//! crashing kernel (`ftrace_dump_on_oops`).

use unstarve_model::{Comm, Context, CpuId, Tid, Time};

use super::line;
use crate::text::number::{Stamp, leading, stamp, tid};

/// The part before an event's name: `COMM-PID CPUFLAGS TIME:`. COMM has at most 8 characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head<'a> {
    pub comm: Comm,
    pub tid: Tid,
    pub cpu: CpuId,
    pub context: Context,
    pub stamp: Stamp,
    /// The text after the colon of the time.
    pub rest: &'a [u8],
}

/// The format cuts names to this length, so a name this long may be incomplete.
const MAX_NAME_BYTES: usize = 8;

impl<'a> Head<'a> {
    /// Parses a line. The comm may contain any character: the first dash after which the rest parses is the one before
    /// the task id.
    pub fn parse(line: &'a [u8]) -> Option<Head<'a>> {
        memchr::memchr_iter(b'-', line).find_map(|at| Head::with_dash_at(line, at))
    }

    fn with_dash_at(line: &'a [u8], at: usize) -> Option<Head<'a>> {
        let (_, after) = leading(&line[at + 1..])?;
        let rest = after.trim_ascii_start();
        if rest.len() == after.len() {
            return None;
        }
        let (cpu, rest) = leading(rest)?;
        let cpu = u32::try_from(cpu).ok().filter(|&cpu| cpu < CpuId::LIMIT).map(CpuId)?;
        let end = rest.iter().position(u8::is_ascii_whitespace)?;
        let context = flags(&rest[..end])?;
        let (stamp, rest) = time(rest[end..].trim_ascii_start())?;
        let comm = line[..at].trim_ascii();
        (comm.len() <= 16).then_some(())?;
        Some(Head { comm: name(comm), tid: tid(&line[at + 1..])?, cpu, context, stamp, rest: rest.trim_ascii_start() })
    }
}

/// Discards a name that may have been cut. An event of the task, or a switch to it, has the full name.
fn name(comm: &[u8]) -> Comm {
    Comm::new(if comm.len() < MAX_NAME_BYTES { comm } else { b"" })
}

/// `d..2.`, `dNh4.`; with `-R` a number after a dash: `-0x1`.
fn flags(text: &[u8]) -> Option<Context> {
    if let Some(number) = text.strip_prefix(b"-0x") {
        return number.iter().all(u8::is_ascii_hexdigit).then_some(Context::Unknown);
    }
    let known = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'#' | b'*');
    let plausible = (4..=8).contains(&text.len()) && text.iter().all(known) && !text[0].is_ascii_digit();
    plausible.then(|| line::context(text))
}

/// `6.098464:`, or as the kernel prints it, `1234us+:` and `1234us : `, counted from the first entry of the buffer. The
/// sign shows how long it took until the next event.
fn time(text: &[u8]) -> Option<(Stamp, &[u8])> {
    let (micros, after) = leading(text)?;
    if let Some(rest) = after.strip_prefix(b"us") {
        let colon = rest.iter().take(3).position(|&byte| byte == b':')?;
        return Some((Stamp::Seconds(Time(micros.checked_mul(1000)?)), &rest[colon + 1..]));
    }
    let (stamp, rest) = stamp(text)?;
    Some((stamp, rest.strip_prefix(b":")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        let Some(head) = Head::parse(line.as_bytes()) else { return "-".into() };
        let rest = String::from_utf8_lossy(head.rest);
        format!("{:?} {} cpu {} {:?} {:?} {rest}", head.comm.to_string(), head.tid, head.cpu, head.context, head.stamp)
    }

    #[test]
    fn the_latency_formats_of_trace_cmd_and_of_the_kernel() {
        let table = [
            "  <idle>-0       0d..2.     6.098464: sched_switch: x",
            "      wl-120     1-0x1     6.099163: sched_wakeup_new: x",
            "kworker/-45     12dNh4.     6.099163012: sched_waking: x",
            "    bash-1994    1d.s2 11us+: sched_waking: x",
            "  <idle>-0       3d..2. 1234567us : sched_switch: x",
            " my-task-77      3d..2. 1234567us!: sched_switch: x",
            "  <idle>-0       3d..2. 1234567: sched_switch: x",
            "a-b 3 4 5: x",
            "usb 1-1 new device 5.0: x",
        ];
        insta::assert_snapshot!(table.map(shown).join("\n"), @r#"
        "<idle>" 0 cpu 0 Task Seconds(Time(6098464000)) sched_switch: x
        "wl" 120 cpu 1 Unknown Seconds(Time(6099163000)) sched_wakeup_new: x
        "<...>" 45 cpu 12 Hardirq Seconds(Time(6099163012)) sched_waking: x
        "bash" 1994 cpu 1 Softirq Seconds(Time(11000)) sched_waking: x
        "<idle>" 0 cpu 3 Task Seconds(Time(1234567000)) sched_switch: x
        "my-task" 77 cpu 3 Task Seconds(Time(1234567000)) sched_switch: x
        "<idle>" 0 cpu 3 Task Ticks(1234567) sched_switch: x
        -
        -
        "#);
    }
}
