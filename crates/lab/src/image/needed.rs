//! Finds the libraries that a program needs by reading ELF files, as the C library's loader would (ld.so(8)), without
//! running anything.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, FileKind};

use super::ImageError;

/// Where libraries are searched for.
pub(super) struct Places {
    /// ldconfig's cache: name → paths, in its order.
    cache: BTreeMap<String, Vec<String>>,
}

/// Searched after the cache: the C library's default directories on Debian, Fedora and musl.
const DEFAULT_LIBRARY_DIRS: [&str; 6] =
    ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];

impl Places {
    pub(super) fn of_host() -> Places {
        Places { cache: cached(&fs::read("/etc/ld.so.cache").unwrap_or_default()) }
    }
}

/// The cache's magic (glibc, sysdeps/generic/dl-cache.h: CACHEMAGIC_NEW and CACHE_VERSION). An older format may precede
/// it.
const LD_CACHE_MAGIC: &[u8] = b"glibc-ld.so.cache1.1";

/// The entries of ld.so.cache that need no particular processor, because the guest's may differ. A damaged cache counts
/// as empty.
fn cached(bytes: &[u8]) -> BTreeMap<String, Vec<String>> {
    const HEADER_BYTES: usize = 48;
    const ENTRY_BYTES: usize = 24;
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let Some(at) = bytes.windows(LD_CACHE_MAGIC.len()).position(|part| part == LD_CACHE_MAGIC) else { return found };
    let bytes = &bytes[at..];
    let number = |at: usize| bytes.get(at..at + 4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]));
    let text = |at: u32| {
        let rest = bytes.get(at as usize..)?;
        let end = rest.iter().position(|&byte| byte == 0)?;
        std::str::from_utf8(&rest[..end]).ok().map(str::to_owned)
    };
    let count = number(LD_CACHE_MAGIC.len()).unwrap_or(0) as usize;
    for entry in (0..count)
        .map(|index| HEADER_BYTES + index * ENTRY_BYTES)
        .take_while(|entry| entry + ENTRY_BYTES <= bytes.len())
    {
        let is_for_all = number(entry + 16) == Some(0) && number(entry + 20) == Some(0);
        let name = number(entry + 4).and_then(text);
        let path = number(entry + 8).and_then(text);
        if let (true, Some(name), Some(path)) = (is_for_all, name, path.filter(|path| path.starts_with('/'))) {
            found.entry(name).or_default().push(path);
        }
    }
    found
}

/// The dynamic section of a file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Linked {
    /// Its loader.
    interpreter: Option<String>,
    /// Names of libraries.
    needed: Vec<String>,
    /// DT_RPATH: searched first for its libraries and theirs.
    rpath: Vec<String>,
    /// DT_RUNPATH: searched first for its libraries; disables DT_RPATH.
    runpath: Option<Vec<String>>,
    /// ELF class and machine; libraries must have the same.
    machine: (u8, u16),
}

/// The paths of the loader and all libraries of a program, as the loader would open them; empty for a static program.
pub(super) fn libraries(program: &Path, places: &Places) -> Result<BTreeSet<String>, ImageError> {
    let first = linked(program)?;
    let machine = first.machine;
    let (mut paths, mut names) = (BTreeSet::new(), BTreeSet::new());
    if let Some(interpreter) = &first.interpreter {
        names.insert(super::base_name(interpreter).to_owned());
        paths.insert(interpreter.clone());
    }
    // Each with the DT_RPATH of the files that led to it.
    let mut pending = VecDeque::from([(program.to_owned(), first, Vec::new())]);
    while let Some((file, linked, above)) = pending.pop_front() {
        let origin = file.parent().unwrap_or(Path::new("/"));
        let own = expanded(&linked.rpath, origin);
        let inherited: Vec<PathBuf> = own.into_iter().chain(above).collect();
        let before = match &linked.runpath {
            Some(runpath) => expanded(runpath, origin),
            None => inherited.clone(),
        };
        for name in &linked.needed {
            if !names.insert(name.clone()) {
                continue;
            }
            let (path, found) = find(name, &before, places, machine).ok_or_else(|| {
                let program = program.display();
                ImageError::Other(format!("{program} needs the library {name}, which is not installed"))
            })?;
            paths.insert(path.clone());
            pending.push_back((PathBuf::from(path), found, inherited.clone()));
        }
    }
    Ok(paths)
}

