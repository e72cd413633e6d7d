//! What was done, as JSON lines: rule, whose, from what to what, what came of it.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::aspect::{Target, Value};

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A rule's value was set.
    Applied,
    /// It could not be set.
    Failed,
    /// A rule asks for what no rule may do.
    Refused,
    /// What it was is there again.
    Restored,
    /// Somebody else has changed it since, so it was left.
    LeftToOthers,
    /// The task or file is gone.
    Gone,
    /// Somebody else changed what a rule has set.
    Drift,
    /// Somebody else changed it so often that the rule gives up.
    GaveUp,
    /// Real-time tasks took too much of a CPU, and are no longer real-time.
    OverBudget,
    /// Events were lost, and everything was looked at anew.
    Lost,
    /// The guard began, or ended.
    Started,
    /// See [`Event::Started`].
    Stopped,
}

/// One line.
#[derive(Clone, Debug, Serialize)]
pub struct Entry<'a> {
    /// What happened.
    pub event: Event,
    /// The rule's or setting's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<&'a str>,
    /// Whose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<&'a Target>,
    /// The task's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comm: Option<&'a str>,
    /// From what.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<&'a Value>,
    /// To what.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<&'a Value>,
    /// The system's error number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a str>,
}

impl Entry<'_> {
    /// One that only says what happened.
    pub fn of(event: Event) -> Entry<'static> {
        Entry { event, rule: None, target: None, comm: None, old: None, new: None, errno: None, reason: None }
    }
}

/// Where lines go.
pub struct Audit {
    sink: Box<dyn Write + Send>,
}

impl Audit {
    /// Lines go there, when there are many or [`Audit::flush`] is called: a birth does not wait for them.
    pub fn to(sink: impl Write + Send + 'static) -> Audit {
        Audit { sink: Box::new(io::BufWriter::with_capacity(1 << 16, sink)) }
    }

    /// Lines go nowhere.
    pub fn none() -> Audit {
        Audit::to(io::sink())
    }

    /// Writes a line. A log that cannot be written must not stop the guard: the journal is what undoes.
    pub fn log(&mut self, entry: &Entry) {
        #[derive(Serialize)]
        struct Line<'a> {
            time_ms: u64,
            #[serde(flatten)]
            entry: &'a Entry<'a>,
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let line = Line { time_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX), entry };
        if let Ok(mut bytes) = serde_json::to_vec(&line) {
            bytes.push(b'\n');
            let _ = self.sink.write_all(&bytes);
        }
    }

    /// Lines that wait in a buffer are written.
    pub fn flush(&mut self) {
        let _ = self.sink.flush();
    }
}
