use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::process::Running;
use crate::stage::{Ended, Stage, Stop};

const TEST_TIMEOUT: Duration = Duration::from_secs(15);

/// A task that shares its CPU with a real-time one is shown to be starved by it, while it is.
pub fn a_hog_is_shown_while_it_runs(stage: &Stage) -> Ended {
    let mut spin = stage.load("victim", &[], "spin --lasts 6000")?;
    let mut hog = stage.load("hog", &["chrt", "--fifo", "50"], "hog --lasts 6000 --period 100 --busy 80")?;
    let _spin = Running::start(&mut spin)?;
    let _hog = Running::start(&mut hog)?;
    let mut top = stage.unstarve();
    top.args(["top", "--json", "--window", "2s", "--interval", "1s", "--for", "3s"]);
    let done = Running::start(&mut top)?.succeed(TEST_TIMEOUT)?;
    let views: Vec<Value> = done
        .out
        .lines()
        .map(|line| serde_json::from_str(line).map_err(|error| Stop::Fail(format!("{error} in {line}"))))
        .collect::<Result<_, _>>()?;
    if views.len() != 3 {
        return Err(Stop::Fail(format!("{} views in three seconds", views.len())));
    }
    let last = &views[2];
    let rows = last["rows"].as_array().ok_or_else(|| "no rows".to_owned())?;
    let row = rows.iter().find(|row| row["victim"] == "victim").ok_or_else(|| format!("no victim in {last}"))?;
    let by_hog = |piece: &&Value| piece["rule"] == "class" && piece["occupant"] == "hog FIFO 50";
    let blamed: u64 =
        row["blame"].as_array().into_iter().flatten().filter(by_hog).filter_map(|p| p["ns"].as_u64()).sum();
    // It had 80 % of two seconds; a wait that began before counts, too.
    if !(1_300_000_000..=1_900_000_000).contains(&blamed) || row["culprit"] != "hog FIFO 50" {
        return Err(Stop::Fail(format!("the hog is blamed for {blamed} ns: {row}")));
    }
    let headline = last["headline"].as_str().unwrap_or_default();
    if !(headline.starts_with("hog[") && headline.contains("] FIFO 50 starves ")) {
        return Err(Stop::Fail(format!("the first line: {headline}")));
    }
    let shares = views.iter().flat_map(|view| view["rows"].as_array().into_iter().flatten());
    if let Some(row) = shares.into_iter().find(|row| row["share"].as_f64().is_none_or(|share| share > 1.0)) {
        return Err(Stop::Fail(format!("a share above all of the time: {row}")));
    }
    let own = last["own_cpu"].as_f64().unwrap_or(1.0);
    if own > 0.5 {
        return Err(Stop::Fail(format!("it took {own} of a CPU itself")));
    }
    nothing_is_left()
}

/// Who may use BPF and not tracefs gets the kernel's sums, and hears why they are not of single tasks.
pub fn without_tracefs(stage: &Stage) -> Ended {
    if !cfg!(feature = "bpf") {
        return Err(Stop::Skip("built without eBPF".to_owned()));
    }
    crate::stage::need("setpriv")?;
    // Somebody who may go through no directory but those that all may.
    let (_place, program) = unstarve_testing::program_for_all(stage.unstarve().get_program().as_ref())
        .map_err(|error| Stop::Fail(error.to_string()))?;
    let rights = "+bpf,+perfmon";
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--clear-groups", "--inh-caps", rights, "--ambient-caps", rights]);
    command.args(["--bounding-set", &format!("-all,{rights}")]);
    command.arg(&program).args(["top", "--json", "--once", "--window", "1s"]);
    let done = Running::start(&mut command)?.finish(TEST_TIMEOUT)?;
    if !done.status.success() && done.err.contains("cannot be used here") {
        return Err(Stop::Skip(done.err));
    }
    assert!(done.status.success(), "{}", done.err);
    assert!(done.err.contains("rows are of roles, counted in the kernel"), "{}", done.err);
    let view: Value = serde_json::from_str(&done.out).map_err(|error| format!("{error} in {}", done.out))?;
    assert_eq!((&view["by"], &view["engine"]), (&Value::from("role"), &Value::from("eBPF")), "{view}");
    Ok(())
}

fn nothing_is_left() -> Ended {
    let list = Command::new("sh").args(["-c", "ls -d /sys/kernel/tracing/instances/unstarve-* 2>/dev/null"]).output();
    let names = list.map_err(|error| error.to_string())?.stdout;
    for name in String::from_utf8_lossy(&names).lines() {
        // Others may record at the same time; they live.
        let pid = name.rsplit("unstarve-").next().and_then(|rest| rest.split('-').next()).unwrap_or_default();
        if !std::path::Path::new("/proc").join(pid).exists() {
            return Err(Stop::Fail(format!("{name} is left")));
        }
    }
    Ok(())
}
