//! `unstarve predict`: what a change, or another kernel, would do to everybody.

mod came;
mod change;
mod explained;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use unstarve_change::Change;
use unstarve_diagnose::report::{Finding, Report, Severity};
use unstarve_diagnose::{Explained, Options};
use unstarve_facts::{KernelInfo, LabComparison, Snapshot, Version};
use unstarve_lab::replay::LabEngine;
use unstarve_model::clean;
use unstarve_sim::predict::{Baseline, ChangeReport, Engine, Model, Predictions, Subject, SubjectReport};
use unstarve_sim::{Actor, ActorId, Extracted, MAX_OPERATIONS, Program};
use unstarve_timeline::TaskPattern;

use crate::input::{self, Recording};
use crate::lab::experiment::usual_runner;
use crate::output::{self, Color, Out};
use crate::progress::Progress;
use crate::suggested::{FINDING_IDS, find};
pub use came::add_what_came;
pub use explained::{IN_EXPLAIN, IN_PAGE, IN_PLAN, NoSink, explain_and_predict, of_remedy, predict_for_page};

/// Predict what each remedy, or a change, would do to everybody in a recording
///
/// The recording becomes a program: what its threads did by themselves. The program is played under the scheduler, without the
/// change and with it, eight times with its timers shifted. What cannot be known is refused, with the reason.
#[derive(Args)]
#[command(after_help = "\
Examples:
  unstarve predict unstarve.dat
  unstarve predict unstarve.dat --change 'weight:/kubepods=100'
  unstarve predict unstarve.dat --change 'nice:kworker/*=-11' --json
  unstarve predict unstarve.dat --change 'cpus:backup=1' --victim nginx

A change is nice:TASK=N, policy:TASK=POLICY, cpus:TASK=LIST, weight:/GROUP=N,
max:/GROUP=QUOTA/PERIOD (in us), sysctl.NAME=VALUE, debugfs.PATH=VALUE or
sched_feature.NAME=on. TASK is an id or a name, * stands for anything; POLICY is
other, batch, idle, fifo:N, rr:N or deadline:RUNTIME/PERIOD (in us).

Exit code: 0, or 2 if nothing could be predicted.")]
pub struct LowArgs {
    /// A recording, or - for standard input
    file: Option<PathBuf>,
    /// A change, instead of the remedies of the findings; several are made together
    #[arg(long, value_name = "CHANGE")]
    change: Vec<String>,
    /// Only the victim of this finding: its number (1 is the worst), or its id
    #[arg(long, value_name = "N|ID", value_parser = FINDING_IDS, hide_possible_values = true)]
    finding: Option<String>,
    /// Only the threads with this id or name, whether they are starved or not [default with --change or --kernel, where nobody is
    /// starved: the thread that waited longest]
    #[arg(long, value_name = "TASK", conflicts_with = "finding")]
    victim: Option<String>,
    /// What this kernel, such as 6.12, would do instead of the recorded one: the direction, and bounds
    #[arg(long, value_name = "VERSION")]
    kernel: Option<String>,
    /// Play it in guests with this kernel, as `unstarve lab kernel list` calls it, instead of by the model: the real scheduler,
    /// half a minute for each replay
    #[arg(long, value_name = "KERNEL", conflicts_with = "kernel")]
    lab: Option<String>,
    /// Print the predictions as JSON (schema unstarve.predict/1)
    #[arg(long)]
    json: bool,
}

pub fn run(args: LowArgs, color: Color) -> Result<ExitCode> {
    let Some(file) = &args.file else { return Err(input::no_recording("predict")) };
    let recording = Recording::new(file.clone())?;
    let (explained, extracted) = explain_and_extract(&recording)?;
    let snapshot = explained.driven.snapshot.as_deref();
    let predictions = predict(&args, &explained.report, &extracted, snapshot)?;
    let text = if args.json {
        output::sorted_json(&predictions)?
    } else {
        unstarve_term::predictions_page(&predictions, output::look(color))
    };
    let is_answered = predictions
        .subjects
        .iter()
        .flat_map(|subject| &subject.changes)
        .any(|change| change.predicted.refused.is_empty());
    let code = if is_answered { 0 } else { 2 };
    output::will_end_with(code);
    Out::new().text(&text)?;
    Ok(ExitCode::from(code))
}

