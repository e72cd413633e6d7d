//! Files that are not trusted are read by a child: what a decoder takes of memory, and whether it panics, is not ours to say.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use bytes::Bytes;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use unstarve_tables::Schema;

use crate::decode::examine;
use crate::{Examined, Most};

/// Reads a whole file before anything is done with its rows.
pub trait Examine {
    /// What is in a file of a table.
    ///
    /// # Errors
    /// Why it is refused.
    fn examine(&self, table: &'static Schema, bytes: &Bytes, most: Most) -> Result<Examined, String>;
}

/// In this process: for files that are trusted.
#[derive(Clone, Copy, Debug)]
pub struct Here;

impl Examine for Here {
    fn examine(&self, table: &'static Schema, bytes: &Bytes, most: Most) -> Result<Examined, String> {
        examine(bytes.clone(), table, most)
    }
}

/// In a child, which has limits of memory and time. What a child gives back of memory, its allocator may keep, and its limit of addresses is that of each file: so a
/// file that a used child refuses, or that ends it, is asked of a new one, and that one's answer counts.
#[derive(Debug)]
pub struct Apart {
    program: PathBuf,
    arguments: Vec<OsString>,
    running: RefCell<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

/// The line before the bytes of a file.
#[derive(Serialize, Deserialize)]
struct Question {
    table: String,
    bytes: usize,
    memory: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer {
    Found(Examined),
    Refused(String),
}

/// Processor time for one file.
const SECONDS: u64 = 120;
/// What the program itself takes of addresses, and a decoder for a moment beside the file and its rows.
const BESIDE: u64 = 512 << 20;
/// No answer is longer.
const LONGEST_ANSWER: u64 = 64 << 10;

impl Apart {
    /// By a program that calls [`serve`] if it has these arguments.
    pub fn new(program: PathBuf, arguments: Vec<OsString>) -> Apart {
        Apart { program, arguments, running: RefCell::new(None) }
    }

    fn start(&self) -> Result<Running, String> {
        let mut command = Command::new(&self.program);
        // What a decoder says of its end is not for the terminal.
        command.args(&self.arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let cannot = |why: &str| format!("cannot be examined: {}: {why}", self.program.display());
        let mut child = command.spawn().map_err(|error| cannot(&error.to_string()))?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(to), Some(from)) => Ok(Running { child, to, from: BufReader::new(from) }),
            _ => Err(cannot("it has no pipes")),
        }
    }
}

impl Examine for Apart {
    fn examine(&self, table: &'static Schema, bytes: &Bytes, most: Most) -> Result<Examined, String> {
        // One that has read files before has less room than a new one: what it could not read is not refused for that.
        if let Some(mut used) = self.running.take()
            && let Ok(Answer::Found(found)) = used.ask(table, bytes, most)
        {
            *self.running.borrow_mut() = Some(used);
            return Ok(found);
        }
        let mut new = self.start()?;
        match new.ask(table, bytes, most) {
            Ok(Answer::Found(found)) => {
                *self.running.borrow_mut() = Some(new);
                Ok(found)
            }
            Ok(Answer::Refused(why)) => Err(why),
            Err(_) => Err(new.end()),
        }
    }
}

impl Running {
    fn ask(&mut self, table: &Schema, bytes: &Bytes, most: Most) -> io::Result<Answer> {
        let question = Question { table: table.name.to_owned(), bytes: bytes.len(), memory: most.memory };
        let mut line = serde_json::to_vec(&question)?;
        line.push(b'\n');
        self.to.write_all(&line)?;
        self.to.write_all(bytes)?;
        self.to.flush()?;
        let mut line = String::new();
        self.from.by_ref().take(LONGEST_ANSWER).read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }

    /// Why it gave no answer.
    fn end(mut self) -> String {
        let status = self.child.kill().and_then(|()| self.child.wait());
        let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        format!(
            "reading it ended the process that did ({how}): it is damaged, its rows take too much memory, or more than {SECONDS} s of processor time"
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has nothing to write: whatever it does is for nobody any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The child's side: answers until there is no more question.
///
/// # Errors
/// If it is asked in another way than [`Apart`] does, or cannot answer.
pub fn serve(from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut from = BufReader::new(from);
    limit(Resource::Core, 0)?;
    loop {
        let mut line = String::new();
        if from.by_ref().take(LONGEST_ANSWER).read_line(&mut line)? == 0 {
            return Ok(());
        }
        let question: Question = serde_json::from_str(&line)?;
        let (memory, used) = (question.memory as u64, processor_seconds());
        limit(Resource::As, BESIDE + question.bytes as u64 * 2 + memory * 2)?;
        limit(Resource::Cpu, used + SECONDS)?;
        let mut bytes = vec![0; question.bytes];
        from.read_exact(&mut bytes)?;
        let table = unstarve_tables::named(&question.table);
        let table = table.ok_or_else(|| io::Error::other("no table of this version"))?;
        let answer = match examine(Bytes::from(bytes), table, Most { memory: question.memory }) {
            Ok(found) => Answer::Found(found),
            Err(why) => Answer::Refused(why.chars().take(1000).collect()),
        };
        serde_json::to_writer(&mut to, &answer)?;
        to.write_all(b"\n")?;
        to.flush()?;
    }
}

/// A limit of its own, within that of its parent.
fn limit(resource: Resource, most: u64) -> io::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(resource);
    let current = maximum.map_or(most, |maximum| most.min(maximum));
    Ok(setrlimit(resource, Rlimit { current: Some(current), maximum })?)
}

fn processor_seconds() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    u64::try_from(used.tv_sec).unwrap_or(u64::MAX - SECONDS)
}

#[cfg(test)]
#[path = "apart_tests.rs"]
mod tests;
