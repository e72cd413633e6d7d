//! Removes debugging information from programs before they go into a guest.

use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, elf};

/// The part of a program or library that the loader needs: up to the end of its last segment. Debugging information and
/// symbols follow it, and make up half of what the guest would unpack at one instruction a nanosecond. Other files,
/// including modules, which have no segments, stay unchanged.
pub(crate) fn loadable(mut bytes: Vec<u8>) -> Vec<u8> {
    let Some(end) = end_of_segments(&bytes) else { return bytes };
    bytes.truncate(end);
    // The section table was behind the segments: declare none.
    let header = std::mem::offset_of!(FileHeader64<Endianness>, e_shoff);
    bytes[header..header + 8].fill(0);
    for field in [
        std::mem::offset_of!(FileHeader64<Endianness>, e_shnum),
        std::mem::offset_of!(FileHeader64<Endianness>, e_shstrndx),
    ] {
        bytes[field..field + 2].fill(0);
    }
    bytes
}

/// The end of the last segment, if more follows.
fn end_of_segments(bytes: &[u8]) -> Option<usize> {
    let header = FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, bytes).ok()?;
    if !segments.iter().any(|segment| segment.p_type(endian) == elf::PT_LOAD) {
        return None;
    }
    let ends = segments.iter().map(|segment| segment.p_offset(endian).checked_add(segment.p_filesz(endian)));
    let table = header.e_phoff(endian) + u64::from(header.e_phentsize(endian)) * segments.len() as u64;
    let end = ends.collect::<Option<Vec<u64>>>()?.into_iter().max()?.max(table);
    usize::try_from(end).ok().filter(|&end| end < bytes.len())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_program_works_without_what_lies_behind_its_segments() {
        let whole = std::fs::read(std::env::current_exe().expect("this test")).expect("read");
        let short = loadable(whole.clone());
        assert!(short.len() < whole.len(), "{} of {} bytes", short.len(), whole.len());
        assert_eq!(loadable(short.clone()), short);
        let directory = tempfile::tempdir().expect("a directory");
        let program = directory.path().join("short");
        std::fs::write(&program, &short).expect("written");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("executable");
        let output = Command::new(&program).arg("--list").output().expect("started");
        assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("lies_behind"));
    }

    #[test]
    fn other_files_stay_as_they_are() {
        for bytes in [&b""[..], b"#!/bin/sh\n", b"\x7fELF", &[0; 4096]] {
            assert_eq!(loadable(bytes.to_vec()), bytes);
        }
    }
}
