//! A guard in a PID namespace: ids are those of the namespace, and never a wrong task is changed.

use std::process::{Command, Stdio};

use unstarve_executor::state::{State, StateError};

use crate::child::role;
use crate::stage::{self, Ended, Stage, Stop};

/// Runs this program in a role in a new PID namespace.
fn in_namespace(what: &str, mount_proc: &[&str]) -> Result<String, Stop> {
    stage::need("unshare")?;
    let inside = role("namespaced");
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount"]).args(mount_proc).arg(inside.get_program()).arg(what);
    command.envs(inside.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{text}");
    if output.status.success() { Ok(text) } else { Err(Stop::Fail(format!("{}: {text}", output.status))) }
}

pub fn births(_: &Stage) -> Ended {
    in_namespace("births", &["--mount-proc"]).map(drop)
}

pub fn foreign_proc(_: &Stage) -> Ended {
    in_namespace("foreign", &[]).map(drop)
}

/// What is done inside.
pub fn inside(what: &str) -> Result<(), String> {
    if what == "births" {
        return match stage::run(crate::task_events::storm_by_best_source) {
            Ok(_) => Ok(()),
            Err(failed) => Err(failed.message().unwrap_or("failed").to_owned()),
        };
    }
    match State::lock(std::path::Path::new("/run/unstarve-namespace-test"), "test") {
        Err(StateError::ForeignProc) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}
