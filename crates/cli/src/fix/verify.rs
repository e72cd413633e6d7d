//! `unstarve fix --verify`: measures the victim's waits without the change, with it, and without it again.

use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use unstarve_change::{Place, TaskKey};
use unstarve_diagnose::report::Finding;
use unstarve_executor::audit::Audit;
use unstarve_executor::journal::Step;
use unstarve_executor::proc;
use unstarve_executor::trial::{self, TrialError};
use unstarve_facts::flag;
use unstarve_files::ThisProgram;
use unstarve_guard::verify::{By, Fared, Figures, Judged, Span, Verdict, judge, must_last_longer, watch_tasks};
use unstarve_model::{Tid, clean};

use super::LowArgs;
use crate::output;

/// How often new threads of the victim are detected.
const VICTIM_SCAN_INTERVAL: Duration = Duration::from_millis(500);
/// How long ordinary tasks may starve before the trial reverts everything.
const STARVATION_TIMEOUT: Duration = Duration::from_secs(10);

/// The result of a trial.
pub struct Tried {
    judged: Judged,
    measured: [(By, Fared); 3],
}

impl Tried {
    pub fn helped(&self) -> bool {
        self.judged.verdict == Verdict::Helped
    }

    /// Whether the measurement shows that the change does not help; too few waits do not count as that.
    pub fn is_known(&self) -> bool {
        matches!(self.judged.verdict, Verdict::Helped | Verdict::DidNotHelp)
    }

    pub fn reason(&self) -> String {
        let longer = match self.judged.reason.may_be_decided_by_time() {
            true => "; measure for longer (--verify TIME)",
            false => "",
        };
        format!("{}{longer}", self.judged.reason)
    }

    /// The victim's waits without the change, with it, and without it again.
    pub fn measured(&self) -> [Fared; 3] {
        [0, 1, 2].map(|side: usize| self.measured[side].1.clone())
    }

    /// The figures that decided against the change.
    pub fn figures(&self) -> Option<Figures> {
        self.judged.reason.figures()
    }
}

pub fn run(args: &LowArgs, finding: &Finding, steps: &mut [Step], time: Duration) -> Result<Trial> {
    let changed: Vec<TaskKey> = steps.iter().filter_map(|step| task_of(&step.target)).collect();
    let victim = Victim::of(finding, changed);
    let look = move || Ok(victim.threads());
    if look().is_ok_and(|found: Vec<TaskKey>| found.is_empty()) {
        bail!(
            "no thread of the victim ({}) is here now: run it while the load that suffers runs, or apply it without --verify",
            finding.victim.comm
        );
    }
    let program = ThisProgram::find().context("this program's own file")?;
    let state = args.state.clone();
    let dead_man = move |priority: u32| {
        let mut command = program.command();
        command.args(["guard", "dead-man", "--trial", "--state"]).arg(&state);
        command
            .arg("--limit")
            .arg(STARVATION_TIMEOUT.as_secs().to_string())
            .arg("--priority")
            .arg(priority.to_string());
        command.arg("--guard").arg(std::process::id().to_string());
        command
    };
    let stop = Arc::new(AtomicBool::new(false));
    stop_on_signals(stop.clone())?;
    let options = trial::Options { directory: &args.state, dead_man: &dead_man, patience: STARVATION_TIMEOUT, stop };
    output::remark(&format!(
        "measuring {} three times for {} s: without the change, with it, and without it again",
        clean(&finding.victim.comm),
        time.as_secs()
    ));
    let (round, too_short) = (Arc::new(AtomicUsize::new(0)), Arc::new(OnceLock::new()));
    let first = too_short.clone();
    let measure = move |stop: Arc<AtomicBool>| -> io::Result<(By, Fared)> {
        let round = round.fetch_add(1, Ordering::Relaxed);
        let _progress = Countdown::start(ROUND_NAMES[round.min(2)], time);
        let measured = watch_tasks(&look, Span { time, step: VICTIM_SCAN_INTERVAL, stop: &stop })?;
        match must_last_longer(&measured.1) {
            // Nothing was changed yet: better to say so now than after three measurements.
            Some(times) if round == 0 => {
                let _ = first.set(TooShort { waits: measured.1.count(), time, needed: time.mul_f64(times) });
                Err(io::Error::other("too few waits"))
            }
            _ => Ok(measured),
        }
    };
    let measured = trial::run(&options, &mut Audit::none(), steps, measure);
    let measured = match (measured, too_short.get()) {
        (Err(TrialError::Measure(_)), Some(too_short)) => return Ok(Trial::TooShort(*too_short)),
        (measured, _) => measured?,
    };
    let judged = judge(&measured[0].1, &measured[1].1, &measured[2].1);
    Ok(Trial::Judged(Box::new(Tried { judged, measured })))
}

/// The longest time of `--verify`.
pub const MAX_MEASUREMENT: Duration = Duration::from_secs(3600);

/// What is measured in each round.
const ROUND_NAMES: [&str; 3] = ["without the change", "with the change", "without it again"];

/// How a trial ended.
pub enum Trial {
    /// With a verdict.
    Judged(Box<Tried>),
    /// After the first measurement, with nothing changed.
    TooShort(TooShort),
}