/// The first file with this name and machine.
fn find(name: &str, before: &[PathBuf], places: &Places, machine: (u8, u16)) -> Option<(String, Linked)> {
    let candidates: Vec<String> = if name.contains('/') {
        vec![name.to_owned()]
    } else {
        let below = |directory: &Path| directory.join(name).to_string_lossy().into_owned();
        let cached = places.cache.get(name).cloned().unwrap_or_default();
        let default = DEFAULT_LIBRARY_DIRS.iter().map(|directory| below(Path::new(directory)));
        before.iter().map(|directory| below(directory)).chain(cached).chain(default).collect()
    };
    candidates.into_iter().filter(|path| path.starts_with('/') && Path::new(path).is_file()).find_map(|path| {
        let found = linked(Path::new(&path)).ok()?;
        (found.machine == machine).then_some((path, found))
    })
}

/// Expands `$ORIGIN`; leaves out directories with other variables (`$LIB`, `$PLATFORM`) and relative ones.
fn expanded(directories: &[String], origin: &Path) -> Vec<PathBuf> {
    let origin = origin.to_string_lossy();
    let expanded = directories.iter().map(|text| text.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin));
    expanded.filter(|text| text.starts_with('/') && !text.contains('$')).map(PathBuf::from).collect()
}

fn linked(file: &Path) -> Result<Linked, ImageError> {
    let bytes = fs::read(file).map_err(ImageError::file(file))?;
    let damaged = |what: &str| ImageError::Other(format!("{}: {what}", file.display()));
    match FileKind::parse(&*bytes) {
        Ok(FileKind::Elf64) => read::<FileHeader64<Endianness>>(&bytes),
        Ok(FileKind::Elf32) => read::<FileHeader32<Endianness>>(&bytes),
        _ => return Err(damaged("expected an ELF file")),
    }
    .map_err(|error| damaged(&format!("damaged ELF file: {error}")))
}

