//! This program as a guard, as its dead-man, or as something that applies and undoes all the time; and the handle on it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use unstarve_executor::audit::Audit;
use unstarve_executor::host::ThisHost;
use unstarve_executor::state::{Role, State};
use unstarve_executor::{act, deadman};
use unstarve_guard::metrics::Status;
use unstarve_guard::survey::Survey;
use unstarve_guard::task_events::SourceName;
use unstarve_guard::{Policy, run};

use crate::stage::{self, Stage, Stop};

/// Tells this program what to be, instead of a run of the tests.
const ROLE: &str = "UNSTARVE_GUARD_TEST_ROLE";
/// No child may run longer.
const LIMIT: Duration = Duration::from_secs(50);

/// Plays the role that the environment asks for, if it does.
pub fn act() -> Option<ExitCode> {
    let role = std::env::var(ROLE).ok()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let word = |index: usize| arguments.get(index).map(String::as_str).unwrap_or_default();
    let result = match role.as_str() {
        "guard" => guard(Path::new(word(0)), Path::new(word(1)), word(2)),
        "dead-man" => {
            let number = |index: usize| word(index).parse().unwrap_or(0);
            let limit = Duration::from_secs(u64::from(number(1)));
            deadman::watch(Path::new(word(0)), Role::Guard, limit, number(2), number(3))
                .map(drop)
                .map_err(|error| error.to_string())
        }
        "flicker" => flicker(Path::new(word(0)), Path::new(word(1))),
        "family" => crate::family::be(&arguments),
        "orphan-maker" => crate::family::leave_an_orphan(&arguments),
        "escape" => crate::escapes::be(&arguments),
        "guard-unread" => guard_unread(Path::new(word(0)), Path::new(word(1))),
        "namespaced" => crate::namespaces::inside(word(0)),
        other => Err(format!("no role {other}")),
    };
    Some(match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    })
}

fn guard(policy_path: &Path, state: &Path, source: &str) -> Result<(), String> {
    let audit = std::fs::File::options().append(true).create(true).open(state.with_extension("audit"));
    guard_with(policy_path, state, source, Audit::to(audit.map_err(|error| error.to_string())?))
}

/// One whose log goes to standard error.
fn guard_unread(policy_path: &Path, state: &Path) -> Result<(), String> {
    let audit = Audit::to_stderr().map_err(|error| error.to_string())?;
    guard_with(policy_path, state, "", audit)
}

fn guard_with(policy_path: &Path, state: &Path, source: &str, audit: Audit) -> Result<(), String> {
    let policy = Policy::load(policy_path).map_err(|error| format!("{error:?}"))?;
    let (limit, directory) = (policy.limits.dead_man, state.to_owned());
    let options = run::Options {
        policy_path: policy_path.to_owned(),
        state: state.to_owned(),
        metrics: Some(state.with_extension("prom")),
        source: match source {
            "netlink" => Some(SourceName::Netlink),
            "scan" => Some(SourceName::Scan),
            _ => None,
        },
        dead_man: Box::new(move |priority| {
            let mut command = role("dead-man");
            command.arg(&directory).args([limit, priority, std::process::id()].map(|number| number.to_string()));
            command
        }),
        end: run::on_signals(&[libc::SIGTERM]).map_err(|error| error.to_string())?,
        time: Some(LIMIT),
        say: Box::new(|_| {}),
    };
    run::run(policy, options, audit).map(drop).map_err(|error| format!("{error:?}"))
}

/// Undoes what an earlier one left, then applies and undoes until it is killed.
fn flicker(policy: &Path, state: &Path) -> Result<(), String> {
    let policy = Policy::load(policy).map_err(|error| error.to_string())?;
    let mut state = State::lock(state, "test").map_err(|error| error.to_string())?;
    let mut audit = Audit::none();
    let began = Instant::now();
    while began.elapsed() < LIMIT {
        state.undo(&mut ThisHost, &mut audit).map_err(|error| error.to_string())?;
        let survey = Survey::take(&policy, Vec::new()).map_err(|error| error.to_string())?;
        let mut changes = survey.changes(&policy);
        let mut journal = state.journal().map_err(|error| error.to_string())?;
        act::apply(&mut ThisHost, &mut journal, &mut audit, &mut changes).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// This program in a role.
pub fn role(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.env(ROLE, name);
    command
}

/// This program as a load, whatever it is itself.
pub fn load() -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.env_remove(ROLE).arg("load");
    command
}

/// A child, killed if a test gives up on it.
pub struct Running(pub Child);

impl Running {
    pub fn start(command: &mut Command) -> Result<Running, Stop> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        child.map(Running).map_err(|error| Stop::Fail(format!("{command:?}: {error}")))
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let _ = rustix::process::kill_process(rustix::process::Pid::from_child(&self.0), signal);
    }

    pub fn has_ended(&mut self, limit: Duration) -> bool {
        stage::eventually(limit, || !matches!(self.0.try_wait(), Ok(None)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A guard at work.
pub struct Guard {
    pub process: Running,
    state: PathBuf,
}

impl Guard {
    /// Starts one and waits until it is ready.
    pub fn start(stage: &Stage, policy: &Path, source: &str) -> Result<Guard, Stop> {
        Guard::start_in(stage.state(), policy, source)
    }

    /// The same with another state directory.
    pub fn start_in(state: PathBuf, policy: &Path, source: &str) -> Result<Guard, Stop> {
        let mut command = role("guard");
        command.arg(policy).arg(&state).arg(source);
        let mut guard = Guard { process: Running::start(&mut command)?, state };
        let ready = stage::eventually(Duration::from_secs(10), || guard.status().is_some());
        if !ready || guard.process.has_ended(Duration::ZERO) {
            return Err(Stop::Fail("the guard does not get ready".to_owned()));
        }
        Ok(guard)
    }

    pub fn status(&self) -> Option<Status> {
        run::status(&self.state).ok()?
    }

    /// The last status, after a pulse at the least.
    pub fn settled_status(&self) -> Result<Status, Stop> {
        std::thread::sleep(Duration::from_millis(2200));
        self.status().ok_or_else(|| Stop::Fail("the guard has no status".to_owned()))
    }

    /// The dead-man's process, as the status has it.
    pub fn dead_man(&self) -> Result<rustix::process::Pid, Stop> {
        let pid = self.status().and_then(|status| status.dead_man).and_then(|pid| i32::try_from(pid).ok());
        pid.and_then(rustix::process::Pid::from_raw).ok_or_else(|| Stop::Fail("the guard has no dead-man".to_owned()))
    }

    pub fn audit(&self) -> String {
        std::fs::read_to_string(self.state.with_extension("audit")).unwrap_or_default()
    }

    /// Tells it to end, which it has to do in time.
    pub fn end(mut self) -> Result<String, Stop> {
        self.process.signal(rustix::process::Signal::TERM);
        if !self.process.has_ended(Duration::from_secs(10)) {
            return Err(Stop::Fail("the guard does not end".to_owned()));
        }
        Ok(self.audit())
    }
}
