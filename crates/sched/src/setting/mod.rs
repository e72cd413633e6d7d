//! Scheduler settings: where each is, what it accepts, what its values mean, which values certainly do harm, and how to make a
//! value persistent. One module for each family.
//!
//! [`SETTINGS`] lists those that are kernel files. All other code calls [`File::at`] for a path: no other crate compares file names,
//! and nothing outside the list is written. [`TASK_SETTINGS`] lists those of tasks.

pub mod cgroup;
mod content;
pub mod feature;
mod interrupt;
mod nfsd;
mod number;
mod pattern;
mod real_time;
mod task;
pub mod tunable;
mod uclamp;
mod value;
mod workqueue;

use cgroup::CgroupVersion;
pub use content::Content;
pub use task::{
    Given, POLICY_POSITION, RESET_ON_FORK_POSITION, RuleKey, ShellSaved, TASK_SETTINGS, Takes, TaskFile, TaskSetting,
    Want, cpus_of_rule, rule_keys,
};
pub use value::{Aspect, Value};

/// All settings that are files. If two match a path, the first one counts.
pub const SETTINGS: [&Setting; 25] = [
    &cgroup::WEIGHT,
    &cgroup::SHARES,
    &cgroup::IDLE,
    &cgroup::MAX,
    &cgroup::QUOTA,
    &cgroup::PERIOD,
    &uclamp::MIN,
    &uclamp::MAX,
    &cgroup::PARTITION,
    &feature::FEATURES,
    &real_time::RUNTIME,
    &real_time::PERIOD,
    &tunable::GRANULARITY,
    &tunable::WAKEUP_GRANULARITY,
    &tunable::SCAN_SIZE,
    &tunable::PREEMPT,
    &tunable::DEADLINE_SERVER,
    &tunable::OF_CPU,
    &tunable::DEBUGFS,
    &tunable::SYSCTL,
    &interrupt::IRQ_AFFINITY,
    &interrupt::RPS_CPUS,
    &interrupt::THREADED_NAPI,
    &workqueue::WORKQUEUE,
    &nfsd::THREADS,
];

/// Looks up the values of other settings by name.
type OtherValues<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// A setting that is a file, or a family of such settings that are treated alike.
#[derive(Debug)]
pub struct Setting {
    /// Its files, as absolute paths. `{IRQ}`, `{QUEUE}` and `{CPU}` stand for a number that a boot or a machine assigns,
    /// `{NAME}` for one path component, `{GROUP}` for the directory of a cgroup wherever the hierarchy is mounted, and `*` at
    /// the end for any suffix.
    pub paths: &'static [&'static str],
    /// For a cgroup setting: its hierarchy, if only one has it.
    pub version: Option<CgroupVersion>,
    /// The kernel may return EBUSY for a while.
    pub may_be_busy: bool,
    /// How it shows its value.
    pub shows: Shows,
    /// Why a value certainly does harm; `other` returns the current or planned value of another setting.
    harm: fn(value: &str, other: &OtherValues<'_>) -> Option<String>,
    /// Whether the second value gives a group more CPU time than the first.
    gives_more: fn(&str, &str) -> bool,
    /// The line of a systemd unit that makes a value persistent: systemd.resource-control(5).
    systemd: fn(&str) -> Option<String>,
    /// Its key in the `[[cgroup]]` table of a guard's policy.
    pub policy: Option<PolicyKey>,
}

/// How a file shows its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shows {
    /// As it was written.
    Value,
    /// Among all its words, in parentheses; it takes a single word.
    Choice,
    /// A word, and after it perhaps why it has no effect.
    WithReason,
}

/// A key of the `[[cgroup]]` table in a policy. Settings of both hierarchies may share one.
#[derive(Debug)]
pub struct PolicyKey {
    /// `weight`.
    pub name: &'static str,
    /// A description for the schema.
    pub about: &'static str,
    /// The accepted values, for messages: `1 to 10000`.
    pub takes: &'static str,
    /// The range, if it accepts only numbers.
    pub range: Option<(u32, u32)>,
    /// Converts the policy's value to the file's content; `None` if it is not a valid value.
    pub to_file: fn(&str) -> Option<Content>,
    /// Converts the file's content to the policy's value, as TOML.
    of_file: fn(&str) -> Option<String>,
}

