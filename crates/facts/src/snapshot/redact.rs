//! Removes private names from a snapshot.

use super::pseudonyms::{Pseudonyms, kernel_thread};
use super::{Missing, Snapshot};

impl Snapshot {
    /// The snapshot without private data, to be given to others. Command lines, the host name and the boot id are
    /// removed. Names of programs, cgroups and units, and mount points, are replaced by pseudonyms, the same for the
    /// same name. Names of kernel threads, devices, interrupts and settings are kept, as the analysis needs them.
    #[must_use]
    pub fn redacted(self) -> Snapshot {
        self.redacted_by(&mut Pseudonyms::with_services())
    }

    /// The same, with pseudonyms shared with other data.
    #[must_use]
    pub fn redacted_by(mut self, names: &mut Pseudonyms) -> Snapshot {
        for task in self.tasks.iter_mut() {
            task.cmdline = None;
            task.comm = match task.kernel_thread {
                true => kernel_thread(&task.comm).to_owned(),
                false => names.program(&task.comm),
            };
            task.cgroup = task.cgroup.take().map(|path| group(names, &path));
        }
        for facts in &mut self.cgroups {
            facts.path = group(names, &facts.path);
        }
        self.cgroups.sort_by(|a, b| a.path.cmp(&b.path));
        if let Some(throttled) = self.throttled_meanwhile.take() {
            self.throttled_meanwhile =
                Some(throttled.into_iter().map(|(path, counters)| (group(names, &path), counters)).collect());
        }
        for mount in &mut self.mounts {
            // Every host has `/`. The device and options of other mounts may contain names.
            if mount.target != "/" {
                mount.target = names.of("mount", &mount.target);
            }
            mount.options = kept_options(&mount.options);
            mount.device = device(names, &mount.device);
        }
        self.host = None;
        // The host's journal contains the boot id too.
        self.boot = None;
        self.redact_boot_line();
        self.redact_places(names);
        self.view.get_or_insert_default().redacted = true;
        self
    }

    /// Keeps only known parameters: a command line may contain addresses and keys.
    fn redact_boot_line(&mut self) {
        self.kernel.cmdline = self.kernel.cmdline.as_deref().map(super::kept::boot_line);
        // May contain the builder's name and host; the rest is the version.
        self.kernel.version = self.kernel.version.take().map(|text| without_builder(&text));
    }

    fn redact_places(&mut self, names: &mut Pseudonyms) {
        for setting in &mut self.configured {
            let Some(owner) = setting.owner.as_mut() else { continue };
            if setting.by != super::ConfiguredBy::Unit {
                continue;
            }
            let pseudonym = unit(names, owner);
            setting.file = setting.file.replace(owner.as_str(), &pseudonym);
            *owner = pseudonym;
            if setting.key == "Slice" {
                setting.value = unit(names, &setting.value);
            }
            if setting.key.starts_with("Exec") {
                setting.value = super::kept::kept_settings(&setting.value);
            }
        }
        // Reasons may quote users' paths.
        for missing in &mut self.missing {
            if missing.what.starts_with("/home/") {
                missing.what = names.of("file", &missing.what);
            } else if let Some(path) = missing.what.strip_prefix(Missing::BELOW_GROUP) {
                missing.what = Missing::below_group(&group(names, path));
            }
        }
    }
}

/// Replaces each component of a path separately, so that parents stay parents. The slices of systemd and Kubernetes are
/// the same on every host.
fn group(names: &mut Pseudonyms, path: &str) -> String {
    const KNOWN: [&str; 9] =
        ["", "..", "system.slice", "user.slice", "init.scope", "machine.slice", "kubepods", "kubepods.slice", "docker"];
    let parts = path.split('/').map(|part| if KNOWN.contains(&part) { part.to_owned() } else { unit(names, part) });
    parts.collect::<Vec<_>>().join("/")
}

fn unit(names: &mut Pseudonyms, unit: &str) -> String {
    const SUFFIXES: [&str; 3] = [".service", ".slice", ".scope"];
    const KNOWN: [&str; 5] = ["system.slice", "user.slice", "machine.slice", "kubepods.slice", "system.conf"];
    if KNOWN.contains(&unit) {
        return unit.to_owned();
    }
    match SUFFIXES.iter().find_map(|suffix| Some((unit.strip_suffix(suffix)?, suffix))) {
        Some((stem, suffix)) => format!("{}{suffix}", names.of("unit", stem)),
        None => names.of("group", unit),
    }
}

/// Keeps names of disks: workers are named after them. Names of volumes and pools are chosen by people.
fn device(names: &mut Pseudonyms, device: &str) -> String {
    match device.strip_prefix("/dev/") {
        Some(name) if !name.contains('/') => device.to_owned(),
        Some(name) => {
            let (directory, volume) = name.rsplit_once('/').unwrap_or(("", name));
            let directory = if directory == "mapper" { "mapper".to_owned() } else { names.of("volumes", directory) };
            format!("/dev/{directory}/{}", names.of("volume", volume))
        }
        None => names.of("volume", device),
    }
}

/// Keeps options without a value, which describe how a file system works; values may contain names.
fn kept_options(options: &str) -> String {
    options.split(',').filter(|option| !option.contains('=')).collect::<Vec<_>>().join(",")
}

/// `#1 SMP PREEMPT_DYNAMIC Debian 6.1.129-1 (2025-03-06)` contains no builder, but `/proc/version` does. Removes
/// anything that could be an address.
fn without_builder(text: &str) -> String {
    text.split(' ').filter(|word| !word.contains('@') || *word == "@0").collect::<Vec<_>>().join(" ")
}
