//! Opens the guest's files before QEMU starts, and passes them by descriptor.
//!
//! Under root, QEMU can open nothing by itself: the store and a result's directory may be closed to the user that it
//! runs as. All users take the same path through this code.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::process::Command;

use unstarve_files::program::InheritedFile;
use unstarve_files::trust::for_a_shell;

use super::unprivileged::Unprivileged;
use super::{Clock, Machine, QemuError};

/// The fd set of the disk (`-add-fd`).
const DISK_SET: u32 = 1;
/// The fd set of `/dev/kvm`.
const KVM_SET: u32 = 2;

/// Adds a machine to a QEMU that runs as `user`, or as this process; returns the files to pass.
pub(super) fn add_machine(
    command: &mut Command,
    machine: &Machine,
    user: Option<Unprivileged>,
) -> Result<Vec<InheritedFile>, QemuError> {
    let to_read = |path: &PathBuf, lend: fn(&File, Unprivileged) -> io::Result<()>| {
        let file = File::open(path).map_err(opened(path))?;
        user.map_or(Ok(()), |user| lend(&file, user)).map_err(opened(path))?;
        Ok::<InheritedFile, QemuError>(InheritedFile::from(file))
    };
    let kernel = to_read(&machine.kernel, for_all_to_read)?;
    let initrd = to_read(&machine.initrd, for_one_to_read)?;
    // QEMU reads a disk before it writes, and takes from a set only a descriptor with exactly the access mode it wants.
    let disk = [false, true].map(|write| {
        let file = File::options().read(true).write(write).open(&machine.disk).map_err(opened(&machine.disk));
        file.map(InheritedFile::from)
    });
    let disk = disk.into_iter().collect::<Result<Vec<_>, _>>()?;
    let open_kvm = || File::options().read(true).write(true).open("/dev/kvm").map(InheritedFile::from);
    let kvm = (user.is_some() && machine.clock == Clock::Host).then(open_kvm).transpose().map_err(QemuError::NoKvm)?;
    // QEMU does not reopen descriptors of a set, so the disk stays root's.
    for disk in &disk {
        command.arg("-add-fd").arg(format!("fd={},set={DISK_SET}", disk.number()));
    }
    if let Some(kvm) = &kvm {
        command.arg("-add-fd").arg(format!("fd={},set={KVM_SET}", kvm.number()));
    }
    let by_set = |set: u32| PathBuf::from(format!("/dev/fdset/{set}"));
    let given = Machine { kernel: kernel.path(), initrd: initrd.path(), disk: by_set(DISK_SET), ..machine.clone() };
    for argument in given.arguments() {
        match (&kvm, argument.to_str()) {
            (Some(_), Some("kvm")) => command.arg(format!("kvm,device={}", by_set(KVM_SET).display())),
            _ => command.arg(argument),
        };
    }
    Ok([kernel, initrd].into_iter().chain(disk).chain(kvm).collect())
}

/// Whether the user that QEMU runs as may execute a program that it gets by descriptor, or already runs.
pub(super) fn check_executable(program: &Path, link: &Path) -> Result<(), QemuError> {
    let mode = link.metadata().map_err(opened(program))?.permissions().mode() & 0o7777;
    if mode & 0o001 != 0 {
        return Ok(());
    }
    Err(QemuError::Other(format!(
        "{}: mode {mode:04o} does not let every user execute it; root runs QEMU and its supervisor as an unprivileged user. \
         Run: chmod a+rx {}",
        program.display(),
        for_a_shell(program)
    )))
}

fn opened(path: &Path) -> impl FnOnce(io::Error) -> QemuError {
    let path = path.to_owned();
    move |source| QemuError::Open { path, source }
}

/// Makes a kernel image readable: it is not secret, and everyone who could reach it could read it before.
fn for_all_to_read(file: &File, _: Unprivileged) -> io::Result<()> {
    let mode = file.metadata()?.permissions().mode();
    if mode & 0o004 != 0 { Ok(()) } else { file.set_permissions(Permissions::from_mode(mode | 0o004)) }
}

/// Makes a run's file system readable for QEMU's user alone: it contains the scenario's files, and is removed with the
/// guest.
fn for_one_to_read(file: &File, user: Unprivileged) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(0o400))?;
    fchown(file, Some(user.id()), Some(user.id()))
}
