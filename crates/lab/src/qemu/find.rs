//! Finds a QEMU that can run a guest and that only root or this user could have written.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use unstarve_files::program::{InheritedFile, Program};
use unstarve_files::trust::{Directory, TrustError, check_tree};

use super::hand_over::check_executable;
use super::unprivileged::Unprivileged;
use super::{Clock, QemuError};
use crate::store::{Cache, OwnQemu};

/// The first major version that runs several CPUs in virtual time; 7.2 hangs when the second CPU starts. It is also the
/// first that accepts `/dev/kvm` by descriptor (`-accel kvm,device=`; QEMU 9.1, qemu-options.hx).
pub const NEEDED_FOR_SMP: u32 = 10;

/// A QEMU that can be started: only root and this user could have written it, its libraries or its modules.
#[derive(Clone, Debug)]
pub struct Qemu {
    program: Program,
    firmware: Vec<PathBuf>,
    /// Its files by descriptor: root's cache is closed to the user that QEMU runs as.
    given: Given,
    user: Option<Unprivileged>,
    version: String,
    major: u32,
}

#[derive(Clone, Debug, Default)]
struct Given {
    firmware: Vec<InheritedFile>,
    libraries: Vec<InheritedFile>,
    modules: Option<InheritedFile>,
}

const QEMU_PROGRAM: &str = "qemu-system-x86_64";

