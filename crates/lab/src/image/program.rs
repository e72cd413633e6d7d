use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::ImageError;

/// Adds what a tool needs: of a program its libraries; of a script nothing, if its interpreter is among the tools.
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
    let interpreter = interpreter(&first[..length]).ok_or_else(|| ImageError::NoProgram(tool.to_owned()))?;
    let have = |name: &str| tools.iter().any(|tool| super::base_name(tool) == super::base_name(name));
    if have(&interpreter) {
        return Ok(());
    }
    Err(ImageError::Script { script: tool.to_owned(), interpreter })
}

/// What the first line names: of `#!/usr/bin/env python3` the last word.
fn interpreter(first: &[u8]) -> Option<String> {
    let line = first.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace();
    let program = words.next()?;
    Some(if program.ends_with("/env") { words.next()? } else { program }.to_owned())
}

/// Adds the libraries of a program: path in the guest → file on the host.
pub(super) fn libraries(program: &Path, into: &mut BTreeMap<String, PathBuf>) -> Result<(), ImageError> {
    if !is_elf(program)? {
        return Err(ImageError::NoProgram(program.to_owned()));
    }
    let command = Command::new("ldd").arg(program).env("LC_ALL", "C").stdin(Stdio::null()).output();
    let output = command.map_err(ImageError::file("ldd"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    for needed in parse(&said) {
        match needed {
            Needed::File(path) => {
                let file = fs::canonicalize(path).map_err(ImageError::file(path))?;
                into.insert(path.to_owned(), file);
            }
            Needed::Missing(library) => {
                return Err(ImageError::Library { program: program.to_owned(), library: library.to_owned() });
            }
        }
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum Needed<'a> {
    File(&'a str),
    Missing(&'a str),
}

/// The lines of ldd: `libc.so.6 => /lib/…/libc.so.6 (0x…)`, `/lib64/ld-linux-x86-64.so.2 (0x…)`, `linux-vdso.so.1 (0x…)`,
/// `libx.so => not found`; of a static program `statically linked`.
fn parse(said: &str) -> Vec<Needed<'_>> {
    let mut all = Vec::new();
    for line in said.lines().map(str::trim) {
        let (name, rest) = line.split_once(" => ").unwrap_or((line, line));
        if rest.starts_with('/') {
            all.extend(rest.split(" (").next().map(Needed::File));
        } else if rest == "not found" {
            all.push(Needed::Missing(name));
        }
    }
    all
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

    #[test]
    fn what_ldd_says() {
        let said = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibaio.so.1 => /lib/x/libaio.so.1 (0x00007f)\n\
                    \tlibgone.so => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let needed = [
            Needed::File("/lib/x/libaio.so.1"),
            Needed::Missing("libgone.so"),
            Needed::File("/lib64/ld-linux-x86-64.so.2"),
        ];
        assert_eq!(parse(said), needed);
        assert_eq!(parse("\tstatically linked\n"), []);
    }
}