impl Setting {
    /// The defaults of all settings.
    const PLAIN: Setting = Setting {
        paths: &[],
        version: None,
        may_be_busy: false,
        shows: Shows::Value,
        harm: |_, _| None,
        gives_more: |_, _| false,
        systemd: |_| None,
        policy: None,
    };

    /// The name of a group's file.
    pub fn file_name(&self) -> &'static str {
        self.paths[0].rsplit('/').next().unwrap_or_default()
    }

    fn has_path(&self, path: &str) -> bool {
        self.paths.iter().any(|pattern| pattern::fits(pattern, path))
    }

    fn is_of_group(&self) -> bool {
        self.paths[0].starts_with("{GROUP}")
    }
}

/// The cgroup settings with this key in policies: one, or one for each hierarchy.
pub fn called_in_policies(key: &str) -> impl Iterator<Item = (&'static Setting, &'static PolicyKey)> {
    policy_keys().filter(move |(_, policy)| policy.name == key)
}

/// All settings that a `[[cgroup]]` table of a policy can have.
pub fn policy_keys() -> impl Iterator<Item = (&'static Setting, &'static PolicyKey)> {
    SETTINGS.into_iter().filter_map(|setting| Some((setting, setting.policy.as_ref()?)))
}

/// A file that is a setting.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// The setting.
    pub setting: &'static Setting,
    path: &'a str,
}

impl<'a> File<'a> {
    /// The setting at a path; `None` if the path may not be set.
    pub fn at(path: &'a str) -> Option<File<'a>> {
        let is_plain = path.starts_with('/')
            && !path.split('/').skip(1).any(|part| matches!(part, "" | "." | "..") || part.contains('\0'));
        let setting = SETTINGS.into_iter().find(|setting| setting.has_path(path)).filter(|_| is_plain)?;
        Some(File { setting, path })
    }

    /// The directory of the cgroup.
    pub fn group(self) -> Option<&'a str> {
        self.path.rsplit_once('/').map(|(directory, _)| directory).filter(|_| self.setting.is_of_group())
    }

    /// What a number in the path counts, if it is assigned at each boot or means another thing on another host.
    pub fn numbered_thing(self) -> Option<&'static str> {
        let has = |place: &str| self.setting.paths[0].contains(place);
        [("{IRQ}", "interrupt"), ("{QUEUE}", "queue"), ("{CPU}", "CPU")]
            .into_iter()
            .find_map(|(place, thing)| has(place).then_some(thing))
    }

    /// Whether the open file's file system is the kernel's own for this setting. A bind mount can put any file at the name of a
    /// group's file. The numbers: include/uapi/linux/magic.h.
    pub fn lives_on(self, magic: u64) -> bool {
        const CGROUPS: [u64; 2] = [0x0027_e0eb, 0x6367_7270];
        const OTHERS: [(&str, u64); 4] = [
            ("/proc/fs/nfsd/", 0x6e66_7364),
            ("/proc/", 0x9fa0),
            ("/sys/kernel/debug/", 0x6462_6720),
            ("/sys/", 0x6265_6572),
        ];
        match self.group() {
            Some(_) => CGROUPS.contains(&magic),
            None => OTHERS.iter().find(|(place, _)| self.path.starts_with(place)).is_some_and(|(_, own)| *own == magic),
        }
    }

    /// What to write to restore the state that the file shows now.
    pub fn in_force(self, text: &str) -> &str {
        let in_force = match self.setting.shows {
            Shows::Value => None,
            Shows::Choice => text.split_ascii_whitespace().find_map(|word| word.strip_prefix('(')?.strip_suffix(')')),
            Shows::WithReason => text.split_ascii_whitespace().next(),
        };
        in_force.unwrap_or(text)
    }

    /// Whether the change gives a group more CPU time.
    pub fn gives_more(self, old: &Content, new: &Content) -> bool {
        (self.setting.gives_more)(old.as_str(), new.as_str())
    }

    /// Its name in sysctl(8).
    pub fn sysctl(self) -> Option<String> {
        Some(self.path.strip_prefix("/proc/sys/")?.replace('/', "."))
    }

    /// The kernel command line parameter that sets it, without its value: for a sysctl since 5.8
    /// (Documentation/admin-guide/kernel-parameters.txt).
    pub fn boot_parameter(self) -> Option<String> {
        match self.path.strip_prefix("/sys/module/") {
            Some(of_module) => of_module.split_once("/parameters/").map(|(module, name)| format!("{module}.{name}")),
            None => self.sysctl().map(|name| format!("sysctl.{name}")),
        }
    }

    /// The line of a systemd unit that makes a value persistent.
    pub fn systemd(self, value: &Content) -> Option<String> {
        (self.setting.systemd)(value.as_str())
    }

    /// The name for a `[[tunable]]` table in a guard's policy.
    pub fn tunable(self) -> Option<String> {
        self.sysctl().or_else(|| self.path.strip_prefix(DEBUGFS).map(str::to_owned))
    }

    /// The group's path below the usual mount point, and the key and value for a `[[cgroup]]` table.
    pub fn in_policy(self, value: &Content) -> Option<(&'a str, &'static str, String)> {
        let key = self.setting.policy.as_ref()?;
        let below = self.group()?.strip_prefix("/sys/fs/cgroup")?;
        // Of files that both hierarchies have, those of version 1 lie below the controller's directory.
        let is_v1 = self.setting.version.map_or_else(
            || below.split('/').nth(1).is_some_and(|first| first.split(',').any(|controller| controller == "cpu")),
            |version| version == CgroupVersion::V1,
        );
        let group = if is_v1 { &below[1 + below.get(1..)?.find('/')?..] } else { below };
        Some((group, key.name, (key.of_file)(value.as_str())?))
    }
}

