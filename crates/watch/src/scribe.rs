//! Writes episodes down, one after another, in a thread of its own: trace, explanation, log, and who is to hear of it.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use unstarve_record::{Frozen, Roll};

use crate::config::Store as StoreConfig;
use crate::episode::{Episode, Explanation};
use crate::guarded::Guarded;
use crate::hurry::HurryInTurns;
use crate::run::Event;
use crate::store::{Left, Limits, REPORT, Store, StoreError, TRACE};
use crate::tell::log::Log;
use crate::tell::{Board, Courier};

/// What writes the report and the page of the trace in an episode's directory: this program again, so that what an analysis
/// takes of memory, or what ends it, does not touch the watch.
pub type ExplainCommand = Box<dyn Fn(&Path) -> Command + Send>;

/// For an explanation. Ten million events take some seconds.
const LONGEST: Duration = Duration::from_secs(180);

/// For one while the watch ends; the next one explains what was not.
const AT_THE_END: Duration = Duration::from_secs(3);

/// Of what it says of its failure.
const SAID: u64 = 4 << 10;

/// A report is some hundred KiB.
const LARGEST_REPORT: u64 = 64 << 20;

/// What is to be written.
pub(crate) enum Job {
    /// A new episode.
    Keep(Box<Keep>),
    /// One whose trace is there: it was not explained yet when its watch was killed.
    Explain(Box<Left>),
    /// What a new configuration says.
    Configure(Outputs),
    /// Something that the system's log is to have.
    Warn(String),
}

pub(crate) struct Keep {
    pub(crate) episode: Box<Episode>,
    /// Others that began before it was written: they are in its trace.
    pub(crate) along: Vec<Episode>,
    /// What the flight recorder held; nothing if it is off.
    pub(crate) frozen: Option<Frozen>,
    /// When the episode was seen.
    pub(crate) seen: Instant,
    /// Gets the outcome of a dump on demand.
    pub(crate) reply: Option<Sender<String>>,
}

/// Who hears of an episode.
#[derive(Clone)]
pub(crate) struct Outputs {
    pub(crate) log: Arc<Log>,
    pub(crate) webhook: Option<Arc<Courier<Arc<Episode>>>>,
    pub(crate) store: StoreConfig,
    /// Roles that are never whom an episode is about.
    pub(crate) ignored: Arc<[String]>,
}

impl Outputs {
    /// One word on an episode.
    pub(crate) fn tell(&self, episode: &Arc<Episode>, board: &Board) {
        if !self.log.write(episode) {
            board.undelivered("log");
        }
        if let Some(webhook) = &self.webhook {
            webhook.send(Arc::clone(episode));
        }
    }
}

pub(crate) struct Scribe {
    pub(crate) store: Store,
    pub(crate) outputs: Outputs,
    pub(crate) explain: ExplainCommand,
    pub(crate) board: Arc<Board>,
    pub(crate) events: Sender<Event>,
    pub(crate) guarded: Guarded,
    /// Bytes of the latest trace: what the next one may take.
    pub(crate) expected: u64,
    /// The watch ends: what is not explained by now the next one explains.
    pub(crate) ending: Arc<AtomicBool>,
}

/// What a trace may take before one was written.
pub(crate) const FIRST_EXPECTED: u64 = 4 << 20;

/// The limits that a configuration says.
pub(crate) fn limits(config: &StoreConfig) -> Limits {
    Limits { bytes: config.mib.saturating_mul(1 << 20), episodes: config.episodes as usize }
}

impl Scribe {
    pub(crate) fn run(mut self, jobs: &Receiver<Job>) {
        self.note_kept();
        for job in jobs {
            match job {
                Job::Keep(keep) => self.keep(*keep),
                // The next watch does.
                Job::Explain(_) if self.ending.load(Ordering::Relaxed) => {}
                Job::Explain(left) => self.explained(left.episode, left.along, None),
                Job::Configure(outputs) => {
                    self.store.limit(limits(&outputs.store));
                    self.outputs = outputs;
                }
                Job::Warn(text) if !self.outputs.log.warn(&text) => self.board.undelivered("log"),
                Job::Warn(_) => {}
            }
        }
    }

    fn keep(&mut self, keep: Keep) {
        let Keep { mut episode, along, frozen, seen, reply } = keep;
        // The old buffers fill up again meanwhile, and ordinary load must not delay it. But a snapshot and a trace take long enough to
        // starve whoever waits for this CPU.
        let hurry = HurryInTurns::up();
        let saved = match frozen {
            Some(frozen) => self.save(&mut episode, &along, frozen, seen),
            None => Ok(()),
        };
        drop(hurry);
        if let Err(problem) = saved {
            self.problem(&problem);
            episode.problem = Some(format!("no trace: {problem}"));
        }
        self.explained(*episode, along, reply);
    }

