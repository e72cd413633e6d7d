//! `unstarve lab list`: lists the scenarios or prints one.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use unstarve_lab::catalogue;
use unstarve_term::lab::{ScenarioLine, scenarios_page};

use crate::output::Out;

/// List the scenarios that come with unstarve, or print the file of one, to copy and edit
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unstarve lab list
  unstarve lab list kubepods > mine.toml

docs/lab-scenarios.md is the reference of the format.")]
pub(crate) struct ListArgs {
    /// Print the file of this scenario
    scenario: Option<String>,
    /// Print the list as JSON
    #[arg(long, conflicts_with = "scenario")]
    json: bool,
}

#[derive(Serialize)]
struct Entry {
    name: String,
    title: String,
    source: String,
    kernels: Vec<String>,
    remedies: Vec<String>,
}

pub(crate) fn run(args: ListArgs) -> anyhow::Result<ExitCode> {
    let text = match args.scenario {
        Some(name) => {
            // A wrong name gives the same error as in other commands.
            catalogue::find(&name)?;
            match catalogue::text(&name) {
                Some(text) => text.to_owned(),
                None => anyhow::bail!(
                    "{name} is a file of your own; those that come with unstarve have names without `/` and `.toml`"
                ),
            }
        }
        None => {
            let entries = catalogue::names().map(entry).collect::<anyhow::Result<Vec<Entry>>>()?;
            if args.json { serde_json::to_string_pretty(&entries)? + "\n" } else { scenarios_page(&lines(&entries)) }
        }
    };
    Out::new().text(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn entry(name: &str) -> anyhow::Result<Entry> {
    let scenario = catalogue::find(name)?;
    Ok(Entry {
        remedies: scenario.remedy.into_iter().map(|remedy| remedy.id).collect(),
        name: scenario.name,
        title: scenario.title,
        source: scenario.source,
        kernels: scenario.kernels,
    })
}

fn lines(entries: &[Entry]) -> Vec<ScenarioLine<'_>> {
    let lines = entries.iter().map(|entry| {
        let Entry { name, title, kernels, .. } = entry;
        ScenarioLine { name, title, kernels }
    });
    lines.collect()
}
