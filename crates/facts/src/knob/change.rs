//! Compares scheduler settings and features of two kernels or hosts.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::feature::{self, FeatureState, feature_at};
use super::{Form, Knob, Presence};
use crate::{Distribution, Facts, Snapshot, Version};

/// A difference between two kernels or hosts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// The setting or feature.
    pub name: String,
    /// How it differs.
    pub kind: ChangeKind,
    /// On the first: a value or a path; empty if it does not exist there.
    pub from: String,
    /// On the second.
    pub to: String,
    /// The consequence, or the replacement.
    pub note: String,
}

/// How something differs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ChangeKind {
    /// Only the second has it.
    New,
    /// Only the first has it.
    Gone,
    /// At another path.
    Moved,
    /// The default differs.
    Redefaulted,
    /// The same number has another meaning.
    Redefined,
    /// Two hosts have different values.
    Value,
    /// Only one of two snapshots contains it, but the other's kernel may have it.
    Unseen,
}

/// The settings, then the features, that differ between two kernels on a host with so many CPUs. Omits what is
/// uncertain for one of the two.
pub fn changes_between_kernels(
    from: Version,
    to: Version,
    distribution: Option<Distribution>,
    cpus: usize,
) -> Vec<Change> {
    let knobs =
        Knob::all().into_iter().flat_map(|knob| match (knob.at(from, distribution), knob.at(to, distribution)) {
            (Some(a), Some(b)) => knob_changes(knob, a, b, cpus),
            _ => Vec::new(),
        });
    let features = feature::rows().filter_map(|row| feature_change(row, from, to));
    knobs.chain(features).collect()
}

fn knob_changes(knob: Knob, a: Presence, b: Presence, cpus: usize) -> Vec<Change> {
    let change =
        |kind, from: String, to: String, note: String| Change { name: knob.name().into(), kind, from, to, note };
    match (a, b) {
        (Presence::There(old), Presence::There(new)) => kept_changes(old, new, cpus, &change),
        (Presence::There(old), Presence::Gone(_)) => {
            let instead = old.successor().map(|next| format!("nearest: {}", next.name())).unwrap_or_default();
            vec![change(ChangeKind::Gone, old.path().into(), String::new(), instead)]
        }
        (Presence::NotYet(_), Presence::There(new)) => {
            vec![change(ChangeKind::New, String::new(), new.path().into(), new.meaning().into())]
        }
        // `from` is the newer kernel.
        (Presence::Gone(_), Presence::There(new)) => {
            vec![change(ChangeKind::New, String::new(), new.path().into(), new.meaning().into())]
        }
        (Presence::There(old), Presence::NotYet(_)) => {
            vec![change(ChangeKind::Gone, old.path().into(), String::new(), String::new())]
        }
        _ => Vec::new(),
    }
}

fn kept_changes(
    old: Form,
    new: Form,
    cpus: usize,
    change: &dyn Fn(ChangeKind, String, String, String) -> Change,
) -> Vec<Change> {
    let mut changes = Vec::new();
    if old.path() != new.path() {
        let note =
            if new.kind() == "debugfs" { "debugfs needs root, and a kernel that is not locked down" } else { "" };
        changes.push(change(ChangeKind::Moved, old.path().into(), new.path().into(), note.into()));
    }
    if let (Some(before), Some(after)) = (old.default_with(cpus), new.default_with(cpus))
        && before != after
    {
        changes.push(change(ChangeKind::Redefaulted, before, after, new.meaning().into()));
    }
    if old.kind() == new.kind() && old.path() == new.path() && old.meaning() != new.meaning() {
        changes.push(change(ChangeKind::Redefined, old.meaning().into(), new.meaning().into(), String::new()));
    }
    changes
}

