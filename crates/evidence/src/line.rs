//! Strips what loggers, containers and mailers put before a message: `Nov 22 18:39:41 host kernel: [   12.345678][  T123] `.

use std::borrow::Cow;

use regex::Regex;
use unstarve_model::Nanos;

use crate::carrier;

/// A line without its columns.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Message {
    /// The message.
    pub text: String,
    /// Since the boot, as the kernel or netconsole prints it.
    pub uptime: Option<Nanos>,
    /// By the logger's or dmesg's wall clock, in seconds from a beginning of its own.
    pub wall: Option<Nanos>,
    /// The program, where a logger names another one than the kernel.
    pub program: Option<String>,
    /// The host, as the logger prints it.
    pub host: Option<String>,
    /// The boot, where a logger has a name for it.
    pub boot: Option<String>,
    /// The kernel's name for who printed it: `T123`, a thread, or `C3`, an interrupt of a CPU.
    pub caller: Option<String>,
    /// Whether the line has a logger's columns. If not, it may go on the line before it.
    pub has_columns: bool,
    /// It begins with blanks, as journalctl prints further lines of one message.
    pub is_indented: bool,
}

/// Who wrote the last line with columns: the indented lines below it are of the same message.
#[derive(Default)]
pub struct Speaker {
    program: Option<String>,
    host: Option<String>,
    /// Whether that line is indented itself, as all of a page may be.
    is_indented: bool,
}

impl Speaker {
    /// Gives a line to the program whose message it goes on: one without columns, or one that is indented below one that is not. A
    /// program may print whatever looks like columns.
    pub fn attribute(&mut self, message: &mut Message) {
        let goes_on = message.is_indented && (!message.has_columns || !self.is_indented);
        if goes_on && self.program.is_some() {
            (message.program, message.host) = (self.program.clone(), self.host.clone());
        } else if message.has_columns {
            let (program, host) = (message.program.clone(), message.host.clone());
            *self = Speaker { program, host, is_indented: message.is_indented };
        } else if !message.is_indented && !message.text.trim().is_empty() {
            *self = Speaker::default();
        }
    }
}

