//! Finds the lines of a text that matter, in bounded memory: a gigabyte of log is searched for a few words, and only lines near
//! one of these are parsed.

use std::io::{self, Read};
use std::sync::{Arc, LazyLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use thiserror::Error;
use unstarve_readers::Lines;

use crate::carrier;
use crate::encoding::{decoded, decoded_beginning, is_plain};
use crate::fact::{Facts, Spot};
use crate::kernel_log::{KernelLog, Line};
use crate::line::{Message as Columns, Speaker, messages};
use crate::message;
use crate::reversed::{Ordered, ordered};
use crate::section::{self, Section};

/// Lines after one that matters that are parsed, too: a stack with registers and modules has some 60.
const WINDOW: u32 = 160;

/// A message that a mailer wrapped goes on for at most so many lines.
const MAX_CONTINUED: u32 = 4;

/// Lines are quoted up to this length.
const MAX_QUOTED: usize = 160;

/// The lengths of lines that a mailer wrapped at a word, with the marks of quotes.
const WRAPPED: std::ops::RangeInclusive<usize> = 40..=96;

/// No mailer wraps at less.
const NARROWEST: usize = 60;

/// Why a text cannot be read.
#[derive(Debug, Error)]
#[error("{file}, after line {line}: {source}")]
pub struct ScanError {
    /// The file.
    pub file: String,
    /// The last line read.
    pub line: u64,
    /// The system's error.
    pub source: io::Error,
}

/// A text that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// What was found in it: `kernel log`, `ps`.
    pub kinds: Vec<&'static str>,
    /// Lines read.
    pub lines: u64,
    /// Lines that were longer than any message, and were left out.
    pub too_long: u64,
    /// It is long and in reverse order: only its newest part was read.
    pub is_cut: bool,
}

static TRIGGERS: LazyLock<AhoCorasick> =
    LazyLock::new(|| automaton(message::triggers().chain(section::triggers()).chain(carrier::JOURNAL_TRIGGERS)));

static MESSAGES: LazyLock<AhoCorasick> = LazyLock::new(|| automaton(message::triggers()));

/// Finds words. The crate's choice for more than 100 of them needs half of the memory, and twice the time.
fn automaton(words: impl Iterator<Item = &'static str>) -> AhoCorasick {
    AhoCorasick::builder().kind(Some(AhoCorasickKind::DFA)).build(words).expect("few and short words")
}

/// Whether the beginning of a text has a line that could matter.
pub fn has_trigger(text: &[u8]) -> bool {
    TRIGGERS.is_match(text) || !is_plain(text) && TRIGGERS.is_match(&decoded_beginning(text))
}

/// Whether the beginning of a stream is text that has a line that could matter.
pub fn is_text_with_trigger(beginning: &[u8]) -> bool {
    if is_plain(beginning) { !beginning.contains(&0) && has_trigger(beginning) } else { has_trigger(beginning) }
}

/// Reads a text and adds its facts. `file` is its place among all files of the host.
///
/// # Errors
/// If it cannot be read further.
pub fn scan(text: impl Read, name: &str, file: u32, facts: &mut Facts) -> Result<Source, ScanError> {
    let mut scan = Scan::new(name, file);
    let read = read(text, name, &mut OneHost { speaker: Speaker::default(), scan: &mut scan, facts });
    scan.finish(facts);
    Ok(read?.source(name, scan.kinds))
}

/// What a text says about one host.
pub struct HostPart {
    /// The host, as loggers name it.
    pub host: Option<String>,
    pub facts: Facts,
    pub source: Source,
}

/// Reads a text of one or several hosts, as a log server writes: facts by host, and why the text ends early, if it does.
pub fn scan_by_host(text: impl Read, name: &str, file: u32) -> (Vec<HostPart>, Option<ScanError>) {
    let mut hosts = ByHost { name, file, parts: Vec::new(), last: 0, speaker: Speaker::default() };
    let (whole, error) = match read(text, name, &mut hosts) {
        Ok(whole) => (whole, None),
        Err(error) => (Whole { lines: error.line, ..Whole::default() }, Some(error)),
    };
    if whole.is_log {
        hosts.of(None);
    }
    let part = |(host, mut scan, mut facts): (Option<String>, Scan, Facts)| {
        scan.finish(&mut facts);
        HostPart { host, facts, source: whole.source(name, scan.kinds) }
    };
    (hosts.parts.into_iter().map(part).collect(), error)
}

/// What takes the lines near one that matters.
trait Sink {
    /// Whether all lines are wanted.
    fn is_open(&self) -> bool;
    /// Takes a line.
    fn line(&mut self, raw: &str, number: u64, is_trigger: bool);
    /// Lines are left out.
    fn gap(&mut self);
}

