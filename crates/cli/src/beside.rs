//! Programs of their own, beside this one or in the PATH, because what they are made of is larger than all of this one.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

/// Such a program.
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// How it is had.
    pub advice: &'static str,
}

/// Becomes it.
///
/// # Errors
/// If it is not there, or cannot be run.
pub fn become_it<'a>(program: &Program, arguments: impl IntoIterator<Item = &'a OsString>) -> Result<ExitCode> {
    let Program { name, advice } = program;
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(name)));
    let places = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&places).filter(|place| place.is_absolute()).map(|place| place.join(name));
    let Some(path) = beside.into_iter().chain(in_path).find(|path| is_program(path)) else {
        bail!("{name} is not installed: it is neither beside this program nor in the PATH; {advice}");
    };
    let error = Command::new(&path).args(arguments).exec();
    Err(error).with_context(|| format!("cannot run {}", path.display()))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
