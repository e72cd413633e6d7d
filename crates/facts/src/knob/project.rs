//! Previews a host under another kernel.

use std::collections::{BTreeMap, BTreeSet};

use super::feature::{self, FeatureState, feature_at};
use super::{Knob, Presence};
use crate::{ConfiguredBy, Distribution, Facts, Snapshot, Version};

impl Snapshot {
    /// The host as it would be under another kernel of the same distribution: that kernel's settings with configured or
    /// else default values, default features, and the same tasks, interrupts and cgroups.
    ///
    /// Values written at run time are lost on reboot, so they are not carried over.
    #[must_use]
    pub fn under(&self, version: Version) -> Snapshot {
        let facts = Facts::of_host(self);
        let distribution = facts.distribution();
        let lazy = version.is_at_least(7, 0) && facts.has_lazy_architecture();
        let mut snapshot = self.clone();
        (snapshot.features, snapshot.undecided_features) = features(version);
        snapshot.settings = settings(self, version, distribution);
        if lazy {
            snapshot.config = snapshot.config.map(without_old_modes);
        }
        name_kernel(&mut snapshot, version, distribution);
        snapshot
    }
}

fn name_kernel(snapshot: &mut Snapshot, version: Version, distribution: Option<Distribution>) {
    let words = |text: &str| -> String {
        let kept = ["SMP", "PREEMPT", "PREEMPT_DYNAMIC", "PREEMPT_RT"];
        text.split(' ').filter(|word| kept.contains(word)).collect::<Vec<_>>().join(" ")
    };
    let build = snapshot.kernel.version.as_deref().map(words).unwrap_or_default();
    let (release, note) = match distribution {
        Some(Distribution::Debian) => (version.to_string(), format!("#1 {build} Debian {version}")),
        Some(Distribution::Ubuntu) => (version.to_string(), format!("#1-Ubuntu {build}")),
        Some(Distribution::RedHat) => (format!("{version}.el"), format!("#1 {build}")),
        _ => (version.to_string(), format!("#1 {build}")),
    };
    snapshot.kernel.release = Some(release);
    snapshot.kernel.version = Some(note);
    snapshot.kernel.signature = None;
}

/// The kernel's features with their defaults, and the features whose default is unknown.
fn features(version: Version) -> (Option<BTreeMap<String, bool>>, BTreeSet<String>) {
    let (mut known, mut undecided) = (BTreeMap::new(), BTreeSet::new());
    for row in feature::rows() {
        let name = feature::name(row).to_owned();
        match feature_at(row, version) {
            FeatureState::On => drop(known.insert(name, true)),
            FeatureState::Off => drop(known.insert(name, false)),
            FeatureState::Absent => {}
            FeatureState::Depends(_) | FeatureState::Unknown(_) => drop(undecided.insert(name)),
        }
    }
    (Some(known), undecided)
}

fn settings(now: &Snapshot, version: Version, distribution: Option<Distribution>) -> BTreeMap<String, String> {
    let cpus = now.cpus.online.clone().unwrap_or_default();
    let kept = |path: &String| Knob::named(path).is_none();
    let mut settings: BTreeMap<String, String> =
        now.settings.iter().filter(|(path, _)| kept(path)).map(|(path, text)| (path.clone(), text.clone())).collect();
    for knob in Knob::all() {
        let Some(Presence::There(form)) = knob.at(version, distribution) else { continue };
        let written = now.configured.iter().rfind(|setting| {
            let reaches = match setting.by {
                ConfiguredBy::Sysctl => true,
                ConfiguredBy::Tuned => setting.key.starts_with("kernel."),
                _ => false,
            };
            reaches && form.kind() == "sysctl" && setting.key.strip_prefix("kernel.") == Some(knob.name())
        });
        let value = written.map(|setting| setting.value.clone()).or_else(|| form.default_with(cpus.len().max(1)));
        let Some(value) = value else {
            // Without a single default the current value is the best guess, if the path is the same.
            settings.extend(
                now.settings
                    .get(form.path())
                    .filter(|_| knob.name() != "preempt")
                    .map(|text| (form.path().to_owned(), text.clone())),
            );
            continue;
        };
        settings.extend(form.paths(cpus.iter()).into_iter().map(|path| (path, value.clone())));
    }
    settings
}

/// Kernels from 7.0 on have only the lazy and full modes on these architectures (commit 7dadeaa6e851).
fn without_old_modes(mut config: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let old = ["PREEMPT_NONE", "PREEMPT_VOLUNTARY"].map(|option| config.remove(option));
    if old.into_iter().flatten().any(|value| value == "y") {
        config.insert("PREEMPT_LAZY".into(), "y".into());
    }
    config
}
