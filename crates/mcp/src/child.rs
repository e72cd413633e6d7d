//! Runs a command of this program in a process of its own: what a damaged recording does ends that process, and no more.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::sync::{Semaphore, oneshot};
use unstarve_files::ThisProgram;

use crate::places::Opened;

/// How long a command may take.
pub const TIME_LIMIT: Duration = Duration::from_secs(120);
/// What is kept of its output, and of its messages.
pub const MAX_OUTPUT_BYTES: u64 = 1 << 20;
const MAX_MESSAGE_BYTES: u64 = 16 << 10;
/// How often a file is named in what a command printed.
const MAX_NAMES: usize = 64;
/// Width of what it prints.
const COLUMNS: &str = "100";
/// Commands that run at once; others wait.
static RUNNING: Semaphore = Semaphore::const_new(4);

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// By itself, with this exit code.
    Code(i32),
    /// By a signal.
    Signal,
    /// Stopped, as it took too long.
    Late(Duration),
}

/// What happens to a command that nobody waits for any more, or that takes too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// It is killed: it changes nothing.
    Kill,
    /// It is asked to end, and waited for: it takes back what it has changed.
    Ask,
}

/// What a command printed, with descriptors where it got files.
pub struct Said {
    pub output: String,
    pub messages: String,
    pub end: End,
    /// Whether it printed more than is kept.
    pub is_cut: bool,
}

/// Runs it. It is ended, and waited for, if nobody wants its output any more.
///
/// # Errors
/// If it cannot be started.
pub async fn run(arguments: &[String], files: &[Opened], (limit, stop): (Duration, Stop)) -> std::io::Result<Said> {
    let turn = RUNNING.acquire().await.map_err(std::io::Error::other)?;
    let mut command = ThisProgram::find()?.command();
    command.args(arguments).env("COLUMNS", COLUMNS).env("NO_COLOR", "1").env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    files.iter().for_each(|opened| opened.file.to(&mut command));
    let mut command: Command = command.into();
    let mut child = command.kill_on_drop(stop == Stop::Kill).spawn()?;
    // Dropped with this future, which the task outlives.
    let (_wanted, unwanted) = oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        let said = tokio::select! {
            said = tokio::time::timeout(limit, said_by(&mut child)) => said.ok(),
            _ = unwanted => None,
        };
        match (&said, stop) {
            (Some(_), _) => {}
            (None, Stop::Kill) => child.kill().await?,
            (None, Stop::Ask) => {
                if let Some(pid) = child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed())) {
                    // If it has ended meanwhile, there is nothing to ask.
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
                }
                child.wait().await?;
            }
        }
        drop(turn);
        said.unwrap_or(Ok(Said {
            output: String::new(),
            messages: String::new(),
            end: End::Late(limit),
            is_cut: false,
        }))
    });
    task.await.map_err(std::io::Error::other)?
}

impl Said {
    /// With the names of files instead of the descriptors.
    pub fn named(self, files: &[Opened]) -> Said {
        Said { output: named(self.output, files), messages: named(self.messages, files), ..self }
    }
}

async fn said_by(child: &mut Child) -> std::io::Result<Said> {
    let (output, messages) = (child.stdout.take(), child.stderr.take());
    let ((output, is_cut), (messages, _)) =
        tokio::join!(read(output, MAX_OUTPUT_BYTES), read(messages, MAX_MESSAGE_BYTES));
    // It may wait for a reader of what is not kept.
    if is_cut {
        child.start_kill()?;
    }
    let end = match child.wait().await?.code() {
        Some(code) => End::Code(code),
        None if is_cut => End::Code(0),
        None => End::Signal,
    };
    Ok(Said { output, messages, end, is_cut })
}

async fn read(from: Option<impl AsyncRead + Unpin>, limit: u64) -> (String, bool) {
    let Some(from) = from else { return (String::new(), false) };
    let mut bytes = Vec::new();
    // What was read before an error is still what it said.
    let _ = from.take(limit + 1).read_to_end(&mut bytes).await;
    let is_cut = bytes.len() as u64 > limit;
    bytes.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    (String::from_utf8_lossy(&bytes).into_owned(), is_cut)
}

/// The text with names of files. Longer numbers first: 12 begins with 1. A text of a recording can have any number of such words: beyond
/// a limit they stay.
pub fn named(mut text: String, files: &[Opened]) -> String {
    let mut files: Vec<&Opened> = files.iter().collect();
    files.sort_by_key(|opened| std::cmp::Reverse(opened.file.number()));
    for opened in files {
        let path = opened.file.path();
        text = text.replacen(&*path.to_string_lossy(), &opened.shown, MAX_NAMES);
    }
    text
}