fn read<E: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> object::read::Result<Linked> {
    let header = E::parse(bytes)?;
    let endian = header.endian()?;
    let mut found = Linked { machine: (header.e_ident().class, header.e_machine(endian)), ..Linked::default() };
    let segments = header.program_headers(endian, bytes)?;
    for segment in segments {
        if let Some(interpreter) = segment.interpreter(endian, bytes)? {
            found.interpreter = Some(String::from_utf8_lossy(interpreter).into_owned());
        }
    }
    let mut entries = Vec::new();
    for segment in segments {
        let dynamic = segment.dynamic(endian, bytes)?.unwrap_or_default();
        let of_entry = |entry: &E::Dyn| (entry.d_tag(endian).into(), entry.d_val(endian).into());
        entries
            .extend(dynamic.iter().map(of_entry).take_while(|&(tag, _): &(u64, u64)| tag != u64::from(elf::DT_NULL)));
    }
    let strings = entries.iter().find(|(tag, _)| *tag == u64::from(elf::DT_STRTAB)).map_or(0, |(_, address)| *address);
    let strings = segments.iter().find_map(|segment| {
        let (start, size): (u64, u64) = (segment.p_vaddr(endian).into(), segment.p_filesz(endian).into());
        let below =
            strings.checked_sub(start).filter(|below| *below < size && segment.p_type(endian) == elf::PT_LOAD)?;
        let at = segment.p_offset(endian).into().checked_add(below)?;
        bytes.get(usize::try_from(at).ok()?..)
    });
    let text = |at: u64| {
        let rest = strings?.get(usize::try_from(at).ok()?..)?;
        let end = rest.iter().position(|&byte| byte == 0)?;
        Some(String::from_utf8_lossy(&rest[..end]).into_owned())
    };
    let list = |text: String| text.split(':').map(str::to_owned).collect::<Vec<_>>();
    for (tag, value) in &entries {
        match u32::try_from(*tag) {
            Ok(elf::DT_NEEDED) => found.needed.extend(text(*value)),
            Ok(elf::DT_RPATH) => found.rpath = text(*value).map(list).unwrap_or_default(),
            Ok(elf::DT_RUNPATH) => found.runpath = text(*value).map(list),
            _ => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// ldd is the oracle, on programs of this host's packages.
    #[test]
    fn what_is_found_is_what_the_loader_finds() {
        let Some(ldd) = unstarve_testing::tool("ldd") else { return };
        let own = std::env::current_exe().expect("this test");
        let programs = [
            "/bin/sh",
            "/bin/ls",
            "/usr/bin/python3",
            "/usr/bin/fio",
            "/usr/bin/git",
            "/usr/sbin/mkfs.xfs",
            "/usr/bin/perl",
        ];
        let programs = programs.iter().map(PathBuf::from).chain([own]).filter(|program| program.is_file());
        let mut compared = 0;
        for program in programs.map(|program| fs::canonicalize(program).expect("a path")) {
            let output = Command::new(&ldd).arg(&program).env("LC_ALL", "C").output().expect("ldd runs");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let expected: BTreeSet<String> = said.lines().filter_map(path_in).collect();
            let found = libraries(&program, &Places::of_host()).expect("all are there");
            assert_eq!(found, expected, "{}", program.display());
            compared += found.len();
        }
        assert!(compared > 5, "{compared}");
    }

    /// `libc.so.6 => /lib/…/libc.so.6 (0x…)`, `/lib64/ld-linux-x86-64.so.2 (0x…)`.
    fn path_in(line: &str) -> Option<String> {
        let line = line.trim();
        let path = line.split_once(" => ").map_or(line, |(_, path)| path);
        path.starts_with('/').then(|| path.split(" (").next().unwrap_or(path).to_owned())
    }

    #[test]
    fn a_static_program_needs_nothing_and_damage_is_an_error() {
        let place = tempfile::tempdir().expect("a directory");
        let file = place.path().join("program");
        let own = fs::read(std::env::current_exe().expect("this test")).expect("read");
        for length in [0, 4, 63, 64, 200] {
            fs::write(&file, &own[..length]).expect("written");
            let said = libraries(&file, &Places::of_host());
            assert!(said.is_err(), "{length} bytes: {said:?}");
        }
        // Without segments it has no list.
        let mut none = own[..64].to_vec();
        none[56..58].copy_from_slice(&[0, 0]);
        fs::write(&file, &none).expect("written");
        assert_eq!(libraries(&file, &Places::of_host()).expect("none"), BTreeSet::new());
    }

    #[test]
    fn a_missing_library_is_named() {
        let places = Places { cache: BTreeMap::new() };
        let found = find("libunstarve-none.so.9", &[], &places, (2, 62));
        assert_eq!(found, None);
    }

    #[test]
    fn origins_are_where_the_file_is() {
        let texts = ["$ORIGIN/../lib", "${ORIGIN}", "/opt/$LIB", "relative", "", "/opt/x"].map(str::to_owned);
        let expected = ["/usr/bin/../lib", "/usr/bin", "/opt/x"].map(PathBuf::from);
        assert_eq!(expanded(&texts, Path::new("/usr/bin")), expected);
    }

    #[test]
    fn a_damaged_cache_is_an_empty_one() {
        assert!(cached(b"").is_empty() && cached(LD_CACHE_MAGIC).is_empty());
        let mut many = LD_CACHE_MAGIC.to_vec();
        many.extend([0xff; 100]);
        assert!(cached(&many).is_empty());
    }
}
