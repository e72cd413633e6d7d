//! Finds a policy's settings on this machine: cgroup weights, interrupt affinities, tunables and features of the scheduler.

use std::fs;
use std::path::{Path, PathBuf};

use unstarve_facts::Hierarchy;
use unstarve_host::cpu_hierarchy;
use unstarve_sched::setting::cgroup::{self, CgroupVersion};
use unstarve_sched::setting::{called_in_policies, check_harm, feature, path_of_tunable};

use crate::decide::Surroundings;
use crate::policy::{Policy, Setting, SettingKind, value_in};
use unstarve_change::{Place, Value};
use unstarve_executor::host::{Host, ThisHost, place_of};

/// A setting of the policy, with its file and values on this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The setting's index in the policy.
    pub setting: usize,
    /// The file or feature.
    pub target: Place,
    /// The value now.
    pub old: Value,
    /// The value to set.
    pub new: Value,
}

/// A setting that this machine does not have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Absent {
    /// The setting's index in the policy.
    pub setting: usize,
    /// Why.
    pub reason: String,
}

/// Finds all settings of the policy.
pub fn find(policy: &Policy) -> (Vec<Found>, Vec<Absent>) {
    let (mut found, mut absent) = (Vec::new(), Vec::new());
    for (index, setting) in policy.settings.iter().enumerate() {
        let before = found.len();
        let reason = match place(policy, setting) {
            Err(reason) => reason,
            Ok(places) => {
                for (target, new) in places {
                    match ThisHost.read(&target, new.aspect()) {
                        Ok(Some(old)) => found.push(Found { setting: index, target, old, new }),
                        Ok(None) => {}
                        Err(error) => absent.push(Absent { setting: index, reason: format!("{target}: {error}") }),
                    }
                }
                "nothing here is called that".to_owned()
            }
        };
        if found.len() == before && absent.last().is_none_or(|absent| absent.setting != index) {
            absent.push(Absent { setting: index, reason });
        }
    }
    (found, absent)
}

type Places = Vec<(Place, Value)>;

fn place(policy: &Policy, setting: &Setting) -> Result<Places, String> {
    match &setting.what {
        SettingKind::Cgroup { path, key, value } => {
            let cpu = cpu_hierarchy().ok_or("no cgroup hierarchy here has the CPU controller")?;
            let is_here = |version: Option<CgroupVersion>| version.is_none_or(|version| version == cpu.version);
            let here = called_in_policies(key).find(|(setting, _)| is_here(setting.version));
            let (setting, content) = here
                .and_then(|(setting, key)| Some((setting, (key.to_file)(value)?)))
                .ok_or_else(|| format!("the cgroup hierarchy of this machine has no setting for {key}"))?;
            let groups = groups(Path::new(&cpu.mount), |group| path.matches(group));
            let files = groups.iter().filter_map(|group| file(&group.join(setting.file_name())));
            Ok(files.map(|place| (place, Value::Content(content.clone()))).collect())
        }
        SettingKind::IrqAffinity { action, cpus } => {
            let to = Value::content(cpus);
            let files = irqs(|name| action.matches(name)).into_iter().map(|irq| irq.join("smp_affinity_list"));
            Ok(files.filter_map(|path| Some((file(&path)?, to.clone()))).collect())
        }
        SettingKind::Tunable { name, value } => {
            let path = PathBuf::from(path_of_tunable(name));
            // The policy's value of a related setting, else the machine's.
            let other = |other: &str| {
                let live = || fs::read_to_string(format!("/proc/sys/kernel/{other}")).ok();
                value_in(&policy.settings, other).or_else(live)
            };
            check_harm(name, value, other).map_err(|harm| format!("refused: {harm}"))?;
            let target = file(&path).ok_or_else(|| format!("{} is not there (or not readable)", path.display()))?;
            Ok(vec![(target, Value::content(value))])
        }
        SettingKind::Feature { name, on } => {
            let path = feature::FILES.into_iter().find(|path| Path::new(path).exists());
            let path = path.ok_or("debugfs with the scheduler's features is not there (or not readable)")?.to_owned();
            let word = feature::FeatureState::from(*on).word(name);
            Ok(vec![(Place::Feature { path, name: name.clone(), root: None }, Value::content(word))])
        }
    }
}

fn file(path: &Path) -> Option<Place> {
    place_of(path.to_str()?, None)
}

/// Directories of interrupts with a handler of a wanted name.
fn irqs(wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = children(Path::new("/proc/irq"))
        .into_iter()
        .filter(|irq| {
            // The kernel writes `/` in a handler's name as `!`.
            children(irq).iter().filter_map(|handler| handler.file_name()?.to_str()).any(&wanted)
        })
        .collect();
    found.sort();
    found
}

fn children(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

/// Reads a cgroup's weight file as a load weight (nice 0 = 1024).
fn load_weight(version: CgroupVersion, group: &Path) -> Option<u32> {
    let text = fs::read_to_string(group.join(cgroup::weight_file(version))).ok()?;
    Some(cgroup::load_weight(version, text.trim().parse().ok()?))
}

/// Groups below the root whose path from the mount point is wanted.
fn groups(mount: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = children(mount);
    while let Some(group) = pending.pop() {
        let path = group.strip_prefix(mount).ok().and_then(Path::to_str);
        if path.is_some_and(|path| wanted(&format!("/{path}"))) {
            found.push(group.clone());
        }
        pending.extend(children(&group));
    }
    found.sort();
    found
}

/// Reads what decisions need to know of this machine.
pub fn surroundings(own: Vec<unstarve_model::Tid>) -> Surroundings {
    let of_hierarchy = |cpu: Hierarchy| {
        let of_group =
            |group: &PathBuf| Some((format!("/{}", group.file_name()?.to_str()?), load_weight(cpu.version, group)?));
        children(Path::new(&cpu.mount)).iter().filter_map(of_group).collect()
    };
    let mut groups: Vec<(String, u32)> = cpu_hierarchy().map(of_hierarchy).unwrap_or_default();
    groups.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let autogroup = fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").ok();
    let online = fs::read_to_string("/sys/devices/system/cpu/online").ok().and_then(|text| text.parse().ok());
    Surroundings { own, groups, autogroup: autogroup.map(|text| text.trim() == "1"), online }
}
