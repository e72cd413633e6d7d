//! Writes the results to the guest's disk.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use super::GuestError;

/// The disk for results.
const RESULT_DISK: &str = "/dev/vda";

/// Writes all files of a directory to the disk, as a tar archive.
pub(super) fn write_out(results: &Path) -> Result<(), GuestError> {
    let until = Instant::now() + Duration::from_secs(10);
    while !Path::new(RESULT_DISK).exists() {
        if Instant::now() > until {
            return Err(GuestError(format!("{RESULT_DISK}, the disk for the results, did not appear")));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    archive(results).map_err(GuestError::doing("cannot write the results out"))
}

fn archive(results: &Path) -> io::Result<()> {
    let disk = File::options().write(true).open(RESULT_DISK)?;
    let mut archive = tar::Builder::new(BufWriter::with_capacity(1 << 20, disk));
    archive.append_dir_all(".", results)?;
    let mut output = archive.into_inner()?;
    output.flush()?;
    // Only fsync shows that the host's disk is full.
    output.get_ref().sync_all()
}
