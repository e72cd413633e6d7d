//! A program that answers questions, from its begin to its exit code.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use tokio::signal::unix::{SignalKind, signal};

/// The exit code of what could not be done.
const FAILED: u8 = 2;

/// Does what a program is called for; an error goes to standard error, after the name.
pub fn run(name: &str, work: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return complain(name, &error.into()),
    };
    let done = runtime.block_on(work);
    // What a query that was stopped still does is not waited for.
    runtime.shutdown_background();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(name, &error),
    }
}

/// Does something unless the program is ended by SIGINT, SIGTERM or SIGHUP: then nothing half is left of what it was writing. A second SIGINT does not wait for that.
///
/// # Errors
/// Those of what is done; or that it was ended.
pub async fn unless_ended(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let (mut interrupt, mut again) = (signal(SignalKind::interrupt())?, signal(SignalKind::interrupt())?);
    let (mut terminate, mut hang_up) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
    tokio::spawn(async move {
        again.recv().await;
        again.recv().await;
        std::process::exit(FAILED.into());
    });
    tokio::select! {
        done = work => done,
        _ = interrupt.recv() => Err(anyhow::anyhow!("stopped")),
        _ = terminate.recv() => Err(anyhow::anyhow!("stopped")),
        _ = hang_up.recv() => Err(anyhow::anyhow!("stopped")),
    }
}

/// What is said beside an answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum About {
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
}

/// So much is said of a kind: hosts can make any number of links and names.
const FEW: u64 = 10;

/// How much was said of each, and was not.
static SAID: Mutex<BTreeMap<About, u64>> = Mutex::new(BTreeMap::new());

/// Says something beside the answer, or counts it if enough was said of its kind. Names in it may be anybody's, and it goes to a terminal.
pub(crate) fn note(about: About, text: &str) {
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    let count = said.entry(about).or_default();
    *count += 1;
    if *count <= FEW {
        eprintln!("unstarve sql: {}", unstarve_model::clean(text));
    }
}

/// Says how much was not said, and begins to count anew.
pub(crate) fn note_the_rest() {
    let said = std::mem::take(&mut *SAID.lock().unwrap_or_else(PoisonError::into_inner));
    for (about, count) in said {
        if count > FEW {
            let what = match about {
                About::Commit => "files that are only called like commits passed over",
                About::Link => "links left out",
                About::Name => "names with control characters or that are no UTF-8 left out",
                About::Place => "files and directories left out",
                About::Table => "tables left out",
            };
            eprintln!("unstarve sql: and {} more {what}", count - FEW);
        }
    }
}

fn complain(name: &str, error: &anyhow::Error) -> ExitCode {
    eprintln!("unstarve {name}: {}", unstarve_model::clean(&format!("{error:#}")).replace("\\n", "\n"));
    ExitCode::from(FAILED)
}
