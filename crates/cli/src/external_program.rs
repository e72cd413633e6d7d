//! Runs unstarve's separate programs, installed beside this one or in PATH. They are separate because of their size.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use anyhow::{Context, Result};
use unstarve_files::{Program, ProgramError};

use crate::output::OurLines;

/// A separate program.
pub struct Companion {
    /// Its name.
    pub name: &'static str,
    /// How to get it.
    pub advice: &'static str,
}

/// Whether it is installed and executable.
pub fn is_there(program: &Companion) -> bool {
    find(program.name).is_ok()
}

/// Replaces this process with it. It inherits the environment, except for variables that make a loader load code.
///
/// # Errors
/// If it is missing, cannot be run, or others could have written it.
pub fn become_it<'a>(program: &Companion, arguments: impl IntoIterator<Item = &'a OsString>) -> Result<ExitCode> {
    let Companion { name, advice } = program;
    let program = match find(name) {
        Ok(program) => program,
        Err(error) if error.is_absent() => {
            let why = format!("{name} is not installed: it is neither beside this program nor in the PATH; {advice}");
            return Err(OurLines(why).into());
        }
        Err(error) => return Err(error.into()),
    };
    let error = program.command_in_our_environment().args(arguments).exec();
    Err(error).with_context(|| format!("cannot run {}", program.path().display()))
}

/// Looks beside this program first, then in PATH.
fn find(name: &str) -> Result<Program, ProgramError> {
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(name)));
    match beside.map(|path| Program::at(&path)) {
        Some(Err(error)) if !error.is_absent() => Err(error),
        Some(Ok(program)) => Ok(program),
        _ => Program::find(name),
    }
}