// `> `, `>> `, `| ` of mails and chats.
pattern!(QUOTE = r"^(?:[>|] *)*[>|] ?");
// `>R         poller   900 …` of the scheduler's dump: the thread that runs.
pattern!(RUNNING = r"^>[A-Z] +\S");
// `{"log":"…\n","stream":"stdout","time":"…"}` of docker.
pattern!(DOCKER = r#"^\{"log":"((?:[^"\\]|\\.)*)""#);
// `2026-09-17T10:11:12.123456789Z stderr F ` of the Kubernetes container runtimes.
pattern!(CONTAINER = r"^\d{4}-\d\d-\d\dT\S+ (?:stdout|stderr) [FP] ");
// `6,16628,40311381019,-,caller=C0;` of netconsole and /dev/kmsg: level, sequence, microseconds since the boot.
pattern!(KMSG = r"^(?:[\w.-]+ )?\d{1,3},\d+,(\d+),[-c+a-zA-Z0-9]*(?:,(?:caller=(?<caller>[TC]\d+)|[a-z]+=[^;,]*))*;");
// `<4>` of serial consoles and of `dmesg -r`; `kern  :warn  : ` of `dmesg -x`.
pattern!(LEVEL = r"^(?:<\d{1,3}>|[a-z0-9]+ *:[a-z]+ *: ?)");
// `Nov 22 18:39:41`, `2026-05-28T12:21:57.303295+00:00`, `2025-01-17T22:24:05+0300`, `2026-05-28T12:21:57,303295+00:00`, journalctl's
// `Sun 2026-11-22 18:39:41 CET`.
pattern!(
    DATE = r"^(?:[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? (?:[A-Z]{3,5}|[+-]\d\d(?::?\d\d)?)|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?|[A-Z][a-z]{2} +\d{1,2}(?: \d{4})? \d\d:\d\d:\d\d(?:\.\d+)?),? +"
);
// `host kernel: `, `host user.warn kernel: `, `host kern.err kernel: `, `host bash[1234]: `.
pattern!(
    PROGRAM = r"^(?:(?:emerg|alert|crit|err|warning|warn|notice|info|debug) )?(?:([\w.-]+) )?(?:[a-z0-9]+\.[a-z]+ )?(kernel|[\w./@-]+\[\d+\]):[ ]?"
);
// `[   12.345678]`, `[12.3@C1]`, `[T12.3]`.
// `[   12.345678 <    0.000123 >]` of `journalctl -o short-delta`, whose first line has blanks instead.
pattern!(UPTIME = r"^\[\s*(\d+\.\d*)(?:@\d+|@[A-Z]\d+)?(?:\s+<\s*\d+\.\d+\s*\*?\s*>)?\s*\] ?");
// The kernel's stamp behind what others put before it: `01: ` of a console server, `root@host:~# `, `11 `, a time of a test system.
pattern!(EMBEDDED = r"^[^\[]{1,48}\[ *(\d{1,8}\.\d{6})\](?:\[ *\d+\])? ?");
// A message that begins within a line: several were joined to one on the way.
pattern!(STAMP = r"\[ *\d{1,8}\.\d{6}\]");
// `12.345678] `: a stamp of which the beginning was not copied.
pattern!(CUT_UPTIME = r"^[\d. ]{1,14}\](?:\[ *[TC]?\d+\])? ");
// `[Sun Nov 22 18:39:41 2026]` of `dmesg -T`, in the language of who called it; `[Nov22 18:39]` and `[  +0.001211]` of `dmesg -H`.
pattern!(HUMAN = r"^\[(?:[^\[\]]{3,28} \d\d:\d\d:\d\d \d{4}|[A-Z][a-z]{2} ?\d+ \d\d:\d\d|\s*\+\d+[.,]\d+)\] ?");
// `kernel:` behind columns that no row above has: `15:52:20,316 ERR kernel:INFO: `, `2024-… host kernel INFO: `. Behind a time one
// word is a host or a level; behind more, or a tag, it is somebody's text.
pattern!(
    KERNEL = r"^(?:[>|\s]*(?<time>(?:(?:\d[\d:.,/TZ+-]*|[A-Z][a-z]{2}) +)*)(?<word>[\w.-]+ +)?kernel:?|\d{3,8}) ?(?<text>(?:(?:NMI )?watchdog: )?(?:BUG|INFO|rcu|sched|workqueue|NOHZ|perf|hrtimer|sched_ext): .*|(?:NMI )?watchdog: .*|INFO: task)$"
);
// The parts of a date.
pattern!(CLOCK = r"(\d\d):(\d\d)(?::(\d\d))?");
pattern!(DAY = r"\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) *(\d{1,2})\b");
pattern!(ISO = r"(\d{4})-(\d\d)-(\d\d)");
pattern!(YEAR = r"\b((?:19|20)\d\d)\b");
// `[  T123]`, `[   C0]` of CONFIG_PRINTK_CALLER; `[1:  swapper/1:    0]`, `c1    0 (swapper/1)`, `(1)[0:swapper/1]` of phones' kernels.
pattern!(
    CALLER = r"^ *(?:\[ *(?<printk>[TC]\d+)\]|(?<phone>\[ *\d+: *[^\[\]: ]{1,24}: *\d+\]|c\d+ +\d+ \([^()]{1,24}\)|-?\(\d+\)\[\d+:[^\[\]]{1,24}\])) ?"
);
// `node-4 kernel: ` and `node-4 app[77]: ` behind a stamp: `journalctl -o short-monotonic`.
pattern!(AFTER_STAMP = r"^(?<host>[\w.-]+) (?<program>kernel|[\w./@-]+\[\d+\]): ?");
// `host app: [  100.000000] `, `host app: Nov 22 ` of a program that a logger names without its number.
pattern!(TAG = r"^(?<host>[\w.-]+) (?<program>[\w./@-]+): ?(?:\[|<\d|[A-Z][a-z]{2} +\d)");

impl Message {
    /// Whether its columns are those of a kernel's message.
    pub fn is_of_kernel(&self) -> bool {
        self.has_columns && self.program.is_none() && (self.uptime.is_some() || self.host.is_some())
    }

    /// The message of a line.
    pub fn of(line: &str) -> Message {
        let line = without_entities(line.trim_end());
        let mut message = Message::default();
        let bare = line.trim_start_matches(['\u{feff}', ' ']);
        let unquoted = if RUNNING.is_match(bare) { bare } else { cut(bare, &QUOTE) };
        // A stack's indent is no column; what a mailer puts before a log's columns is.
        let mut rest: &str = match (unquoted.len() < bare.len(), unquoted.trim_start()) {
            (_, columns) if columns.starts_with(['[', '<']) => columns,
            (true, _) => unquoted,
            // What a form or a page indented.
            (false, indented) if bare.len() < line.len() && DATE.is_match(indented) => indented,
            (false, _) => &line,
        };
        let mut is_container_s = false;
        let unescaped;
        if let Some(found) = DOCKER.captures(rest) {
            unescaped = without_escapes(&found[1]);
            rest = unescaped.trim_end();
            message.has_columns = true;
            is_container_s = true;
        }
        message.is_indented = line.starts_with([' ', '\t']) || rest.starts_with([' ', '\t']);
        let before = rest.len();
        rest = cut(rest, &CONTAINER);
        is_container_s |= rest.len() < before;
        let carried;
        if let Some(found) = carrier::message(rest) {
            if found.program.is_some() {
                return found;
            }
            // Indented below a program's line, it is that program's.
            let is_indented = message.is_indented;
            message = Message { is_indented, has_columns: found.has_columns && !is_indented, ..found };
            carried = std::mem::take(&mut message.text);
            rest = &carried;
        }
        rest = cut(rest, &LEVEL);
        if !is_container_s || DATE.is_match(rest) {
            rest = after_syslog(rest, &mut message);
        }
        if let Some(found) = KMSG.captures(rest) {
            message.uptime = found[1].parse::<u64>().ok().map(|us| Nanos(us.saturating_mul(1_000)));
            message.caller = found.name("caller").map(|caller| caller.as_str().to_owned());
            rest = &rest[found[0].len()..];
        }
        rest = cut(rest, &LEVEL);
        if let Some(found) = HUMAN.find(rest) {
            message.wall = message.wall.or_else(|| wall(found.as_str()));
            rest = &rest[found.end()..];
        }
        if let Some(found) = UPTIME.captures(rest) {
            message.uptime = uptime(&found[1]);
            rest = &rest[found[0].len()..];
        }
        if message.uptime.is_some()
            && message.host.is_none()
            && message.program.is_none()
            && let Some(found) = AFTER_STAMP.captures(rest)
        {
            message.host = Some(found["host"].to_owned());
            message.program = Some(found["program"].to_owned()).filter(|program| program != "kernel");
            rest = &rest[found[0].len()..];
        }
        if message.uptime.is_none()
            && message.program.is_none()
            && let Some(found) = EMBEDDED.captures(rest)
        {
            message.uptime = uptime(&found[1]);
            rest = &rest[found[0].len()..];
        }
        rest = cut(rest, &CUT_UPTIME);
        if let Some(found) = CALLER.captures(rest) {
            message.caller = found.name("printk").or(found.name("phone")).map(|caller| caller.as_str().to_owned());
            rest = &rest[found[0].len()..];
        }
        if message.uptime.is_none()
            && message.program.is_none()
            && !is_container_s
            && let Some(found) = KERNEL.captures(rest)
            && let Some(text) = found.name("text")
            && (found.name("word").is_none() || message.wall.is_some() || !found["time"].is_empty())
        {
            rest = &rest[text.start()..];
        }
        if message.uptime.is_some() {
            // `[   12.345678] kernel: ` of netconsole's servers
            rest = rest.strip_prefix("kernel: ").unwrap_or(rest);
        }
        message.has_columns |= rest.len() < before;
        message.text = rest.to_owned();
        message
    }
}

/// The rest of a line after a logger's date, host and program.
fn after_syslog<'a>(line: &'a str, message: &mut Message) -> &'a str {
    let Some(date) = DATE.find(line) else {
        // `kernel:[405108.698255] ` of messages to all terminals.
        return line
            .trim_start()
            .strip_prefix("kernel:")
            .map_or(line, |rest| rest.trim_start_matches(' ').trim_start_matches("... "));
    };
    message.wall = wall(date.as_str());
    let rest = &line[date.end()..];
    match PROGRAM.captures(rest) {
        Some(found) => {
            message.host = found.get(1).map(|host| host.as_str().to_owned());
            message.program = Some(found[2].to_owned()).filter(|program| program != "kernel");
            &rest[found[0].len()..]
        }
        None => {
            if let Some(found) = TAG.captures(rest) {
                message.host = Some(found["host"].to_owned());
                message.program = Some(found["program"].to_owned());
            }
            // The name of the host was taken out.
            rest.strip_prefix(": ").unwrap_or(rest)
        }
    }
}

