//! `unstarve watch run`: the daemon.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use unstarve_files::ThisProgram;
use unstarve_watch::ExplainCommand;
use unstarve_watch::config::Config;
use unstarve_watch::run::{self, Options, Signals};

use super::{ConfigArgs, StateArgs, print};
use crate::output;

#[derive(Args)]
pub struct RunArgs {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    state: StateArgs,
    /// Run for this long: 10s, 2m [default: until stopped (SIGTERM, SIGINT; in a terminal SIGHUP, too)]
    #[arg(long = "for", value_name = "TIME", value_parser = crate::record::parse_time)]
    time: Option<Duration>,
    /// Write the sums of each interval as Parquet files here [default: the configuration's, else nowhere]
    #[arg(long, value_name = "DIR")]
    tables: Option<PathBuf>,
    /// Print the configuration that holds, with all defaults, and end
    #[arg(long)]
    print_config: bool,
    /// Print the JSON schema of configurations, for editors, and end
    #[arg(long, conflicts_with = "print_config")]
    print_schema: bool,
}

impl RunArgs {
    /// The first option given, which would have no effect before a subcommand.
    pub(super) fn given(&self) -> Option<&'static str> {
        let options = [
            ("--config", self.config.config.is_some()),
            ("--state", self.state.state.is_some()),
            ("--for", self.time.is_some()),
            ("--tables", self.tables.is_some()),
            ("--print-config", self.print_config),
            ("--print-schema", self.print_schema),
        ];
        options.into_iter().find_map(|(option, is_given)| is_given.then_some(option))
    }
}

pub fn run(args: &RunArgs) -> Result<ExitCode> {
    if args.print_schema {
        return print(&Config::schema());
    }
    let mut config = args.config.load()?;
    let tables = args.tables.as_deref().map(std::path::absolute).transpose()?;
    config.write_tables_in(tables.as_deref());
    if args.print_config {
        return print(&config.in_full());
    }
    let signals = Signals::catch()?;
    let opened =
        unstarve_watch::open(unstarve_watch::Options::default()).map_err(|error| output::hint_at_root(error.into()))?;
    output::remark(&opened.words());
    let options = Options {
        config,
        path: args.config.config.clone(),
        tables,
        state: args.state.path().to_owned(),
        explain: explainer()?,
        say: Box::new(output::remark),
        time: args.time,
        instead: opened.instead.as_ref().map(|_| opened.words()),
        signals,
    };
    let mut engine = opened.engine;
    run::run(options, engine.as_mut()).map_err(|error| output::hint_at_root(error.into()))?;
    Ok(ExitCode::SUCCESS)
}

fn explainer() -> Result<ExplainCommand> {
    let program = ThisProgram::find().context("this program's own file")?;
    Ok(Box::new(move |directory: &Path| {
        let mut command = program.command();
        command.args(["watch", "explain-episode"]).arg(directory);
        command
    }))
}
