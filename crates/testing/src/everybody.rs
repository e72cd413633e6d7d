//! Directories and programs that other users can reach.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A directory that all users may enter. `TMPDIR` may be private, as in CI.
///
/// # Errors
/// If it cannot be created.
pub fn place_for_all() -> io::Result<TempDir> {
    let place = tempfile::tempdir_in("/tmp")?;
    fs::set_permissions(place.path(), Permissions::from_mode(0o755))?;
    Ok(place)
}

/// A copy of a program in such a directory, for users who may not enter the build directory.
///
/// # Errors
/// If it cannot be created.
pub fn program_for_all(program: &Path) -> io::Result<(TempDir, PathBuf)> {
    let place = place_for_all()?;
    let copy = place.path().join("program");
    install_program(program, &copy)?;
    Ok((place, copy))
}

/// Copies a program, executable by all, in a child process.
///
/// A file that this process has open for writing is also open in each program that another test starts at that moment, until that
/// program runs; starting the file meanwhile fails with ETXTBSY.
///
/// # Errors
/// If it cannot be copied.
pub fn install_program(program: &Path, copy: &Path) -> io::Result<()> {
    let output = Command::new("install").args(["-m", "755", "--"]).args([program, copy]).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("install: {}", String::from_utf8_lossy(&output.stderr).trim_end())))
}

/// Writes a script, executable by all, so that it can be started at once.
///
/// # Errors
/// If it cannot be written.
pub fn install_script(text: &str, path: &Path) -> io::Result<()> {
    let draft = tempfile::NamedTempFile::new()?;
    fs::write(draft.path(), text)?;
    install_program(draft.path(), path)
}
