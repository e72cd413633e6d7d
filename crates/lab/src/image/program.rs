use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::ImageError;

/// Adds the libraries of a program: path in the guest → file on the host.
pub(super) fn libraries(program: &Path, into: &mut BTreeMap<String, PathBuf>) -> Result<(), ImageError> {
    if !is_elf(program)? {
        return Err(ImageError::Script(program.to_owned()));
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

fn is_elf(program: &Path) -> Result<bool, ImageError> {
    let mut magic = [0; 4];
    let mut file = fs::File::open(program).map_err(ImageError::file(program))?;
    Ok(file.read_exact(&mut magic).is_ok() && &magic == b"\x7fELF")
}

#[cfg(test)]
mod tests {
    use super::*;

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
