//! Decodes untrusted files in child processes, because a decoder may panic or allocate without limit. Children return rows, so this process never decodes
//! a host's file.

use std::io::{self, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use arrow_array::RecordBatch;
use bytes::Bytes;
use unstarve_tables::Schema;

use super::parquet::{DecodeLimits, Examined, examine};
use super::wire::{self, Answer, Question, Wants};

/// Consecutive files and their rows.
#[derive(Debug)]
pub struct Run {
    /// The content of each file.
    pub files: Vec<Examined>,
    /// The rows of all files, which have the same columns.
    pub batches: Vec<RecordBatch>,
    /// Their size in memory, in bytes.
    pub memory: usize,
}

/// Takes results in the order of the files: rows of some files, or why one is refused. Says whether more are wanted.
pub type Take<'a> = &'a mut dyn FnMut(Result<Run, String>) -> bool;

/// Files of a table, and what is asked of them.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The table.
    pub table: &'static Schema,
    /// The files.
    pub files: &'a [Bytes],
    /// The limit of each.
    pub most: DecodeLimits,
    /// Their rows, or only what is in them.
    pub wants: Wants,
}

/// Checks a whole file before its rows are used.
pub trait Examine: Send + Sync {
    /// Examines a file of a table.
    ///
    /// # Errors
    /// Why it is refused.
    fn examine(&self, table: &'static Schema, bytes: &Bytes, most: DecodeLimits) -> Result<Examined, String>;

    /// Decodes files. Before it decodes one that needs much memory, it calls `turn`, which waits until no other such file is being decoded.
    /// After `turn` returns `false`, results are no longer wanted.
    fn read(&self, asked: &Asked<'_>, turn: &dyn Fn() -> bool, take: Take<'_>);
}

/// Decodes in this process: for trusted files.
#[derive(Clone, Copy, Debug)]
pub struct InProcessDecode;

impl Examine for InProcessDecode {
    fn examine(&self, table: &'static Schema, bytes: &Bytes, most: DecodeLimits) -> Result<Examined, String> {
        examine(bytes.clone(), table, most, |_| Ok(()))
    }

    fn read(&self, asked: &Asked<'_>, _: &dyn Fn() -> bool, take: Take<'_>) {
        for file in asked.files {
            let mut batches = Vec::new();
            let examined = examine(file.clone(), asked.table, asked.most, |batch| {
                if asked.wants == Wants::Rows {
                    batches.push(batch);
                }
                Ok(())
            });
            let run = examined.map(|examined| Run { files: vec![examined], batches, memory: examined.memory });
            if !take(run) {
                return;
            }
        }
    }
}

/// Decodes in child processes with limits of memory and time. A used child's allocator may hold memory that counts against its
/// limit, so a file that it refuses, or that kills it, is passed to a new child, whose answer counts.
pub struct SandboxedDecode {
    /// Starts a child.
    command: Box<dyn Fn() -> Command + Send + Sync>,
    /// Idle children.
    idle: Mutex<Vec<DecodeChild>>,
}

#[derive(Debug)]
struct DecodeChild {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

/// How an answer ended.
enum AnswerEnd {
    /// All files are valid.
    Whole,
    /// The file after the valid ones is refused.
    Refused(String),
}

/// Memory that the rows of most files stay below. It is the limit of children that run side by side.
const USUAL_MEMORY: usize = 16 << 20;

/// The prefix of reasons that are not the file's fault.
pub(crate) const NOT_EXAMINED: &str = "cannot be examined";

/// Pipe capacity: large enough that the two sides rarely wait for each other.
const PIPE_BYTES: usize = 1 << 20;

impl SandboxedDecode {
    /// Uses a command that calls [`crate::serve`].
    pub fn new(command: impl Fn() -> Command + Send + Sync + 'static) -> SandboxedDecode {
        SandboxedDecode { command: Box::new(command), idle: Mutex::default() }
    }

