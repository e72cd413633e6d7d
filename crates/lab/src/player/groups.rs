//! The cgroups of a program, made in a guest.
//!
//! As *threaded* groups of version 2, because all actors are threads of one process; and of version 1 where a load weight has no
//! `cpu.weight`: `cpu.shares` is the load weight itself.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount};
use unstarve_sim::{Cgroup, Program};

use super::PlayError;

/// Where the guest has version 2.
const ROOT: &str = "/sys/fs/cgroup";

/// Where version 1 is mounted.
const ROOT_OF_V1: &str = "/run/cgroup-v1-cpu";

/// The groups, as open files into which a thread writes itself.
#[derive(Debug, Default)]
pub(super) struct Groups(Vec<File>);

impl Groups {
    /// Moves the calling thread.
    pub(super) fn enter(&self, group: usize) -> io::Result<()> {
        let mut file = self.0.get(group).ok_or(io::ErrorKind::NotFound)?;
        file.write_all(b"0")
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    V1,
    V2,
}

/// Makes all groups. On a host, which is not the player's to change, there are none.
pub(super) fn make(program: &Program) -> Result<Groups, PlayError> {
    let Some(first) = program.cgroups.first() else { return Ok(Groups::default()) };
    let failed = |path: &str| {
        let path = path.to_owned();
        move |what: String| PlayError::Cgroup { path, what }
    };
    if !Path::new(crate::image::REQUEST).exists() {
        return Err(failed(&first.path)("groups are made in a guest only".to_owned()));
    }
    let version = version_for(&program.cgroups);
    if version == Version::V1 {
        mount_v1().map_err(failed(&first.path))?;
    }
    let make = |group| make_one(group, version).map_err(failed(&group.path));
    program.cgroups.iter().map(make).collect::<Result<_, _>>().map(Groups)
}

fn version_for(groups: &[Cgroup]) -> Version {
    match groups.iter().all(|group| cpu_weight(group.load_weight).is_some()) {
        true => Version::V2,
        false => Version::V1,
    }
}

/// The `cpu.weight` that gives this load weight; `None` if none gives it, but for rounding.
///
/// Source: `sched_weight_from_cgroup()` in `kernel/sched/sched.h`: weight × 1024 / 100, rounded.
fn cpu_weight(load_weight: u32) -> Option<u64> {
    let load = u64::from(load_weight);
    let weight = (load * 100 + 512) / 1024;
    let gives = (weight * 1024 + 50) / 100;
    // cpu.shares of version 1 was converted to cpu.weight by many rules: a difference of less than 1 % is kept.
    ((1..=10_000).contains(&weight) && gives.abs_diff(load) * 100 <= load).then_some(weight)
}

fn mount_v1() -> Result<(), String> {
    // The controller is in one hierarchy at a time.
    write(&Path::new(ROOT).join("cgroup.subtree_control"), "-cpu")?;
    fs::create_dir_all(ROOT_OF_V1).map_err(|error| format!("{ROOT_OF_V1}: {error}"))?;
    mount("cgroup", ROOT_OF_V1, "cgroup", MountFlags::empty(), c"cpu").map_err(|errno| {
        format!(
            "a load weight in this program has no cpu.weight (1 to 10000), and this kernel does not mount cgroups of version 1: {errno}"
        )
    })
}

fn make_one(group: &Cgroup, version: Version) -> Result<File, String> {
    let root = if version == Version::V1 { ROOT_OF_V1 } else { ROOT };
    let directory = PathBuf::from(format!("{root}{}", group.path));
    fs::create_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let set = |file: &str, text: String| write(&directory.join(file), &text);
    let micros = |time: unstarve_model::Nanos| time.0.div_ceil(1_000);
    let threads = match version {
        Version::V1 => {
            set("cpu.shares", group.load_weight.to_string())?;
            if let Some(quota) = group.quota {
                set("cpu.cfs_period_us", micros(quota.period).to_string())?;
                set("cpu.cfs_quota_us", micros(quota.runtime).to_string())?;
            }
            "tasks"
        }
        Version::V2 => {
            set("cgroup.type", "threaded".to_owned())?;
            let above = directory.parent().unwrap_or(Path::new(ROOT));
            write(&above.join("cgroup.subtree_control"), "+cpu")?;
            let weight = cpu_weight(group.load_weight).unwrap_or(100);
            set("cpu.weight", weight.to_string())?;
            if let Some(quota) = group.quota {
                set("cpu.max", format!("{} {}", micros(quota.runtime), micros(quota.period)))?;
            }
            "cgroup.threads"
        }
    };
    let path = directory.join(threads);
    File::options().write(true).open(&path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("cannot write `{text}` to {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_that_version_2_cannot_express_take_version_1() {
        let weights: Vec<Option<u64>> =
            [1024, 10, 399, 20_480, 102_400, 819, 262_144, 2, 15, 102].map(cpu_weight).into();
        let expected = [Some(100), Some(1), Some(39), Some(2_000), Some(10_000), Some(80), None, None, None, Some(10)];
        assert_eq!(weights, expected);
        let group = |load_weight| Cgroup { path: "/a".to_owned(), parent: None, load_weight, quota: None };
        assert_eq!(version_for(&[group(1024), group(20_480)]), Version::V2);
        assert_eq!(version_for(&[group(1024), group(2)]), Version::V1);
    }
}
