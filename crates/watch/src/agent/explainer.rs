//! Explains traces on disk, one after another, and has the episodes published. It has its own thread: meanwhile the
//! [`trace_writer`](crate::agent::trace_writer) writes the next trace.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use crate::agent::board::Board;
use crate::agent::config::Config;
use crate::agent::episode_publisher::{EpisodePublisher, Written};
use crate::agent::guard_status::GuardStatus;
use crate::agent::memory;
use crate::agent::outputs::Outputs;
use crate::agent::store::{Limits, REPORT, Rank, Store};
use crate::engine::error_chain;
use crate::episode::{Episode, Explanation};

/// Makes the command that writes report and page into an episode's directory: this program again, in a process of its own, so that
/// its memory use or a crash does not affect the watch.
pub type ExplainCommand = Box<dyn Fn(&Path) -> Command + Send>;

/// Time limit of an explanation. Ten million events take some seconds.
const LONGEST: Duration = Duration::from_secs(180);

/// Time limit of all explanations at shutdown; the next start explains the rest.
const AT_THE_END: Duration = Duration::from_secs(3);

/// Maximum kept of an error output.
const SAID: u64 = 4 << 10;

/// Maximum size of a report; usually some hundred KiB.
const LARGEST_REPORT: u64 = 64 << 20;

/// The settings of trace writer, explainer and publisher.
#[derive(Clone)]
pub(crate) struct PipelineSettings {
    pub(crate) outputs: Outputs,
    pub(crate) limits: Limits,
    /// Roles that no episode is about.
    pub(crate) ignored: Arc<[String]>,
}

impl PipelineSettings {
    pub(crate) fn of(config: &Config, outputs: Outputs) -> PipelineSettings {
        let ignored = config.thresholds.role.iter().filter(|(_, own)| own.ignore).map(|(name, _)| name.clone());
        PipelineSettings { outputs, limits: config.store.limits(), ignored: ignored.collect() }
    }
}

/// Work for the explainer.
pub(crate) enum Task {
    /// An episode that is written or has no trace.
    Publish(Box<Written>),
    /// An episode that an earlier watch wrote and did not explain.
    Left(Box<Written>),
    /// A new configuration.
    Configure(PipelineSettings),
}

/// Order of waiting tasks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Turn {
    /// No trace: takes no time.
    Quick,
    /// Of kernel threads.
    Kernel,
    /// Of programs: any user can cause these.
    Programs,
}

impl Task {
    fn turn(&self) -> Turn {
        match self {
            Task::Publish(written) | Task::Left(written) if written.episode.trace_bytes.is_some() => {
                match written.rank() {
                    // Somebody waits for a dump.
                    Rank::Dump | Rank::Kernel => Turn::Kernel,
                    Rank::Programs => Turn::Programs,
                }
            }
            Task::Publish(_) | Task::Left(_) | Task::Configure(_) => Turn::Quick,
        }
    }
}

/// Waiting tasks, in order of arrival.
#[derive(Default)]
struct Waiting(VecDeque<Task>);

impl Waiting {
    /// Waits for the next task: the first of the most urgent. `None` after the last one.
    fn next(&mut self, tasks: &Receiver<Task>) -> Option<Task> {
        if self.0.is_empty() {
            self.0.push_back(tasks.recv().ok()?);
        }
        self.0.extend(tasks.try_iter());
        let (at, _) = self.0.iter().enumerate().min_by_key(|(_, task)| task.turn())?;
        self.0.remove(at)
    }
}

pub(crate) struct Explainer {
    pub(crate) store: Arc<Store>,
    pub(crate) settings: PipelineSettings,
    pub(crate) explain: ExplainCommand,
    pub(crate) board: Arc<Board>,
    pub(crate) guard: GuardStatus,
    pub(crate) end: End,
}

/// The shutdown of the watch: the next start explains what is left.
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

    /// Whether the time is over.
    fn is_here(&mut self) -> bool {
        self.is_near() && self.since.get_or_insert_with(Instant::now).elapsed() > AT_THE_END
    }
}

