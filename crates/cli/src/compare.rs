use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use unstarve_diagnose::Options;
use unstarve_diagnose::compare::{Side, compare, side};
use unstarve_report::{Look, comparison_page};

use crate::input::Recording;
use crate::output::{self, Color, Out};
use crate::progress::Progress;

/// Say what changed between two recordings: who waits more or less, by which rule, and which findings came or went
///
/// Tasks are matched by their role (kind and name without counting numbers), not by their ids. Each recording is cut into
/// blocks of time, so that a difference can be told from the unrest within each; formats and lengths may differ.
#[derive(Args)]
#[command(after_help = "\
Examples:
  unstarve compare before.dat after.dat
  unstarve compare before.dat after.dat -o change.html
  unstarve compare --json good.perf.data bad.dat.zst > change.json

Exit code: 0 no difference that matters, 1 there is one, 2 a recording could not be analysed.")]
pub struct LowArgs {
    /// The first recording, of any format
    a: PathBuf,
    /// The second one
    b: PathBuf,
    /// Print the comparison as JSON (schema unstarve.compare/1)
    #[arg(long)]
    json: bool,
    /// Show all changes, also those that are unclear
    #[arg(long)]
    all: bool,
    /// Write an HTML page of both, like that of `unstarve report`, instead
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["json", "all"])]
    output: Option<PathBuf>,
}

/// What is asked for.
pub struct HiArgs {
    a: Recording,
    b: Recording,
    form: Form,
}

enum Form {
    Json,
    Page { look: Look, all: bool },
    Html(PathBuf),
}

impl LowArgs {
    /// Checks what can be checked before any work.
    pub fn raise(self, color: Color) -> Result<HiArgs> {
        let form = match self.output {
            Some(file) => Form::Html(file),
            None if self.json => Form::Json,
            None => Form::Page { look: output::look(color), all: self.all },
        };
        Ok(HiArgs { a: Recording::new(self.a)?, b: Recording::new(self.b)?, form })
    }
}

pub fn run(args: HiArgs) -> Result<ExitCode> {
    let comparison = match &args.form {
        Form::Html(file) => crate::report::compared(&args.a, &args.b, file)?,
        Form::Json => {
            let comparison = compare(&read(&args.a)?, &read(&args.b)?);
            Out::new().text(&(serde_json::to_string_pretty(&comparison)? + "\n"))?;
            comparison
        }
        Form::Page { look, all } => {
            let comparison = compare(&read(&args.a)?, &read(&args.b)?);
            Out::new().text(&comparison_page(&comparison, *all, *look))?;
            comparison
        }
    };
    Ok(if comparison.is_same() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn read(recording: &Recording) -> Result<Side> {
    let mut progress = Progress::new();
    side(recording.open()?, &Options::default(), |events| progress.events(events)).with_context(|| recording.name())
}
