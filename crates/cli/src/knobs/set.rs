use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use unstarve_host::{Extent, Journal, Live, Step};
use unstarve_term::clean;

use super::PlaceArgs;
use crate::output::{Out, complain, hint_at_root};

#[derive(Args)]
pub struct SetArgs {
    /// A setting, a feature bit, or a path
    name: String,
    /// Its new value; of a feature bit on or off
    #[arg(allow_hyphen_values = true)]
    value: String,
    /// Say what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    journal: JournalArgs,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Args)]
pub struct UndoArgs {
    /// All changes, not only the last
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    journal: JournalArgs,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Args)]
struct JournalArgs {
    /// Where old values are written down
    #[arg(long, value_name = "FILE", default_value = Journal::DEFAULT)]
    journal: PathBuf,
}

pub fn set(args: &SetArgs) -> Result<ExitCode> {
    change(args).map_err(hint_at_root)
}

fn change(args: &SetArgs) -> Result<ExitCode> {
    let root = args.place.root();
    let live = Live::new(&root);
    let plan = live.plan(&args.name, &args.value)?;
    if plan.steps.iter().all(|step| step.old == step.new) {
        Out::new().text(
            &plan.steps.iter().map(|step| format!("{} is {} already\n", step.path, step.new)).collect::<String>(),
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.dry_run {
        Out::new().text(&plan.steps.iter().map(|step| line(step) + " (not written)\n").collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut journal = Journal::open(&args.journal.journal)?;
    live.apply(&plan, &mut journal)?;
    let done: String = plan.steps.iter().map(|step| line(step) + "\n").collect();
    Out::new().text(&format!("{done}{} takes it back\n", undo_command(args)))?;
    Ok(ExitCode::SUCCESS)
}

/// The command that undoes it, with the same journal and root.
fn undo_command(args: &SetArgs) -> String {
    let mut command = "unstarve knobs undo".to_owned();
    let options = [("--journal", &args.journal.journal, Journal::DEFAULT), ("--root", &args.place.root, "/")];
    for (option, path, default) in options {
        if path.as_os_str() != default {
            command += &format!(" {option} {}", unstarve_files::trust::for_a_shell(path));
        }
    }
    command
}

fn line(step: &Step) -> String {
    format!("{}: {} -> {}", step.path, clean(&step.old), clean(&step.new))
}

pub fn undo(args: &UndoArgs) -> Result<ExitCode> {
    change_back(args).map_err(hint_at_root)
}

fn change_back(args: &UndoArgs) -> Result<ExitCode> {
    let Some(mut journal) = Journal::open_if_there(&args.journal.journal)? else {
        bail!("no journal at {}", args.journal.journal.display());
    };
    let root = args.place.root();
    let pending = journal.pending().len();
    let extent = if args.all { Extent::All } else { Extent::Last };
    let (undone, failed) = Live::new(&root).undo(&mut journal, extent);
    let mut text: String = undone
        .iter()
        .map(|change| format!("{}: {} -> {}\n", change.path, clean(&change.from), clean(&change.to)))
        .collect();
    if undone.is_empty() && failed.is_empty() {
        text = if pending == 0 { "nothing to undo\n" } else { "it was what it had been already\n" }.to_owned();
    }
    Out::new().text(&text)?;
    let any = !failed.is_empty();
    for error in failed {
        complain(&error.into());
    }
    Ok(if any { ExitCode::from(1) } else { ExitCode::SUCCESS })
}
