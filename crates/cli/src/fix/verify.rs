//! Did it help? The victim's waits without the change, with it, and without it again.

use std::io;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use unstarve_change::TaskKey;
use unstarve_diagnose::report::Finding;
use unstarve_executor::audit::Audit;
use unstarve_executor::journal::Step;
use unstarve_executor::{proc, trial};
use unstarve_guard::verify::{By, Fared, Judged, Span, Verdict, judge, watch_tasks};

use super::LowArgs;
use crate::output;

/// How often new threads of the victim are looked for.
const LOOK: Duration = Duration::from_millis(500);
/// For how long ordinary tasks may starve before everything is taken back.
const PATIENCE: Duration = Duration::from_secs(10);

/// What came of a trial.
pub struct Tried {
    judged: Judged,
    measured: [(By, Fared); 3],
}

impl Tried {
    pub fn helped(&self) -> bool {
        self.judged.verdict == Verdict::Helped
    }

    pub fn reason(&self) -> String {
        self.judged.reason.clone()
    }

    /// What the victim did without it, with it, and without it again: how long it ran and waited, in ns.
    pub fn measured(&self) -> [(u64, u64); 3] {
        [0, 1, 2].map(|side: usize| (self.measured[side].1.ran_ns, self.measured[side].1.waited_ns))
    }
}

pub fn run(args: &LowArgs, finding: &Finding, steps: &mut [Step], time: Duration) -> Result<Tried> {
    let names = names(finding);
    if names.is_empty() {
        bail!("the finding names no thread whose waits could be measured; apply it without --verify, and record again");
    }
    let look = move || Ok(threads_called(&names));
    if look().is_ok_and(|found: Vec<TaskKey>| found.is_empty()) {
        bail!("no thread called {} is here now: run it while the load that suffers runs", finding.victim.comm);
    }
    let program = std::env::current_exe().context("this program's own file")?;
    let state = args.state.clone();
    let dead_man = move |priority: u32| {
        let mut command = Command::new(&program);
        command.args(["guard", "dead-man", "--trial", "--state"]).arg(&state);
        command.arg("--limit").arg(PATIENCE.as_secs().to_string()).arg("--priority").arg(priority.to_string());
        command.arg("--guard").arg(std::process::id().to_string());
        command
    };
    let stop = Arc::new(AtomicBool::new(false));
    stop_on_signals(stop.clone())?;
    let options = trial::Options { directory: &args.state, dead_man: &dead_man, patience: PATIENCE, stop };
    output::remark(&format!(
        "measuring {} three times for {} s: without the change, with it, and without it again",
        finding.victim.comm,
        time.as_secs()
    ));
    let measure = move |stop: Arc<AtomicBool>| -> io::Result<(By, Fared)> {
        watch_tasks(&look, Span { time, step: LOOK, stop: &stop })
    };
    let measured = trial::run(&options, &mut Audit::none(), steps, measure)?;
    let judged = judge(&measured[0].1, &measured[1].1, &measured[2].1);
    Ok(Tried { judged, measured })
}

/// A thread waits for the signals, so that the trial can take everything back.
fn stop_on_signals(stop: Arc<AtomicBool>) -> Result<()> {
    let end: UnixStream = unstarve_guard::run::on_signals(&[SIGTERM, SIGINT, SIGHUP]).context("signals")?;
    std::thread::Builder::new().name("unstarve-signals".to_owned()).spawn(move || {
        let _ = rustix::event::poll(&mut [PollFd::new(&end, PollFlags::IN)], None);
        stop.store(true, Ordering::Relaxed);
    })?;
    Ok(())
}

/// What the victim's threads are called: of a worker, its pool, since workers come and go.
fn names(finding: &Finding) -> Vec<String> {
    let comm = finding.victim.comm.as_str();
    match comm.strip_prefix("kworker/").and_then(|rest| rest.split_once(':')) {
        Some((pool, _)) => vec![format!("kworker/{pool}:")],
        None if comm.is_empty() || finding.victim.kind == "cgroup" => Vec::new(),
        None => vec![comm.to_owned()],
    }
}

fn threads_called(names: &[String]) -> Vec<TaskKey> {
    let is_called = |comm: &str| {
        names.iter().any(|name| if name.ends_with(':') { comm.starts_with(name.as_str()) } else { comm == name })
    };
    let processes = proc::numbers_in("/proc");
    let threads = processes.into_iter().flat_map(|process| proc::numbers_in(&format!("/proc/{process}/task")));
    let keys = threads.filter_map(|tid| {
        let stat = proc::stat_of(tid)?;
        is_called(&stat.comm).then_some(TaskKey { tid, start: stat.start })
    });
    keys.collect()
}
