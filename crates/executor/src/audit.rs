//! The audit log: JSON lines with rule, target, old value, new value and outcome.
//!
//! The lines of a batch are written before the next batch starts, so a kill loses at most those of the interrupted batch; the
//! process that reverts its changes logs each of them. Lines are numbered within a process (`n`). Lines that cannot be written
//! are queued; if the queue is full, a line reports how many were dropped.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use unstarve_change::{Place, Value};

/// The kind of event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A rule's value was set.
    Applied,
    /// A task inherited a value that a rule set on its parent.
    Inherited,
    /// The value could not be set.
    Failed,
    /// No rule may set the value.
    Refused,
    /// The old value was restored.
    Restored,
    /// Another program changed the value since, so it was left.
    LeftToOthers,
    /// The task or file is gone.
    Gone,
    /// Another program changed a value that a rule set.
    Drift,
    /// Another program changed it so often that the rule gives up.
    GaveUp,
    /// Real-time tasks exceeded the budget of a CPU and lost their real-time policy.
    OverBudget,
    /// Events were lost, and a full scan was done.
    Lost,
    /// A user started more tasks in a second than are handled one by one.
    Throttled,
    /// The dead-man process was gone, and a new one was started.
    DeadMan,
    /// The state directory was gone, and was recreated.
    StateLost,
    /// Lines of this log were dropped.
    Gap,
    /// The guard started.
    Started,
    /// The guard stopped.
    Stopped,
}

/// One line of the log.
#[derive(Clone, Debug, Serialize)]
pub struct Entry<'a> {
    /// The kind of event.
    pub event: Event,
    /// The rule's or setting's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<&'a str>,
    /// The changed task or file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<&'a Place>,
    /// The task's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comm: Option<&'a str>,
    /// The old value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<&'a Value>,
    /// The new value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<&'a Value>,
    /// The errno.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
    /// The reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a str>,
    /// A count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

impl Entry<'_> {
    /// An entry with only a kind.
    pub fn of(event: Event) -> Entry<'static> {
        Entry {
            event,
            rule: None,
            target: None,
            comm: None,
            old: None,
            new: None,
            errno: None,
            reason: None,
            count: None,
        }
    }
}

/// Bytes of a batch; beyond this it is written early.
const BATCH: usize = 1 << 16;
/// Maximum bytes queued while nothing can be written.
const MOST_WAITING: usize = 1 << 20;

/// Writes the audit log.
#[derive(Debug, Default)]
pub struct Audit {
    sink: Option<File>,
    waiting: Vec<u8>,
    written: u64,
    /// Lines dropped and not yet reported.
    missing: u64,
    /// All lines dropped.
    lost: u64,
    trouble: Option<io::Error>,
}

impl Audit {
    /// Writes to a file, at the end of each batch.
    pub fn to(sink: File) -> Audit {
        let mut audit = Audit::none();
        audit.sink = Some(sink);
        audit
    }

    /// Discards all lines.
    pub fn none() -> Audit {
        Audit::default()
    }

    /// Writes to a duplicate of standard error.
    ///
    /// # Errors
    /// If standard error is closed.
    pub fn to_stderr() -> io::Result<Audit> {
        Ok(Audit::to(File::from(io::stderr().as_fd().try_clone_to_owned()?)))
    }

    /// A duplicate of the descriptor, for the dead-man process.
    pub fn share(&self) -> Option<OwnedFd> {
        self.sink.as_ref()?.as_fd().try_clone_to_owned().ok()
    }

    /// Queues a line. A failing log must not stop the guard: undo needs only the journal.
    pub fn log(&mut self, entry: &Entry) {
        if self.sink.is_none() {
            return;
        }
        if self.waiting.len() >= MOST_WAITING {
            self.missing += 1;
            self.lost += 1;
            return;
        }
        self.line(entry);
        if self.waiting.len() >= BATCH && self.trouble.is_none() {
            self.flush();
        }
    }

    fn line(&mut self, entry: &Entry) {
        #[derive(Serialize)]
        struct Line<'a> {
            time_ms: u64,
            pid: u32,
            n: u64,
            #[serde(flatten)]
            entry: &'a Entry<'a>,
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.written += 1;
        let line = Line { time_ms, pid: std::process::id(), n: self.written, entry };
        if serde_json::to_writer(&mut self.waiting, &line).is_ok() {
            self.waiting.push(b'\n');
        }
    }

    /// Writes the queue: the end of a batch.
    pub fn flush(&mut self) {
        loop {
            self.trouble = self.write_waiting().err();
            if self.trouble.is_some() || self.missing == 0 {
                return;
            }
            let count = Some(std::mem::take(&mut self.missing));
            self.line(&Entry { count, reason: Some("the log could not be written"), ..Entry::of(Event::Gap) });
        }
    }

    fn write_waiting(&mut self) -> io::Result<()> {
        let Some(sink) = &mut self.sink else { return Ok(()) };
        let mut done = 0;
        let result = loop {
            if done == self.waiting.len() {
                break Ok(());
            }
            let Some(room) = room_in(sink, self.waiting.len() - done) else {
                break Err(io::Error::new(io::ErrorKind::WouldBlock, "nobody reads it"));
            };
            match sink.write(&self.waiting[done..done + room]) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                // The rest of a partly written line follows when there is room.
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.waiting.drain(..done);
        result
    }

    /// Writes the queue at the end of a process, for a limited time.
    pub fn finish(&mut self, patience: Duration) {
        let began = Instant::now();
        self.flush();
        while self.trouble.is_some() && began.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(20));
            self.flush();
        }
    }

    /// The error that keeps lines in the queue, if any.
    pub fn trouble(&self) -> Option<&io::Error> {
        self.trouble.as_ref()
    }

    /// Number of dropped lines.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

/// How many bytes can be written without blocking. A log without a reader must stop neither the guard nor its dead-man process;
/// standard error cannot be made non-blocking, because other processes share the open file.
fn room_in(sink: &File, wanted: usize) -> Option<usize> {
    /// Minimum room of a pipe or socket that is ready (`PIPE_BUF`).
    const READY: usize = 4096;
    if sink.metadata().is_ok_and(|meta| meta.is_file()) {
        return Some(wanted);
    }
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut descriptor = [PollFd::new(sink, PollFlags::OUT)];
    match poll(&mut descriptor, Some(&now)) {
        Ok(1..) => Some(wanted.min(READY)),
        _ => None,
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_cannot_be_written_says_later_how_much_is_missing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit");
        let mut audit = Audit::to(File::options().write(true).open("/dev/full").unwrap());
        for _ in 0..20_000 {
            audit.log(&Entry { reason: Some("a reason of some length, as there are"), ..Entry::of(Event::Applied) });
        }
        audit.flush();
        assert!(audit.trouble().is_some());
        let lost = audit.lost();
        assert!(lost > 0);
        audit.sink = Some(File::create(&path).unwrap());
        audit.log(&Entry::of(Event::Stopped));
        audit.flush();
        audit.log(&Entry::of(Event::Stopped));
        audit.flush();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let gaps: Vec<_> = lines.iter().filter(|line| line["event"] == "gap").collect();
        assert_eq!((gaps.len(), gaps[0]["count"].as_u64()), (1, Some(lost + 1)), "the line after it is missing, too");
        for (index, line) in lines.iter().enumerate() {
            assert_eq!(line["n"], index as u64 + 1, "no number is left out: {line}");
        }
        assert_eq!(lines.last().unwrap()["event"], "stopped");
    }
}
