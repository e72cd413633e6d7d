//! Parses lines of `perf script`: the part before an event, stack frames, and both as mail programs change them.

use memchr::memchr_iter;
use unstarve_model::{Comm, CpuId, Tid};

use crate::text::number::{Stamp, cpu, leading, stamp, tid};

/// The part before an event: `COMM TID [CPU] TIME:`, then an optional period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head<'a> {
    pub comm: Comm,
    /// `None` for a task that had already exited, for which perf prints `-1`.
    pub tid: Option<Tid>,
    pub cpu: CpuId,
    pub stamp: Stamp,
    /// `sched:sched_switch: prev_comm=…`; may be cut where the line was wrapped.
    pub rest: &'a [u8],
}

impl<'a> Head<'a> {
    /// Parses an event's line. The comm may contain any character: the first bracket after which the rest parses is the
    /// CPU's.
    pub fn parse(line: &'a [u8]) -> Option<Head<'a>> {
        memchr_iter(b'[', line).find_map(|at| {
            let task = task_on_cpu(line, at);
            let (comm, tid, cpu, rest) = task.or_else(|| no_task_on_cpu(line, at))?;
            let (stamp, rest) = stamp(without_mode(rest))?;
            let rest = rest.strip_prefix(b":").filter(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))?;
            let head = Head { comm, tid, cpu, stamp, rest: without_period(rest.trim_ascii()) };
            (task.is_some() || head.names_its_system()).then_some(head)
        })
    }

    /// Whether the event is written as only perf does: `sched:sched_waking:`.
    fn names_its_system(&self) -> bool {
        [&b"sched:"[..], b"irq:", b"workqueue:", b"block:", b"task:"].iter().any(|system| self.rest.starts_with(system))
    }

    /// Whether `line` ends before the time: `fio 28143 [011]`.
    pub fn is_cut(line: &[u8]) -> bool {
        memchr_iter(b'[', line).any(|at| task_on_cpu(line, at).is_some_and(|(.., rest)| rest.is_empty()))
    }

    /// The text after `PERF_RECORD_` if the line is one of perf's own records and not an event: `LOST lost 208`.
    pub fn record(&self) -> Option<&'a [u8]> {
        self.rest.strip_prefix(b"PERF_RECORD_")
    }

    /// The event's name without its system, and the rest; `None` while the name is incomplete.
    pub fn event(&self) -> Option<(&'a [u8], &'a [u8])> {
        let length = self.rest.iter().position(u8::is_ascii_whitespace).unwrap_or(self.rest.len());
        let name = self.rest[..length].strip_suffix(b":")?;
        // `sched:sched_switch`, `sched_switch`, `sched:sched_switch:u`.
        let mut parts = name.split(|&byte| byte == b':').filter(|part| part.len() > 2);
        let (first, second) = (parts.next()?, parts.next());
        Some((second.unwrap_or(first), self.rest[length..].trim_ascii()))
    }
}

/// Whether `line` is an event printed without the CPU: `fio 28143 2038.648954: sched:sched_waking: …`.
pub fn lacks_cpu(line: &[u8]) -> bool {
    let words: Vec<&[u8]> = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).take(16).collect();
    words.windows(3).any(|three| {
        let id = three[0].iter().all(|byte| byte.is_ascii_digit() || *byte == b'/');
        let time = three[1].strip_suffix(b":").and_then(stamp);
        let whole = time.is_some_and(|(stamp, rest)| matches!(stamp, Stamp::Seconds(_)) && rest.is_empty());
        id && whole && three[2].starts_with(b"sched") && three[2].ends_with(b":")
    })
}

/// Whether `line` is an event printed by `perf script -L`: the CPU without brackets, names cut to 8 characters.
pub fn is_latency(line: &[u8]) -> bool {
    let words: Vec<&[u8]> = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).take(16).collect();
    let is_number = |word: &[u8]| word.iter().all(u8::is_ascii_digit);
    words.windows(4).any(|four| {
        let whole = four[2].strip_suffix(b":").and_then(stamp).is_some_and(|(_, rest)| rest.is_empty());
        let place = is_number(four[0]) && four[1].len() <= 4 && is_number(four[1]);
        place && whole && four[3].starts_with(b"sched:")
    })
}

/// Whether `line` is an event printed without the time: `fio 28143 [011] sched:sched_waking: …`.
pub fn lacks_time(line: &[u8]) -> bool {
    memchr_iter(b'[', line)
        .any(|at| task_on_cpu(line, at).or_else(|| no_task_on_cpu(line, at)).is_some_and(|(.., rest)| is_named(rest)))
}

