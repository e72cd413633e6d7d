//! `unstarve timeline`: every run with the wait before it.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use unstarve_diagnose::drive;
use unstarve_diagnose::report::in_words;
use unstarve_term::{Lines, Summary, Timehist};
use unstarve_timeline::{Both, Selection};

use crate::input::Recording;
use crate::output::Out;
use crate::progress::Progress;
use crate::selection::{LowSelection, UnmetSelection};

/// List every run with the wait before it, and who had the CPU during that wait
///
/// A line is printed when a run ends, with the columns of `perf sched timehist`. The column `wait` is what perf calls "sch
/// delay"; it includes waits after a preemption. The last column says who had the CPU during the wait, by which rule, for
/// how many nanoseconds. These sum up to the wait.
#[derive(Args)]
#[command(after_help = "\
Examples:
  unstarve timeline trace.dat --task 'kworker/*' --from +1s --to +1.5s
  unstarve timeline --summary perf.data
  trace-cmd report trace.dat | unstarve timeline -")]
pub struct LowArgs {
    /// A recording of any format, or - for standard input
    file: PathBuf,
    #[command(flatten)]
    selection: LowSelection,
    /// A table of tasks instead, those that waited longest first
    #[arg(short, long)]
    summary: bool,
    /// Print an object of JSON for each run instead (`unstarve schema timeline`)
    #[arg(long, conflicts_with = "summary")]
    json: bool,
}

/// The checked arguments.
pub struct HiArgs {
    recording: Recording,
    selection: Selection,
    show: Show,
}

enum Show {
    Lines(Lines),
    Table,
}

impl LowArgs {
    /// Checks the arguments before any work starts.
    pub fn raise(self) -> Result<HiArgs> {
        Ok(HiArgs {
            recording: Recording::new(self.file)?,
            selection: self.selection.raise(),
            show: match (self.summary, self.json) {
                (true, _) => Show::Table,
                (_, true) => Show::Lines(Lines::Json),
                _ => Show::Lines(Lines::Text),
            },
        })
    }
}

pub fn run(args: HiArgs) -> Result<ExitCode> {
    let source = args.recording.open()?;
    let mut progress = Progress::new();
    let tell = |events| progress.events(events);
    let name = || args.recording.name();
    let selection = args.selection;
    let mut unmet = UnmetSelection::of(&selection);
    let driven = match args.show {
        Show::Lines(form) => {
            let mut lines = Timehist::new(Out::new(), selection.clone(), form);
            let driven = drive(source, &mut Both(&mut lines, &mut unmet), tell).with_context(name)?;
            lines.finish().context("standard output")?;
            driven
        }
        Show::Table => {
            let mut summary = Summary::new(selection.clone());
            let driven = drive(source, &mut Both(&mut summary, &mut unmet), tell).with_context(name)?;
            summary.write(Out::new()).context("standard output")?;
            driven
        }
    };
    drop(progress);
    for loss in in_words(&driven.losses) {
        crate::output::remark(&loss);
    }
    unmet.report_unmet(&selection, &name())?;
    Ok(ExitCode::SUCCESS)
}
