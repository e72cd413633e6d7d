//! What is around an answer: signals, exit codes, and what goes to standard error.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

/// The exit code of what could not be done.
const FAILED: u8 = 2;

/// Does what the program was called for; an error goes to standard error.
pub fn run(work: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error.into()),
    };
    let done = runtime.block_on(work);
    // What a query that was stopped still does is not waited for.
    runtime.shutdown_background();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&error),
    }
}

/// So long a program that is to end may need until it yields: one whose output nobody takes never does.
const MAX_WAIT_FOR_END: Duration = Duration::from_secs(5);

/// Does something unless the program is ended by SIGINT, SIGTERM or SIGHUP: then nothing half is left of what it was writing. Another of these does not wait for
/// that. Those that the program was started to ignore (`nohup`) are ignored.
///
/// # Errors
/// Those of what is done; or that it was ended.
pub async fn unless_ended(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let (sender, mut signals) = tokio::sync::mpsc::channel(1);
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        if is_ignored(kind) {
            continue;
        }
        let (mut signal, sender) = (signal(kind)?, sender.clone());
        tokio::spawn(async move { while signal.recv().await.is_some() && sender.send(()).await.is_ok() {} });
    }
    let (told, stopped) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        // One stays here, so that there is an end of none.
        let _sender = sender;
        signals.recv().await;
        let _ = told.send(());
        let _ = tokio::time::timeout(MAX_WAIT_FOR_END, signals.recv()).await;
        std::process::exit(FAILED.into());
    });
    tokio::select! {
        done = work => done,
        _ = stopped => Err(anyhow::anyhow!("stopped")),
    }
}

fn is_ignored(signal: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0);
    ignored >> (signal.as_raw_value() - 1) & 1 == 1
}

/// What is said beside an answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum About {
    /// What this user may not read.
    Closed,
    /// What is called like a commit.
    Commit,
    /// A link.
    Link,
    /// A name that nothing of a table has.
    Name,
    /// A file, or what is where no file of a table is.
    Place,
    /// A table.
    Table,
    /// Merged rows without a commit.
    Uncommitted,
}

/// So much is said of a kind: hosts can make any number of links and names.
const MAX_NOTES: u64 = 10;

/// How much was said of each, and was not.
static SAID: Mutex<BTreeMap<About, u64>> = Mutex::new(BTreeMap::new());

/// Says something beside the answer, or counts it if enough was said of its kind. Names in it may be anybody's, and it goes to a terminal.
pub(crate) fn note(about: About, text: &str) {
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    let count = said.entry(about).or_default();
    *count += 1;
    if *count <= MAX_NOTES {
        eprintln!("unstarve sql: {}", unstarve_model::clean(text));
    }
}

/// Says how much was not said, and begins to count anew.
pub(crate) fn note_the_rest() {
    let said = std::mem::take(&mut *SAID.lock().unwrap_or_else(PoisonError::into_inner));
    for (about, count) in said {
        if count > MAX_NOTES {
            let what = match about {
                About::Closed => "files that this user may not read left out",
                About::Commit => "files that are only called like commits passed over",
                About::Link => "links left out",
                About::Name => "names with control characters or that are no UTF-8 left out",
                About::Place => "files and directories left out",
                About::Table => "tables left out",
                About::Uncommitted => "places of merged rows without a commit left out",
            };
            eprintln!("unstarve sql: and {} more {what}", count - MAX_NOTES);
        }
    }
}

fn complain(error: &anyhow::Error) -> ExitCode {
    eprintln!("unstarve sql: {}", unstarve_model::clean(&format!("{error:#}")).replace("\\n", "\n"));
    ExitCode::from(FAILED)
}
