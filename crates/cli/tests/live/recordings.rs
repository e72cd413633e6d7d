//! Recordings that are not as they should be, and still explain the same: without names, and of a recorder that was killed.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use unstarve_diagnose::report::{Report, Severity};

use crate::process::Running;
use crate::stage::{Ended, Stage, Stop};

const TEST_TIMEOUT: Duration = Duration::from_secs(15);

/// What starves whom, without any name: the finding, whom by id, and by which rule.
fn without_names(report: &Report) -> Vec<(String, Severity, String, Vec<u32>, String)> {
    let findings = report.findings.iter().filter(|finding| finding.severity >= Severity::Warning);
    let mut told: Vec<_> = findings
        .map(|finding| {
            let rule = finding.culprits.first().map(|culprit| culprit.rule.to_string()).unwrap_or_default();
            (
                finding.id.to_string(),
                finding.severity,
                finding.victim.kind.to_string(),
                finding.victim.tids.clone(),
                rule,
            )
        })
        .collect();
    told.sort();
    told
}

fn record(stage: &Stage, file: &Path, more: &[&str]) -> Result<Running, Stop> {
    let mut command = stage.unstarve();
    command.arg("record").arg("-o").arg(file).args(more);
    Ok(Running::start(&mut command)?)
}

fn loads(stage: &Stage, lasts: u32) -> Result<(Running, Running), Stop> {
    let mut hog =
        stage.load("qzvxhog", &["chrt", "--fifo", "50"], &format!("hog --lasts {lasts} --period 100 --busy 80"))?;
    let hog = Running::start(&mut hog)?;
    Ok((hog, Running::start(&mut stage.load("qzvxvictim", &[], &format!("spin --lasts {lasts}"))?)?))
}

pub fn redacted_says_the_same(stage: &Stage) -> Ended {
    let (plain, redacted) = (stage.path("plain.dat"), stage.path("redacted.dat"));
    let first = record(stage, &plain, &["--for", "5s"])?;
    let second = record(stage, &redacted, &["--for", "5s", "--redact"])?;
    std::thread::sleep(Duration::from_millis(700));
    let (hog, victim) = loads(stage, 3000)?;
    hog.succeed(TEST_TIMEOUT)?;
    victim.succeed(TEST_TIMEOUT)?;
    first.succeed(TEST_TIMEOUT)?;
    second.succeed(TEST_TIMEOUT)?;
    let (plain, redacted_report) = (stage.explain(&plain)?, stage.explain(&redacted)?);
    let (names, pseudonyms) = (without_names(&plain), without_names(&redacted_report));
    if names.is_empty() || names != pseudonyms {
        return Err(Stop::Fail(format!("with names {names:?}\nwithout {pseudonyms:?}")));
    }
    let text = format!("{redacted_report:?}");
    let bytes = std::fs::read(&redacted).map_err(|error| error.to_string())?;
    if text.contains("qzvx") || bytes.windows(4).any(|part| part == b"qzvx") {
        return Err(Stop::Fail(format!("a name is left: {text}")));
    }
    Ok(())
}

pub fn salvaged_is_explained(stage: &Stage) -> Ended {
    let directory = stage.path("killed");
    std::fs::create_dir(&directory).map_err(|error| error.to_string())?;
    let (hog, victim) = loads(stage, 6000)?;
    let recorder = record(stage, &directory.join("t.dat"), &[])?;
    std::thread::sleep(Duration::from_secs(5));
    let killed = Command::new("kill").args(["-KILL", &recorder.id().to_string()]).status();
    killed.map_err(|error| error.to_string())?;
    recorder.finish(TEST_TIMEOUT)?;
    hog.succeed(TEST_TIMEOUT)?;
    victim.succeed(TEST_TIMEOUT)?;
    let file = stage.path("salvaged.dat");
    let mut command = stage.unstarve();
    command.args(["record", "--salvage"]).arg(&directory).arg("-o").arg(&file);
    Running::start(&mut command)?.succeed(TEST_TIMEOUT)?;
    let report = stage.explain(&file)?;
    let found = report.findings.iter().any(|finding| {
        finding.id.as_str() == "rt-starvation"
            && finding.culprits.first().is_some_and(|culprit| culprit.comm == "qzvxhog")
    });
    let left = std::fs::read_dir(&directory).map_err(|error| error.to_string())?.count();
    if !found || left != 0 {
        return Err(Stop::Fail(format!("{left} left: {:?}", report.findings)));
    }
    Ok(())
}
