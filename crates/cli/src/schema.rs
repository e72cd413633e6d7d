//! `unstarve schema`.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use unstarve_check::Audit;
use unstarve_diagnose::report::Report;
use unstarve_top::View;
use unstarve_watch::episode::Episode;

use crate::compare::WithLatency;
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
    /// `unstarve explain --json` (unstarve.explain/1)
    Explain,
    /// `unstarve compare --json` of two recordings (unstarve.compare/1)
    Compare,
    /// `unstarve check --json` (unstarve.check/1)
    Check,
    /// A line of `unstarve top --json` (unstarve.top/1)
    Top,
    /// A line of `unstarve watch episodes --json`, and what `watch` sends (unstarve.watch-episode/1)
    Episode,
}

pub fn run(args: &SchemaArgs) -> Result<ExitCode> {
    let text = match args.name {
        Name::Explain => of::<Report>()?,
        Name::Compare => of::<WithLatency<'static>>()?,
        Name::Check => of::<Audit>()?,
        Name::Top => of::<View>()?,
        Name::Episode => of::<Episode>()?,
    };
    Out::new().text(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Of what is written: fields that may be left out when it is read are always there.
fn of<T: JsonSchema>() -> Result<String> {
    let schema: Schema = SchemaSettings::default().for_serialize().into_generator().into_root_schema_for::<T>();
    Ok(serde_json::to_string_pretty(&schema)? + "\n")
}
