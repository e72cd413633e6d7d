//! Salvages the recordings of killed recorders.

use std::path::{Path, PathBuf};
use std::time::Duration;

use unstarve_files::target::Place;

use crate::output::{Delivery, Leftover, OutputDirectory, leftovers_at};
use crate::{Notice, RecordError};

/// How long the leftovers of a killed recorder are kept.
const KEEP_LEFTOVERS: Duration = Duration::from_secs(7 * 24 * 3600);

/// A recording made from a killed recorder's leftovers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Salvaged {
    /// The directory of the leftovers; it has been removed.
    pub from: PathBuf,
    /// The file.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
}

/// The outcome of salvaging.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Salvage {
    /// The recordings.
    pub files: Vec<Salvaged>,
    /// Directories without anything usable; they have been removed.
    pub unusable: Vec<PathBuf>,
}

/// Makes recordings from what killed recorders left in the directory `from`, or from the single leftover `from`.
/// Without `output` they are written next to the leftovers and called `unstarve-salvaged-….dat`. Unusable leftovers are
/// removed.
///
/// # Errors If there is nothing, or if a file cannot be written; then the leftovers are kept.
pub fn salvage(from: &Path, output: Option<&Path>) -> Result<Salvage, RecordError> {
    let (left, unusable): (Vec<Leftover>, Vec<Leftover>) =
        leftovers_at(from)?.into_iter().partition(Leftover::is_of_use);
    match (left.len(), output) {
        (0, _) if unusable.is_empty() => return Err(RecordError::NothingLeft(from.to_owned())),
        (2.., Some(_)) => return Err(RecordError::SeveralLeft(from.to_owned())),
        _ => {}
    }
    let mut salvage = Salvage::default();
    for leftover in unusable {
        salvage.unusable.push(leftover.path());
        leftover.remove();
    }
    for leftover in left {
        salvage.files.push(salvage_one(leftover, output)?);
    }
    Ok(salvage)
}

fn salvage_one(leftover: Leftover, output: Option<&Path>) -> Result<Salvaged, RecordError> {
    let from = leftover.path();
    let output = output.map_or_else(|| named_after(&from), Path::to_owned);
    let contents = leftover.contents().map_err(|source| RecordError::Leftover { path: from.clone(), source })?;
    let (head, pages) = contents.ok_or_else(|| RecordError::NothingLeft(from.clone()))?;
    leftover.remove_unfinished();
    // Assembled next to the output, which may be on another file system.
    let size = OutputDirectory::beside(&output)?.deliver(&head, &pages, Delivery::OnDisk, &mut |_, _| {})?;
    leftover.remove();
    Ok(Salvaged { from, path: output, size })
}

fn named_after(from: &Path) -> PathBuf {
    let name = from.file_name().unwrap_or_default().to_string_lossy();
    let id = name.rsplit('-').next().unwrap_or_default();
    from.with_file_name(format!("unstarve-salvaged-{id}.dat"))
}

/// Reports leftovers of killed recorders next to the output. Removes unusable ones, and those older than a week.
pub(crate) fn look_at_leftovers(place: &Place, notices: &mut dyn FnMut(Notice)) {
    for leftover in Leftover::all(place) {
        let (path, bytes) = (leftover.path(), leftover.bytes);
        if !leftover.is_of_use() {
            leftover.remove();
        } else if leftover.hidden.age().is_some_and(|age| age > KEEP_LEFTOVERS) {
            leftover.remove();
            notices(Notice::Removed { path, bytes });
        } else {
            notices(Notice::Leftover { path, bytes });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_salvaged_recording_has_a_name_of_its_own() {
        let name = named_after(Path::new("/var/tmp/.unstarve-part-0123456789abcdef"));
        assert_eq!(name, Path::new("/var/tmp/unstarve-salvaged-0123456789abcdef.dat"));
    }
}
