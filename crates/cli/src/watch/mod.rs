//! `unstarve watch`: permanent monitoring, and commands on its episodes.

mod episodes;
mod explain;
mod replay;
mod run;
mod show;
mod status;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use unstarve_watch::config::{Config, STATE_DIRECTORY};
use unstarve_watch::control::{ControlError, Request, ask};

use crate::output::{Color, Out, hint_at_root, remark};

/// Run permanently: count who starves whom, keep recordings of episodes, report to monitoring
///
/// Without a subcommand it runs until SIGTERM or Ctrl-C: sums in the kernel, a flight recorder, a store of episodes, metrics and a
/// page at 127.0.0.1:9846, a line for each episode in the system's log.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo unstarve watch                              until Ctrl-C, with the defaults or /etc/unstarve/watch.toml
  sudo unstarve watch --config watch.toml
  unstarve watch --print-config -c watch.toml      check a configuration; print what holds
  sudo unstarve watch episodes --since 2h          what happened
  sudo unstarve watch show 20261123-012345-678     what explain says of it
  sudo unstarve watch dump                         the last seconds, now
  sudo unstarve watch status

Exit code: 0 if it was stopped, 2 if it could not run. status: 1 if none runs.")]
pub struct WatchArgs {
    #[command(subcommand)]
    command: Option<WatchCommand>,
    #[command(flatten)]
    run: run::RunArgs,
}

#[derive(Subcommand)]
enum WatchCommand {
    Episodes(episodes::EpisodesArgs),
    Show(show::ShowArgs),
    Status(status::StatusArgs),
    Dump(status::DumpArgs),
    Replay(replay::ReplayArgs),
    #[command(hide = true)]
    ExplainEpisode(explain::ExplainArgs),
}

/// The configuration argument.
#[derive(Args)]
struct ConfigArgs {
    /// The configuration, a TOML file [default: /etc/unstarve/watch.toml if it is there]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigArgs {
    fn load(&self) -> Result<Config> {
        Config::find(self.config.as_deref()).context("this configuration cannot be used")
    }
}

/// The store argument of commands that read episodes.
#[derive(Args)]
struct StoreArgs {
    /// The store [default: the configuration's]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// The store of the watch that runs with this state directory, as of status
    #[arg(long, value_name = "DIR", conflicts_with_all = ["store", "config"])]
    state: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
}

impl StoreArgs {
    /// An existing directory: a missing one must not look like one without episodes.
    fn readable(&self) -> Result<PathBuf> {
        let directory = self.directory()?;
        match fs::metadata(&directory) {
            Ok(found) if found.is_dir() => Ok(directory),
            Ok(_) => bail!("{}: not a directory; expected the store of a watch", directory.display()),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let elsewhere = status::elsewhere(Path::new(STATE_DIRECTORY));
                let elsewhere = elsewhere.map_or_else(String::new, |(process, state)| {
                    format!("; that of process {process} by --state {state}")
                });
                bail!(
                    "{}: there is no such directory, and so no store: `sudo unstarve watch` makes it; --store or --config name another one{elsewhere}",
                    directory.display()
                )
            }
            Err(error) => {
                Err(error).with_context(|| format!("cannot read {}", directory.display())).map_err(hint_at_root)
            }
        }
    }

    fn directory(&self) -> Result<PathBuf> {
        match (&self.store, &self.state) {
            (Some(store), _) => Ok(store.clone()),
            (None, Some(state)) => store_of(state),
            (None, None) => match Config::find(self.config.config.as_deref()) {
                Ok(config) => Ok(config.store.directory),
                // A running watch may still use the file's earlier contents.
                Err(error) => match Config::store_named_in(self.config.config.as_deref()) {
                    Some(store) => {
                        remark(&format!("the configuration has an error, and only its store is taken: {error}"));
                        Ok(store)
                    }
                    None => Err(error).context("this configuration cannot be used"),
                },
            },
        }
    }
}

/// The store of the watch with this state directory.
fn store_of(state: &Path) -> Result<PathBuf> {
    let answer = match ask(state, Request::Status) {
        Ok(answer) => answer,
        Err(ControlError::Nobody(_)) => bail!(
            "no watch runs with the state directory {}: --store or --config name the store of one that has ended",
            state.display()
        ),
        Err(error) => return Err(hint_at_root(error.into())),
    };
    let status: serde_json::Value = serde_json::from_str(&answer).context("the watch's answer")?;
    status["store"].as_str().map(PathBuf::from).context("the watch's answer: it names no store")
}

/// The state directory argument.
#[derive(Args)]
struct StateArgs {
    /// Where its socket and its lock are [default: /run/unstarve]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

impl StateArgs {
    fn path(&self) -> &Path {
        self.state.as_deref().unwrap_or(Path::new(STATE_DIRECTORY))
    }
}

pub fn run(args: &WatchArgs, color: Color) -> Result<ExitCode> {
    if let (Some(_), Some(option)) = (&args.command, args.run.given()) {
        bail!(
            "{option} stands before the subcommand; options of a subcommand come after it, as in \
             `unstarve watch status --state DIR`"
        );
    }
    match &args.command {
        None => run::run(&args.run),
        Some(WatchCommand::Episodes(args)) => episodes::run(args),
        Some(WatchCommand::Show(args)) => show::run(args, color),
        Some(WatchCommand::Status(args)) => status::run(args),
        Some(WatchCommand::Dump(args)) => status::dump(args),
        Some(WatchCommand::Replay(args)) => replay::run(args),
        Some(WatchCommand::ExplainEpisode(args)) => explain::run(args),
    }
}

fn print(text: &str) -> Result<ExitCode> {
    Out::new().text(text)?;
    Ok(ExitCode::SUCCESS)
}