fn feature_change(row: crate::Row, from: Version, to: Version) -> Option<Change> {
    let (a, b) = (feature_at(row, from), feature_at(row, to));
    let kind = match (a, b) {
        (a, b) if a == b => return None,
        (FeatureState::Unknown(_), _) | (_, FeatureState::Unknown(_)) => return None,
        (FeatureState::Absent, _) => ChangeKind::New,
        (_, FeatureState::Absent) => ChangeKind::Gone,
        _ => ChangeKind::Redefaulted,
    };
    let shown = |state: FeatureState| match state {
        FeatureState::Absent => String::new(),
        FeatureState::Depends(what) => format!("depends: {what}"),
        state => state.word().to_owned(),
    };
    Some(Change {
        name: feature::name(row).into(),
        kind,
        from: shown(a),
        to: shown(b),
        note: row.get("what_it_does").unwrap_or_default().into(),
    })
}

/// Feature bits that [`changes_between_kernels`] omits because their default is unknown for one of the two kernels,
/// mostly because it depends on a stable level that the version does not name.
pub fn undecided_between_kernels(from: Version, to: Version) -> Vec<&'static str> {
    let unknown = |row, version| matches!(feature_at(row, version), FeatureState::Unknown(_));
    feature::rows().filter(|row| unknown(*row, from) || unknown(*row, to)).map(feature::name).collect()
}

/// The differences between two hosts: settings (wherever each kernel has them), features, and build options.
pub fn changes_between_snapshots(a: &Snapshot, b: &Snapshot) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for path in a.settings.keys().chain(b.settings.keys()) {
        let knob = Knob::named(path);
        // Per-CPU settings are reported one by one; others once, whatever their path.
        let name = knob.filter(|knob| !knob.forms(None).iter().any(|form| form.path().contains("{N}")));
        if !seen.insert(name.map_or(path.as_str(), |knob| knob.name())) {
            continue;
        }
        let side = |snapshot: &Snapshot| match found(snapshot, name, path) {
            Some((path, value)) => Side::Has(path, value),
            None if knob.is_some_and(|knob| lacks(snapshot, knob)) => Side::Lacks,
            None => Side::Silent,
        };
        changes.extend(difference(name.map_or(path.as_str(), |knob| knob.name()), side(a), side(b)));
    }
    let undecided: BTreeSet<&String> = a.undecided_features.union(&b.undecided_features).collect();
    if let (Some(of_a), Some(of_b)) = (&a.features, &b.features) {
        let names: BTreeSet<&String> = of_a.keys().chain(of_b.keys()).collect();
        for name in names.difference(&undecided).copied() {
            let state = |snapshot: &Snapshot, on: Option<&bool>| match on {
                Some(on) => Side::Has(String::new(), if *on { "on" } else { "off" }.to_owned()),
                None if lacks_feature(snapshot, name) => Side::Lacks,
                None => Side::Silent,
            };
            changes.extend(difference(name, state(a, of_a.get(name)), state(b, of_b.get(name))));
        }
    }
    if let (Some(a), Some(b)) = (&a.config, &b.config) {
        for name in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
            let value = |value: Option<&String>| Side::Has(String::new(), value.map_or("n", String::as_str).to_owned());
            changes.extend(difference(&format!("CONFIG_{name}"), value(a.get(name)), value(b.get(name))));
        }
    }
    changes
}

/// The path and the value.
fn found(snapshot: &Snapshot, knob: Option<Knob>, path: &str) -> Option<(String, String)> {
    let by_path = |path: &str| Some((path.to_owned(), snapshot.settings.get(path)?.trim().to_owned()));
    match knob {
        Some(knob) => knob.rows().find_map(|form| by_path(form.path())),
        None => by_path(path),
    }
}

/// Whether a host's kernel certainly lacks a setting.
fn lacks(snapshot: &Snapshot, knob: Knob) -> bool {
    let facts = Facts::of_host(snapshot);
    let presence = facts.version().and_then(|version| knob.at(version, facts.distribution()));
    matches!(presence, Some(Presence::Gone(_) | Presence::NotYet(_)))
}

