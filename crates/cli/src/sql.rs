//! `unstarve sql`: a program of its own, `unstarve-sql`, because the engine in it is larger than all of this one.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::Args;

const PROGRAM: &str = "unstarve-sql";

/// Ask questions of the tables of one host or many, in SQL
///
/// Runs unstarve-sql, which is beside this program or in the PATH; `unstarve sql --help` shows its help.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct SqlArgs {
    /// What unstarve-sql is called with
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

pub fn run(args: &SqlArgs) -> Result<ExitCode> {
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(PROGRAM)));
    let places = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&places).filter(|place| place.is_absolute()).map(|place| place.join(PROGRAM));
    let Some(program) = beside.into_iter().chain(in_path).find(|program| is_program(program)) else {
        bail!(
            "{PROGRAM} is not installed: it is neither beside this program nor in the PATH; build it with `make build-sql`, or \
             read the tables with another engine (docs/tables.md)"
        );
    };
    run_instead(&program, &args.arguments)
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Becomes the other program.
fn run_instead(program: &PathBuf, arguments: &[OsString]) -> Result<ExitCode> {
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}
