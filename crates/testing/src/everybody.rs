//! Directories and programs that other users can reach.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

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
    fs::copy(program, &copy)?;
    fs::set_permissions(&copy, Permissions::from_mode(0o755))?;
    Ok((place, copy))
}
