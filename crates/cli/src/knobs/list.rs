//! `unstarve knobs list`: the settings of a host with their defaults.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use unstarve_facts::{Facts, Knob, Presence, Snapshot};
use unstarve_term::{KnobLine, clean, knobs_page};

use crate::output::{self, Color, Out, remark};
use crate::snapshot;

#[derive(Args)]
pub struct ListArgs {
    /// A snapshot instead of this host; - is standard input
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Where this host's /proc, /sys and /etc are
    #[arg(long, value_name = "DIRECTORY", default_value = "/", conflicts_with = "snapshot")]
    root: PathBuf,
    /// Only those that differ from their default
    #[arg(long)]
    changed: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize, JsonSchema)]
pub struct Listed<'a> {
    name: &'a str,
    path: &'a str,
    value: &'a str,
    /// The default, if the value differs from it.
    default: Option<&'a str>,
    /// The lines of configuration files that set it.
    written_in: &'a [String],
}

pub fn run(args: ListArgs, color: Color) -> Result<ExitCode> {
    let snapshot = match &args.snapshot {
        Some(file) => snapshot::read(file)?,
        None => snapshot::take(&args.root)?,
    };
    if snapshot.features.is_none() {
        let why = snapshot.missing.iter().find(|missing| missing.what == "scheduler features");
        let why = why.map_or("the snapshot does not say why", |missing| missing.why.as_str());
        remark(&format!("the settings in debugfs cannot be seen: {why}"));
    }
    let mut lines = lines(&snapshot);
    lines.retain(|line| !args.changed || line.default.is_some());
    let text = if args.json {
        let listed: Vec<Listed<'_>> = lines.iter().map(listed).collect();
        serde_json::to_string_pretty(&listed)? + "\n"
    } else if lines.is_empty() && args.changed {
        "No setting differs from its default, as far as defaults are known.\n".to_owned()
    } else {
        knobs_page(&lines, output::look(color))
    };
    Out::new().text(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn listed(line: &KnobLine) -> Listed<'_> {
    Listed {
        name: &line.name,
        path: &line.path,
        value: &line.value,
        default: line.default.as_deref(),
        written_in: &line.places,
    }
}

/// All settings of a host.
pub fn lines(snapshot: &Snapshot) -> Vec<KnobLine> {
    snapshot.settings.iter().map(|(path, value)| line(snapshot, path, value)).collect()
}

fn line(snapshot: &Snapshot, path: &str, value: &str) -> KnobLine {
    let knob = Knob::named(path);
    let name = knob.map(Knob::name).filter(|name| !path.contains("/cpu") || name.contains("cpu"));
    let key = knob.map(Knob::name).unwrap_or_default();
    let written = snapshot.configured.iter().filter(|setting| !key.is_empty() && setting.key.ends_with(key));
    KnobLine {
        name: name.unwrap_or_else(|| path.rsplit("/sched/").next().unwrap_or(path)).to_owned(),
        value: clean(value.trim()).into_owned(),
        default: default(snapshot, knob, value.trim()),
        path: path.to_owned(),
        places: written.map(|setting| clean(&format!("{}: {}", setting.place(), setting.value)).into_owned()).collect(),
    }
}

/// The default, if the value differs from it.
fn default(snapshot: &Snapshot, knob: Option<Knob>, value: &str) -> Option<String> {
    let facts = Facts::of_host(snapshot);
    let form = knob?.at(facts.version()?, facts.distribution()).and_then(Presence::form)?;
    let cpus = snapshot.cpus.online.as_ref()?.len();
    form.default_with(cpus).filter(|default| default != value)
}
