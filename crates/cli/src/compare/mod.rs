//! `unstarve compare`: what changed between two recordings, lab results or snapshots.

pub mod gate;
pub mod hosts;
mod labs;
mod latency;
mod sniff;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use unstarve_diagnose::Options;
use unstarve_diagnose::compare::gate::Gate;
use unstarve_diagnose::compare::{Comparison, Side, compare, side_beside};
use unstarve_latency::Latency;
use unstarve_term::{Extent, Look, Spikes, comparison_page, latency_page};
use unstarve_timeline::{Both, Selection};

use self::gate::{GateArgs, LowGate};
use self::latency::{LowLatency, SideLatencies};
use self::sniff::Kind;

use crate::input::{Recording, is_same_file};
use crate::output::{self, Color};
use crate::pager;
use crate::progress::Progress;
use crate::selection::{LowSelection, UnmetSelection};

/// Show what changed between two recordings, lab results or snapshots
///
/// Recordings: who waits more or less, by which rule, which findings are new or gone, and, with an application's own latency
/// log, which of its spikes coincide with which waits. Lab results (directories that `lab run` keeps): their metrics, too.
/// Snapshots: settings, and what `check` finds on only one of the hosts. Tasks are matched by their role (kind and name
/// without counting numbers), not by their ids. Each recording is cut into blocks of time, which lets a difference be
/// distinguished from noise; formats and lengths may differ. --task, --cpu, --from and --to select the same of both recordings.
#[derive(Args)]
#[command(after_help = "\
Examples:
  unstarve compare before.dat after.dat
  unstarve compare before.dat after.dat -o change.html
  unstarve compare --json good.perf.data bad.dat.zst > change.json
  unstarve compare old.dat new.dat --latency-a old_clat.1.log --latency-b new_clat.1.log --align first
  unstarve compare before.json after.json               two snapshots (unstarve snapshot -o)

  unstarve compare before.dat after.dat --task 'kworker/*' --from +1s
  unstarve compare main.dat branch.dat --fail-on worse
  unstarve compare --base baseline/ branch.dat --fail-on worse --junit gate.xml --markdown comment.md

Exit code: 0 no significant difference, 1 there is one, 2 an input could not be compared.
With --fail-on worse: 0 better or the same, 1 worse, 2 could not be compared, 3 undecided.")]
pub struct LowArgs {
    /// The first recording of any format, directory of a lab result, or snapshot
    a: PathBuf,
    /// The second one, of the same kind
    #[arg(required_unless_present = "base")]
    b: Option<PathBuf>,
    /// Print the comparison as JSON (schema unstarve.compare/1)
    #[arg(long)]
    json: bool,
    /// Show all changes, including unclear ones
    #[arg(long)]
    all: bool,
    /// Write an HTML page of both recordings instead, as `unstarve report` does
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["json", "all"])]
    output: Option<PathBuf>,
    #[command(flatten)]
    selection: LowSelection,
    #[command(flatten)]
    latency: LowLatency,
    #[command(flatten)]
    gate: LowGate,
}

/// The checked arguments.
pub enum HiArgs {
    Recordings { a: Recording, b: Recording, selection: Selection, latency: SideLatencies, form: Form },
    Html { a: Recording, b: Recording, selection: Selection, file: PathBuf },
    Labs { a: PathBuf, b: PathBuf, form: Form },
    Hosts { a: PathBuf, b: PathBuf, form: Form },
    Gate(GateArgs),
}

pub enum Form {
    Json,
    Page { look: Look, extent: Extent },
}

