//! `unstarve guard verify` beside a load that suffers: the rule that helps is told from the one that does not, and both are
//! taken back.

use std::time::Duration;

use serde_json::Value;

use crate::process::Running;
use crate::stage::{Ended, Stage, Stop, need};

pub fn tells_what_helps(stage: &Stage) -> Ended {
    need("taskset")?;
    let pinned = ["taskset", "-c", "1"];
    let load = |name: &str| Running::start(&mut stage.load(name, &pinned, "spin --lasts 20000")?).map_err(Stop::Fail);
    let victim = load("verify-victim")?;
    let _others = [load("verify-other")?, load("verify-other")?];
    let before = nice(victim.id())?;
    let policy = stage.path("policy.toml");
    let rule = |name: &str, nice: i32| {
        format!("[[rule]]\nname = \"{name}\"\nmatch = {{ comm = \"{name}\" }}\nset = {{ nice = {nice} }}\n")
    };
    let text = format!("version = 1\n{}{}", rule("verify-victim", -10), rule("verify-other", 1));
    std::fs::write(&policy, text).map_err(|error| error.to_string())?;
    let mut command = stage.unstarve();
    command.args(["guard", "verify", "--json", "--for", "2", "--policy"]).arg(&policy);
    command.arg("--state").arg(stage.path("state"));
    let done = Running::start(&mut command)?.finish(Duration::from_secs(20))?;
    let verdicts: Value =
        serde_json::from_str(&done.out).map_err(|error| format!("{error}: {}{}", done.out, done.err))?;
    let of = |index: usize| verdicts["rules"][index]["verdict"].as_str().unwrap_or_default().to_owned();
    assert_eq!((of(0), of(1)), ("helped".to_owned(), "did-not-help".to_owned()), "{verdicts:#}");
    assert_eq!(done.status.code(), Some(1), "one did not help");
    assert_eq!(nice(victim.id())?, before, "taken back");
    Ok(())
}

fn nice(pid: u32) -> Result<String, String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).map_err(|error| error.to_string())?;
    // The 19th field; the name before it holds no blank.
    stat.split_whitespace().nth(18).map(str::to_owned).ok_or(stat)
}
