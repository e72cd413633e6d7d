//! Thresholds of groups: a limit that stops one most of the time, and a real-time task that keeps one off its CPU. Each beside a control in
//! which the same group is stopped, or kept off, for a lesser part, so that nobody starves it.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cgroup::Cgroup;
use crate::process::Running;
use crate::stage::{Ended, Stage, Stop};
use crate::watch::Watch;

const TEST_TIMEOUT: Duration = Duration::from_secs(20);
/// A threshold is about a second.
const LASTS: Duration = Duration::from_secs(4);

/// A program that runs all the time on the stage's CPU, in a group.
fn spin_in(stage: &Stage, group: &Cgroup) -> Result<Running, Stop> {
    let spinner = Running::start(&mut stage.load("spinner", &[], "spin --lasts 30000")?)?;
    group.add(spinner.id())?;
    Ok(spinner)
}

/// What the watch has about a group: complete episodes, and how often it had none of its own for it.
fn about(watch: &Watch, group: &str) -> Result<(Vec<Value>, u64), Stop> {
    let is_about = |episode: &Value| {
        let of_trigger = &episode["trigger"]["victim"];
        of_trigger["cgroup"] == group || of_trigger["role"] == group
    };
    let episodes = watch.episodes()?.into_iter().filter(is_about).filter(|episode| episode["stage"] != "begun");
    let suppressed = watch.status().unwrap_or_default()["suppressed"][group].as_u64();
    Ok((episodes.collect(), suppressed.unwrap_or_default()))
}

/// Nothing was said of the group for as long as a threshold needs.
fn stays_quiet(watch: &Watch, group: &str) -> Ended {
    thread::sleep(LASTS);
    let said = about(watch, group)?;
    assert_eq!(said, (Vec::new(), 0), "of a group that is not starved");
    Ok(())
}

/// The episode that begins by this condition. What a busy machine's other tasks do to the group may begin one of its own.
fn begins(watch: &Watch, group: &str, condition: &str) -> Result<Value, Stop> {
    let end = Instant::now() + TEST_TIMEOUT;
    loop {
        let (episodes, suppressed) = about(watch, group)?;
        let found = episodes.iter().find(|episode| episode["trigger"]["kind"] == condition);
        if let Some(found) = found {
            return Ok(found.clone());
        }
        if Instant::now() > end {
            let text = format!("no episode `{condition}` of {group}: {episodes:?}, {suppressed} suppressed");
            return Err(Stop::Fail(text));
        }
        thread::sleep(Duration::from_millis(250));
    }
}

fn finish(watch: Watch) -> Ended {
    watch.stop();
    watch.running.succeed(TEST_TIMEOUT)?;
    Ok(())
}

/// A program that runs all the time, in a group that may have 80 of each 100 ms, is no episode; with 10 of them it is one, which names the
/// group and nobody as the culprit.
pub fn a_tight_limit(stage: &Stage) -> Ended {
    let group = Cgroup::new("limited", 10)?;
    let name = group.name();
    group.limit(80_000)?;
    let watch = Watch::start_for_groups(stage)?;
    let spinner = spin_in(stage, &group)?;
    stays_quiet(&watch, &name)?;
    group.limit(10_000)?;
    let (before, begun) = (group.stopped_ns()?, Instant::now());
    let episode = begins(&watch, &name, "stopped");
    let stopped = Duration::from_nanos(group.stopped_ns()?.saturating_sub(before));
    drop(spinner);
    let episode = match episode {
        // By the kernel's own word: it would have run for less than it may have, and had to wait for others.
        Err(_) if stopped < begun.elapsed() * 6 / 10 => {
            return Err(Stop::Skip(format!("the limit stopped the group for {stopped:?} of {:?}", begun.elapsed())));
        }
        episode => episode?,
    };
    let trigger = &episode["trigger"];
    assert_eq!((&trigger["victim"]["cgroup"], &trigger["rule"]), (&name.into(), &"throttled".into()), "{episode}");
    assert!(trigger["culprit"].is_null() && episode["culprit"].is_null(), "its limit is its own: {episode}");
    let share = trigger["share"].as_f64().unwrap_or_default();
    assert!((0.65..=0.95).contains(&share), "90 of 100 ms at most: {episode}");
    finish(watch)
}

/// A program in a group beside a real-time task that takes 3 of each 100 ms is no episode, as the verdict has no warning for it; beside one
/// that takes 80 of each 100 it is one, which names that task.
pub fn a_hog_over_a_group(stage: &Stage) -> Ended {
    let group = Cgroup::new("fair", 10)?;
    let name = group.name();
    let watch = Watch::start_for_groups(stage)?;
    let spinner = spin_in(stage, &group)?;
    let fifo = ["chrt", "--fifo", "50"];
    let mild = Running::start(&mut stage.load("mild", &fifo, "hog --lasts 4000 --period 100 --busy 3")?)?;
    stays_quiet(&watch, &name)?;
    mild.succeed(TEST_TIMEOUT)?;
    let hog = Running::start(&mut stage.load("hog", &fifo, "hog --lasts 12000 --period 100 --busy 80")?)?;
    let episode = begins(&watch, &name, "verdict");
    drop((hog, spinner));
    let episode = episode?;
    let trigger = &episode["trigger"];
    assert_eq!((&trigger["victim"]["role"], &trigger["rule"]), (&name.into(), &"class".into()), "{episode}");
    assert_eq!(trigger["culprit"]["role"], "real-time", "{episode}");
    // How bad it is by then depends on when the watch looks.
    assert_ne!(trigger["severity"], "info", "stays of 80 ms: {episode}");
    // One stay of 80 ms can be an alarm alone: then no time was looked at.
    let (lost, span) = (trigger["lost_ns"].as_u64(), trigger["span_ns"].as_u64());
    assert!(lost > Some(0) && (span == Some(0) || lost < span), "a part of the last seconds: {episode}");
    assert_eq!(
        (&episode["culprit"]["comm"], &episode["finding"]),
        (&"hog".into(), &"rt-starvation".into()),
        "{episode}"
    );
    finish(watch)
}