/// What a text is as a whole.
#[derive(Clone, Copy, Default)]
struct Whole {
    lines: u64,
    too_long: u64,
    is_cut: bool,
    /// It begins as a kernel's log, whatever that says.
    is_log: bool,
}

impl Whole {
    fn source(self, name: &str, mut kinds: Vec<&'static str>) -> Source {
        if self.is_log && !kinds.contains(&KERNEL_LOG) {
            kinds.push(KERNEL_LOG);
        }
        Source { name: name.to_owned(), kinds, lines: self.lines, too_long: self.too_long, is_cut: self.is_cut }
    }
}

/// The kind of a text with messages of the kernel.
const KERNEL_LOG: &str = "kernel log";

/// A log's first lines, of which one shows that it is the kernel's.
const LOOKED_AT: u64 = 64;

fn read(text: impl Read, name: &str, sink: &mut dyn Sink) -> Result<Whole, ScanError> {
    let failed = |line| move |source| ScanError { file: name.to_owned(), line, source };
    match decoded(text).and_then(ordered).map_err(failed(0))? {
        Ordered::Forward(text) => {
            let mut lines = Lines::new(text);
            let mut feed = Feed::new(sink);
            let mut is_log = false;
            // The line before, if it was left out: a message may begin there, and its words be on the next.
            let mut left_out: Vec<u8> = Vec::new();
            loop {
                let before = lines.number();
                let Some(line) = lines.next_line().map_err(failed(before))? else { break };
                let is_trigger = TRIGGERS.is_match(line);
                let may_show = !is_log && before < LOOKED_AT;
                is_log |= may_show && Columns::of(&String::from_utf8_lossy(line)).is_of_kernel();
                if feed.wants(is_trigger) {
                    let is_head = feed.head(line);
                    if !left_out.is_empty() && !is_head {
                        feed.sink.line(&String::from_utf8_lossy(&left_out), before, false);
                    }
                    left_out.clear();
                    let text = String::from_utf8_lossy(line).into_owned();
                    feed.sink.line(&text, lines.number(), is_trigger);
                } else {
                    feed.left_out(line, before + 1);
                    left_out.clear();
                    if WRAPPED.contains(&line.len()) {
                        left_out.extend_from_slice(line);
                    }
                }
            }
            Ok(Whole { lines: lines.number(), too_long: lines.too_long(), is_cut: false, is_log })
        }
        Ordered::Turned(groups, is_cut) => {
            let mut feed = Feed::new(sink);
            let mut whole = Whole { is_cut, ..Whole::default() };
            for (first, group) in groups {
                let mut lines = Lines::new(group.as_slice());
                while let Some(line) = lines.next_line().map_err(failed(first))? {
                    let is_trigger = TRIGGERS.is_match(line);
                    if feed.wants(is_trigger) {
                        feed.head(line);
                        let text = String::from_utf8_lossy(line).into_owned();
                        feed.sink.line(&text, first + lines.number() - 1, is_trigger);
                    } else {
                        feed.left_out(line, first);
                    }
                }
                whole.lines += lines.number();
                whole.too_long += lines.too_long();
            }
            Ok(whole)
        }
    }
}

/// Leaves out lines that nobody waits for.
struct Feed<'a> {
    sink: &'a mut dyn Sink,
    is_gap: bool,
    /// The beginning of the last line without an indent, if it was left out: it says whose the indented lines below it are.
    head: Vec<u8>,
    head_number: u64,
}

/// Loggers' columns are within so many bytes.
const MAX_HEAD: usize = 256;

impl<'a> Feed<'a> {
    fn new(sink: &'a mut dyn Sink) -> Feed<'a> {
        Feed { sink, is_gap: true, head: Vec::new(), head_number: 0 }
    }

    /// Notes a line that nobody waits for.
    fn left_out(&mut self, line: &[u8], number: u64) {
        if !is_indented(line) && !line.trim_ascii().is_empty() {
            self.head.clear();
            self.head.extend_from_slice(&line[..line.len().min(MAX_HEAD)]);
            self.head_number = number;
        }
    }

    /// Feeds the line that says whose this one is, if it was left out.
    fn head(&mut self, line: &[u8]) -> bool {
        let is_head = is_indented(line) && !self.head.is_empty();
        if is_head {
            self.sink.line(&String::from_utf8_lossy(&self.head), self.head_number, false);
        }
        self.head.clear();
        is_head
    }

    fn wants(&mut self, is_trigger: bool) -> bool {
        let wants = is_trigger || self.sink.is_open();
        if !wants && !self.is_gap {
            self.sink.gap();
        }
        self.is_gap = !wants;
        wants
    }
}

/// Whether a line begins with blanks, behind the marks of quotes.
fn is_indented(line: &[u8]) -> bool {
    let mut rest = line;
    while let [b'>' | b'|', after @ ..] = rest {
        rest = after.strip_prefix(b" ").unwrap_or(after);
    }
    rest.first().is_some_and(|byte| matches!(byte, b' ' | b'\t'))
}

struct OneHost<'a> {
    speaker: Speaker,
    scan: &'a mut Scan,
    facts: &'a mut Facts,
}

