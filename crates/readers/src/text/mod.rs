//! What the two readers of text share: lines, numbers, the bodies of events, and what can be wrong.

pub mod body;
mod fields;
pub mod lines;
pub mod number;
mod raw;
pub mod times;

use std::io;

use thiserror::Error;
use unstarve_model::{EventSet, EventType, Loss, LossKind};

/// Why a text could not be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TextError {
    /// The operating system said no.
    #[error("line {line}: cannot read on")]
    Read {
        /// The line after the last good one.
        line: u64,
        /// What it said.
        source: io::Error,
    },
    /// The times are differences.
    #[error(
        "the times of {back} of the first {events} events, up to line {line}, are earlier than the one before: they are \
         differences between events; print the recording without --deltatime"
    )]
    Deltas {
        /// Where that is clear.
        line: u64,
        /// How many go back.
        back: u32,
        /// Of how many.
        events: u32,
    },
    /// The text is in reverse order.
    #[error(
        "the times of {back} of the first {events} events, up to line {line}, are earlier than the one before: the text is in \
         reverse order; turn it round with `tac`"
    )]
    Reversed {
        /// Where that is clear.
        line: u64,
        /// How many go back.
        back: u32,
        /// Of how many.
        events: u32,
    },
    /// The clock counts something else than time.
    #[error(
        "line {line}: the time `{ticks}` has no fraction: the trace clock counts ticks (x86-tsc, counter, uptime), and the text \
         does not say how long one is; record with another clock (`trace-cmd record -C mono`, `echo mono > trace_clock`), or \
         print the file with `trace-cmd report --ts2secs HZ`"
    )]
    Ticks {
        /// Where.
        line: u64,
        /// What stands there.
        ticks: u64,
    },
    /// Nothing in the text was an event.
    #[error("no event in {lines} lines: expected lines such as `{example}`")]
    NoEvents {
        /// How many lines there were.
        lines: u64,
        /// What a line should look like.
        example: &'static str,
    },
}

/// Whether the beginning of a file can be text at all: no kernel prints NULs.
pub fn is_text(prefix: &[u8]) -> bool {
    memchr::memchr(0, prefix).is_none()
}

/// Lines that should have been about an event and were not: how many, and where the first one is.
#[derive(Debug, Default)]
pub struct BadLines {
    count: u64,
    first: Option<String>,
}

/// A long bad line is quoted up to here.
const QUOTED: usize = 100;

impl BadLines {
    /// Counts one.
    pub fn note(&mut self, number: u64, line: &[u8]) {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some(quoted(number, line));
        }
    }

    /// The loss to report, if there were any.
    pub fn loss(&self) -> Option<Loss> {
        let first = self.first.as_ref()?;
        Some(Loss::new(LossKind::Undecodable, self.count).with_detail(format!("the first is {first}")))
    }
}

/// A line without what stands for `<`, `>` and `&` in HTML, if it has any of it.
pub fn unescaped(line: &[u8]) -> Option<Vec<u8>> {
    const ESCAPES: [(&[u8], u8); 3] = [(b"&lt;", b'<'), (b"&gt;", b'>'), (b"&amp;", b'&')];
    memchr::memchr(b'&', line)?;
    let mut plain = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = memchr::memchr(b'&', rest) {
        let escape = ESCAPES.iter().find(|(escape, _)| rest[at..].starts_with(escape));
        let (length, byte) = escape.map_or((1, b'&'), |(escape, byte)| (escape.len(), *byte));
        plain.extend_from_slice(&rest[..at]);
        plain.push(byte);
        rest = &rest[at + length..];
    }
    plain.extend_from_slice(rest);
    (plain.len() < line.len()).then_some(plain)
}

/// A line and its number, for a message.
pub fn quoted(number: u64, line: &[u8]) -> String {
    let line = line.trim_ascii();
    format!("line {number}: `{}`", line[..line.len().min(QUOTED)].escape_ascii())
}

/// A text does not say which events were enabled. One of these that never appears was in all likelihood not: every
/// machine switches, wakes and serves softirqs all the time.
pub fn never_seen(seen: EventSet) -> Vec<Loss> {
    use EventType::*;
    [Switch, Waking, Wakeup, IrqEntry, SoftirqEntry, WorkQueued, WorkStart]
        .into_iter()
        .filter(|&event| !seen.contains(event))
        .map(|event| Loss::new(LossKind::NotRecorded(event), 1).with_detail("no such line in the text"))
        .collect()
}
