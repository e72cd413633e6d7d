//! What `unstarve check`, `snapshot` and `knobs` say of this machine while something is wrong with it, and after.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::process::{Done, Running};
use crate::stage::{Ended, Stage, Stop, need};

const TEST_TIMEOUT: Duration = Duration::from_secs(10);

fn check(stage: &Stage) -> Result<Value, Stop> {
    let mut command = stage.unstarve();
    command.args(["check", "--json", "--fail-on", "never"]);
    let done = Running::start(&mut command)?.succeed(TEST_TIMEOUT)?;
    serde_json::from_str(&done.out).map_err(|error| Stop::Fail(format!("{error} in {}", done.out)))
}

/// The rules that have something to say about a program, with the severity.
fn about(audit: &Value, name: &str) -> Vec<(String, String)> {
    let hits = audit["hits"].as_array().into_iter().flatten();
    let of_name = hits.filter(|hit| hit["subject"].as_str().is_some_and(|subject| subject.starts_with(name)));
    of_name.map(|hit| (text(&hit["rule"]), text(&hit["severity"]))).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A real-time task on a CPU of interrupts or of completion workers, found while it runs and not after.
pub fn real_time_hog_is_found(stage: &Stage) -> Ended {
    const NAME: &str = "audited-hog";
    let mut hog = stage.load(NAME, &["chrt", "--fifo", "10"], "hog --lasts 3000 --period 100 --busy 50")?;
    let hog = Running::start(&mut hog)?;
    thread::sleep(Duration::from_millis(1500));
    let during = check(stage)?;
    hog.succeed(TEST_TIMEOUT)?;
    let after = check(stage)?;
    let found = about(&during, NAME);
    let exposed = ["rt-on-interrupt-cpu", "rt-beside-completion-worker"];
    if !found.iter().any(|(rule, _)| exposed.contains(&rule.as_str())) {
        let serves = fs::read_to_string("/proc/interrupts").unwrap_or_default();
        let known = ["virtio", "nvme", "eth", "ahci"].iter().any(|name| serves.contains(name));
        return Err(if known {
            Stop::Fail(format!("nothing about {NAME}: {during:#}"))
        } else {
            Stop::Skip("this machine has no network or block interrupts that can be told".to_owned())
        });
    }
    if found.iter().any(|(_, severity)| severity == "info") {
        return Err(Stop::Fail(format!("half a CPU is no trifle: {found:?}")));
    }
    match about(&after, NAME) {
        left if left.is_empty() => Ok(()),
        left => Err(Stop::Fail(format!("it is over, and yet: {left:?}"))),
    }
}

/// A setting of this kernel, set and set back; a value that somebody else sets in between is left alone.
pub fn a_setting_is_set_and_set_back(stage: &Stage) -> Ended {
    const FILE: &str = "/proc/sys/kernel/sched_cfs_bandwidth_slice_us";
    let read = || fs::read_to_string(FILE).map(|text| text.trim().to_owned());
    let Ok(before) = read() else { return Err(Stop::Skip(format!("this kernel has no {FILE}"))) };
    let journal = stage.path("journal");
    let run = |arguments: &[&str]| -> Result<Done, Stop> {
        let mut command = stage.unstarve();
        command.arg("knobs").args(arguments).arg("--journal").arg(&journal);
        Ok(Running::start(&mut command)?.finish(TEST_TIMEOUT)?)
    };
    let other = if before == "7000" { "6000" } else { "7000" };
    let result = (|| {
        let name = "sched_cfs_bandwidth_slice_us";
        let dry = run(&["set", name, other, "--dry-run"])?;
        expect(dry.status.success() && read().ok().as_ref() == Some(&before), "a dry run writes nothing")?;
        let set = run(&["set", name, other])?;
        expect(set.status.success() && read().ok().as_deref() == Some(other), &format!("set: {}{}", set.out, set.err))?;
        // Somebody else sets it.
        fs::write(FILE, "8000").map_err(|error| error.to_string())?;
        let refused = run(&["undo"])?;
        expect(refused.status.code() == Some(1) && refused.err.contains("it was changed since"), &refused.err)?;
        expect(read().ok().as_deref() == Some("8000"), "what somebody else set is left alone")?;
        fs::write(FILE, other).map_err(|error| error.to_string())?;
        let undone = run(&["undo"])?;
        expect(undone.status.success() && read().ok().as_ref() == Some(&before), &format!("undo: {}", undone.err))
    })();
    // Whatever happened, it is as it was.
    let _ = fs::write(FILE, &before);
    result
}

/// An ordinary user gets an answer, is told what is missing, and can change nothing.
pub fn an_ordinary_user_changes_nothing(_: &Stage) -> Ended {
    need("setpriv")?;
    const FILE: &str = "/proc/sys/kernel/sched_cfs_bandwidth_slice_us";
    let before = fs::read_to_string(FILE).ok();
    // The program may lie where only root may look.
    let copy = std::env::temp_dir().join(format!("unstarve-live-{}", std::process::id()));
    fs::copy(env!("CARGO_BIN_EXE_unstarve"), &copy).map_err(|error| error.to_string())?;
    let run = |arguments: &[&str]| -> Result<Done, Stop> {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&copy).args(arguments);
        command.env("LC_ALL", "C.UTF-8").current_dir("/");
        Ok(Running::start(&mut command)?.finish(TEST_TIMEOUT)?)
    };
    // A journal is believed only where nobody else can make files.
    let own = std::env::temp_dir().join(format!("unstarve-nobody-{}", std::process::id()));
    fs::create_dir(&own).map_err(|error| error.to_string())?;
    std::os::unix::fs::chown(&own, Some(65534), Some(65534)).map_err(|error| error.to_string())?;
    let journal = own.join("journal").display().to_string();
    let result = (|| {
        let check = run(&["check", "--json", "--fail-on", "never"])?;
        expect(check.status.success(), &check.err)?;
        let audit: Value = serde_json::from_str(&check.out).map_err(|error| error.to_string())?;
        let missing: Vec<String> =
            audit["missing"].as_array().into_iter().flatten().map(|m| text(&m["what"])).collect();
        expect(missing.iter().any(|what| what == "scheduler features"), &format!("missing: {missing:?}"))?;
        expect(audit["host"]["threads"].as_u64().is_some_and(|threads| threads > 10), "threads are seen")?;
        let snapshot = run(&["snapshot", "--redact"])?;
        expect(
            snapshot.status.success() && snapshot.err.contains("not in the snapshot: scheduler features"),
            &snapshot.err,
        )?;
        if before.is_some() {
            let set = run(&["knobs", "set", "sched_cfs_bandwidth_slice_us", "9000", "--journal", &journal])?;
            // Whether the way to the journal is open to nobody depends on where temporary files are.
            let says_so = set.err.contains("it needs root") || set.err.contains("run it as root");
            expect(set.status.code() == Some(2) && says_so, &set.err)?;
        }
        expect(fs::read_to_string(FILE).ok() == before, "nothing was changed")
    })();
    let _ = fs::remove_file(&copy);
    let _ = fs::remove_dir_all(&own);
    result
}

fn expect(holds: bool, otherwise: &str) -> Ended {
    if holds { Ok(()) } else { Err(Stop::Fail(otherwise.to_owned())) }
}