impl Sink for OneHost<'_> {
    fn is_open(&self) -> bool {
        self.scan.is_open()
    }

    fn line(&mut self, raw: &str, number: u64, is_trigger: bool) {
        for mut columns in messages(raw) {
            self.speaker.attribute(&mut columns);
            self.scan.line(columns, raw.len(), number, is_trigger, self.facts);
        }
    }

    fn gap(&mut self) {
        self.scan.flush(self.facts);
    }
}

/// Hosts kept of one text. More come from a text that is no log.
const MAX_HOSTS: usize = 1024;

struct ByHost<'a> {
    name: &'a str,
    file: u32,
    parts: Vec<(Option<String>, Scan, Facts)>,
    /// The host of the last line.
    last: usize,
    speaker: Speaker,
}

impl ByHost<'_> {
    /// The part of a line's host. Lines without one go on with the host of the line before.
    fn of(&mut self, host: Option<&str>) -> usize {
        if self.parts.is_empty() {
            self.parts.push((None, Scan::new(self.name, self.file), Facts::default()));
        }
        let Some(host) = host.filter(|host| is_host(host)) else { return self.last };
        if let Some(known) = self.parts.iter().position(|(known, ..)| known.as_deref() == Some(host)) {
            return known;
        }
        // What stands before the first name belongs to that host.
        if let [(name @ None, ..)] = self.parts.as_mut_slice() {
            *name = Some(host.to_owned());
            return 0;
        }
        if self.parts.len() == MAX_HOSTS {
            return self.last;
        }
        self.parts.push((Some(host.to_owned()), Scan::new(self.name, self.file), Facts::default()));
        self.parts.len() - 1
    }
}

/// Whether a logger's second column names a host: not the name before the host has one, nor a level of programs' logs.
fn is_host(word: &str) -> bool {
    const OTHERS: [&str; 12] = [
        "localhost",
        "localhost.localdomain",
        "INFO",
        "WARN",
        "WARNING",
        "ERROR",
        "ERR",
        "DEBUG",
        "TRACE",
        "FATAL",
        "NOTICE",
        "CRITICAL",
    ];
    !OTHERS.contains(&word)
}

impl Sink for ByHost<'_> {
    fn is_open(&self) -> bool {
        self.parts.iter().any(|(_, scan, _)| scan.is_open())
    }

    fn line(&mut self, raw: &str, number: u64, is_trigger: bool) {
        for mut columns in messages(raw) {
            self.speaker.attribute(&mut columns);
            let place = self.of(columns.host.as_deref());
            self.last = place;
            if let Some((_, scan, facts)) = self.parts.get_mut(place) {
                scan.line(columns, raw.len(), number, is_trigger, facts);
            }
        }
    }

    fn gap(&mut self) {
        for (_, scan, facts) in &mut self.parts {
            scan.flush(facts);
        }
    }
}

struct Scan {
    name: Arc<str>,
    file: u32,
    log: KernelLog,
    /// Lines that are still parsed.
    window: u32,
    /// The last line, until it is certain that the next one does not go on with it.
    pending: Option<Pending>,
    section: Option<Box<dyn Section>>,
    kinds: Vec<&'static str>,
}

/// A line, with those that a mailer made of its end.
struct Pending {
    columns: Columns,
    line: u64,
    /// The length of its last part.
    length: usize,
    joined: u32,
}

impl Pending {
    /// Whether a line without columns goes on with this one: that is long enough to have been wrapped, and not longer than wrapped
    /// lines are. A log whose lines have no columns shows it only by a message that is not whole.
    fn goes_on(&self, next: &Columns) -> bool {
        !next.has_columns
            && !next.text.trim().is_empty()
            // journalctl's line between boots
            && !next.text.starts_with("-- ")
            // A prompt, and what was typed there.
            && !next.text.trim_start().starts_with(['$', '#'])
            && self.joined < MAX_CONTINUED
            && (WRAPPED.contains(&self.length) || self.value_did_not_fit(next))
            && (self.columns.has_columns || self.joined == 0 && begins_message(&self.columns.text))
            && !message::parse(&next.text).is_some_and(|found| found.is_line())
    }