const DEBUGFS: &str = "/sys/kernel/debug/sched/";

/// The last component of a path or a name, which can be written in one way alone.
fn last_part(name: &str) -> Option<&str> {
    name.rsplit(['/', '.']).find(|part| !part.is_empty())
}

/// The file that a `[[tunable]]` table of a policy sets.
pub fn path_of_tunable(name: &str) -> String {
    match name.contains('.') {
        true => format!("/proc/sys/{}", name.replace('.', "/")),
        false => format!("{DEBUGFS}{name}"),
    }
}

/// Prefixes of the scheduler's sysctl names.
pub fn beginnings_of_sysctls() -> impl Iterator<Item = String> {
    let paths = tunable::SYSCTL.paths.iter().filter_map(|path| path.strip_prefix("/proc/sys/")?.strip_suffix('*'));
    paths.map(|name| name.replace('/', "."))
}

/// The directory of the cgroup that a file is a setting of.
pub fn group_of(path: &str) -> Option<&str> {
    File::at(path)?.group()
}

/// The number of the interrupt that a file is a setting of.
pub fn interrupt_of(path: &str) -> Option<u32> {
    File::at(path)?;
    path.strip_prefix("/proc/irq/")?.split('/').next()?.parse().ok()
}

/// A value that would harm the machine, and why.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{reason}; if it must be, write it by hand into the kernel's file")]
pub struct Harm {
    reason: String,
}

/// Checks a value for a setting, given by name or path. `other` returns the value that another setting has, or will have.
///
/// The kernel accepts most numbers. What matters is the number that the kernel parses, so texts are parsed as the kernel does: `0x0`, `00`,
/// `-0` and ` 0` are all 0.
///
/// # Errors
/// If the value would certainly harm the machine. Values that the kernel itself refuses are not checked.
pub fn check_harm(name: &str, value: &str, other: impl Fn(&str) -> Option<String>) -> Result<(), Harm> {
    let is_it = |setting: &&Setting| setting.paths.iter().any(|path| last_part(path) == last_part(name));
    let harm = SETTINGS.into_iter().find(is_it).and_then(|setting| (setting.harm)(value, &other));
    harm.map_or(Ok(()), |reason| Err(Harm { reason }))
}

#[cfg(test)]
mod tests;