/// Seconds since the boot.
fn uptime(seconds: &str) -> Option<Nanos> {
    seconds.parse::<f64>().ok().map(|seconds| Nanos((seconds * 1e9) as u64))
}

/// The messages of a line: several, where a mail program or a page joined lines to one. What follows a program's is the program's.
pub fn messages(line: &str) -> impl Iterator<Item = Message> {
    let mut program = None;
    parts(line).map(move |part| {
        let mut message = Message::of(part);
        message.program = message.program.or_else(|| program.clone());
        program.clone_from(&message.program);
        message
    })
}

fn parts(line: &str) -> impl Iterator<Item = &str> {
    let mut begins: Vec<usize> = match line.matches("] ").nth(1) {
        // An entry in JSON has all of its message in quotes.
        Some(_) if !line.trim_start().starts_with('{') => {
            STAMP.find_iter(line).skip(1).map(|stamp| stamp.start()).collect()
        }
        _ => Vec::new(),
    };
    begins.insert(0, 0);
    let ends: Vec<usize> = begins.iter().skip(1).copied().chain([line.len()]).collect();
    begins.into_iter().zip(ends).filter_map(|(begin, end)| line.get(begin..end))
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Days since the beginning of 1970. Without its year a log is of one that is no leap year: the last days of February are then one.
fn day_number(year: u64, month: u64, day: u64) -> u64 {
    const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let (year, month) = (year.clamp(1970, 9_999), month.clamp(1, 12));
    let leap_days = |year: u64| year / 4 - year / 100 + year / 400;
    let is_leap = leap_days(year) > leap_days(year - 1);
    let whole_years = (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969);
    whole_years + BEFORE[month as usize - 1] + day.min(31) + u64::from(is_leap && month > 2)
}

/// A date as time since a beginning: two dates of one logger can be compared. The year is that of the log, or any.
pub fn wall(date: &str) -> Option<Nanos> {
    let clock = CLOCK.captures(date)?;
    let number = |index: usize| clock.get(index)?.as_str().parse::<u64>().ok();
    let seconds = number(1)? * 3600 + number(2)? * 60 + number(3).unwrap_or_default();
    let day = match (DAY.captures(date), ISO.captures(date)) {
        (_, Some(iso)) => {
            let of = |index: usize| iso[index].parse::<u64>().ok();
            day_number(of(1)?, of(2)?, of(3)?)
        }
        (Some(day), None) => {
            let month = MONTHS.iter().position(|month| *month == &day[1])? as u64 + 1;
            let year = YEAR.captures(date).and_then(|year| year[1].parse().ok()).unwrap_or(1970u64);
            day_number(year, month, day[2].parse().ok()?)
        }
        (None, None) => return None,
    };
    Some(Nanos((day * 86_400 + seconds).saturating_mul(1_000_000_000)))
}

fn cut<'a>(text: &'a str, pattern: &Regex) -> &'a str {
    pattern.find(text).map_or(text, |found| &text[found.end()..])
}