impl Explainer {
    pub(crate) fn run(mut self, tasks: &Receiver<Task>) {
        let mut waiting = Waiting::default();
        while let Some(task) = waiting.next(tasks) {
            match task {
                // Left to the next start.
                Task::Left(_) if self.end.is_near() => {}
                Task::Publish(written) | Task::Left(written) => {
                    let id = written.episode.id.clone();
                    self.explained(*written);
                    self.store.is_explained(&id);
                    self.board.note_kept(&self.store);
                    memory::give_back();
                }
                Task::Configure(settings) => self.settings = settings,
            }
        }
    }

    /// Explains the trace, if there is one, and publishes.
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
                // A service manager stops the explanation with the watch.
                Err(_) if self.end.is_near() => return,
                Err(problem) => episode.problem = Some(format!("not explained: {problem}")),
            }
        }
        episode.guard = self.guard.state();
        self.publisher().publish(Written { episode, along, reply }, explanation.as_ref());
    }

    fn publisher(&self) -> EpisodePublisher {
        EpisodePublisher {
            store: Arc::clone(&self.store),
            outputs: self.settings.outputs.clone(),
            board: Arc::clone(&self.board),
        }
    }

    fn explain(&mut self, episode: &Episode) -> Result<Explanation, String> {
        let directory = self.store.directory_of(&episode.id);
        run((self.explain)(&directory), &mut self.end)?;
        let directory = unstarve_files::Directory::open(&directory).map_err(|error| error_chain(&error))?;
        let report = directory.read(REPORT.as_ref(), LARGEST_REPORT).map_err(|error| error_chain(&error))?;
        let report = report.ok_or_else(|| format!("no {REPORT} was written"))?;
        let explanation = Explanation::parse(&report).map_err(|error| format!("{REPORT}: {error}"))?;
        Ok(explanation.ignoring(&self.settings.ignored))
    }
}

/// Runs an explanation; kills it when its time, or that of the shutdown, is over.
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
            // Drain the rest: a full or closed pipe would end the child.
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

    fn task(number: u64, role: &str) -> Task {
        use crate::episode::{Party, Seen, Trigger, id_of};

        let at = crate::testing::at(number).wall;
        let victim = Some(Party { role: Some(role.to_owned()), ..Party::default() });
        let trigger = Trigger::Oldest { ns: 2, threshold_ns: 1 };
        let seen = Seen { trigger, since_mono_ns: None, victim, culprit: None, rule: None, blamed_ns: None };
        let episode = Episode { trigger: Some(seen), trace_bytes: Some(10), ..Episode::begun(id_of(at), at) };
        Task::Publish(Box::new(Written { episode, along: Vec::new(), reply: None }))
    }

    /// Any user can cause episodes of programs, and each explanation can take minutes.
    #[test]
    fn those_of_kernel_threads_are_explained_first() {
        let (sender, tasks) = std::sync::mpsc::channel();
        let send = |number, role: &str| sender.send(task(number, role)).expect("sent");
        let mut waiting = Waiting::default();
        let mut next = || match waiting.next(&tasks) {
            Some(Task::Publish(written)) => (written.episode.at_ns - crate::testing::at(0).wall.0) / 1_000_000,
            _ => panic!("no episode"),
        };
        (1..4).for_each(|number| send(number, "other"));
        assert_eq!(next(), 1, "there is none else");
        send(4, "kworker");
        send(5, "other");
        send(6, "ksoftirqd");
        let mut without_trace = task(7, "other");
        if let Task::Publish(written) = &mut without_trace {
            written.episode.trace_bytes = None;
        }
        sender.send(without_trace).expect("sent");
        assert_eq!([next(), next(), next()], [7, 4, 6], "what takes no time waits for nobody");
        send(8, "kworker");
        drop(sender);
        assert_eq!([next(), next(), next(), next()], [8, 2, 3, 5]);
        assert!(waiting.next(&tasks).is_none());
    }

    /// With any number of waiting episodes, no explanation outlives the watch, and shutdown does not take longer.
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