/// The first measurement saw too few waits for a verdict.
#[derive(Clone, Copy, Debug)]
pub struct TooShort {
    waits: u64,
    time: Duration,
    needed: Duration,
}

impl fmt::Display for TooShort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |time: Duration| time.as_secs_f64().ceil();
        write!(
            f,
            "{} waits in {} s are too few for a verdict, so nothing was changed. ",
            self.waits,
            seconds(self.time)
        )?;
        match self.needed <= MAX_MEASUREMENT {
            true => write!(f, "Try again with --verify {:.0}s", seconds(self.needed)),
            false => f.write_str("It waits too seldom to be measured; --apply without --verify makes the change"),
        }
    }
}

/// Counts the seconds of a measurement on standard error, if that is a terminal.
struct Countdown {
    running: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Countdown {
    fn start(what: &'static str, time: Duration) -> Countdown {
        let running = Arc::new(AtomicBool::new(true));
        let counted = running.clone();
        let count = move || {
            let begun = Instant::now();
            while counted.load(Ordering::Relaxed) {
                let elapsed = begun.elapsed().as_secs().min(time.as_secs());
                output::print_error(format_args!("\r{what}: {elapsed} of {} s\x1b[K", time.as_secs()));
                std::thread::park_timeout(Duration::from_secs(1));
            }
            output::print_error(format_args!("\r\x1b[K"));
        };
        let thread = match output::can_draw() {
            true => std::thread::Builder::new().name("unstarve-count".to_owned()).spawn(count).ok(),
            false => None,
        };
        Countdown { running, thread }
    }
}

impl Drop for Countdown {
    fn drop(&mut self) {
        self.running.store(false, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// Signals are handled by a thread, so that the trial can revert everything.
fn stop_on_signals(stop: Arc<AtomicBool>) -> Result<()> {
    let end: UnixStream = unstarve_guard::run::on_signals(&[SIGTERM, SIGINT, SIGHUP]).context("signals")?;
    std::thread::Builder::new().name("unstarve-signals".to_owned()).spawn(move || {
        let _ = rustix::event::poll(&mut [PollFd::new(&end, PollFlags::IN)], None);
        stop.store(true, Ordering::Relaxed);
    })?;
    Ok(())
}

fn task_of(place: &Place) -> Option<TaskKey> {
    match place {
        Place::Task(key) => Some(*key),
        _ => None,
    }
}

/// The threads that are measured: the finding's, and those that their processes have started since. For kernel workers
/// the whole pool, because workers come and go. Excludes threads that the fix changes, and other programs with the
/// victim's name.
#[derive(Clone)]
struct Victim {
    tids: Vec<Tid>,
    processes: Vec<Tid>,
    /// Names of the victim's kernel threads.
    kernel: Option<String>,
    comm: String,
    changed: Vec<TaskKey>,
}

impl Victim {
    fn of(finding: &Finding, changed: Vec<TaskKey>) -> Victim {
        let victim = &finding.victim;
        let pool = victim.comm.strip_prefix("kworker/").and_then(|rest| rest.split_once(':'));
        let kernel = match pool {
            Some((pool, _)) => Some(format!("kworker/{pool}:")),
            None => victim.kind.is_named_as_kernel_thread().then(|| victim.comm.clone()),
        };
        Victim {
            tids: victim.tids.iter().copied().map(Tid).collect(),
            processes: processes(finding),
            kernel,
            comm: victim.comm.clone(),
            changed,
        }
    }

    fn threads(&self) -> Vec<TaskKey> {
        let mut tids = self.tids.clone();
        match &self.kernel {
            Some(_) => tids.extend(proc::numbers_in("/proc")),
            None => {
                let threads =
                    self.processes.iter().flat_map(|process| proc::numbers_in(&format!("/proc/{process}/task")));
                tids.extend(threads);
            }
        }
        tids.sort_unstable();
        tids.dedup();
        let keys = tids.into_iter().filter_map(|tid| {
            let stat = proc::stat_of(tid)?;
            let is_it = match &self.kernel {
                Some(name) => {
                    let of_pool = name.ends_with(':') && stat.comm.starts_with(name.as_str());
                    stat.flags & flag::KTHREAD != 0 && (of_pool || stat.comm == *name)
                }
                None => stat.comm == self.comm,
            };
            is_it.then_some(TaskKey { tid, start: stat.start })
        });
        keys.filter(|key| !self.changed.contains(key)).collect()
    }
}

/// The victim's processes: from the snapshot, else the processes that its threads belong to now, if their names still
/// match.
fn processes(finding: &Finding) -> Vec<Tid> {
    let victim = &finding.victim;
    if !victim.tgids.is_empty() {
        return victim.tgids.iter().copied().map(Tid).collect();
    }
    let is_same = |tid: &Tid| proc::stat_of(*tid).is_some_and(|stat| stat.comm == victim.comm);
    let mut processes: Vec<Tid> =
        victim.tids.iter().copied().map(Tid).filter(is_same).filter_map(proc::process_of).collect();
    processes.sort_unstable();
    processes.dedup();
    processes
}
