//! `unstarve knobs`: explains, lists, compares and changes scheduler settings.

pub mod diff;
mod list;
mod set;

#[cfg(feature = "columnar")]
pub use list::lines as settings_of;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use schemars::JsonSchema;
use serde::Serialize;
use unstarve_facts::{explain, explainable};
use unstarve_host::{Live, Root};
use unstarve_term::explanation_page;

use crate::output::{self, Color, Out};

/// Settings of the scheduler: explain, list, compare, change and restore them
#[derive(Args)]
#[command(after_help = "\
Examples:
  unstarve knobs explain sched_wakeup_granularity_ns
  unstarve knobs list
  sudo unstarve knobs set base_slice_ns 3000000
  sudo unstarve knobs undo
  unstarve knobs diff 5.10 6.12
  unstarve knobs diff old-host.json new-host.json")]
pub struct KnobsArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Describe a setting, a feature bit, a kernel thread, a workqueue or a reported regression
    Explain {
        /// sched_rt_runtime_us, RUN_TO_PARITY, kworker/0:1, dio, R01, …
        name: String,
    },
    /// List the settings of this host, or of a snapshot, with their defaults
    List(list::ListArgs),
    /// Show the path and value of a setting of this host
    Get {
        /// A setting, a feature bit, or a path
        name: String,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Change a setting or a feature bit; the old value is saved first
    Set(set::SetArgs),
    /// Undo the last change, or all; values that were changed since are left alone
    Undo(set::UndoArgs),
    /// Show what differs between two kernels, or two snapshots, and which configuration lines lose their effect
    #[command(visible_alias = "compare")]
    Diff(diff::DiffArgs),
}

/// What `knobs` prints with `--json`: one of these.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "each part is printed by itself; together they are only described")]
pub enum KnobsJson {
    /// `knobs list`
    List(Vec<list::Listed<'static>>),
    /// `knobs diff`
    Diff(diff::Difference),
}

/// The root directory argument.
#[derive(Args)]
struct PlaceArgs {
    /// Where the host's /proc and /sys are
    #[arg(long, value_name = "DIRECTORY", default_value = "/")]
    root: PathBuf,
}

impl PlaceArgs {
    fn root(&self) -> Result<Root> {
        let root = Root::at(&self.root);
        match root.check() {
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => {
                Err(error).with_context(|| self.root.display().to_string())
            }
            // A missing path is reported by its own name.
            _ => Ok(root),
        }
    }
}

pub fn run(args: KnobsArgs, color: Color) -> Result<ExitCode> {
    match args.command {
        Command::Explain { name } => explain_name(&name, color),
        Command::List(args) => list::run(args, color),
        Command::Get { name, place } => get(&name, &place),
        Command::Set(args) => set::set(&args),
        Command::Undo(args) => set::undo(&args),
        Command::Diff(args) => diff::run(args, color),
    }
}

fn explain_name(name: &str, color: Color) -> Result<ExitCode> {
    let Some(explanation) = explain(name) else {
        bail!("{name}: nothing is known about it{}", suggestion(name));
    };
    let mut text = explanation_page(&explanation, output::look(color));
    // Its value on this host, if the host has it.
    if let Ok(values) = Live::new(&Root::host()).get(name) {
        text += "\nOn this host\n";
        for (path, value) in values.iter().take(8) {
            text += &format!("  {path} = {}\n", unstarve_term::clean(value));
        }
    }
    Out::new().text(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn suggestion(name: &str) -> String {
    let asked = name.to_ascii_lowercase();
    let stem = asked.trim_start_matches("sched_");
    let near: Vec<&str> = explainable()
        .into_iter()
        .filter(|known| stem.len() >= 3 && known.to_ascii_lowercase().contains(stem))
        .take(5)
        .collect();
    if near.is_empty() {
        "; unstarve knobs list shows the settings of this host".to_owned()
    } else {
        format!("; perhaps {}", near.join(", "))
    }
}

fn get(name: &str, place: &PlaceArgs) -> Result<ExitCode> {
    let root = place.root()?;
    let values = Live::new(&root).get(name)?;
    let lines: String =
        values.iter().map(|(path, value)| format!("{path} = {}\n", unstarve_term::clean(value))).collect();
    Out::new().text(&lines)?;
    Ok(ExitCode::SUCCESS)
}
