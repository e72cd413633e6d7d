//! The lab's own QEMU in the store.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::apt::{Apt, Archive, Installed, Suites, unpack};
use super::{Cache, PartialEntry, StoreError};
use crate::qemu::NEEDED_FOR_SMP;

/// A QEMU in the store, separate from the host's packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnQemu {
    root: PathBuf,
}

/// The library directories of Debian's packages for this architecture.
const LIBRARY_DIRS: [&str; 3] =
    ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu/pulseaudio"];

impl OwnQemu {
    /// The store's QEMU, if there is one.
    pub fn open(cache: &Cache) -> Option<OwnQemu> {
        let own = OwnQemu { root: cache.qemu() };
        own.program().is_file().then_some(own)
    }

    /// The program.
    pub fn program(&self) -> PathBuf {
        self.root.join("usr/bin/qemu-system-x86_64")
    }

    /// Its firmware directories (`-L`).
    pub fn firmware(&self) -> Vec<PathBuf> {
        ["usr/share/qemu", "usr/share/seabios"].map(|below| self.root.join(below)).to_vec()
    }

    /// Its module directory (`QEMU_MODULE_DIR`).
    pub fn modules(&self) -> PathBuf {
        self.root.join("usr/lib/x86_64-linux-gnu/qemu")
    }

    /// The directories of libraries that the host lacks.
    pub fn libraries(&self) -> Vec<PathBuf> {
        LIBRARY_DIRS.map(|below| self.root.join(below)).to_vec()
    }
}

/// Adds a QEMU that runs several CPUs in virtual time: from the backports of the host's Debian release, which are built
/// for its C library.
pub fn add_qemu(cache: &Cache, progress: &mut dyn FnMut(&str)) -> Result<String, StoreError> {
    let archive = Archive::of_machine()?;
    let codename = codename(Path::new("/etc/os-release"))?;
    let mut newest_found = None;
    for suites in [vec![codename.clone(), format!("{codename}-backports")], vec![codename.clone()]] {
        let last = suites.last().cloned().unwrap_or_default();
        progress(&format!("fetching the package list of {}", suites.join(" and ")));
        let names: Vec<&str> = suites.iter().map(String::as_str).collect();
        // The newest release has no backports.
        let Ok(apt) = Apt::open(cache, &archive, &format!("qemu-{last}"), Suites::of_archive(&names), Installed::Host)
        else {
            continue;
        };
        progress("fetching QEMU");
        let files = apt.download_with_dependencies("qemu-system-x86", &last)?;
        let version = version_of(&files);
        if version.as_deref().and_then(major).is_some_and(|major| major >= NEEDED_FOR_SMP) {
            progress("unpacking");
            return keep(cache, &files, version.unwrap_or_default());
        }
        newest_found = newest_found.or(version);
    }
    match newest_found {
        Some(found) => Err(StoreError::Other(format!(
            "the archive's newest QEMU is {found}, and several CPUs in virtual time need {NEEDED_FOR_SMP} or later"
        ))),
        None => Err(StoreError::no_package("qemu-system-x86", &codename)),
    }
}

fn keep(cache: &Cache, files: &[PathBuf], version: String) -> Result<String, StoreError> {
    let part = PartialEntry::directory(&cache.qemu()).map_err(StoreError::file(cache.qemu()))?;
    for file in files {
        unpack(file, part.path())?;
        fs::remove_file(file).map_err(StoreError::file(file))?;
    }
    // A firmware file may link out of the package tree to /usr/share.
    let firmware: BTreeSet<PathBuf> = ["usr/share/qemu", "usr/share/seabios"].map(|b| part.path().join(b)).into();
    if !firmware.iter().any(|directory| directory.join("bios-microvm.bin").is_file()) {
        return Err(StoreError::malformed(&cache.qemu(), "the packages hold no bios-microvm.bin"));
    }
    part.keep().map_err(StoreError::file(cache.qemu()))?;
    Ok(version)
}

/// The version in the file name `qemu-system-x86_1%3a10.0.2+ds-2_amd64.deb`.
fn version_of(files: &[PathBuf]) -> Option<String> {
    let names = files.iter().filter_map(|file| file.file_name()?.to_str());
    let version = names.filter_map(|name| name.strip_prefix("qemu-system-x86_")).next()?;
    let version = version.split('_').next()?;
    Some(version.split_once("%3a").map_or(version, |(_, rest)| rest).to_owned())
}

fn major(version: &str) -> Option<u32> {
    version.split(['.', '+', '-']).next()?.parse().ok()
}

fn codename(os_release: &Path) -> Result<String, StoreError> {
    let text = fs::read_to_string(os_release).map_err(StoreError::file(os_release))?;
    let value = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let absent = "no VERSION_CODENAME, so the suite to take QEMU from is unknown; install QEMU 10 or later yourself";
    value.map(|value| value.trim_matches('"').to_owned()).ok_or_else(|| StoreError::malformed(os_release, absent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_in_the_file_name() {
        let files = ["/x/seabios_1.16.3-2_all.deb", "/x/qemu-system-x86_1%3a10.0.2+ds-2+deb13u1~bpo12+1_amd64.deb"];
        let version = version_of(&files.map(PathBuf::from));
        assert_eq!(version.as_deref(), Some("10.0.2+ds-2+deb13u1~bpo12+1"));
        assert_eq!(version.as_deref().and_then(major), Some(10));
        assert_eq!(version_of(&[]), None);
    }
}
