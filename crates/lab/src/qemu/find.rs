use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Clock, QemuError};
use crate::store::{Cache, OwnQemu};

/// The first major version whose several CPUs work in virtual time; 7.2 hangs at the start of the second CPU.
pub const NEEDED_FOR_SMP: u32 = 10;

/// A QEMU that can be started.
#[derive(Clone, Debug)]
pub struct Qemu {
    pub(super) program: PathBuf,
    firmware: Vec<PathBuf>,
    libraries: Vec<PathBuf>,
    version: String,
    major: u32,
}

const PROGRAM: &str = "qemu-system-x86_64";

impl Qemu {
    /// The host's, or else the store's: the first that can run this many CPUs by this clock.
    pub fn find(cache: &Cache, cpus: u32, clock: Clock) -> Result<Qemu, QemuError> {
        if clock == Clock::Host {
            File::options().read(true).write(true).open("/dev/kvm").map_err(QemuError::NoKvm)?;
        }
        let hosts = on_path(PROGRAM).map(|program| Qemu::probe(program, Vec::new(), Vec::new()));
        let own = || OwnQemu::open(cache).map(|own| Qemu::probe(own.program(), own.firmware(), own.libraries()));
        let mut refused = None;
        for candidate in hosts.into_iter().chain(own()) {
            match candidate.and_then(|qemu| qemu.fit_for(cpus, clock)) {
                Ok(qemu) => return Ok(qemu),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused.unwrap_or(QemuError::Absent))
    }

    /// This program; its version is asked for.
    pub fn at(program: PathBuf) -> Result<Qemu, QemuError> {
        Qemu::probe(program, Vec::new(), Vec::new())
    }

    /// What it calls its version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// It, if it can run this many CPUs by this clock.
    pub fn fit_for(self, cpus: u32, clock: Clock) -> Result<Qemu, QemuError> {
        if clock == Clock::Virtual && cpus > 1 && self.major < NEEDED_FOR_SMP {
            let Qemu { program, version, .. } = self;
            return Err(QemuError::TooOld { program, found: version, cpus, needed: NEEDED_FOR_SMP });
        }
        Ok(self)
    }

    fn probe(program: PathBuf, firmware: Vec<PathBuf>, libraries: Vec<PathBuf>) -> Result<Qemu, QemuError> {
        let mut qemu = Qemu { program, firmware, libraries, version: String::new(), major: 0 };
        let output = qemu.command().arg("--version").stdin(Stdio::null()).output();
        let output = output.map_err(|source| QemuError::Start { program: qemu.program.clone(), source })?;
        let said = String::from_utf8_lossy(if output.status.success() { &output.stdout } else { &output.stderr });
        let parsed = parse_version(&said);
        let (version, major) = parsed
            .ok_or_else(|| QemuError::NoVersion { program: qemu.program.clone(), said: said.trim().to_owned() })?;
        (qemu.version, qemu.major) = (version, major);
        Ok(qemu)
    }

    /// A firmware that starts the kernel and does nothing else, if this QEMU has it. The default one looks for disks to
    /// boot from, and asks the one for results in the host's time.
    pub(crate) fn small_firmware(&self) -> Option<&'static str> {
        const SMALL: &str = "qboot.rom";
        let installed = ["/usr/share/qemu", "/usr/local/share/qemu"].map(PathBuf::from);
        let places: &[PathBuf] = if self.firmware.is_empty() { &installed } else { &self.firmware };
        places.iter().any(|place| place.join(SMALL).is_file()).then_some(SMALL)
    }

    /// The program with its libraries and firmware.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        if !self.libraries.is_empty() {
            let mut path = OsString::new();
            for library in &self.libraries {
                path.push(library);
                path.push(":");
            }
            path.push(std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default());
            command.env("LD_LIBRARY_PATH", path);
        }
        for directory in &self.firmware {
            command.arg("-L").arg(directory);
        }
        command
    }
}

/// `10.0.2` and 10 from `QEMU emulator version 10.0.2 (Debian …)`.
fn parse_version(said: &str) -> Option<(String, u32)> {
    let version = said.lines().next()?.split_once("version ")?.1.split_whitespace().next()?;
    let major = version.split('.').next()?.parse().ok()?;
    Some((version.to_owned(), major))
}

/// Where a program is, by PATH and the places of programs for root.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    places.map(|place| place.join(program)).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let parsed = |said: &str| parse_version(said).map(|(version, major)| format!("{version} {major}"));
        assert_eq!(parsed("QEMU emulator version 10.0.2 (Debian 1:10.0.2)\n").as_deref(), Some("10.0.2 10"));
        assert_eq!(parsed("QEMU emulator version 7.2.17").as_deref(), Some("7.2.17 7"));
        assert_eq!(parsed("error while loading shared libraries"), None);
        assert_eq!(parsed(""), None);
    }
}
