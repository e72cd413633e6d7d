//! Shared by the text readers: lines, numbers, event bodies, and errors.

pub mod body;
mod fields;
pub mod lines;
pub mod number;
mod raw;
pub mod times;

use std::io;

use thiserror::Error;
use unstarve_model::{EventSet, EventType, Loss, LossKind};

/// Why a text cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TextError {
    /// A system call failed.
    #[error("line {line}: cannot read further")]
    Read {
        /// The line after the last one read.
        line: u64,
        /// The system's error.
        source: io::Error,
    },
    /// The times are differences instead of timestamps.
    #[error(
        "the times of {back} of the first {events} events, up to line {line}, are earlier than the one before: they are \
         differences between events; print the recording without --deltatime"
    )]
    Deltas {
        /// The line at which this was certain.
        line: u64,
        /// How many times are smaller than the one before.
        back: u32,
        /// How many times were compared.
        events: u32,
    },
    /// The text is in reverse order.
    #[error(
        "the times of {back} of the first {events} events, up to line {line}, are earlier than the one before: the text is in \
         reverse order; reverse it with `tac`"
    )]
    Reversed {
        /// The line at which this was certain.
        line: u64,
        /// How many times are smaller than the one before.
        back: u32,
        /// How many times were compared.
        events: u32,
    },
    /// The trace clock does not count time.
    #[error(
        "line {line}: the time `{ticks}` has no fraction: the trace clock counts ticks (x86-tsc, counter, uptime), and the text \
         does not say how long one is; record with another clock (`trace-cmd record -C mono`, `echo mono > trace_clock`), or \
         print the file with `trace-cmd report --ts2secs HZ`"
    )]
    Ticks {
        /// The line.
        line: u64,
        /// The value found there.
        ticks: u64,
    },
    /// No line was an event.
    #[error(
        "no event in {lines} lines: expected lines such as `{example}`; the messages of a log without events are read by `unstarve explain`"
    )]
    NoEvents {
        /// The number of lines.
        lines: u64,
        /// An example of an event line.
        example: &'static str,
    },
}

/// Whether the beginning of a file can be text: no kernel prints NULs.
pub fn is_text(prefix: &[u8]) -> bool {
    memchr::memchr(0, prefix).is_none()
}

/// Lines that should have been events but could not be parsed: their number, and where the first one is.
#[derive(Debug, Default)]
pub struct BadLines {
    count: u64,
    first: Option<String>,
}

/// Bad lines are quoted up to this length.
const MAX_QUOTED_BYTES: usize = 100;

impl BadLines {
    /// Counts one bad line.
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

/// Replaces the HTML escapes for `<`, `>` and `&`; `None` if there are none.
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

/// A line and its number, for messages.
pub fn quoted(number: u64, line: &[u8]) -> String {
    let line = line.trim_ascii();
    format!("line {number}: `{}`", line[..line.len().min(MAX_QUOTED_BYTES)].escape_ascii())
}

/// Reports event types that never occur as not recorded. A text does not say which events were enabled, but every
/// machine switches, wakes and serves softirqs all the time.
pub fn never_seen(seen: EventSet) -> Vec<Loss> {
    use EventType::*;
    [Switch, Waking, Wakeup, IrqEntry, SoftirqEntry, WorkQueued, WorkStart]
        .into_iter()
        .filter(|&event| !seen.contains(event))
        .map(|event| Loss::new(LossKind::NotRecorded(event), 1).with_detail("no such line in the text"))
        .collect()
}