impl LowArgs {
    /// Checks the arguments before any work starts.
    pub fn raise(self, color: Color) -> Result<HiArgs> {
        let form = if self.json {
            Form::Json
        } else {
            Form::Page { look: output::look(color), extent: if self.all { Extent::All } else { Extent::Main } }
        };
        let latency = self.latency.raise()?;
        if self.gate.is_asked() {
            if self.output.is_some() || !latency.is_empty() {
                bail!(
                    "a verdict has no page (-o) and no latency log: leave them out, or compare a second time without --fail-on"
                );
            }
            return Ok(HiArgs::Gate(self.gate.raise([Some(self.a), self.b], self.selection.raise(), form)?));
        }
        let Some(b) = self.b else { bail!("name the second recording") };
        let a = self.a;
        let kinds = (sniff::kind(&a), sniff::kind(&b));
        if kinds != (Kind::Recording, Kind::Recording) && !latency.is_empty() {
            bail!("--latency-a and --latency-b need recordings on both sides: spikes are set against waits");
        }
        let selection = self.selection.raise();
        if let Some(kind) = [kinds.0, kinds.1].into_iter().find(|kind| *kind != Kind::Recording)
            && selection != Selection::default()
        {
            bail!(
                "--task, --cpu, --from and --to select waits of recordings; a {kind} is compared as a whole: leave them out"
            );
        }
        if let Some(file) = self.output {
            if kinds != (Kind::Recording, Kind::Recording) || !latency.is_empty() {
                bail!("-o writes a page of two recordings alone: leave it out for lab results, snapshots and latency");
            }
            if is_same_file(&a, &file) || is_same_file(&b, &file) {
                bail!("{}: is an input recording; give the page another name with -o", file.display());
            }
            return Ok(HiArgs::Html { a: Recording::new(a)?, b: Recording::new(b)?, selection, file });
        }
        Ok(match kinds {
            (Kind::Recording, Kind::Recording) => {
                HiArgs::Recordings { a: Recording::new(a)?, b: Recording::new(b)?, selection, latency, form }
            }
            (Kind::Lab, Kind::Lab) => HiArgs::Labs { a, b, form },
            (Kind::Snapshot, Kind::Snapshot) => HiArgs::Hosts { a, b, form },
            (first, second) => bail!(
                "{} is a {first} and {} a {second}: compare two inputs of the same kind",
                a.display(),
                b.display()
            ),
        })
    }
}

pub fn run(args: HiArgs) -> Result<ExitCode> {
    match args {
        HiArgs::Recordings { a, b, selection, latency, form } => recordings([&a, &b], &selection, latency, &form),
        HiArgs::Html { a, b, selection, file } => Ok(exit_code(&crate::report::compared(&a, &b, &selection, &file)?)),
        HiArgs::Labs { a, b, form } => labs::run(&a, &b, &form),
        HiArgs::Hosts { a, b, form } => hosts::run(&a, &b, &form),
        HiArgs::Gate(args) => gate::run(args),
    }
}

/// The comparison, and the latency of each side.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "Comparison")]
pub struct WithLatency<'a> {
    #[serde(flatten)]
    comparison: &'a Comparison,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    latency_a: Vec<Latency>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    latency_b: Vec<Latency>,
    /// The verdict, where one was asked for. The fields beside it compare the first recording of each side.
    #[serde(skip_serializing_if = "Option::is_none")]
    gate: Option<&'a Gate>,
}

fn recordings([a, b]: [&Recording; 2], selection: &Selection, latency: SideLatencies, form: &Form) -> Result<ExitCode> {
    let SideLatencies { mut a_watches, mut b_watches } = latency;
    let (a, b) = (read(a, selection, &mut a_watches)?, read(b, selection, &mut b_watches)?);
    let comparison = compare(&a, &b);
    let (latency_a, latency_b) = (a_watches.finish()?, b_watches.finish()?);
    let text = match form {
        Form::Json => {
            serde_json::to_string_pretty(&WithLatency { comparison: &comparison, latency_a, latency_b, gate: None })?
                + "\n"
        }
        Form::Page { look, extent } => {
            let spikes = match extent {
                Extent::All => Spikes::All,
                Extent::Main => Spikes::Worst,
            };
            comparison_page(&comparison, *extent, *look) + &latency_page(&latency_a, &latency_b, spikes)
        }
    };
    pager::print(&text)?;
    Ok(exit_code(&comparison))
}

fn exit_code(comparison: &Comparison) -> ExitCode {
    if comparison.is_same() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn read(recording: &Recording, selection: &Selection, watches: &mut latency::LatencyLogs) -> Result<Side> {
    let mut progress = Progress::new();
    let tell = |events| progress.events(events);
    let options = Options { selection: selection.clone(), ..Options::default() };
    let mut unmet = UnmetSelection::of(selection);
    let side = side_beside(recording.open()?, &options, &mut Both(watches, &mut unmet), tell)
        .with_context(|| recording.name())?;
    unmet.report_unmet(selection, &recording.name())?;
    Ok(side)
}
