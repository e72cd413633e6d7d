//! `unstarve watch replay`: the episodes that a configuration would have begun in a recording.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use unstarve_model::{Nanos, Time, clean};
use unstarve_watch::episode::{Begun, Detector, Episode, Explanation, id_of};
use unstarve_watch::run::INTERVAL;
use unstarve_watch::{Engine as _, EngineError, Options, Recording, TaskId};

use super::{ConfigArgs, print};
use crate::input;

/// Show which episodes the thresholds of a configuration would have begun in a recording
///
/// The recording is counted as the running watch counts, and read as often. Use it to try thresholds before they are set.
#[derive(Args)]
#[command(after_help = "\
Examples:
  unstarve watch replay trace.dat
  unstarve watch replay -c watch.toml trace.dat

Exit code: 0 no episode, 1 at least one, 2 the recording or the configuration cannot be read.")]
pub struct ReplayArgs {
    /// A recording of any format, or - for standard input
    file: PathBuf,
    #[command(flatten)]
    config: ConfigArgs,
}

pub fn run(args: &ReplayArgs) -> Result<ExitCode> {
    let config = args.config.load()?;
    let file = input::Recording::new(args.file.clone())?;
    let step = Nanos(u64::try_from(INTERVAL.as_nanos())?);
    let mut recording =
        Recording::new(file.open()?, step, Options::default()).with_context(|| clean(&file.name()).into_owned())?;
    let mut detector = Detector::new(config.thresholds);
    let (mut first, mut last, mut text, mut episodes, mut all) = (None, Time(0), String::new(), 0_u64, Vec::new());
    loop {
        let reading = match recording.read() {
            Ok(reading) => Arc::new(reading),
            Err(EngineError::Ended) => break,
            Err(error) => return Err(error).with_context(|| clean(&file.name()).into_owned()),
        };
        let start = *first.get_or_insert(recording.start());
        last = reading.at.trace;
        for begun in detector.see(reading).begun {
            episodes += 1;
            let severity = begun.severity().word();
            let _ = writeln!(text, "+{}  {severity}: {}", begun.at.trace.since(start), line(&begun));
            all.push(begun);
        }
    }
    if let Some(explained) = explained(&file, &all)? {
        text += &explained;
    }
    let length = first.map_or(Nanos::ZERO, |start| last.since(start));
    let _ = writeln!(text, "{} in {length}", unstarve_model::counted(episodes, "episode"));
    print(&text)?;
    Ok(if episodes == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The verdict of `explain` on each episode, as the running watch gets it for a trace; none for standard input, which
/// cannot be read a second time.
fn explained(file: &input::Recording, begun: &[Begun]) -> Result<Option<String>> {
    if begun.is_empty() || file.file().is_none() {
        return Ok(None);
    }
    let name = || clean(&file.name()).into_owned();
    let report =
        unstarve_diagnose::explain(file.open()?, &unstarve_diagnose::Options::default(), |_| {}).with_context(name)?;
    let explanation = Explanation::of(report);
    let mut lines: Vec<String> = Vec::new();
    for begun in begun {
        let mut episode = Episode::begun(id_of(begun.at.wall), begun.at.wall);
        episode.note_counters(begun);
        episode.note_trace(&explanation);
        let Some(severity) = episode.severity else { continue };
        let said = format!("explain: {}: {}\n", severity.word(), unstarve_watch::episode::line(&episode));
        if !lines.contains(&said) {
            lines.push(said);
        }
    }
    Ok(Some(lines.concat()))
}

fn line(begun: &Begun) -> String {
    // The path of a throttled group is known.
    let victim = begun.group.as_deref().map_or_else(|| begun.victim.name(), str::to_owned);
    let mut text = format!("{} waited", named(&victim, begun.victim_task));
    if let Some(culprit) = &begun.culprit {
        let _ = write!(text, ", {} of it while {} had the CPU", begun.ns, named(&culprit.name(), begun.culprit_task));
    }
    if let Some(rule) = begun.rule {
        let _ = write!(text, " ({rule})");
    }
    text + ": " + &begun.trigger.words()
}

/// `kworker/1:3[71] (kworker)`; only the role if no task waits at that moment.
fn named(role: &str, task: Option<TaskId>) -> String {
    match task {
        Some(task) => format!("{}[{}] ({})", clean(&task.comm.to_string()), task.tid, clean(role)),
        None => format!("{} tasks", clean(role)),
    }
}
