//! Finds the lines of a text that matter, in bounded memory: a gigabyte of log is searched for a few words, and only lines near
//! one of these are parsed.

use std::io::{self, Read};
use std::sync::{Arc, LazyLock};

use aho_corasick::AhoCorasick;
use thiserror::Error;
use unstarve_readers::Lines;

use crate::fact::{Facts, Spot};
use crate::kernel_log::{KernelLog, Line};
use crate::line::Message as Columns;
use crate::message;
use crate::section::{self, Section};

/// Lines after one that matters that are parsed, too: a stack with registers and modules has some 60.
const WINDOW: u32 = 160;

/// A message that a mailer wrapped goes on for at most so many lines.
const MAX_CONTINUED: u32 = 4;

/// Lines are quoted up to this length.
const MAX_QUOTED: usize = 160;

/// The lengths of lines that a mailer wrapped at a word, with the marks of quotes.
const WRAPPED: std::ops::RangeInclusive<usize> = 40..=96;

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
}

static TRIGGERS: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let words = message::triggers().chain(section::triggers());
    AhoCorasick::new(words).expect("few and short words")
});

static MESSAGES: LazyLock<AhoCorasick> =
    LazyLock::new(|| AhoCorasick::new(message::triggers()).expect("few and short words"));

/// Whether the beginning of a text has a line that could matter.
pub fn has_trigger(text: &[u8]) -> bool {
    TRIGGERS.is_match(text)
}

/// Reads a text and adds its facts. `file` is its place among all files of the host.
///
/// # Errors
/// If it cannot be read further.
pub fn scan(text: impl Read, name: &str, file: u32, facts: &mut Facts) -> Result<Source, ScanError> {
    let mut lines = Lines::new(text);
    let mut scan = Scan {
        name: Arc::from(name),
        file,
        log: KernelLog::new(file),
        window: 0,
        pending: None,
        section: None,
        kinds: Vec::new(),
    };
    loop {
        let before = lines.number();
        let line = match lines.next_line() {
            Ok(Some(line)) => line,
            Ok(None) => break,
            Err(source) => return Err(ScanError { file: name.to_owned(), line: before, source }),
        };
        let is_trigger = TRIGGERS.is_match(line);
        if !is_trigger && scan.window == 0 && scan.section.is_none() {
            scan.flush(facts);
            continue;
        }
        scan.window = if is_trigger { scan.window.max(MAX_CONTINUED) } else { scan.window.saturating_sub(1) };
        let text = String::from_utf8_lossy(line).into_owned();
        scan.line(&text, lines.number(), facts);
    }
    scan.flush(facts);
    scan.close_section(facts);
    scan.log.finish(facts);
    Ok(Source { name: name.to_owned(), kinds: scan.kinds, lines: lines.number(), too_long: lines.too_long() })
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
            && self.joined < MAX_CONTINUED
            && WRAPPED.contains(&self.length)
            && (self.columns.has_columns || self.joined == 0 && begins_message(&self.columns.text))
    }
}

/// Whether a line without columns begins a message that only the next line makes whole.
fn begins_message(text: &str) -> bool {
    MESSAGES.is_match(text) && message::parse(text).is_none()
}

impl Scan {
    fn line(&mut self, raw: &str, number: u64, facts: &mut Facts) {
        let columns = Columns::of(raw);
        if let Some(pending) = self.pending.as_mut().filter(|pending| pending.goes_on(&columns)) {
            pending.columns.text = format!("{} {}", pending.columns.text.trim_end(), columns.text.trim_start());
            pending.length = raw.len();
            pending.joined += 1;
            return;
        }
        self.flush(facts);
        self.pending = Some(Pending { columns, line: number, length: raw.len(), joined: 0 });
    }

    /// Takes the last line, which is whole.
    fn flush(&mut self, facts: &mut Facts) {
        let Some(Pending { columns, line, .. }) = self.pending.take() else { return };
        self.log.time(columns.uptime);
        if facts.host.is_none() {
            facts.host.clone_from(&columns.host);
        }
        if self.in_section(&columns, line, facts) {
            return;
        }
        if let Some(found) = message::parse(&columns.text) {
            return self.message(found, &columns, line, facts);
        }
        if let Some(kind) = section::opened(&columns.text, self.file) {
            self.close_section(facts);
            self.note_kind(kind.name());
            self.section = Some(kind);
        }
    }

    fn message(&mut self, found: message::Message, columns: &Columns, number: u64, facts: &mut Facts) {
        self.note_kind("kernel log");
        self.window = WINDOW;
        let line = Line { spot: self.spot(&columns.text, number), number, uptime: columns.uptime };
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
