//! `unstarve lab-load`: runs one of the lab's own loads on this host.

use std::io;
use std::process::ExitCode;

use clap::Args;

/// Run one of the lab's own loads here: KIND key=value…
#[derive(Args, Debug)]
#[command(after_help = unstarve_load::measured::help())]
pub(crate) struct LoadArgs {
    /// Kind and arguments
    #[arg(required = true, allow_hyphen_values = true, trailing_var_arg = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(args: LoadArgs) -> anyhow::Result<ExitCode> {
    unstarve_load::measured::run(&args.arguments, &mut io::stdout().lock())?;
    Ok(ExitCode::SUCCESS)
}