impl Qemu {
    /// The host's QEMU, else the store's: the first that can run this many CPUs with this clock. One that others could
    /// have written is not executed, not even for its version.
    pub fn find(cache: &Cache, cpus: u32, clock: Clock) -> Result<Qemu, QemuError> {
        if clock == Clock::Host {
            File::options().read(true).write(true).open("/dev/kvm").map_err(QemuError::NoKvm)?;
        }
        let user = Unprivileged::for_a_guest().map_err(QemuError::NoUser)?;
        let host = match Program::find(QEMU_PROGRAM) {
            Err(error) if error.is_absent() => None,
            found => Some(found.map_err(QemuError::from)),
        };
        let host = host.map(|program| Qemu::probe(program?, Vec::new(), Given::default(), user));
        let own = || OwnQemu::open(cache).map(|own| Qemu::own(&own, user));
        let mut refused = None;
        for candidate in host.into_iter().chain(own()) {
            match candidate.and_then(|qemu| qemu.fit_for(cpus, clock)) {
                Ok(qemu) => return Ok(qemu),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused.unwrap_or_else(|| {
            QemuError::Other(
                "no qemu-system-x86_64 on PATH; install the package qemu-system-x86, or let `unstarve lab qemu add` fetch one \
                 for the lab alone"
                    .to_owned(),
            )
        }))
    }

    /// Its version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Its executable.
    pub fn program(&self) -> &Path {
        self.program.path()
    }

    /// The user that it runs as, if not this process's.
    pub(super) fn user(&self) -> Option<Unprivileged> {
        self.user
    }

    /// Returns it if it can run this many CPUs with this clock.
    pub fn fit_for(self, cpus: u32, clock: Clock) -> Result<Qemu, QemuError> {
        let is_old = format!("{} is version {}", self.program().display(), self.version);
        if clock == Clock::Virtual && cpus > 1 && self.major < NEEDED_FOR_SMP {
            return Err(QemuError::Other(format!(
                "{is_old}; {cpus} CPUs in virtual time need QEMU {NEEDED_FOR_SMP} or later (older ones hang when they start \
                 the second CPU): run `unstarve lab qemu add`"
            )));
        }
        if clock == Clock::Host && self.user.is_some() && self.major < NEEDED_FOR_SMP {
            return Err(QemuError::Other(format!(
                "--kvm: {is_old}; root runs QEMU as an unprivileged user, and only QEMU {NEEDED_FOR_SMP} or later takes \
                 /dev/kvm from root: run `unstarve lab qemu add`, or the lab as a user of the group kvm"
            )));
        }
        Ok(self)
    }

    /// The store's QEMU, if every file of it belongs to root or this user.
    fn own(own: &OwnQemu, user: Option<Unprivileged>) -> Result<Qemu, QemuError> {
        let program = Program::at(&own.program())?;
        let own_error = |error: TrustError| QemuError::from(unstarve_files::ProgramError::from(error));
        let open = |directory: PathBuf| match Directory::open(&directory) {
            Ok(opened) => Ok(Some(InheritedFile::from(opened))),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(own_error(error)),
        };
        let all = |directories: Vec<PathBuf>| -> Result<Vec<InheritedFile>, QemuError> {
            Ok(directories.into_iter().map(open).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
        };
        for directory in own.libraries().into_iter().filter(|directory| directory.is_dir()) {
            check_tree(&directory).map_err(own_error)?;
        }
        let given =
            Given { firmware: all(own.firmware())?, libraries: all(own.libraries())?, modules: open(own.modules())? };
        Qemu::probe(program, own.firmware(), given, user)
    }

    fn probe(
        program: Program,
        firmware: Vec<PathBuf>,
        given: Given,
        user: Option<Unprivileged>,
    ) -> Result<Qemu, QemuError> {
        let path = program.path().to_owned();
        let mut qemu = Qemu { program, firmware, given, user, version: String::new(), major: 0 };
        let mut command = qemu.command();
        if let Some(user) = user {
            check_executable(&path, &qemu.program.file().path())?;
            user.drop_to(&mut command);
        }
        let output = command.arg("--version").stdin(Stdio::null()).output();
        let output = output.map_err(|source| QemuError::Start { program: path.clone(), source })?;
        let said = String::from_utf8_lossy(if output.status.success() { &output.stdout } else { &output.stderr });
        let parsed = parse_version(&said);
        let (version, major) = parsed.ok_or_else(|| {
            QemuError::Other(format!("`{} --version` prints no version: {}", path.display(), said.trim()))
        })?;
        (qemu.version, qemu.major) = (version, major);
        Ok(qemu)
    }

    /// A firmware that only starts the kernel, if this QEMU has it. The default one searches for boot disks and asks
    /// the result disk in host time.
    pub(crate) fn small_firmware(&self) -> Option<&'static str> {
        const QBOOT_FIRMWARE: &str = "qboot.rom";
        let installed = ["/usr/share/qemu", "/usr/local/share/qemu"].map(PathBuf::from);
        let places: &[PathBuf] = if self.firmware.is_empty() { &installed } else { &self.firmware };
        places.iter().any(|place| place.join(QBOOT_FIRMWARE).is_file()).then_some(QBOOT_FIRMWARE)
    }

    /// The program with its libraries and firmware; of this process's environment only the language.
    pub(super) fn command(&self) -> Command {
        let mut command = self.program.command_by_descriptor();
        let Given { firmware, libraries, modules } = &self.given;
        // No empty element, which would mean the current directory.
        let path: Vec<String> = libraries.iter().map(|library| library.path().display().to_string()).collect();
        if !path.is_empty() {
            command.env("LD_LIBRARY_PATH", path.join(":"));
        }
        if let Some(modules) = modules {
            command.env("QEMU_MODULE_DIR", modules.path());
        }
        for directory in firmware {
            command.arg("-L").arg(directory.path());
        }
        self.given().iter().for_each(|given| given.to(&mut command));
        command.current_dir("/");
        command
    }

    /// The files that its command names by descriptor, including itself.
    pub(super) fn given(&self) -> Vec<InheritedFile> {
        let Given { firmware, libraries, modules } = &self.given;
        [self.program.file()].into_iter().chain(firmware).chain(libraries).chain(modules).cloned().collect()
    }

    /// The name at the beginning of its messages.
    pub(super) fn called(&self) -> &OsStr {
        self.program.called()
    }
}

/// `10.0.2` and 10 from `QEMU emulator version 10.0.2 (Debian …)`.
fn parse_version(said: &str) -> Option<(String, u32)> {
    let version = said.lines().next()?.split_once("version ")?.1.split_whitespace().next()?;
    let major = version.split('.').next()?.parse().ok()?;
    Some((version.to_owned(), major))
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
