//! `unstarve schema`.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use unstarve_check::Audit;
use unstarve_diagnose::report::Report;
use unstarve_facts::Snapshot;
use unstarve_sim::predict::Predictions;
use unstarve_term::TimelineLine;
use unstarve_top::View;
use unstarve_watch::episode::Episode;
use unstarve_watch::run::WatchStatus;

use crate::compare::WithLatency;
use crate::compare::hosts::Hosts;
use crate::doctor::Doctor;
use crate::fix::FixJson;
use crate::guard::GuardJson;
use crate::knobs::KnobsJson;
use crate::output::Out;

/// Print the JSON schema of what a command prints as JSON
#[derive(Args)]
#[command(after_help = "\
Examples:
  unstarve schema explain > explain.schema.json
  unstarve schema episode

Of what commands read: `unstarve guard schema`, `unstarve watch --print-schema`.
Later versions only add fields. Names of fields end with their unit (`_ns`).
Exit code: 0, or 2 if nothing has this name.")]
pub struct SchemaArgs {
    /// Of what
    #[arg(value_enum)]
    name: Name,
}

#[derive(Clone, Copy, ValueEnum)]
enum Name {
    /// `unstarve explain --json` and `watch show --json` (unstarve.explain/1)
    Explain,
    /// `unstarve compare --json` of two recordings (unstarve.compare/1)
    Compare,
    /// `unstarve compare --json` of two snapshots (unstarve.compare-hosts/1)
    CompareHosts,
    /// `unstarve check --json` (unstarve.check/1)
    Check,
    /// `unstarve predict --json` (unstarve.predict/1)
    Predict,
    /// A line of `unstarve top --json` (unstarve.top/1)
    Top,
    /// A line of `unstarve timeline --json`
    Timeline,
    /// A line of `unstarve watch episodes --json`, `watch dump --json`, and what `watch` sends (unstarve.watch-episode/1)
    Episode,
    /// `unstarve watch status --json` (unstarve.watch-status/1), or null
    Watch,
    /// `unstarve fix --json`: a plan, `--as`, `--status`, `--undo` (unstarve.fix/1)
    Fix,
    /// `unstarve guard plan`, `verify` and `status` with `--json` (unstarve.guard-plan/1, guard-verify/1, guard-status/1)
    Guard,
    /// `unstarve doctor --json` (unstarve.doctor/1)
    Doctor,
    /// `unstarve knobs list` and `diff` with `--json`
    Knobs,
    /// `unstarve snapshot`, and what recordings have of their host (unstarve.snapshot/1)
    Snapshot,
}

pub fn run(args: &SchemaArgs) -> Result<ExitCode> {
    let text = match args.name {
        Name::Explain => of::<Report>()?,
        Name::Compare => of::<WithLatency<'static>>()?,
        Name::CompareHosts => of::<Hosts>()?,
        Name::Check => of::<Audit>()?,
        Name::Predict => of::<Predictions>()?,
        Name::Top => of::<View>()?,
        Name::Timeline => of::<TimelineLine>()?,
        Name::Episode => of::<Episode>()?,
        Name::Watch => of::<Option<WatchStatus>>()?,
        Name::Fix => of::<FixJson>()?,
        Name::Guard => of::<GuardJson>()?,
        Name::Doctor => of::<Doctor>()?,
        Name::Knobs => of::<KnobsJson>()?,
        Name::Snapshot => of::<Snapshot>()?,
    };
    Out::new().text(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Of what is written: fields that may be left out when it is read are always there.
fn of<T: JsonSchema>() -> Result<String> {
    let schema: Schema = SchemaSettings::default().for_serialize().into_generator().into_root_schema_for::<T>();
    Ok(serde_json::to_string_pretty(&schema)? + "\n")
}
