//! `unstarve guard`: keeps tasks at the values of a policy.

mod apply;
mod plan;
mod rights;
mod run;
mod status;
mod undo;
mod verify;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use schemars::JsonSchema;
use serde::Serialize;
use unstarve_executor::act::Undone;
use unstarve_executor::audit::Audit;
use unstarve_executor::state;
use unstarve_files::trust::{Distrust, TrustError, for_a_shell};
use unstarve_guard::{Policy, PolicyError};

use crate::output;

/// Apply a policy (priority, nice, slice, affinity) to tasks as they appear, and restore everything at the end
#[derive(Args)]
#[command(after_help = "Examples:
  sudo install -D -m 644 dio.toml /etc/unstarve/dio.toml
  sudo unstarve guard plan --policy /etc/unstarve/dio.toml          which tasks would change, from what to what, and why
  sudo unstarve guard apply --once --policy /etc/unstarve/dio.toml  changes the tasks that exist now
  sudo unstarve guard run --policy /etc/unstarve/dio.toml           also changes tasks created later; Ctrl-C undoes
  sudo unstarve guard verify --policy /etc/unstarve/dio.toml        does it help? measures, then restores everything
  sudo unstarve guard undo                                          restores what a guard left changed

A policy:
  version = 1
  [[rule]]
  name = \"direct-I/O workers\"
  match = { workqueue = \"dio/*\" }
  set = { nice = -10 }")]
pub struct GuardArgs {
    #[command(subcommand)]
    command: GuardCommand,
}

#[derive(Subcommand)]
enum GuardCommand {
    Plan(plan::PlanArgs),
    Apply(apply::ApplyArgs),
    Run(run::RunArgs),
    Status(status::StatusArgs),
    Verify(verify::VerifyArgs),
    Undo(undo::UndoArgs),
    #[command(hide = true)]
    DeadMan(run::DeadManArgs),
    /// Print the JSON schema of policies
    Schema,
}

/// What `guard` prints with `--json`: one of these.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "each part is printed by itself; together they are only described")]
pub enum GuardJson {
    /// `guard plan`
    Plan(plan::GuardPlan<'static>),
    /// `guard verify`
    Verify(verify::GuardVerified<'static>),
    /// `guard status`; `null` if nothing is running.
    Status(Option<status::GuardStatus<'static>>),
}

/// The policy argument.
#[derive(Args)]
struct PolicyArgs {
    /// The policy, a TOML file
    #[arg(short, long, value_name = "FILE")]
    policy: PathBuf,
}

impl PolicyArgs {
    fn load(&self) -> Result<Policy> {
        let policy = Policy::load(&self.policy);
        let hint = match &policy {
            Err(PolicyError::Untrusted(TrustError::Untrusted { why, .. })) if is_place(*why) => self.copy_command(),
            _ => None,
        };
        let policy = policy.context("this policy cannot be used, and nothing was changed");
        policy.map_err(|error| output::with_hint(&error, &hint.unwrap_or_default()))
    }

    /// How to make the policy trusted.
    fn copy_command(&self) -> Option<String> {
        let name = self.policy.file_name()?;
        let (from, to) = (for_a_shell(&self.policy), for_a_shell(&Path::new("/etc/unstarve").join(name)));
        Some(format!(". For example: sudo install -D -m 644 {from} {to}"))
    }

    /// The policy is only shown, not applied.
    fn look_at(&self) -> Result<Policy> {
        let policy = Policy::look_at(&self.policy).context("this policy cannot be used")?;
        if let Err(error) = Policy::load(&self.policy) {
            output::complain(&anyhow::Error::new(error).context("note: `guard run` would refuse this policy"));
        }
        Ok(policy)
    }
}

/// Whether copying the policy elsewhere helps.
fn is_place(why: Distrust) -> bool {
    matches!(why, Distrust::Owner { us: 0, .. } | Distrust::Shared)
}

/// The state directory argument.
#[derive(Args)]
struct StateArgs {
    /// Where the journal is kept
    #[arg(long, value_name = "DIR", default_value = state::DEFAULT_DIRECTORY)]
    state: PathBuf,
    /// Add what is done to this file, as JSON lines; `-` is stderr
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
}

impl StateArgs {
    fn audit(&self) -> Result<Audit> {
        let Some(path) = &self.audit else { return Ok(Audit::none()) };
        if path.as_os_str() == "-" {
            return Audit::to_stderr().context("standard error");
        }
        // The directory must be writable for root alone: an appended log could be a hard link to another file.
        let (directory, name) = unstarve_files::trust::parent(path).context("the audit cannot be written")?;
        let file = directory.file(&name, unstarve_files::trust::How::Append).context("the audit cannot be written")?;
        Ok(Audit::to(file))
    }
}

/// The result of the changes, on one line.
pub(crate) fn summary(undone: &Undone) -> String {
    let mut parts = vec![format!("{} restored", undone.restored)];
    match undone.inherited {
        0 => {}
        1 => parts.push("1 inherited value restored".to_owned()),
        count => parts.push(format!("{count} inherited values restored")),
    }
    if undone.unchanged > 0 {
        parts.push(format!("{} as before already", undone.unchanged));
    }
    parts.push(format!("{} left (changed by someone else)", undone.others));
    match undone.gone {
        0 => {}
        1 => parts.push("1 whose task had exited".to_owned()),
        count => parts.push(format!("{count} whose tasks had exited")),
    }
    if !undone.failed.is_empty() {
        parts.push(format!("{} failed", undone.failed.len()));
    }
    parts.join(", ")
}

/// Whether there was nothing to undo.
fn is_nothing(undone: &Undone) -> bool {
    undone.is_complete() && undone.restored + undone.inherited + undone.unchanged + undone.others + undone.gone == 0
}

/// A program forks faster than the scan.
fn warn_of_race(undone: &Undone) {
    if undone.racing {
        output::remark(
            "children of changed tasks are still being born faster than they can be restored; stop their program, then \
             run `unstarve guard undo` again",
        );
    }
}

/// Warns about rules in a policy's text before the policy is used.
pub(crate) fn warn_of_rules(name: &str, text: &str) {
    // An invalid policy is reported by the command that loads it.
    if let Ok(policy) = Policy::parse(Path::new(name), text) {
        plan::warn(&policy);
    }
}

/// Runs the subcommand.
pub fn run(args: GuardArgs) -> Result<ExitCode> {
    match args.command {
        GuardCommand::Plan(args) => plan::run(&args),
        GuardCommand::Apply(args) => apply::run(&args),
        GuardCommand::Run(args) => run::run(&args),
        GuardCommand::Status(args) => status::run(&args),
        GuardCommand::Verify(args) => verify::run(&args),
        GuardCommand::Undo(args) => undo::run(&args),
        GuardCommand::DeadMan(args) => run::dead_man(&args),
        GuardCommand::Schema => {
            output::Out::new().text(&Policy::schema())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