    fn start(&self) -> Result<DecodeChild, String> {
        let mut command = (self.command)();
        // A decoder's panic message does not belong on the terminal.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let spawned = command.spawn();
        let cannot = |why: &str| format!("{NOT_EXAMINED}: {}: {why}", command.get_program().display());
        let mut child = spawned.map_err(|error| cannot(&error.to_string()))?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(cannot("it has no pipes"));
        };
        // A smaller pipe is only slower.
        let _ = rustix::pipe::fcntl_setpipe_size(&to, PIPE_BYTES);
        let _ = rustix::pipe::fcntl_setpipe_size(&from, PIPE_BYTES);
        Ok(DecodeChild { child, to, from: BufReader::new(from) })
    }

    fn used(&self) -> Option<DecodeChild> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn keep(&self, used: DecodeChild) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(used);
    }

    /// Decodes one file in a used child; `None` if that fails, which is not final.
    fn ask_used(&self, child: Option<DecodeChild>, asked: &Asked<'_>) -> Option<Run> {
        let (mut child, mut run) = (child?, None);
        let ended = child.ask(asked, &mut |found| run = Some(found));
        let (Ok(AnswerEnd::Whole), Some(run)) = (ended, run) else { return None };
        self.keep(child);
        Some(run)
    }

    /// Decodes one file in a new child, whose answer is final. After a file with much memory the child is not used again, which frees the memory.
    fn ask_new(&self, asked: &Asked<'_>) -> Result<Run, String> {
        let mut new = self.start()?;
        let mut run = None;
        match (new.ask(asked, &mut |found| run = Some(found)), run) {
            (Ok(AnswerEnd::Whole), Some(run)) => {
                if run.files.iter().all(|file| file.memory <= USUAL_MEMORY) {
                    self.keep(new);
                }
                Ok(run)
            }
            (Ok(AnswerEnd::Refused(why)), _) => Err(why),
            _ => Err(new.end()),
        }
    }

    /// Decodes files together: how many were decoded, and how it ended. Which file ended a child is found by decoding them one by one.
    fn ask_together(&self, asked: &Asked<'_>, take: Take<'_>) -> (usize, Option<AnswerEnd>) {
        let mut whole = 0;
        let Some(mut child) = self.used().or_else(|| self.start().ok()) else { return (whole, None) };
        let ended = child.ask(asked, &mut |run| {
            whole += run.files.len();
            take(Ok(run));
        });
        if let Ok(AnswerEnd::Whole) = ended {
            self.keep(child);
        }
        (whole, ended.ok())
    }
}

impl Examine for SandboxedDecode {
    fn examine(&self, table: &'static Schema, bytes: &Bytes, most: DecodeLimits) -> Result<Examined, String> {
        let asked = Asked { table, files: std::slice::from_ref(bytes), most, wants: Wants::Sums };
        let run = self.ask_used(self.used(), &asked).map_or_else(|| self.ask_new(&asked), Ok)?;
        run.files.first().copied().ok_or_else(|| "nothing was said of it".to_owned())
    }

    fn read(&self, all: &Asked<'_>, turn: &dyn Fn() -> bool, take: Take<'_>) {
        let usual = DecodeLimits { memory: all.most.memory.min(USUAL_MEMORY), ..all.most };
        let mut rest = all.files;
        while !rest.is_empty() {
            let is_usual = |files: &[Bytes]| files.iter().map(Bytes::len).sum::<usize>() <= USUAL_MEMORY;
            // Large files are not decoded together.
            let (whole, ended) = match is_usual(rest) {
                true => self.ask_together(&Asked { files: rest, most: usual, ..*all }, take),
                false => (0, Some(AnswerEnd::Refused(String::new()))),
            };
            rest = rest.get(whole..).unwrap_or_default();
            // Either the next file is refused, or any of the rest ended the child.
            let singly = if let Some(AnswerEnd::Refused(_)) = ended { 1.min(rest.len()) } else { rest.len() };
            let (now, later) = rest.split_at(singly);
            for file in now.chunks(1) {
                let asked = |most| Asked { files: file, most, ..*all };
                let child = if singly > 1 { self.used().or_else(|| self.start().ok()) } else { None };
                let found = match self.ask_used(child, &asked(usual)) {
                    Some(run) => Ok(run),
                    None if turn() => self.ask_new(&asked(all.most)),
                    None => return,
                };
                if !take(found) {
                    return;
                }
            }
            rest = later;
        }
    }
}