    /// Whether a short line is a name or mark before a word so long that a mailer put it on a line of its own: a function after `RIP:`,
    /// or after a stack's `?`.
    fn value_did_not_fit(&self, next: &Columns) -> bool {
        let word = next.text.split(' ').next().unwrap_or_default();
        self.columns.text.ends_with([':', '?']) && self.length + 1 + word.len() > NARROWEST
    }
}

/// Whether a line without columns begins a message that only the next line makes whole.
fn begins_message(text: &str) -> bool {
    MESSAGES.is_match(text) && matches!(message::parse(text), None | Some(message::Message::Hang))
}

/// The message of a line. Behind a logger's date alone a word may be a program's name, and is no vendor's.
fn parsed(columns: &Columns) -> Option<message::Message> {
    let may_have_vendor = columns.uptime.is_some() || columns.host.is_some() || columns.wall.is_none();
    match message::parse(&columns.text) {
        None | Some(message::Message::Hang) if may_have_vendor => {
            message::parse_of_vendor(&columns.text).or_else(|| message::parse(&columns.text))
        }
        found => found,
    }
}

impl Scan {
    fn new(name: &str, file: u32) -> Scan {
        Scan {
            name: Arc::from(name),
            file,
            log: KernelLog::new(file),
            window: 0,
            pending: None,
            section: None,
            kinds: Vec::new(),
        }
    }

    fn is_open(&self) -> bool {
        self.window > 0 || self.section.is_some()
    }

    fn finish(&mut self, facts: &mut Facts) {
        self.flush(facts);
        self.close_section(facts);
        self.log.finish(facts);
    }

    fn line(&mut self, columns: Columns, length: usize, number: u64, is_trigger: bool, facts: &mut Facts) {
        self.window = if is_trigger { self.window.max(MAX_CONTINUED) } else { self.window.saturating_sub(1) };
        // A table's rows are lines of their own.
        let may_go_on = self.section.is_none() || columns.has_columns;
        if let Some(pending) = self.pending.as_mut().filter(|pending| may_go_on && pending.goes_on(&columns)) {
            pending.columns.text = format!("{} {}", pending.columns.text.trim_end(), columns.text.trim_start());
            pending.length = length;
            pending.joined += 1;
            return;
        }
        self.flush(facts);
        self.pending = Some(Pending { columns, line: number, length, joined: 0 });
    }

    /// Takes the last line, which is whole.
    fn flush(&mut self, facts: &mut Facts) {
        let Some(Pending { columns, line, .. }) = self.pending.take() else { return };
        self.log.time(columns.uptime, columns.wall, columns.boot.as_deref(), facts);
        if facts.host.is_none() {
            facts.host.clone_from(&columns.host);
        }
        if self.in_section(&columns, line, facts) {
            return;
        }
        let is_kernel = columns.program.is_none();
        if let Some(found) = parsed(&columns).filter(|found| is_kernel || found.is_of_programs()) {
            return self.message(found, &columns, line, facts);
        }
        // What a program logs may be anybody's words.
        if let Some(mut section) = section::opened(&columns.text, self.file).filter(|_| is_kernel) {
            self.close_section(facts);
            self.note_kind(section.name());
            section.first(&columns.text, &self.spot(&columns.text, line), facts);
            self.section = Some(section);
        }
    }

    fn message(&mut self, found: message::Message, columns: &Columns, number: u64, facts: &mut Facts) {
        self.note_kind(KERNEL_LOG);
        self.window = WINDOW;
        let wall = self.log.wall(columns.wall);
        let caller = columns.caller.clone();
        let line = Line { spot: self.spot(&columns.text, number), number, uptime: columns.uptime, wall, caller };
        self.log.message(found, &line, facts);
    }

    fn in_section(&mut self, columns: &Columns, number: u64, facts: &mut Facts) -> bool {
        let spot = self.spot(&columns.text, number);
        let Some(section) = &mut self.section else { return false };
        match section.line(&columns.text, &spot, facts) {
            section::Took::Line => true,
            section::Took::Nothing => false,
            section::Took::End => {
                self.close_section(facts);
                false
            }
        }
    }

    fn close_section(&mut self, facts: &mut Facts) {
        if let Some(mut section) = self.section.take() {
            section.finish(facts);
        }
    }

    fn note_kind(&mut self, kind: &'static str) {
        if !self.kinds.contains(&kind) {
            self.kinds.push(kind);
        }
    }

    fn spot(&self, text: &str, line: u64) -> Spot {
        let text = text.trim();
        let end = text.char_indices().nth(MAX_QUOTED).map_or(text.len(), |(at, _)| at);
        Spot { file: Arc::clone(&self.name), line, text: text[..end].to_owned() }
    }
}
