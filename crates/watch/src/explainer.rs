//! Explains episodes whose traces are on the disk, one after another, in a thread of its own, and says everywhere what is known of them.
//! That takes as long as the machine is busy; meanwhile the [`scribe`](crate::scribe) writes the next trace.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use crate::episode::{Episode, Explanation};
use crate::guarded::Guarded;
use crate::memory;
use crate::outputs::Outputs;
use crate::scribe::{chain, note_kept};
use crate::store::{REPORT, Store};
use crate::tell::Board;
use crate::teller::{Teller, Written};

/// What writes the report and the page of the trace in an episode's directory: this program again, so that what an analysis
/// takes of memory, or what ends it, does not touch the watch.
pub type ExplainCommand = Box<dyn Fn(&Path) -> Command + Send>;

/// For an explanation. Ten million events take some seconds.
const LONGEST: Duration = Duration::from_secs(180);

/// For all together once the watch ends; the next one explains what was not.
const AT_THE_END: Duration = Duration::from_secs(3);

/// Of what it says of its failure.
const SAID: u64 = 4 << 10;

/// A report is some hundred KiB.
const LARGEST_REPORT: u64 = 64 << 20;

/// What is to be explained.
pub(crate) enum Task {
    /// An episode that is written, or that has no trace.
    Tell(Box<Written>),
    /// One whose trace is there: it was not explained yet when its watch was killed.
    Left(Box<Written>),
    /// What a new configuration says.
    Configure(Outputs),
}

pub(crate) struct Explainer {
    pub(crate) store: Arc<Store>,
    pub(crate) outputs: Outputs,
    pub(crate) explain: ExplainCommand,
    pub(crate) board: Arc<Board>,
    pub(crate) guarded: Guarded,
    pub(crate) end: End,
}

/// The end of the watch, as who explains sees it: what is not explained by then the next watch explains.
pub(crate) struct End {
    is_near: Arc<AtomicBool>,
    since: Option<Instant>,
}

impl End {
    pub(crate) fn when(is_near: Arc<AtomicBool>) -> End {
        End { is_near, since: None }
    }

    fn is_near(&self) -> bool {
        self.is_near.load(Ordering::Relaxed)
    }

    /// Whether there is no time any more.
    fn is_here(&mut self) -> bool {
        self.is_near() && self.since.get_or_insert_with(Instant::now).elapsed() > AT_THE_END
    }
}

impl Explainer {
    pub(crate) fn run(mut self, tasks: &Receiver<Task>) {
        for task in tasks {
            match task {
                // The next watch does.
                Task::Left(_) if self.end.is_near() => {}
                Task::Tell(written) | Task::Left(written) => {
                    let id = written.episode.id.clone();
                    self.explained(*written);
                    self.store.is_explained(&id);
                    note_kept(&self.store, &self.board);
                    memory::give_back();
                }
                Task::Configure(outputs) => self.outputs = outputs,
            }
        }
    }

    /// Explains the trace, if there is one, and says everywhere what is known.
    fn explained(&mut self, written: Written) {
        let Written { mut episode, along, reply } = written;
        let mut explanation = None;
        if episode.trace_bytes.is_some() {
            match self.explain(&episode) {
                Ok(found) => {
                    match along.is_empty() {
                        true => episode.note_trace(&found),
                        false => episode.note_trace_of_many(&found),
                    }
                    episode.note_tasks(&found);
                    explanation = Some(found);
                }
                // Who stops the watch may have ended the explanation, too.
                Err(_) if self.end.is_near() => return,
                Err(problem) => episode.problem = Some(format!("not explained: {problem}")),
            }
        }
        episode.guard = self.guarded.word();
        self.teller().tell(Written { episode, along, reply }, explanation.as_ref());
    }

    fn teller(&self) -> Teller {
        Teller { store: Arc::clone(&self.store), outputs: self.outputs.clone(), board: Arc::clone(&self.board) }
    }

    fn explain(&mut self, episode: &Episode) -> Result<Explanation, String> {
        let directory = self.store.directory_of(&episode.id);
        run((self.explain)(&directory), &mut self.end)?;
        let directory = unstarve_files::Directory::open(&directory).map_err(|error| chain(&error))?;
        let report = directory.read(REPORT.as_ref(), LARGEST_REPORT).map_err(|error| chain(&error))?;
        let report = report.ok_or_else(|| format!("no {REPORT} was written"))?;
        let explanation = Explanation::parse(&report).map_err(|error| format!("{REPORT}: {error}"))?;
        Ok(explanation.ignoring(&self.outputs.ignored))
    }
}

/// Runs the explanation behind everything else that the machine does; ends it if it takes too long, be it for a watch that ends: others
/// may wait to be written.
fn run(mut command: Command, end: &mut End) -> Result<(), String> {
    if end.is_here() {
        return Err("the watch ends".to_owned());
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child =
        command.spawn().map_err(|error| format!("cannot run {}: {error}", command.get_program().display()))?;
    let begun = Instant::now();
    let mut errors = child.stderr.take();
    let said = std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(errors) = &mut errors {
            let _ = io::Read::read_to_end(&mut io::Read::take(&mut *errors, SAID), &mut text);
            // The rest is read all the same: a pipe that is full, or that nobody reads, would end it.
            let _ = io::copy(errors, &mut io::sink());
        }
        String::from_utf8_lossy(&text).into_owned()
    });
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => {
                let said = said.join().unwrap_or_default();
                return Err(format!("{status}: {}", said.trim()));
            }
            Ok(None) => {
                if begun.elapsed() > LONGEST || end.is_here() {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(format!("it took {} s and was ended", begun.elapsed().as_secs()));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_that_says_much_is_not_ended_by_it() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            run(command, &mut End::when(Arc::default()))
        };
        let much = "yes warning | head -c 300000 >&2";
        assert_eq!(shell(much), Ok(()));
        let failed = shell(&format!("printf '\\377first ' >&2; {much}; exit 3")).expect_err("it failed");
        assert!(failed.contains("exit status: 3") && failed.contains("first warning"), "{failed}");
        assert!(failed.len() < 5000, "{}", failed.len());
    }

    /// However many wait to be explained: no explanation outlives the watch, which is not waited for any longer.
    #[test]
    fn explanations_at_the_end_have_one_time_together() {
        let place = tempfile::tempdir().expect("a directory");
        let file = place.path().join("begun");
        let begin = || {
            let mut command = Command::new("sh");
            command.args(["-c", "echo >>\"$0\"; exec sleep 60"]).arg(&file);
            command
        };
        let mut end = End::when(Arc::new(AtomicBool::new(true)));
        assert!(run(begin(), &mut end).is_err_and(|why| why.contains("was ended")));
        for _ in 0..3 {
            assert!(run(begin(), &mut end).is_err_and(|why| why.contains("the watch ends")));
        }
        assert!(std::fs::read(&file).is_ok_and(|lines| lines.len() <= 1), "the others did not begin");
    }
}
