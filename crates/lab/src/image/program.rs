//! The libraries and interpreters of a scenario's tools.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::ImageError;
use super::needed::{self, Places};

/// Adds what a tool needs: for a program its libraries; for a script nothing, if its interpreter is one of the tools.
pub(super) fn needs(
    tool: &Path,
    tools: &[String],
    libraries_into: &mut BTreeMap<String, PathBuf>,
) -> Result<(), ImageError> {
    if is_elf(tool)? {
        return libraries(tool, libraries_into);
    }
    let mut first = [0; 256];
    let length = fs::File::open(tool).and_then(|mut file| file.read(&mut first)).map_err(ImageError::file(tool))?;
    let interpreter = interpreter(&first[..length]).ok_or_else(|| no_program(tool))?;
    let have = |name: &str| tools.iter().any(|tool| super::base_name(tool) == super::base_name(name));
    if have(&interpreter) {
        return Ok(());
    }
    let script = tool.display();
    Err(ImageError::Other(format!(
        "{script} is a script for {interpreter}, which the guest has only if it is among the scenario's `tools`, too"
    )))
}

fn no_program(file: &Path) -> ImageError {
    ImageError::Other(format!("{} is no program: neither ELF nor a script that begins with `#!`", file.display()))
}

/// The interpreter in a script's first line: for `#!/usr/bin/env python3` the last word.
fn interpreter(first: &[u8]) -> Option<String> {
    let line = first.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace();
    let program = words.next()?;
    Some(if program.ends_with("/env") { words.next()? } else { program }.to_owned())
}

/// Adds the libraries of a program: path in the guest → file on the host. Runs nothing, unlike `ldd`, which runs the
/// program.
pub(super) fn libraries(program: &Path, into: &mut BTreeMap<String, PathBuf>) -> Result<(), ImageError> {
    if !is_elf(program)? {
        return Err(no_program(program));
    }
    for path in needed::libraries(program, &Places::of_host())? {
        let file = fs::canonicalize(&path).map_err(ImageError::file(&path))?;
        into.insert(path, file);
    }
    Ok(())
}

pub(super) fn is_elf(program: &Path) -> Result<bool, ImageError> {
    let mut magic = [0; 4];
    let mut file = fs::File::open(program).map_err(ImageError::file(program))?;
    Ok(file.read_exact(&mut magic).is_ok() && &magic == b"\x7fELF")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_name_their_interpreters() {
        let of = |text: &str| interpreter(text.as_bytes());
        assert_eq!(of("#!/bin/sh -e\nexit\n").as_deref(), Some("/bin/sh"));
        assert_eq!(of("#!/usr/bin/env python3\n").as_deref(), Some("python3"));
        assert_eq!(of("echo"), None);
    }
}
