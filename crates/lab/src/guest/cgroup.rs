//! Creates cgroups in the guest.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{GuestError, write};

/// The mount point of the cgroup hierarchy.
pub(super) const ROOT: &str = "/sys/fs/cgroup";

/// Creates a group with its ancestors and writes its files. Delegates the controller of each file (`cpu` of
/// `cpu.weight`) from the root down; always `cpu`, or weights further down would have no effect.
pub(super) fn make<'a>(path: &str, files: impl Iterator<Item = (&'a str, &'a str)>) -> Result<(), GuestError> {
    let files: Vec<(&str, &str)> = files.collect();
    let wanted = controllers(files.iter().map(|(file, _)| *file));
    let group = Path::new(ROOT).join(path);
    let above: Vec<&Path> = group.ancestors().skip(1).take_while(|above| above.starts_with(ROOT)).collect();
    for above in above.into_iter().rev() {
        fs::create_dir_all(above).map_err(GuestError::doing(above.display()))?;
        for controller in &wanted {
            hand_down(above, controller)?;
        }
    }
    fs::create_dir_all(&group).map_err(GuestError::doing(group.display()))?;
    files.iter().try_for_each(|(file, text)| write(group.join(file), text))
}

fn hand_down(group: &Path, controller: &str) -> Result<(), GuestError> {
    let has = fs::read_to_string(group.join("cgroup.controllers")).map_err(GuestError::doing(group.display()))?;
    if !has.split_whitespace().any(|one| one == controller) {
        return Err(GuestError(format!(
            "this kernel has no controller `{controller}` for cgroups; it has {}",
            has.trim()
        )));
    }
    write(group.join("cgroup.subtree_control"), &format!("+{controller}"))
}

fn controllers<'a>(files: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let of_file = files.filter_map(|file| file.split_once('.')).map(|(controller, _)| controller);
    of_file.filter(|controller| *controller != "cgroup").chain(["cpu"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_tell_their_controllers() {
        let of = |files: &[&'static str]| controllers(files.iter().copied()).into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(of(&[]), "cpu");
        assert_eq!(of(&["cpu.max", "cpuset.cpus", "memory.max", "cgroup.type"]), "cpu cpuset memory");
    }
}
