//! `unstarve knobs set` and `undo`: changes a setting and restores it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use unstarve_change::{Place, Value};
use unstarve_executor::audit::Audit;
use unstarve_executor::host::{ThisHost, place_of};
use unstarve_executor::journal::Step as Change;
use unstarve_executor::manual_changes::{ByHand, Extent, KNOBS};
use unstarve_executor::state::DEFAULT_DIRECTORY;
use unstarve_host::{Live, Root, Step};
use unstarve_term::clean;

use super::PlaceArgs;
use crate::output::{self, Out, hint_at_root};

#[derive(Args)]
pub struct SetArgs {
    /// A setting, a feature bit, or a path
    name: String,
    /// Its new value; on or off for a feature bit
    #[arg(allow_hyphen_values = true)]
    value: String,
    /// Show what would be written, and write nothing
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
    /// Save old values here instead of in the journal in /run/unstarve
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
}

impl JournalArgs {
    fn open(&self, doing: &str) -> Result<ByHand> {
        Ok(match &self.journal {
            Some(file) => ByHand::open_file(file, doing)?,
            None => ByHand::open(Path::new(DEFAULT_DIRECTORY), doing)?,
        })
    }
}

pub fn set(args: &SetArgs) -> Result<ExitCode> {
    change(args).map_err(hint_at_root)
}

fn change(args: &SetArgs) -> Result<ExitCode> {
    let root = args.place.root()?;
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
    let mut hand = args.journal.open("knobs set")?;
    let mut steps = steps(&plan.steps, &root)?;
    let _held = crate::output::hold_signals()?;
    hand.apply(&mut ThisHost, &mut Audit::none(), &mut steps)?;
    let done: String = plan.steps.iter().map(|step| line(step) + "\n").collect();
    Out::new().text(&format!("{done}undo: {}\n", undo_command(args)))?;
    Ok(ExitCode::SUCCESS)
}

/// The undo command with the same journal and root.
fn undo_command(args: &SetArgs) -> String {
    let mut command = "unstarve knobs undo".to_owned();
    if let Some(journal) = &args.journal.journal {
        command += &format!(" --journal {}", unstarve_files::trust::for_a_shell(journal));
    }
    if args.place.root.as_os_str() != "/" {
        command += &format!(" --root {}", unstarve_files::trust::for_a_shell(&args.place.root));
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
    if let Some(journal) = &args.journal.journal
        && !journal.exists()
    {
        bail!("no journal at {}", journal.display());
    }
    let root = args.place.root()?.name();
    let mut hand = args.journal.open("knobs undo")?;
    let extent = if args.all { Extent::All } else { Extent::Last };
    let taken = hand.undo(&mut ThisHost, &mut Audit::none(), extent, |batch| {
        batch.rule == KNOBS && batch.steps.iter().all(|step| root_of(&step.target) == root.as_deref())
    });
    let is_theirs = |step: &Change| taken.theirs.iter().any(|(theirs, _)| theirs.seq == step.seq);
    let failed = |step: &Change| taken.undone.failed.iter().any(|(failed, _)| failed.seq == step.seq);
    let steps = taken.batches.iter().rev().flat_map(|batch| batch.steps.iter().rev());
    let done: Vec<&Change> = steps.filter(|step| !is_theirs(step) && !failed(step)).collect();
    let mut text: String = match taken.undone.restored {
        0 => String::new(),
        _ => done.iter().map(|step| changed(&step.target, &step.new, &step.old)).collect(),
    };
    if taken.batches.is_empty() {
        text = "nothing to undo\n".to_owned();
        let elsewhere = hand
            .batches()
            .iter()
            .flat_map(|batch| &batch.steps)
            .find_map(|step| root_of(&step.target).filter(|of| Some(*of) != root.as_deref()).map(str::to_owned));
        if let Some(of) = elsewhere {
            output::remark(&format!("what was set below {of} is undone with --root {of}"));
        }
    } else if text.is_empty() && taken.theirs.is_empty() && taken.covered.is_empty() && taken.undone.failed.is_empty() {
        text = "it had its old value already\n".to_owned();
    }
    Out::new().text(&text)?;
    for (step, rule) in &taken.covered {
        output::remark(&format!("{}: `{}` has set it again since; undo that first", step.target, clean(rule)));
    }
    for (step, now) in &taken.theirs {
        let (path, now, set) = (step.target.to_string(), bare(now), bare(&step.new));
        output::remark(&format!(
            "{path} is `{now}`, but unstarve set it to `{set}`: it was changed since, so it is left alone"
        ));
    }
    for (step, error) in &taken.undone.failed {
        output::remark(&format!("{}: {} stays: {error}", step.target, bare(&step.new)));
    }
    let all = taken.theirs.is_empty() && taken.covered.is_empty() && taken.undone.is_complete();
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The request as changes for the executor.
fn steps(steps: &[Step], root: &Root) -> Result<Vec<Change>> {
    let root = root.name();
    let each = steps.iter().filter(|step| step.old != step.new).map(|step| {
        let place = match &step.feature {
            Some(name) => Some(Place::Feature { path: step.path.clone(), name: name.clone(), root: root.clone() }),
            None => place_of(&step.path, root.as_deref()),
        };
        let place = place.with_context(|| format!("{} is gone", step.path))?;
        Ok(Change::new(place, "", KNOBS, Value::content(&step.old), Value::content(&step.new)))
    });
    each.collect()
}

fn root_of(place: &Place) -> Option<&str> {
    match place {
        Place::File { root, .. } | Place::Feature { root, .. } => root.as_deref(),
        Place::Task(_) | Place::Session { .. } => None,
    }
}

/// A text without the quotation marks of a value in a sentence.
fn bare(value: &Value) -> String {
    match value {
        Value::Content(content) => clean(content.as_str()).into_owned(),
        other => other.to_string(),
    }
}

fn changed(place: &Place, from: &Value, to: &Value) -> String {
    format!("{}: {} -> {}\n", clean(&place.to_string()), bare(from), bare(to))
}
