//! `unstarve guard run`: applies a policy until stopped, then restores everything.

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use unstarve_executor::deadman;
use unstarve_executor::state::Role;
use unstarve_files::ThisProgram;
use unstarve_guard::run;
use unstarve_guard::survey::Survey;
use unstarve_guard::task_events::SourceName;

use super::{PolicyArgs, StateArgs, plan, rights};
use crate::FAILED;
use crate::output;

/// Apply the policy to tasks as they appear; restore everything at the end
#[derive(Args)]
#[command(
    after_help = "Stops on SIGTERM, SIGINT or SIGHUP, and restores each value that nobody else has changed since. If it is killed, a second small process restores them. So do the next start, and `unstarve guard undo`.
Exit code: 0 if everything was restored, 2 if not, or if the guard could not run."
)]
pub struct RunArgs {
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    state: StateArgs,
    /// Write Prometheus metrics to this file
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,
    /// How the guard learns of new tasks [default: the best that works]
    #[arg(long, value_enum)]
    source: Option<SourceArg>,
    /// Run for this long: 10s, 2m [default: until stopped (SIGTERM, SIGINT, SIGHUP)]
    #[arg(long = "for", value_name = "TIME", value_parser = crate::record::parse_time)]
    time: Option<Duration>,
}

#[derive(Clone, Copy, ValueEnum)]
enum SourceArg {
    Ebpf,
    Netlink,
    Scan,
}

/// The process that takes everything back if the guard cannot
#[derive(Args)]
pub struct DeadManArgs {
    #[arg(long)]
    state: PathBuf,
    /// Of a fix on trial, not of a guard
    #[arg(long)]
    trial: bool,
    #[arg(long)]
    limit: u64,
    #[arg(long)]
    priority: u32,
    #[arg(long)]
    guard: u32,
}

pub fn run(args: &RunArgs) -> Result<ExitCode> {
    let policy = args.policy.load()?;
    rights::require(&policy)?;
    plan::warn(&policy);
    let survey = Survey::take(&policy, Vec::new()).context("the tasks of this machine")?;
    plan::warn_of_refusals(&policy, &survey);
    survey.crowd.check()?;
    let audit = args.state.audit()?;
    let options = run::Options {
        policy_path: args.policy.policy.clone(),
        state: args.state.state.clone(),
        metrics: args.metrics.clone(),
        source: args.source.map(|source| match source {
            SourceArg::Ebpf => SourceName::Ebpf,
            SourceArg::Netlink => SourceName::Netlink,
            SourceArg::Scan => SourceName::Scan,
        }),
        dead_man: dead_man_command(&args.state, policy.limits.dead_man)?,
        end: run::on_signals(&[SIGTERM, SIGINT, SIGHUP]).context("signals")?,
        time: args.time,
        say: Box::new(output::remark),
    };
    let undone = run::run(policy, options, audit)?;
    note!("{}", super::summary(&undone));
    super::warn_of_race(&undone);
    for (change, error) in &undone.failed {
        output::remark(&format!("{} {}: {} stays: {error}", change.comm, change.target, change.new));
    }
    Ok(if undone.is_complete() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// The command that starts the dead-man for this state directory with this priority.
pub fn dead_man_command(state: &StateArgs, limit: u32) -> Result<Box<dyn Fn(u32) -> Command>> {
    let program = ThisProgram::find().context("this program's own file")?;
    let state = state.state.clone();
    Ok(Box::new(move |priority| {
        let mut command = program.command();
        command.args(["guard", "dead-man", "--state"]).arg(&state);
        command.arg("--limit").arg(limit.to_string()).arg("--priority").arg(priority.to_string());
        command.arg("--guard").arg(std::process::id().to_string());
        command
    }))
}

pub fn dead_man(args: &DeadManArgs) -> Result<ExitCode> {
    let role = if args.trial { Role::Trial } else { Role::Guard };
    deadman::watch(&args.state, role, Duration::from_secs(args.limit), args.priority, args.guard)?;
    Ok(ExitCode::SUCCESS)
}
