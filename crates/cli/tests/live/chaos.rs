//! Random kills while tasks have children; `make chaos-guard` does a thousand.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::process::Running;
use crate::stage::{Ended, Stage, Stop, need};

/// So many as fit into a trial.
const KILL_POINTS: &str = "20";

pub fn random_kills(stage: &Stage) -> Ended {
    need("python3")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/guard_chaos.py");
    let mut command = Command::new("python3");
    command.arg(script).arg(stage.unstarve().get_program());
    // Another seed each time would find more, and nobody could try it again.
    command.args(["--kill-points", KILL_POINTS, "--limit", "24", "--at-least", "5"]);
    let done = Running::start(&mut command)?.finish(Duration::from_secs(28))?;
    println!("{}", done.out);
    if done.status.success() { Ok(()) } else { Err(Stop::Fail(format!("{}{}", done.out, done.err))) }
}
