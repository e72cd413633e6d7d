//! Loads kernel modules in the guest.

use std::ffi::CString;
use std::fs;
use std::path::Path;

use rustix::io::Errno;
use rustix::system::finit_module;

use super::GuestError;
use crate::image::{ASK, MODULES};

/// Loads the modules that a list names, in its order.
pub(super) fn load_all(list: &str) -> Result<(), GuestError> {
    let text = fs::read_to_string(list).map_err(GuestError::doing(list))?;
    let command_line = fs::read_to_string("/proc/cmdline").map_err(GuestError::doing("/proc/cmdline"))?;
    let filesystems = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    for file in text.lines() {
        if let Some(name) = file.strip_suffix(ASK) {
            look_for(name, &filesystems);
            continue;
        }
        load(file, &parameters(file.trim_end_matches(".ko"), &command_line))?;
    }
    Ok(())
}

/// Checks for a module that has no file and that no list names as built in. Continues in any case: not every built-in
/// module is visible, and a step that needs it fails with this line on the console before it.
fn look_for(name: &str, filesystems: &str) {
    let is_file_system = filesystems.lines().filter_map(|line| line.split_whitespace().last()).any(|kind| kind == name);
    if !is_file_system && !Path::new("/sys/module").join(name).exists() {
        super::remark(format_args!(
            "there is no file of the module `{name}`, and the kernel does not show whether it is built in"
        ));
    }
}

fn load(file: &str, parameters: &str) -> Result<(), GuestError> {
    let path = Path::new(MODULES).join(file);
    let image = fs::File::open(&path).map_err(GuestError::doing(path.display()))?;
    let text = CString::new(parameters).map_err(|_| GuestError(format!("{file}: parameters with a zero byte")))?;
    match finit_module(&image, &text, 0) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        // A module for another processor; a different one does its work.
        Err(Errno::NODEV) => Ok(()),
        Err(errno) => Err(GuestError(format!("cannot load the module {file}: {errno}"))),
    }
}

/// The kernel applies `module.name=value` of its command line only to built-in modules; for others the loader passes
/// it.
fn parameters(module: &str, command_line: &str) -> String {
    let own = command_line.split_whitespace().filter_map(|word| word.strip_prefix(module)?.strip_prefix('.'));
    let mut all: Vec<&str> = own.collect();
    if module == "null_blk" {
        // Devices are created one by one through configfs.
        all.push("nr_devices=0");
    }
    all.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_get_their_part_of_the_command_line() {
        let line = "quiet virtio_mmio.device=512@0xfeb00e00:12 xfs.a=1 virtio_mmio.device=512@0xfeb00c00:11\n";
        let expected = "device=512@0xfeb00e00:12 device=512@0xfeb00c00:11";
        assert_eq!(parameters("virtio_mmio", line), expected);
        assert_eq!(parameters("null_blk", line), "nr_devices=0");
        assert_eq!(parameters("virtio", line), "");
    }
}