fn lacks_feature(snapshot: &Snapshot, name: &str) -> bool {
    let row = feature::rows().find(|row| feature::name(*row) == name);
    let version = Version::of(&snapshot.kernel);
    row.zip(version).is_some_and(|(row, version)| feature_at(row, version) == FeatureState::Absent)
}

/// What one of two hosts has.
enum Side {
    /// A path and a value.
    Has(String, String),
    /// Its kernel does not have the setting.
    Lacks,
    /// Its snapshot does not contain the setting, so nothing is known.
    Silent,
}

fn difference(name: &str, a: Side, b: Side) -> Option<Change> {
    let change =
        |kind, from: String, to: String| Some(Change { name: name.into(), kind, from, to, note: String::new() });
    match (a, b) {
        (Side::Has(_, old), Side::Lacks) => change(ChangeKind::Gone, old, String::new()),
        (Side::Lacks, Side::Has(_, new)) => change(ChangeKind::New, String::new(), new),
        (Side::Has(_, old), Side::Silent) => change(ChangeKind::Unseen, old, String::new()),
        (Side::Silent, Side::Has(_, new)) => change(ChangeKind::Unseen, String::new(), new),
        (Side::Has(_, old), Side::Has(_, new)) if old != new => change(ChangeKind::Value, old, new),
        (Side::Has(old, _), Side::Has(new, _)) if old != new => change(ChangeKind::Moved, old, new),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_does_not_have_is_gone_only_if_its_kernel_lacks_it() {
        let host = |release: &str, settings: &[(&str, &str)]| {
            let settings: std::collections::BTreeMap<_, _> = settings.iter().copied().collect();
            let json = serde_json::json!({
                "schema": Snapshot::SCHEMA, "kernel": { "release": release }, "settings": settings,
            });
            Snapshot::from_json(&json.to_string()).expect("a snapshot")
        };
        let old = host(
            "5.10.223",
            &[("/proc/sys/kernel/sched_latency_ns", "1"), ("/proc/sys/kernel/sched_rt_runtime_us", "0")],
        );
        let kinds = |a: &Snapshot, b: &Snapshot| -> Vec<(String, ChangeKind)> {
            changes_between_snapshots(a, b).into_iter().map(|change| (change.name, change.kind)).collect()
        };
        let (latency, runtime) = ("sched_latency_ns".to_owned(), "sched_rt_runtime_us".to_owned());
        let new = host("6.12.30", &[]);
        assert_eq!(kinds(&old, &new), [(latency.clone(), ChangeKind::Gone), (runtime.clone(), ChangeKind::Unseen)]);
        assert_eq!(kinds(&new, &old), [(latency.clone(), ChangeKind::New), (runtime.clone(), ChangeKind::Unseen)]);
        let unknown = host("", &[]);
        assert_eq!(kinds(&old, &unknown), [(latency, ChangeKind::Unseen), (runtime, ChangeKind::Unseen)]);
    }

    #[test]
    fn features_that_are_not_known_of_a_kernel_are_not_compared_and_named() {
        let version = |text: &str| text.parse::<Version>().expect("a version");
        let undecided = |a: &str, b: &str| -> Vec<String> {
            let changes = changes_between_kernels(version(a), version(b), None, 8);
            changes.into_iter().map(|change| change.name).filter(|name| name == "RT_PUSH_IPI").collect()
        };
        let left_out = |a: &str, b: &str| undecided_between_kernels(version(a), version(b)).contains(&"RT_PUSH_IPI");
        // It is on in both, or unknown; in no case "gone".
        for (a, b) in [("5.4", "6.5"), ("5.4", "5.10"), ("6.12", "6.18"), ("5.10.30", "5.15")] {
            assert_eq!(undecided(a, b), [""; 0], "{a} {b}");
        }
        assert_eq!((left_out("5.4", "6.5"), left_out("6.12", "6.18")), (false, true));
        assert_eq!(undecided("6.1.176", "6.1.178"), ["RT_PUSH_IPI"]);
        assert_eq!(undecided("6.17", "7.2"), ["RT_PUSH_IPI"]);
    }
}
