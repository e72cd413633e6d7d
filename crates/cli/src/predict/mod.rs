//! `unstarve predict`: what a change, or another kernel, would do to everybody.

mod change;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use unstarve_change::Change;
use unstarve_diagnose::report::{Finding, Remedy, Report, Severity};
use unstarve_diagnose::{Explained, Options, Proofs, explain_beside};
use unstarve_facts::Snapshot;
use unstarve_lab::predictions::subject_of;
use unstarve_lab::replay::LabEngine;
use unstarve_sim::predict::{Baseline, ChangeReport, Engine, Model, Predictions, SubjectReport};
use unstarve_sim::{Extracted, Extractor, Program};

use crate::input::{self, Recording};
use crate::lab::experiment::usual_runner;
use crate::output::{self, Color, Out};
use crate::progress::Progress;
use crate::suggested::{FINDING_IDS, find};

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
    let is_answered =
        predictions.subjects.iter().flat_map(|subject| &subject.changes).any(|change| change.refused.is_empty());
    let code = if is_answered { 0 } else { 2 };
    output::will_end_with(code);
    Out::new().text(&text)?;
    Ok(ExitCode::from(code))
}

/// Explains a recording and takes its program out of it, in one pass.
pub fn explain_and_extract(recording: &Recording) -> Result<(Explained, Extracted)> {
    let mut extractor = Extractor::default();
    let mut progress = Progress::new();
    let options = Options { proofs: Proofs::PutAside, ..Options::default() };
    let explained = explain_beside(recording.open()?, &options, &mut extractor, |events| progress.events(events))
        .with_context(|| recording.name())?;
    drop(progress);
    let (world, snapshot) = (explained.driven.timeline.world(), explained.driven.snapshot.as_deref());
    let extracted = extractor.finish(world, snapshot).with_context(|| recording.name())?;
    Ok((explained, extracted))
}

fn predict(args: &LowArgs, report: &Report, extracted: &Extracted, snapshot: Option<&Snapshot>) -> Result<Predictions> {
    let program = &extracted.program;
    let findings = findings(args, report)?;
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
            ("lab", GUEST_REPLICAS, subjects(args, (report, &findings), extracted, &mut engine, None)?)
        }
        (None, other) => {
            let (mut engine, mut other) = (model(&release), other.as_deref().map(model));
            ("model", engine.replicas(), subjects(args, (report, &findings), extracted, &mut engine, other.as_mut())?)
        }
    };
    let (inferred, losses) = Predictions::about(&extracted.extraction);
    Ok(Predictions {
        schema: Predictions::SCHEMA.to_owned(),
        recorded_kernel,
        engine: engine.to_owned(),
        played_kernel: args.lab.clone().or_else(|| args.kernel.clone()).unwrap_or(release),
        replicas,
        subjects,
        inferred,
        losses,
    })
}

/// How often guests play a program: more takes minutes.
const GUEST_REPLICAS: u32 = 2;

/// What each change would do to the victim of each finding. `other`: the engine of another kernel, if one is asked for.
fn subjects<E: Engine>(
    args: &LowArgs,
    (report, findings): (&Report, &[&Finding]),
    extracted: &Extracted,
    engine: &mut E,
    mut other: Option<&mut E>,
) -> Result<Vec<SubjectReport>> {
    let program = &extracted.program;
    let baseline = Baseline::play(engine, extracted, report)?;
    let mut subjects = Vec::new();
    for finding in findings {
        let subject = subject_of(finding, program);
        let mut changes = Vec::new();
        for Asked { name, remedy, changes: made } in asked(args, finding, program)? {
            let prediction = match &mut other {
                Some(other) => baseline.predict_on(*other, &subject, &made)?,
                None => baseline.predict(engine, &subject, &made)?,
            };
            changes.push(ChangeReport::of(name, remedy, made, &prediction));
        }
        changes.sort_by_key(ChangeReport::rank);
        subjects.push(SubjectReport {
            finding: finding.id.to_string(),
            headline: finding.headline.clone(),
            reproduced: baseline.reproduced(&subject),
            victim: subject.name,
            changes,
        });
    }
    Ok(subjects)
}

/// The findings whose victims are asked for.
fn findings<'r>(args: &LowArgs, report: &'r Report) -> Result<Vec<&'r Finding>> {
    if let Some(asked) = &args.finding {
        let ids: Vec<&str> = report.findings.iter().map(|finding| finding.id.as_str()).collect();
        return Ok(vec![&report.findings[find(asked, &ids, "finding", "this recording")?]]);
    }
    let worth = |finding: &&Finding| finding.severity >= Severity::Warning;
    let found: Vec<&Finding> = report.findings.iter().filter(worth).collect();
    if found.is_empty() {
        bail!("nobody is starved in this recording, so there is nothing to predict; name a finding with --finding");
    }
    Ok(found)
}

/// What is asked about: changes that are made together.
struct Asked {
    name: String,
    /// The number of the remedy that it is.
    remedy: Option<u32>,
    changes: Vec<Change>,
}

fn asked(args: &LowArgs, finding: &Finding, program: &Program) -> Result<Vec<Asked>> {
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
    let remedies = (1..).zip(&finding.remedies);
    let asked = remedies.map(|(number, remedy)| Asked {
        name: remedy.id.to_string(),
        remedy: Some(number),
        changes: remedy.changes.clone(),
    });
    Ok(asked.collect())
}

/// With more operations a program is not played for a sentence.
const MOST_FOR_A_SENTENCE: usize = 100_000;
/// Nor with more ticks of all CPUs: each replica has them.
const MOST_TICKS_FOR_A_SENTENCE: u64 = 100_000;
const TICK_NS: u64 = 4_000_000;

/// What a model says that a remedy would do, as a sentence; `None` where a recording gives no program.
pub fn of_remedy(extractor: Extractor, explained: &Explained, finding: &Finding, remedy: &Remedy) -> Option<String> {
    let (world, snapshot) = (explained.driven.timeline.world(), explained.driven.snapshot.as_deref());
    let extracted = extractor.finish(world, snapshot).ok()?;
    let program = &extracted.program;
    let ticks = program.length.0 / TICK_NS * program.cpus.len() as u64;
    if program.operations() > MOST_FOR_A_SENTENCE || ticks > MOST_TICKS_FOR_A_SENTENCE {
        return None;
    }
    let mut engine = Model { release: extracted.program.kernel.clone()?, snapshot: snapshot.cloned() };
    let baseline = Baseline::play(&mut engine, &extracted, &explained.report).ok()?;
    let subject = subject_of(finding, &extracted.program);
    let prediction = baseline.predict(&mut engine, &subject, &remedy.changes).ok()?;
    let report = ChangeReport::of(remedy.id.to_string(), None, Vec::new(), &prediction);
    Some(unstarve_term::prediction_in_a_sentence(&report))
}