    /// The trace, on the disk. The recorder's instance goes back as soon as it is empty.
    fn save(&mut self, episode: &mut Episode, along: &[Episode], frozen: Frozen, seen: Instant) -> Result<(), String> {
        let words = |error: &dyn std::error::Error| chain(error);
        let unfinished = match self.store.begin(&episode.id, self.expected) {
            Ok(unfinished) => unfinished,
            Err(error) => {
                self.give_back(frozen.discard());
                return Err(words(&error));
            }
        };
        let announced = std::mem::replace(&mut episode.id, unfinished.id().to_owned());
        episode.announced_as = Some(announced).filter(|announced| *announced != episode.id);
        episode.sequence = Some(unfinished.sequence());
        if !unfinished.removed().is_empty() {
            let removed = unfinished.removed().join(", ");
            let _ = self.events.send(Event::Remark(format!("removed to make room for {}: {removed}", episode.id)));
        }
        let (saved, roll) = frozen.save(&unfinished.trace());
        self.give_back(roll);
        let saved = saved.map_err(|error| words(&error))?;
        episode.trace_bytes = Some(saved.size);
        self.expected = saved.size.max(1 << 20);
        unfinished.finish(&self.store, episode, along).map_err(|error| {
            episode.trace_bytes = None;
            words(&error)
        })?;
        let took = u64::try_from(seen.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.board.write(|published| published.counts.to_disk_ns = Some(took));
        Ok(())
    }

    fn give_back(&self, roll: Roll) {
        // Nobody takes it where the watch is ending.
        let _ = self.events.send(Event::Roll(roll));
    }

    /// Explains the trace, if there is one, and says everywhere what is known.
    fn explained(&mut self, mut episode: Episode, along: Vec<Episode>, reply: Option<Sender<String>>) {
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
                Err(_) if self.ending.load(Ordering::Relaxed) => return,
                Err(problem) => episode.problem = Some(format!("not explained: {problem}")),
            }
        }
        episode.guard = self.guarded.word();
        if episode.trace_bytes.is_some()
            && let Err(error) = self.store.note(&episode)
        {
            self.problem(&chain(&error));
        }
        if explanation.as_ref().is_some_and(|found| found.missed(&episode).is_some()) {
            self.board.write(|published| published.counts.short_traces += 1);
        }
        let shared = along.into_iter().map(|mut other| {
            other.note_shared(&episode, explanation.as_ref());
            if let Some(explanation) = &explanation {
                other.note_tasks(explanation);
            }
            other
        });
        // The one that has the trace comes last: until it is in the log, a watch that starts looks for those that share it.
        let shared: Vec<Episode> = shared.collect();
        shared.into_iter().for_each(|other| self.tell(Arc::new(other), None));
        self.tell(Arc::new(episode), reply);
    }

    fn explain(&self, episode: &Episode) -> Result<Explanation, String> {
        let directory = self.store.directory_of(&episode.id);
        run((self.explain)(&directory), &self.ending)?;
        let directory = unstarve_files::Directory::open(&directory).map_err(|error| chain(&error))?;
        let report = directory.read(REPORT.as_ref(), LARGEST_REPORT).map_err(|error| chain(&error))?;
        let report = report.ok_or_else(|| format!("no {REPORT} was written"))?;
        let explanation = Explanation::parse(&report).map_err(|error| format!("{REPORT}: {error}"))?;
        Ok(explanation.ignoring(&self.outputs.ignored))
    }

    fn tell(&mut self, episode: Arc<Episode>, reply: Option<Sender<String>>) {
        let logged = self.store.logbook().add(&episode);
        let logged = logged.and_then(|()| self.store.is_logged(&episode));
        if let Err(error) = &logged {
            self.problem(&chain(error));
        }
        let is_dump = episode.trigger.is_none();
        self.board.write(|published| {
            if logged.is_ok() && episode.problem.is_none() {
                published.problems.remove("store");
            }
            if !is_dump {
                let finding = episode.counts_as().unwrap_or("none").to_owned();
                *published.counts.episodes.entry(finding).or_insert(0) += 1;
            }
            published.list(Arc::clone(&episode));
        });
        self.note_kept();
        // Who asked for a dump hears it there.
        if !is_dump {
            self.outputs.tell(&episode, &self.board);
        }
        if let Some(reply) = reply {
            let _ = reply.send(serde_json::to_string(episode.as_ref()).unwrap_or_default());
        }
    }

    fn note_kept(&self) {
        let kept = self.store.kept().ok();
        self.board.write(|published| published.counts.kept = kept);
    }

    fn problem(&self, problem: &str) {
        self.board.store_problem(problem);
    }
}

/// An error and its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// Runs the explanation behind everything else that the machine does; ends it if it takes too long, be it for a watch that ends: others
/// may wait to be written.
fn run(mut command: Command, ending: &AtomicBool) -> Result<(), String> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child =
        command.spawn().map_err(|error| format!("cannot run {}: {error}", command.get_program().display()))?;
    let begun = Instant::now();
    let mut ended = None;
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
                if ending.load(Ordering::Relaxed) {
                    ended.get_or_insert_with(Instant::now);
                }
                if begun.elapsed() > LONGEST || ended.is_some_and(|ended: Instant| ended.elapsed() > AT_THE_END) {
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

/// Of an episode's directory what the explanation reads.
pub fn trace_in(directory: &Path) -> std::path::PathBuf {
    directory.join(TRACE)
}

/// Opens the store, and gives the episodes that were not explained.
pub(crate) fn open(config: &StoreConfig) -> Result<(Store, Vec<Left>), StoreError> {
    let store = Store::open(&config.directory, limits(config))?;
    let unexplained = store.unexplained()?;
    Ok((store, unexplained))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_that_says_much_is_not_ended_by_it() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            run(command, &AtomicBool::new(false))
        };
        let much = "yes warning | head -c 300000 >&2";
        assert_eq!(shell(much), Ok(()));
        let failed = shell(&format!("printf '\\377first ' >&2; {much}; exit 3")).expect_err("it failed");
        assert!(failed.contains("exit status: 3") && failed.contains("first warning"), "{failed}");
        assert!(failed.len() < 5000, "{}", failed.len());
    }
}
