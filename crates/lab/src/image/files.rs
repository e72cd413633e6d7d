//! The scenario's own files in the guest.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{Content, ImageError, program, shared};
use crate::scenario::{GuestFile, Scenario};

/// Maximum size of all files of a scenario: the guest keeps them in memory.
const MAX_SCENARIO_BYTES: u64 = 512 << 20;

/// The scenario's own texts: path, text and permissions. They override everything except the lab's own entries.
pub(super) fn texts(scenario: &Scenario) -> Vec<(&str, &str, u32)> {
    let texts = scenario.file.iter().filter_map(|file| Some((file, file.text.as_deref()?)));
    let permissions = |file: &GuestFile| if file.executable { 0o755 } else { 0o644 };
    texts.map(|(file, text)| (file.path.as_str(), text, permissions(file))).collect()
}

/// Adds the copies of a scenario with their libraries; they override everything except the lab's own entries.
pub(super) fn add(scenario: &Scenario, entries: &mut BTreeMap<String, Content>) -> Result<(), ImageError> {
    let mut left = MAX_SCENARIO_BYTES;
    for file in &scenario.file {
        if let Some(from) = &file.from {
            copy(from, &file.path, scenario, &mut left, entries)?;
        }
    }
    Ok(())
}

/// Adds a file, or a directory recursively. Follows links to files, but not links to directories inside a directory,
/// which might form a loop.
fn copy(
    from: &Path,
    to: &str,
    scenario: &Scenario,
    left: &mut u64,
    entries: &mut BTreeMap<String, Content>,
) -> Result<(), ImageError> {
    let metadata = fs::metadata(from).map_err(ImageError::file(from))?;
    if metadata.is_dir() {
        for entry in fs::read_dir(from).map_err(ImageError::file(from))? {
            let path = entry.map_err(ImageError::file(from))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !(path.is_symlink() && path.is_dir()) && path.exists() {
                copy(&path, &format!("{to}/{name}"), scenario, left, entries)?;
            }
        }
        return Ok(());
    }
    if !metadata.is_file() {
        return Ok(());
    }
    let too_large = || {
        let (path, most) = (from.display(), MAX_SCENARIO_BYTES >> 20);
        ImageError::Other(format!(
            "{path}: the scenario's files have more than {most} MiB together, which a guest keeps in its memory"
        ))
    };
    *left = left.checked_sub(metadata.len()).ok_or_else(too_large)?;
    let permissions = metadata.permissions().mode() & 0o755;
    if permissions & 0o111 != 0 && program::is_elf(from)? {
        let mut libraries = BTreeMap::new();
        program::needs(from, &scenario.tools, &mut libraries)?;
        shared(libraries).for_each(|(path, content)| {
            entries.entry(path).or_insert(content);
        });
    }
    entries.insert(to.to_owned(), Content::Copy(from.to_owned(), permissions));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_scripts_programs_and_directories_are_taken_along() {
        let host = tempfile::tempdir().expect("a directory");
        fs::create_dir(host.path().join("data")).expect("made");
        fs::write(host.path().join("data/a.txt"), "a").expect("written");
        std::os::unix::fs::symlink(host.path(), host.path().join("data/round")).expect("linked");
        fs::copy(std::env::current_exe().expect("this test"), host.path().join("mine")).expect("copied");
        let text = r##"
tools = ["sh"]
[[load]]
argv = ["/opt/go"]
[[file]]
path = "/opt/go"
text = "#!/bin/sh\nexec /opt/mine\n"
executable = true
[[file]]
path = "/opt/mine"
from = "mine"
[[file]]
path = "/opt/data"
from = "data"
"##;
        let file = host.path().join("own.toml");
        fs::write(&file, text).expect("written");
        let scenario = Scenario::read(&file).expect("a scenario");
        let mut entries = BTreeMap::new();
        add(&scenario, &mut entries).expect("they are all there");
        let texts = texts(&scenario);
        let permissions = |path: &str| match (entries.get(path), texts.iter().find(|(other, ..)| *other == path)) {
            (Some(Content::Copy(_, permissions)), _) | (_, Some((.., permissions))) => Some(*permissions & 0o111),
            _ => None,
        };
        assert_eq!([permissions("/opt/go"), permissions("/opt/mine")], [Some(0o111); 2]);
        assert_eq!((permissions("/opt/data/a.txt"), permissions("/opt/data/round")), (Some(0), None));
        assert!(entries.keys().any(|path| path.contains("libc.so")), "{:?}", entries.keys());
    }
}
