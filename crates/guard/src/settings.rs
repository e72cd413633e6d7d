//! What a policy sets beside tasks, found on this machine: weights of groups, affinities of interrupts, tunables and
//! features of the scheduler.

use std::fs;
use std::path::{Path, PathBuf};

use unstarve_facts::check_harm;

use crate::decide::Surroundings;
use crate::policy::{Policy, Setting, SettingKind, value_in};
use unstarve_change::{Place, Value};
use unstarve_executor::host::{Host, ThisHost, place_of};

/// A setting of the policy, and what it means here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The setting's index in the policy.
    pub setting: usize,
    /// Where.
    pub target: Place,
    /// What it is.
    pub old: Value,
    /// What it shall be.
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

/// Looks for all settings of the policy.
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
        SettingKind::CgroupWeight { path, weight } => {
            let cpu = CpuController::find().ok_or("no cgroup hierarchy here has the CPU controller")?;
            let groups = cpu.groups(|group| path.matches(group));
            let text = Value::Text(cpu.written(*weight).to_string());
            Ok(groups.iter().filter_map(|group| Some((file(&group.join(cpu.file))?, text.clone()))).collect())
        }
        SettingKind::IrqAffinity { action, cpus } => {
            let text = Value::Text(cpus.to_string());
            let files = irqs(|name| action.matches(name)).into_iter().map(|irq| irq.join("smp_affinity_list"));
            Ok(files.filter_map(|path| Some((file(&path)?, text.clone()))).collect())
        }
        SettingKind::Tunable { name, value } => {
            let path = if name.contains('.') {
                PathBuf::from("/proc/sys").join(name.replace('.', "/"))
            } else {
                PathBuf::from("/sys/kernel/debug/sched").join(name)
            };
            // By what the machine has, beside what this policy sets.
            let other = |other: &str| {
                let live = || fs::read_to_string(format!("/proc/sys/kernel/{other}")).ok();
                value_in(&policy.settings, other).or_else(live)
            };
            check_harm(name, value, other).map_err(|harm| format!("refused: {harm}"))?;
            let target = file(&path).ok_or_else(|| format!("{} is not there (or not readable)", path.display()))?;
            Ok(vec![(target, Value::Text(value.clone()))])
        }
        SettingKind::Feature { name, on } => {
            // The second until 5.12.
            let files = ["/sys/kernel/debug/sched/features", "/sys/kernel/debug/sched_features"];
            let path = files.into_iter().find(|path| Path::new(path).exists());
            let path = path.ok_or("debugfs with the scheduler's features is not there (or not readable)")?.to_owned();
            let text = if *on { name.clone() } else { format!("NO_{name}") };
            Ok(vec![(Place::Feature { path, name: name.clone(), root: None }, Value::Text(text))])
        }
    }
}

fn file(path: &Path) -> Option<Place> {
    place_of(path.to_str()?, None)
}

/// Directories of interrupts that have a handler of such a name.
fn irqs(wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = children(Path::new("/proc/irq"))
        .into_iter()
        .filter(|irq| {
            // The kernel writes a handler's `/` as `!`.
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

/// The hierarchy that has the CPU controller.
struct CpuController {
    mount: PathBuf,
    file: &'static str,
}

impl CpuController {
    fn find() -> Option<CpuController> {
        // Anybody may have a mount whose name is no UTF-8.
        let mounts = String::from_utf8_lossy(&fs::read("/proc/self/mounts").ok()?).into_owned();
        let mut v1 = None;
        for line in mounts.lines() {
            let mut fields = line.split(' ');
            let (Some(mount), Some(kind), Some(options)) = (fields.nth(1), fields.next(), fields.next()) else {
                continue;
            };
            let mount = PathBuf::from(mount);
            let has = || {
                let text = fs::read_to_string(mount.join("cgroup.controllers")).unwrap_or_default();
                text.split_ascii_whitespace().any(|controller| controller == "cpu")
            };
            match kind {
                "cgroup2" if has() => return Some(CpuController { mount, file: "cpu.weight" }),
                "cgroup" if options.split(',').any(|option| option == "cpu") => {
                    v1 = Some(CpuController { mount, file: "cpu.shares" });
                }
                _ => {}
            }
        }
        v1
    }

    /// A weight (100 is the default) as the file wants it.
    fn written(&self, weight: u32) -> u32 {
        if self.file == "cpu.shares" { (weight * 1024 + 50) / 100 } else { weight }
    }

    /// What the file says, as a load weight (nice 0 = 1024).
    fn load_weight(&self, group: &Path) -> Option<u32> {
        let number = fs::read_to_string(group.join(self.file)).ok()?.trim().parse().ok()?;
        Some(if self.file == "cpu.shares" { number } else { unstarve_sched::load_weight_of_cpu_weight(number) })
    }

    /// Groups below the root whose path from the mount point is wanted.
    fn groups(&self, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut pending = children(&self.mount);
        while let Some(group) = pending.pop() {
            let path = group.strip_prefix(&self.mount).ok().and_then(Path::to_str);
            if path.is_some_and(|path| wanted(&format!("/{path}"))) {
                found.push(group.clone());
            }
            pending.extend(children(&group));
        }
        found.sort();
        found
    }
}

/// What decisions need to know of this machine.
pub fn surroundings(own: Vec<unstarve_model::Tid>) -> Surroundings {
    let mut groups: Vec<(String, u32)> = CpuController::find()
        .map(|cpu| {
            let top = children(&cpu.mount).into_iter();
            top.filter_map(|group| Some((format!("/{}", group.file_name()?.to_str()?), cpu.load_weight(&group)?)))
                .collect()
        })
        .unwrap_or_default();
    groups.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let autogroup = fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").ok();
    let online = fs::read_to_string("/sys/devices/system/cpu/online").ok().and_then(|text| text.parse().ok());
    Surroundings { own, groups, autogroup: autogroup.map(|text| text.trim() == "1"), online }
}