/// Whether `line` is an event printed without CPU and time: `fio 28143 sched:sched_waking: …`.
pub fn lacks_cpu_and_time(line: &[u8]) -> bool {
    let Some(at) = memchr::memmem::find(line, b" sched:sched_") else { return false };
    let before = line[..at].trim_ascii_end();
    let id = before.rsplit(u8::is_ascii_whitespace).next().unwrap_or(before);
    let is_id = !id.is_empty() && id.iter().all(|byte| byte.is_ascii_digit() || *byte == b'/');
    is_id && before.len() <= MAX_TASK_BYTES && is_named(&line[at + 1..])
}

/// A name of 16 characters and two ids of 10, with spaces.
const MAX_TASK_BYTES: usize = 48;

/// Whether `rest` begins with a scheduler event: `sched:sched_waking: comm=…`.
fn is_named(rest: &[u8]) -> bool {
    let word = rest.split(u8::is_ascii_whitespace).next().unwrap_or(rest);
    word.starts_with(b"sched:sched_") && word.ends_with(b":")
}

fn task_on_cpu(line: &[u8], at: usize) -> Option<(Comm, Option<Tid>, CpuId, &[u8])> {
    let cpu = cpu(&line[at + 1..])?;
    let (_, after) = leading(&line[at + 1..])?;
    let rest = after.strip_prefix(b"]").filter(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))?;
    let before = line[..at].trim_ascii();
    let space = before.iter().rposition(u8::is_ascii_whitespace)?;
    // With `-F pid,tid` perf prints `PID/TID`.
    let ids = &before[space + 1..];
    let id = ids.split(|&byte| byte == b'/').next_back()?;
    if id.is_empty() || !ids.iter().all(|&byte| byte.is_ascii_digit() || matches!(byte, b'/' | b'-')) {
        return None;
    }
    let tid = if id == b"-1" { None } else { Some(tid(id)?) };
    let comm = before[..space].trim_ascii();
    (comm.len() <= 16).then_some((Comm::new(comm), tid, cpu, rest.trim_ascii()))
}

/// Parses a line printed without names or ids (`-F cpu,time,event,trace`), which does not say which task was current.
fn no_task_on_cpu(line: &[u8], at: usize) -> Option<(Comm, Option<Tid>, CpuId, &[u8])> {
    let cpu = cpu(&line[at + 1..])?;
    let (_, after) = leading(&line[at + 1..])?;
    let rest = after.strip_prefix(b"]").filter(|rest| rest.first().is_some_and(u8::is_ascii_whitespace))?;
    (line[..at].trim_ascii().len() <= 16).then_some((Comm::default(), None, cpu, rest.trim_ascii()))
}

/// Skips the letters that `-F +misc` puts between the CPU and the time: `K` for kernel mode, `U`, `GK`, `KX`.
fn without_mode(rest: &[u8]) -> &[u8] {
    let letters = rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let (mode, after) = rest.split_at(letters);
    let is_mode = (1..=4).contains(&letters) && mode[0].is_ascii_uppercase() && after.starts_with(b" ");
    if is_mode { after.trim_ascii_start() } else { rest }
}

fn without_period(rest: &[u8]) -> &[u8] {
    match leading(rest) {
        Some((_, after)) if after.first().is_some_and(u8::is_ascii_whitespace) => after.trim_ascii_start(),
        _ => rest,
    }
}

/// A stack frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    /// The function, without offset and module.
    pub symbol: &'a [u8],
    pub in_kernel: bool,
}

impl<'a> Frame<'a> {
    /// `ffffffff9f0d7ba3 try_to_wake_up+0x2b3 ([kernel.kallsyms])`; the address (`-F sym`) and the module are optional.
    pub fn parse(line: &'a [u8]) -> Option<Frame<'a>> {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let first = words.next()?;
        let address = first.iter().all(u8::is_ascii_hexdigit) && first.len() <= 16;
        let word = if address { words.next()? } else { first };
        let offset = memchr::memmem::find(word, b"+0x");
        // Prose may begin with what looks like an address: "a", "add".
        let plausible = match (address, offset) {
            (_, Some(_)) => true,
            (true, None) => word == b"[unknown]" || first.len() >= 8,
            (false, None) => false,
        };
        let in_kernel = if address { first.len() == 16 && first[0] == b'f' } else { !line.contains(&b'/') };
        plausible.then_some(Frame { symbol: &word[..offset.unwrap_or(word.len())], in_kernel })
    }
}

/// Whether a line replaces frames that a person removed: `...`, `[...]`, `[snip]`, `…`.
pub fn is_elision(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    let inner = line.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]")).unwrap_or(line);
    let inner = inner.strip_prefix(b"<").and_then(|rest| rest.strip_suffix(b">")).unwrap_or(inner);
    inner.eq_ignore_ascii_case(b"snip")
        || inner == "…".as_bytes()
        || inner.len() >= 2 && inner.iter().all(|&b| b == b'.')
}