/// Explains a recording as `explain` does, and takes its program out of it, in one pass.
pub fn explain_and_extract(recording: &Recording) -> Result<(Explained, Extracted)> {
    let mut progress = Progress::new();
    let tell = |events| progress.events(events);
    let (explained, extracted) =
        explain_and_predict(recording.open()?, &Options::default(), &mut NoSink, MAX_OPERATIONS, tell)
            .with_context(|| recording.name())?;
    drop(progress);
    Ok((explained, extracted.with_context(|| recording.name())?))
}

fn predict(args: &LowArgs, report: &Report, extracted: &Extracted, snapshot: Option<&Snapshot>) -> Result<Predictions> {
    let program = &extracted.program;
    let victims = victims(args, report, program)?;
    let recorded_kernel = program.kernel.clone();
    let Some(release) = recorded_kernel.clone() else {
        bail!(
            "the recording has no snapshot of its host that names the kernel, so no scheduler can play it: record with `unstarve record`"
        );
    };
    let model = |release: &str| Model { release: release.to_owned(), snapshot: snapshot.cloned() };
    let (engine, replicas, subjects) = match (&args.lab, &args.kernel) {
        (Some(kernel), _) => {
            let mut runner = usual_runner()?;
            let mut engine = LabEngine { runner: &mut runner, kernel: kernel.clone(), replicas: GUEST_REPLICAS };
            ("lab", GUEST_REPLICAS, subjects(args, (report, &victims), extracted, &mut engine, None)?)
        }
        (None, other) => {
            let (mut engine, mut other) = (model(&release), other.as_deref().map(model));
            ("model", engine.replicas(), subjects(args, (report, &victims), extracted, &mut engine, other.as_mut())?)
        }
    };
    let lab = args.kernel.as_deref().and_then(|other| in_the_lab(&release, snapshot, other, &subjects));
    let (inferred, losses) = Predictions::about(&extracted.extraction);
    Ok(Predictions {
        schema: Predictions::SCHEMA.to_owned(),
        recorded_kernel,
        engine: engine.to_owned(),
        played_kernel: args.lab.clone().or_else(|| args.kernel.clone()).unwrap_or(release),
        replicas,
        subjects,
        lab,
        inferred,
        losses,
    })
}

/// What the lab's table of kernels says of the findings.
fn in_the_lab(
    release: &str,
    snapshot: Option<&Snapshot>,
    other: &str,
    subjects: &[SubjectReport],
) -> Option<LabComparison> {
    let findings: Vec<&str> = subjects.iter().filter_map(|subject| subject.finding.as_deref()).collect();
    let of_release = || KernelInfo { release: Some(release.to_owned()), ..KernelInfo::default() };
    let host = snapshot.map_or_else(of_release, |snapshot| snapshot.kernel.clone());
    LabComparison::about(&host, Version::named(other).ok()?, &findings)
}

/// How often guests play a program: more takes minutes.
const GUEST_REPLICAS: u32 = 2;

/// Whose waits are asked for.
struct Victim<'r> {
    subject: Subject,
    /// The finding that it is the victim of.
    finding: Option<&'r Finding>,
    headline: String,
}

