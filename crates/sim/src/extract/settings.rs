//! Settings of the recorded kernel that differ from its defaults.

use unstarve_facts::{FEATURES, FeatureState, Knob, Presence, Snapshot, Version, feature_at};

/// Those of the scheduler, as knobs of [`crate::Program::knobs`]. Without a snapshot or a known version there are none.
pub(super) fn changed(snapshot: Option<&Snapshot>, cpus: usize) -> Vec<(String, String)> {
    let Some(snapshot) = snapshot else { return Vec::new() };
    let Some(version) = snapshot.kernel_release().and_then(|release| release.parse::<Version>().ok()) else {
        return Vec::new();
    };
    let files = snapshot.settings.iter().filter_map(|(path, value)| {
        let name = path
            .strip_prefix("/proc/sys/")
            .filter(|name| name.starts_with("kernel/sched_"))
            .map(|name| format!("sysctl.{}", name.replace('/', ".")))
            .or_else(|| path.strip_prefix("/sys/kernel/debug/").map(|name| format!("debugfs.{name}")))?;
        let form = Knob::named(path)?.at(version, None).and_then(Presence::form)?;
        let (default, value) = (form.default_with(cpus)?, value.trim());
        (default != value && !value.is_empty()).then(|| (name, value.to_owned()))
    });
    let features = snapshot.features.iter().flatten().filter_map(|(name, is_on)| {
        let state = feature_at(FEATURES.row(name)?, version);
        let differs = match state {
            FeatureState::On => !is_on,
            FeatureState::Off => *is_on,
            FeatureState::Absent | FeatureState::Depends(_) | FeatureState::Unknown(_) => false,
        };
        differs.then(|| (format!("sched_feature.{name}"), if *is_on { "on" } else { "off" }.to_owned()))
    });
    files.chain(features).collect()
}
