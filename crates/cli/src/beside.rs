//! Programs of their own, beside this one or in the PATH, because what they are made of is larger than all of this one.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::output::OurLines;

/// Such a program.
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// How it is had.
    pub advice: &'static str,
}

/// Whether it is installed.
pub fn is_there(program: &Program) -> bool {
    place_of(program).is_some()
}

/// Becomes it.
///
/// # Errors
/// If it is not there, or cannot be run.
pub fn become_it<'a>(program: &Program, arguments: impl IntoIterator<Item = &'a OsString>) -> Result<ExitCode> {
    let Program { name, advice } = program;
    let Some(path) = place_of(program) else {
        let why = format!("{name} is not installed: it is neither beside this program nor in the PATH; {advice}");
        return Err(OurLines(why).into());
    };
    let error = Command::new(&path).args(arguments).exec();
    Err(error).with_context(|| format!("cannot run {}", path.display()))
}

fn place_of(program: &Program) -> Option<PathBuf> {
    let name = program.name;
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(name)));
    let places = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&places).filter(|place| place.is_absolute()).map(|place| place.join(name));
    beside.into_iter().chain(in_path).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