/// Replaces HTML's entities and removes its tags for lines, as in a page that was saved; and escaped tabs.
fn without_entities(line: &str) -> Cow<'_, str> {
    const REPLACED: [(&str, &str); 11] = [
        // journald and syslogd escape control characters.
        ("\\x09", "\t"),
        ("\u{a0}", " "),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&nbsp;", " "),
        ("<br>", ""),
        ("<br/>", ""),
        ("<br />", ""),
        ("&amp;", "&"),
    ];
    if !line.contains(['&', '<', '\u{a0}', '\\']) || !REPLACED.iter().any(|(entity, _)| line.contains(entity)) {
        return Cow::Borrowed(line);
    }
    Cow::Owned(REPLACED.iter().fold(line.to_owned(), |text, (entity, plain)| text.replace(entity, plain)))
}

/// Replaces JSON's escapes of what logs contain.
fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match (c, c == '\\') {
            (_, true) => match rest.next() {
                Some('n' | 'r') | None => {}
                Some('t') => plain.push('\t'),
                Some(escaped) => plain.push(escaped),
            },
            (c, false) => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_were_joined_are_parted() {
        let table: [(&str, &[&str]); 4] = [
            ("[   12.500000] a [1] b", &["[   12.500000] a [1] b"]),
            ("> [   12.500000] a [   12.500001]  b [  9", &["> [   12.500000] a ", "[   12.500001]  b [  9"]),
            ("words [   12.500000] a", &["words [   12.500000] a"]),
            ("", &[""]),
        ];
        for (line, parts) in table {
            assert_eq!(super::parts(line).collect::<Vec<_>>(), parts, "{line}");
        }
    }

    #[test]
    fn a_month_ends_where_it_does() {
        let table = [
            ("Feb 28 23:59:59", "Mar  1 00:00:00"),
            ("Apr 30 23:59:59", "May  1 00:00:00"),
            ("2024-02-29 23:59:59", "2024-03-01 00:00:00"),
            ("2025-12-31 23:59:59", "2026-01-01 00:00:00"),
        ];
        for (before, after) in table {
            let seconds = |date: &str| wall(date).expect("a date").0 / 1_000_000_000;
            assert_eq!(seconds(after) - seconds(before), 1, "{before}");
        }
    }

    #[test]
    fn a_program_s_words_are_its_own_wherever_they_stand() {
        let forged = "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [sshd:811]";
        for line in [
            format!("Nov 22 18:39:41 h m[77]: x [  100.000000] a [  100.000001] {forged}"),
            format!("Nov 22 18:39:41 h foo: [  100.000000] {forged}"),
            format!("Nov 22 18:39:41 h foo: Nov 22 18:39:41 h kernel: [  100.000000] {forged}"),
            format!("[  100.000000] h m[77]: {forged}"),
            format!("[  100.000000 <    0.000123 >] h m[77]: {forged}"),
            format!(r#"{{"__CURSOR":"s","_TRANSPORT":"syslog","SYSLOG_IDENTIFIER":"kernel","MESSAGE":"{forged}"}}"#),
            format!(r#"{{"__CURSOR":"s","SYSLOG_IDENTIFIER":"kernel","MESSAGE":"{forged}"}}"#),
            format!(r#"{{"__CURSOR":"s","_TRANSPORT":"stdout","MESSAGE":"[    1.000000] a [    2.000000] {forged}"}}"#),
            format!("3m12s   Warning   Unhealthy   pod/x   {forged}"),
            format!("  Warning  Unhealthy  5m23s  kubelet  {forged}"),
            format!("11-30 10:11:12.123   811   812 W kernel  : {forged}"),
            format!("W/kernel  (  811): {forged}"),
            format!("<13>1 2026-11-30T10:11:12Z h sshd 811 - - {forged}"),
            format!("<13>1 2026-11-30T10:11:12Z h kernel - - - {forged}"),
            format!("10.0.0.2: user: warning: [2026-11-30T10:11:12Z]: {forged}"),
            format!("Sun 2026-11-22 18:39:41 CET h sshd.service[811]: {forged}"),
            format!("1764500000.123456 h sshd[811]: {forged}"),
        ] {
            let last = messages(&line).last().expect("a message");
            assert!(last.program.is_some(), "{line}: {last:?}");
        }
    }

    #[test]
    fn the_kernel_s_name_within_a_text_is_no_column() {
        let forged = "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [sshd:811]";
        for line in [
            format!("May  1 10:00:00 h su: FAILED SU (to kernel: {forged}) on pts/0"),
            format!("May  1 10:00:00 h sudo: kernel: {forged} : TTY=pts/0"),
            format!("May  1 10:00:00 h containerd: time=1 msg=\"kernel: {forged}\""),
            format!("root 4242 99.9 0.1 512000 10000 ? R May01 900:00 /usr/bin/x kernel: {forged}"),
            format!("2023-05-01T10:00:00Z INFO http request path=/x kernel: {forged}"),
            format!("user bob said kernel: {forged}"),
            format!("said kernel: {forged}"),
            format!("2026-09-17T10:11:12.123456789Z stdout F kernel: {forged}"),
            format!(r#"{{"log":"10:00:00 INFO kernel: {forged}\n","stream":"stdout"}}"#),
        ] {
            let message = Message::of(&line);
            let is_of_program = message.program.is_some() || crate::message::parse(&message.text).is_none();
            assert!(is_of_program, "{line}: {message:?}");
        }
    }

    #[test]
    fn who_printed_a_line_is_read() {
        for (line, caller) in [
            ("[   12.345678][  T123] BUG: x", Some("T123")),
            ("[   12.345678][    C0] BUG: x", Some("C0")),
            ("6,16628,2000000,-,caller=C3; BUG: x", Some("C3")),
            ("[   12.5] c1    0 (swapper/1) BUG: x", Some("c1    0 (swapper/1)")),
            ("[   12.5] BUG: x", None),
        ] {
            assert_eq!(Message::of(line).caller.as_deref(), caller, "{line}");
        }
    }

    #[test]
    fn columns_of_all_loggers() {
        let table = [
            ("[   12.345678] BUG: x", "BUG: x", Some(12_345_678_000), None),
            ("<4>[   12.345678][  T123] BUG: x", "BUG: x", Some(12_345_678_000), None),
            ("[  244.780025][    C0] BUG: x", "BUG: x", Some(244_780_025_000), None),
            ("Nov 22 18:39:41 host-7 kernel: [   12.5] BUG: x", "BUG: x", Some(12_500_000_000), Some("host-7")),
            ("Nov  2 18:39:41 host-7 kernel: BUG: x", "BUG: x", None, Some("host-7")),
            (
                "2019-04-24T11:34:00.514575+02:00 jo kernel: [  752.5] BUG: x",
                "BUG: x",
                Some(752_500_000_000),
                Some("jo"),
            ),
            ("2025-01-17T22:24:05+0300 dx bash[9148]:   CPU 0   : nr", "  CPU 0   : nr", None, Some("dx")),
            ("[Wed Feb 24 00:50:27 2021] BUG: x", "BUG: x", None, None),
            ("[Jun26 19:24] BUG: x", "BUG: x", None, None),
            ("[  +0.001211] BUG: x", "BUG: x", None, None),
            ("2026-05-28T12:21:57,303295+00:00 BUG: x", "BUG: x", None, None),
            ("May 25 07:29:42 x 0,16627,40311380557,-,caller=C0;BUG: x", "BUG: x", Some(40_311_380_557_000), None),
            ("6,16628,2000000,-;  pwq 6: x", "  pwq 6: x", Some(2_000_000_000), None),
            (" kernel:[405108.5] watchdog: x", "watchdog: x", Some(405_108_500_000_000), None),
            ("> > [   12.5] BUG: x", "BUG: x", Some(12_500_000_000), None),
            (
                "Sep 13 14:34:10 ccgx user.err kernel: [43500.5] INFO: x",
                "INFO: x",
                Some(43_500_500_000_000),
                Some("ccgx"),
            ),
            ("kern  :warn  : [   12.5] BUG: x", "BUG: x", Some(12_500_000_000), None),
            (r#"{"log":"[   12.5] BUG: \"x\"\n","stream":"stdout"}"#, "BUG: \"x\"", Some(12_500_000_000), None),
            ("2026-09-17T10:11:12.123456789Z stderr F [   12.5] BUG: x", "BUG: x", Some(12_500_000_000), None),
            ("[   12.5] active=2&gt;1 &lt;TASK&gt;<br>", "active=2>1 <TASK>", Some(12_500_000_000), None),
            ("01: [   12.500000] BUG: x", "BUG: x", Some(12_500_000_000), None),
            ("root@host:~# [   12.500000] BUG: x", "BUG: x", Some(12_500_000_000), None),
            ("> 00:04:01.523104  [   12.500000] BUG: x", "BUG: x", Some(12_500_000_000), None),
            (" 11 [   12.500000][ 2] [    C2] BUG: x", "BUG: x", Some(12_500_000_000), None),
            ("[   12.500000] kernel: BUG: x", "BUG: x", Some(12_500_000_000), None),
            ("Jul 27 10:15:29 : BUG: x", "BUG: x", None, None),
            ("[Di Nov 15 22:52:28 2022] BUG: x", "BUG: x", None, None),
            ("[  +0,000089] BUG: x", "BUG: x", None, None),
            ("[   12.500000 <    0.000123 >] h kernel: BUG: x", "BUG: x", Some(12_500_000_000), Some("h")),
            ("[   12.500000 <    1.000123*>] h kernel: BUG: x", "BUG: x", Some(12_500_000_000), Some("h")),
            ("[   12.500000                 ] h kernel: BUG: x", "BUG: x", Some(12_500_000_000), Some("h")),
            ("3m12s   Warning   TaskHung   node/n-1   INFO: task x", "INFO: task x", None, Some("n-1")),
            ("Warning  TaskHung  node/n-1  INFO: task x", "INFO: task x", None, Some("n-1")),
            ("default  3m (x2 over 9m)  Warning  KernelOops  node/n-1  kernel: BUG: x", "BUG: x", None, Some("n-1")),
            ("  Warning  TaskHung  5m23s (x2 over 9m)  kernel-monitor  INFO: x", "INFO: x", None, None),
            (
                "  Warning  TaskHung  5m23s  kernel-monitor, n-1  [   12.500000] INFO: x",
                "INFO: x",
                Some(12_500_000_000),
                None,
            ),
            (
                "I1130 10:11:12.1 1 log_monitor.go:160] New status generated: &{Source:kernel-monitor Events:[{Severity:warn Timestamp:2026-11-30 Reason:TaskHung Message:INFO: task x}] Conditions:[]}",
                "INFO: task x",
                None,
                None,
            ),
            ("11-30 10:11:12.123     0     0 W BUG     : soft lockup", "BUG: soft lockup", None, None),
            ("11-30 10:11:12.123  root     0     0 E         : BUG: x", "BUG: x", None, None),
            ("W/INFO    (    0): task x", "INFO: task x", None, None),
            (
                r#"{"__CURSOR":"s","_TRANSPORT":"kernel","_HOSTNAME":"h","_SOURCE_MONOTONIC_TIMESTAMP":"12500000","MESSAGE":"BUG: x"}"#,
                "BUG: x",
                Some(12_500_000_000),
                Some("h"),
            ),
            (
                r#"{"MESSAGE":[66,85,71,58,32,120],"__MONOTONIC_TIMESTAMP":"12500000","_TRANSPORT":"kernel"}"#,
                "BUG: x",
                Some(12_500_000_000),
                None,
            ),
            (
                "<4>1 2026-11-30T10:11:12.123Z h kernel - - - [   12.5] BUG: x",
                "BUG: x",
                Some(12_500_000_000),
                Some("h"),
            ),
            (r#"<4>1 2026-11-30T10:11:12Z h kernel - - [m@1 a="x\"]"] BUG: x"#, "BUG: x", None, Some("h")),
            ("10.0.0.2: kern: warning: [2026-11-30T10:11:12.123456789Z]: BUG: x", "BUG: x", None, Some("10.0.0.2")),
            ("kern:    info: [2026-11-30T10:11:12Z]: BUG: x", "BUG: x", None, None),
            ("Sun 2026-11-22 18:39:41 CET h kernel: BUG: x", "BUG: x", None, Some("h")),
            ("Sun 2026-11-22 18:39:41 -03 h kernel: BUG: x", "BUG: x", None, Some("h")),
            ("Sun 2026-11-22 18:39:41 +0545 h kernel: BUG: x", "BUG: x", None, Some("h")),
            ("2026-11-22 18:39:41 NMI backtrace for cpu 3", "NMI backtrace for cpu 3", None, None),
            ("2026-11-22 18:39:41 NAS kernel: BUG: x", "BUG: x", None, Some("NAS")),
            ("1764500000.123456 h kernel: BUG: x", "BUG: x", None, Some("h")),
            ("[ 8123.500000] node-4 kernel: BUG: x", "BUG: x", Some(8_123_500_000_000), Some("node-4")),
            ("<0>[   12.5]  [1:      swapper/1:    0] BUG: x", "BUG: x", Some(12_500_000_000), None),
            ("[   12.5] c1    0 (swapper/1) BUG: x", "BUG: x", Some(12_500_000_000), None),
            ("[   12.5] (1)[0:swapper/1]BUG: x", "BUG: x", Some(12_500_000_000), None),
            ("684.588608][   T28] INFO: x", "INFO: x", None, None),
            ("03384 INFO: x", "INFO: x", None, None),
            ("kernel: ... INFO: x", "INFO: x", None, None),
            ("[  240.] BUG: x", "BUG: x", Some(240_000_000_000), None),
            ("15:52:20,316 ERR kernel:INFO: x", "INFO: x", None, None),
            ("2024-07-03T18:45:57.254477+02:00 host kernel INFO: x", "INFO: x", None, None),
            ("    >> kernel:watchdog: BUG: x", "BUG: x", None, None),
            ("    Sep 07 11:55:32 h kernel: INFO: x", "INFO: x", None, Some("h")),
            ("Sep 24 12:08:48.974658 err C-1 kernel: [   12.5] BUG: x", "BUG: x", Some(12_500_000_000), Some("C-1")),
        ];
        for (line, text, uptime, host) in table {
            let message = Message::of(line);
            let found = (message.text.as_str(), message.uptime.map(|time| time.0), message.host.as_deref());
            assert_eq!(found, (text, uptime, host), "{line}");
            assert!(message.has_columns, "{line}");
        }
        for line in ["plain words", "[1] a footnote", "    in-flight: 14164:refill_work"] {
            let is_indented = line.starts_with(' ');
            assert_eq!(Message::of(line), Message { text: line.to_owned(), is_indented, ..Message::default() });
        }
    }
}