impl DecodeChild {
    fn ask(&mut self, asked: &Asked<'_>, take: &mut dyn FnMut(Run)) -> io::Result<AnswerEnd> {
        let question = Question {
            table: asked.table.name.to_owned(),
            files: asked.files.iter().map(Bytes::len).collect(),
            memory: asked.most.memory,
            rows: asked.most.rows,
            needed: asked.most.needed,
            seconds: asked.most.seconds,
            answer: asked.wants,
        };
        wire::write_line(&mut self.to, &question)?;
        asked.files.iter().try_for_each(|file| self.to.write_all(file))?;
        self.to.flush()?;
        self.hear(asked, take)
    }

    fn hear(&mut self, asked: &Asked<'_>, take: &mut dyn FnMut(Run)) -> io::Result<AnswerEnd> {
        let wrong = |why: &str| io::Error::other(why.to_owned());
        let (mut rest, mut batches, mut bytes, mut rows) = (asked.files.len(), Vec::new(), 0_usize, 0_u64);
        while rest > 0 {
            match wire::read_line(&mut self.from)?.ok_or_else(|| wrong("it ended"))? {
                Answer::Rows(more) => {
                    bytes = bytes.saturating_add(more);
                    if bytes > asked.most_answered() {
                        return Err(wrong("larger rows than it may have"));
                    }
                    let mut encoded = vec![0; more];
                    self.from.read_exact(&mut encoded)?;
                    let decoded = wire::decode(encoded)?;
                    rows = decoded.iter().fold(rows, |rows, batch| rows.saturating_add(batch.num_rows() as u64));
                    // Few bytes can hold many rows.
                    if rows > asked.most.rows {
                        return Err(wrong("more rows than it may have"));
                    }
                    batches.extend(decoded);
                }
                Answer::Found(files) if files.is_empty() => return Err(wrong("of no file")),
                Answer::Found(files) => {
                    rest = rest.checked_sub(files.len()).ok_or_else(|| wrong("of more files than were asked"))?;
                    let run = Run { files, batches: std::mem::take(&mut batches), memory: bytes };
                    if asked.wants == Wants::Rows && !run.is_whole() {
                        return Err(wrong("other rows than it counted"));
                    }
                    (bytes, rows) = (0, 0);
                    take(run);
                }
                Answer::Refused(why) => return Ok(AnswerEnd::Refused(why)),
            }
        }
        Ok(AnswerEnd::Whole)
    }

    /// Ends the child and says why it gave no answer.
    fn end(mut self) -> String {
        let status = self.child.kill().and_then(|()| self.child.wait());
        let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        format!(
            "reading it ended the process that did ({how}): it is damaged, its rows take too much memory, or more processor time than it may have"
        )
    }
}

impl Asked<'_> {
    /// Maximum size of encoded rows before the child reports which files they belong to: the rows of one file, and the overhead
    /// of texts and lists.
    fn most_answered(&self) -> usize {
        self.most.memory.saturating_mul(2).saturating_add(64 << 20)
    }
}

impl Run {
    fn is_whole(&self) -> bool {
        let counted = self.files.iter().fold(0_u64, |rows, file| rows.saturating_add(file.rows));
        counted == self.batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>()
    }
}

impl Drop for DecodeChild {
    fn drop(&mut self) {
        // The child writes no files, so it can be killed at any point.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
#[path = "sandboxed_decode_tests.rs"]
mod tests;
