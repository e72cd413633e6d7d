//! What was done, as JSON lines: rule, whose, from what to what, what came of it.
//!
//! The lines of a batch are with the system before the next one begins, so a kill loses none but those of the batch that it
//! interrupts; whoever takes that back writes a line for each change of it. Lines are numbered within a process (`n`). One that
//! cannot be written waits, and where too many wait, a line says how many are missing.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use unstarve_change::{Place, Value};

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A rule's value was set.
    Applied,
    /// A task was born with what a rule has set on its parent.
    Inherited,
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
    /// A user started more tasks in a second than are looked at one by one.
    Throttled,
    /// The dead-man process was gone, and another was started.
    DeadMan,
    /// The state directory was gone, and was made anew.
    StateLost,
    /// Lines of this log that could not be written.
    Gap,
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
    pub target: Option<&'a Place>,
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
    /// How many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

impl Entry<'_> {
    /// One that only says what happened.
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

/// Lines of one batch; more than these go out at once.
const BATCH: usize = 1 << 16;
/// What waits at most while nothing can be written.
const MOST_WAITING: usize = 1 << 20;

/// Where lines go.
#[derive(Debug, Default)]
pub struct Audit {
    sink: Option<File>,
    waiting: Vec<u8>,
    written: u64,
    /// Lines that were given up, and not yet said so.
    missing: u64,
    /// The same, said or not.
    lost: u64,
    trouble: Option<io::Error>,
}

impl Audit {
    /// Lines go there, at the end of each batch.
    pub fn to(sink: File) -> Audit {
        let mut audit = Audit::none();
        audit.sink = Some(sink);
        audit
    }

    /// Lines go nowhere.
    pub fn none() -> Audit {
        Audit::default()
    }

    /// Lines go to the descriptor that is standard error now.
    ///
    /// # Errors
    /// If there is none.
    pub fn to_stderr() -> io::Result<Audit> {
        Ok(Audit::to(File::from(io::stderr().as_fd().try_clone_to_owned()?)))
    }

    /// Another descriptor of the same log, for the dead-man.
    pub fn share(&self) -> Option<OwnedFd> {
        self.sink.as_ref()?.as_fd().try_clone_to_owned().ok()
    }

    /// Notes a line. A log that cannot be written must not stop the guard: the journal is what undoes.
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

    /// Writes what waits: the end of a batch.
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
                // What is out is out: the rest of a line follows when there is room again.
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.waiting.drain(..done);
        result
    }

    /// Writes what waits, for so long at most: the last lines of a process.
    pub fn finish(&mut self, patience: Duration) {
        let began = Instant::now();
        self.flush();
        while self.trouble.is_some() && began.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(20));
            self.flush();
        }
    }

    /// Why lines are waiting, if they are.
    pub fn trouble(&self) -> Option<&io::Error> {
        self.trouble.as_ref()
    }

    /// Lines that were given up.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

/// How much can be written at once without waiting. A log that nobody reads must stop neither the guard nor its dead-man; that
/// standard error does not wait cannot be asked for, because others have it open, too.
fn room_in(sink: &File, wanted: usize) -> Option<usize> {
    /// What a pipe or socket that is ready has room for at least (`PIPE_BUF`).
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
