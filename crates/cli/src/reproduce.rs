//! `unstarve reproduce`: a recording as the smallest case that still starves the same way.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use unstarve_diagnose::report::{Finding, Severity};
use unstarve_lab::case::scenario_of;
use unstarve_model::clean;
use unstarve_sim::predict::{Engine, Model, ModelError, Starved};
use unstarve_sim::{Program, form, shrink};

use crate::input::{self, Recording};
use crate::output;
use crate::predict::explain_and_extract;
use crate::suggested::{FINDING_IDS, find};
use crate::target::Target;

/// Make of a recording the smallest case that still starves the same way
///
/// What its threads did becomes a program. Threads and operations are left out while a model of the scheduler still finds the
/// same victim, the same culprit and the same finding. The case is a scenario for `unstarve lab run`, JSON for rt-app, or one
/// C file.
#[derive(Args)]
#[command(after_help = "\
Examples:
  unstarve reproduce unstarve.dat -o case.toml
  unstarve lab run ./case.toml --kernel 6.12
  unstarve reproduce unstarve.dat --as c -o case.c

Exit code: 0 if a case was written, 2 if not.")]
pub struct LowArgs {
    /// A recording, or - for standard input
    file: Option<PathBuf>,
    /// The file to write, or - for standard output
    #[arg(short, long, value_name = "FILE", default_value = "case.toml")]
    output: PathBuf,
    /// In which form
    #[arg(long = "as", value_enum, value_name = "FORM", default_value_t)]
    form: Form,
    /// The finding to reproduce: its number (1 is the worst), or its id
    #[arg(long, value_name = "N|ID", value_parser = FINDING_IDS, hide_possible_values = true, default_value = "1")]
    finding: String,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Form {
    /// A scenario for `unstarve lab run`
    #[default]
    Scenario,
    /// JSON for rt-app
    RtApp,
    /// One C file
    C,
}

pub fn run(args: LowArgs) -> Result<ExitCode> {
    let Some(file) = &args.file else { return Err(input::no_recording("reproduce")) };
    let recording = Recording::new(file.clone())?;
    if input::is_same_file(file, &args.output) {
        bail!("{}: is the input recording; give the case another name with -o", args.output.display());
    }
    let target = Target::open(&args.output)?;
    let (explained, extracted) = explain_and_extract(&recording)?;
    let snapshot = explained.driven.snapshot.as_deref();
    let found: Vec<&Finding> =
        explained.report.findings.iter().filter(|finding| finding.severity >= Severity::Warning).collect();
    if found.is_empty() {
        bail!("nobody is starved in this recording, so there is nothing to reproduce");
    }
    let ids: Vec<&str> = found.iter().map(|finding| finding.id.as_str()).collect();
    let finding = found[find(&args.finding, &ids, "finding", "this recording")?];
    let Some(release) = extracted.program.kernel.clone() else {
        bail!("the recording does not say on which kernel it was made");
    };
    let mut model = Model { release, snapshot: snapshot.cloned() };
    let wanted = Starved {
        finding: finding.id.to_string(),
        victim: finding.victim.comm.clone(),
        culprit: finding.culprits.first().map(|culprit| culprit.comm.clone()),
        for_longer: false,
    };
    let mut survives = |program: &Program| -> Result<bool, ModelError> {
        Ok(model.play(program, 0)?.starved.iter().any(|starved| is_same(starved, &wanted)))
    };
    if !survives(&extracted.program)? {
        let found = model.play(&extracted.program, 0)?.starved;
        let found = found.iter().map(Starved::to_string).collect::<Vec<_>>().join(", ");
        bail!(
            "{}: the model of the scheduler does not find this in the program of the recording, so it cannot be made \
             smaller; it finds {}",
            clean(&finding.headline),
            if found.is_empty() { "nothing".to_owned() } else { clean(&found).into_owned() }
        );
    }
    let mut survives = |program: &Program| -> Result<bool, ModelError> {
        Ok(model.play(program, 0)?.starved.iter().any(|starved| is_same(starved, &wanted)))
    };
    let case = shrink(&extracted.program, &extracted.recorded, &mut survives)?;
    case.check().context("the case cannot be written")?;
    let (text, lacks) = match args.form {
        Form::Scenario => (scenario_of(&case, finding), Vec::new()),
        Form::RtApp => form::rt_app(&case),
        Form::C => (form::c_file(&case, &finding.headline), Vec::new()),
    };
    target.text(&text)?;
    target.deliver()?;
    note!(
        "{}: {} of {} threads, {} of {} operations still give: {}",
        output::shown(&args.output),
        case.actors.len(),
        extracted.program.actors.len(),
        case.operations(),
        extracted.program.operations(),
        clean(&finding.headline)
    );
    for lack in lacks {
        note!("it cannot say: {lack}");
    }
    Ok(ExitCode::SUCCESS)
}

fn is_same(starved: &Starved, wanted: &Starved) -> bool {
    (&starved.finding, &starved.victim, &starved.culprit) == (&wanted.finding, &wanted.victim, &wanted.culprit)
}