/// What each change would do to each victim. `other`: the engine of another kernel, if one is asked for.
fn subjects<E: Engine>(
    args: &LowArgs,
    (report, victims): (&Report, &[Victim<'_>]),
    extracted: &Extracted,
    engine: &mut E,
    mut other: Option<&mut E>,
) -> Result<Vec<SubjectReport>> {
    let program = &extracted.program;
    let baseline = Baseline::play(engine, extracted, report)?;
    let mut subjects = Vec::new();
    for Victim { subject, finding, headline } in victims {
        let mut changes = Vec::new();
        for Asked { name, remedy, changes: made } in asked(args, *finding, program)? {
            let prediction = match &mut other {
                Some(other) => baseline.predict_on(*other, subject, &made)?,
                None => baseline.predict(engine, subject, &made)?,
            };
            changes.push(ChangeReport::of(name, remedy, made, &prediction));
        }
        changes.sort_by_key(ChangeReport::rank);
        subjects.push(SubjectReport {
            finding: finding.map(|finding| finding.id.to_string()),
            headline: headline.clone(),
            reproduced: baseline.reproduced(subject),
            victim: subject.name.clone(),
            changes,
        });
    }
    Ok(subjects)
}

/// The victims of the findings that are asked for; the threads that are named; or, for a change where nobody is starved, the thread
/// that waited longest.
fn victims<'r>(args: &LowArgs, report: &'r Report, program: &Program) -> Result<Vec<Victim<'r>>> {
    let is_of_change = !args.change.is_empty() || args.kernel.is_some();
    if let Some(named_task) = &args.victim {
        if !is_of_change {
            bail!("--victim needs --change or --kernel: remedies are those of findings");
        }
        let pattern: TaskPattern = named_task.parse().context("--victim")?;
        let actors = actors(program, |actor| pattern.matches(&actor.comm.as_str().into(), actor.tid));
        return Ok(vec![
            named(report, program, actors)
                .with_context(|| format!("no thread that ran or waited in the recording is `{}`", clean(named_task)))?,
        ]);
    }
    let of_finding = |finding: &'r Finding| Victim {
        subject: Subject::of(finding, program),
        finding: Some(finding),
        headline: finding.headline.clone(),
    };
    if let Some(asked) = &args.finding {
        let ids: Vec<&str> = report.findings.iter().map(|finding| finding.id.as_str()).collect();
        return Ok(vec![of_finding(&report.findings[find(asked, &ids, "finding", "this recording")?])]);
    }
    let starved = report.findings.iter().filter(|finding| finding.severity >= Severity::Warning);
    let found: Vec<Victim<'r>> = starved.map(of_finding).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    if !is_of_change {
        bail!("nobody is starved in this recording, so there are no remedies to predict; name a change with --change");
    }
    // Not all that waited are played: the recorder is not.
    let waited = report.worst_waits.iter().map(|wait| actors(program, |actor| actor.tid.0 == wait.tid));
    let longest = waited.into_iter().find_map(|actors| named(report, program, actors));
    Ok(vec![longest.context("no thread waited in this recording; name one with --victim")?])
}

fn actors(program: &Program, is_meant: impl Fn(&Actor) -> bool) -> BTreeSet<ActorId> {
    program.actors().filter(|(_, actor)| is_meant(actor)).map(|(id, _)| id).collect()
}

/// Threads that no finding names; `None` where there is none.
fn named<'r>(report: &Report, program: &Program, actors: BTreeSet<ActorId>) -> Option<Victim<'r>> {
    let first = program.actor(*actors.first()?);
    let name = match actors.len() {
        1 => first.comm.clone(),
        threads => format!("{} and {} more threads", first.comm, threads - 1),
    };
    let is_one = |tid: u32| actors.iter().any(|id| program.actor(*id).tid.0 == tid);
    let longest = report.worst_waits.iter().find(|wait| is_one(wait.tid)).map(|wait| wait.length());
    let headline = match longest {
        Some(longest) => format!("{name} (longest wait {longest})"),
        None => name.clone(),
    };
    Some(Victim { subject: Subject { name, actors }, finding: None, headline })
}

/// What is asked about: changes that are made together.
struct Asked {
    name: String,
    /// The number of the remedy that it is.
    remedy: Option<u32>,
    changes: Vec<Change>,
}

fn asked(args: &LowArgs, finding: Option<&Finding>, program: &Program) -> Result<Vec<Asked>> {
    if !args.change.is_empty() {
        let mut made = Vec::new();
        for text in &args.change {
            made.extend(change::typed(text, program)?);
        }
        return Ok(vec![Asked { name: args.change.join(" "), remedy: None, changes: made }]);
    }
    if let Some(kernel) = &args.kernel {
        return Ok(vec![Asked { name: format!("Linux {kernel}"), remedy: None, changes: Vec::new() }]);
    }
    let remedies = (1..).zip(finding.map(|finding| finding.remedies.as_slice()).unwrap_or_default());
    let asked = remedies.map(|(number, remedy)| Asked {
        name: remedy.id.to_string(),
        remedy: Some(number),
        changes: remedy.changes.clone(),
    });
    Ok(asked.collect())
}