/// The line without the `> > ` of quoted mail.
pub fn unquoted(mut line: &[u8]) -> &[u8] {
    while let Some(rest) = line.strip_prefix(b">") {
        line = rest.strip_prefix(b" ").unwrap_or(rest);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        let Some(head) = Head::parse(line.as_bytes()) else { return "-".into() };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let event = head.event().map_or("?".to_owned(), |(name, body)| format!("{} | {}", text(name), text(body)));
        format!("{:?} {:?} cpu {} {:?} {event}", head.comm.to_string(), head.tid.map(|tid| tid.0), head.cpu, head.stamp)
    }

    #[test]
    fn heads_in_all_their_shapes() {
        let table = [
            "fio 28143 [011] 2038.648954: sched:sched_waking: comm=kworker/11:68 pid=27489",
            "kworker/11:68-d 27489 [011] 2038.648984: sched:sched_switch: x",
            "     migration/0    18 [000]   857.593725:       sched:sched_waking: x",
            "     Web Content  7898/7900 [001]   857.593725123:          1 sched_switch: x",
            " :-1    -1 [001]   857.593725: sched_switch: x",
            "a 1 [000] b  12 [001]  1.000000: sched:sched_wakeup: x",
            "[011] 2038.648954: sched:sched_waking: x",
            "my prog [011] 2038.648954: sched:sched_waking: x",
            "28143 [011] 2038.648954: sched:sched_waking: x",
            "fio 28143 [011] 2038.648954: sched:sched_wa",
            "fio 28143 [011] 2038.648954:",
            "             fio-126   [000]    10.166060: sched_switch: x",
            "see [1] and [2] 10.1: y",
            "migration/0    18 [000] K     59891.508774: sched:sched_waking: x",
        ];
        insta::assert_snapshot!(table.map(shown).join("\n"), @r#"
        "fio" Some(28143) cpu 11 Seconds(Time(2038648954000)) sched_waking | comm=kworker/11:68 pid=27489
        "kworker/11:68-d" Some(27489) cpu 11 Seconds(Time(2038648984000)) sched_switch | x
        "migration/0" Some(18) cpu 0 Seconds(Time(857593725000)) sched_waking | x
        "Web Content" Some(7900) cpu 1 Seconds(Time(857593725123)) sched_switch | x
        ":-1" None cpu 1 Seconds(Time(857593725000)) sched_switch | x
        "a 1 [000] b" Some(12) cpu 1 Seconds(Time(1000000000)) sched_wakeup | x
        "<...>" None cpu 11 Seconds(Time(2038648954000)) sched_waking | x
        "<...>" None cpu 11 Seconds(Time(2038648954000)) sched_waking | x
        "<...>" None cpu 11 Seconds(Time(2038648954000)) sched_waking | x
        "fio" Some(28143) cpu 11 Seconds(Time(2038648954000)) ?
        "fio" Some(28143) cpu 11 Seconds(Time(2038648954000)) ?
        -
        -
        "migration/0" Some(18) cpu 0 Seconds(Time(59891508774000)) sched_waking | x
        "#);
        assert!(Head::is_cut(b"kworker/11:68-d 27489 [011]"));
        assert!(!Head::is_cut(b"as shown in 2 [17]."));
    }

    #[test]
    fn frames_and_what_is_not_one() {
        let frame = |line: &str| {
            let frame = Frame::parse(line.as_bytes())?;
            Some((String::from_utf8_lossy(frame.symbol).into_owned(), frame.in_kernel))
        };
        let some = |symbol: &str, in_kernel| Some((symbol.to_owned(), in_kernel));
        assert_eq!(frame("\tffffffff9f0d7ba3 try_to_wake_up+0x2b3 ([kernel.kallsyms])"), some("try_to_wake_up", true));
        assert_eq!(frame("\t3ee5d syscall+0x1d (/usr/lib64/libc.so.6)"), some("syscall", false));
        assert_eq!(frame("  2500000025 [unknown] ([unknown])"), some("[unknown]", false));
        assert_eq!(frame("  __schedule+0x282 ([kernel.kallsyms])"), some("__schedule", true));
        assert_eq!(frame("a bad idea"), None);
        assert_eq!(frame("([kernel.kallsyms])"), None);
        assert_eq!(frame(""), None);
    }

    #[test]
    fn mail_marks() {
        assert_eq!(unquoted(b"> > fio 1"), b"fio 1");
        assert_eq!(unquoted(b">>\tffff"), b"\tffff");
        assert!(is_elision(b"  [...]") && is_elision(b"...") && is_elision("…".as_bytes()) && is_elision(b"<snip>"));
        assert!(!is_elision(b".") && !is_elision(b"[011]"));
    }
}
