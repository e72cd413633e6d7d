//! Finds configured settings that do not take effect.

use unstarve_sched::setting::tunable::has_no_single_value;

use super::{Form, Knob, Presence};
use crate::{Configured, ConfiguredBy, Facts, Snapshot, Version};

/// A configured setting that does not have the intended effect.
#[derive(Clone, Debug)]
pub struct Drift<'a> {
    /// Where it is configured; several if the kind is the same.
    pub setting: &'a Configured,
    /// The setting's name.
    pub name: String,
    /// How it fails.
    pub kind: DriftKind,
}

/// How a configured setting fails.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DriftKind {
    /// Neither the kernel nor the table knows a setting of this name.
    Unknown,
    /// The kernel no longer has it; the nearest replacement.
    Gone(Option<Knob>),
    /// It has moved to another path, which this line does not set.
    Moved(&'static str),
    /// The same number has another meaning now; which one.
    Redefined(&'static str),
    /// The setting has another value now; which one.
    NotInForce(String),
    /// TuneD writes the number to another setting with another meaning; which one.
    Translated(&'static str),
}

/// Configured settings that do not take effect on the running kernel (from the snapshot's values), or with `upgrade`,
/// would not on that kernel.
pub fn drifts(snapshot: &Snapshot, upgrade: Option<Version>) -> Vec<Drift<'_>> {
    let settings = snapshot
        .configured
        .iter()
        .enumerate()
        .flat_map(|(index, setting)| names(setting).into_iter().map(move |name| (index, setting, name)));
    settings
        .filter_map(|(index, setting, name)| {
            let kind = match upgrade {
                None => on_running(snapshot, index, setting, &name),
                Some(version) => after(snapshot, setting, &name, version),
            };
            kind.map(|kind| Drift { setting, name, kind })
        })
        .collect()
}

/// The scheduler settings that a configured line sets.
fn names(setting: &Configured) -> Vec<String> {
    let is_path = |key: &str| key.starts_with("/sys/kernel/debug/sched") || key.starts_with("/sys/module/workqueue");
    match setting.by {
        ConfiguredBy::Sysctl => vec![setting.key.clone()],
        ConfiguredBy::Tuned if setting.key.starts_with("kernel.") || is_path(&setting.key) => vec![setting.key.clone()],
        ConfiguredBy::Tuned if setting.key.starts_with("sched_") => vec![setting.key.clone()],
        ConfiguredBy::Unit if setting.key.starts_with("Exec") => in_command(&setting.value),
        _ => Vec::new(),
    }
}

/// The debugfs paths and sysctl keys in a command.
fn in_command(command: &str) -> Vec<String> {
    let words = command.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '=' | '>' | ';' | '&' | '|'));
    let known = |word: &&str| {
        word.starts_with("/sys/kernel/debug/sched")
            || word.starts_with("/proc/sys/kernel/sched_")
            || word.starts_with("kernel.sched_")
    };
    words.filter(known).map(|word| word.trim_end_matches([',', ')']).to_owned()).collect()
}

/// The file that the line writes; `None` if a program looks for the path itself.
fn path_of(setting: &Configured, name: &str) -> Option<String> {
    if name.starts_with('/') {
        return Some(name.to_owned());
    }
    if let Some(key) = name.strip_prefix("kernel.") {
        return Some(format!("/proc/sys/kernel/{key}"));
    }
    debug_assert!(setting.by == ConfiguredBy::Tuned, "{name}");
    None
}

fn on_running(snapshot: &Snapshot, index: usize, setting: &Configured, name: &str) -> Option<DriftKind> {
    let Some(path) = path_of(setting, name) else { return tuned_option(snapshot, name) };
    if path.starts_with("/sys/kernel/debug") && snapshot.features.is_none() {
        // debugfs cannot be read, so nothing is known.
        return None;
    }
    if path.starts_with("/proc/sys") && !snapshot.settings.keys().any(|path| path.starts_with("/proc/sys")) {
        return None;
    }
    match snapshot.settings.get(&path) {
        Some(live) => not_in_force(snapshot, index, setting, live),
        None if has_no_single_value(&path) => None,
        None => Some(missing(snapshot, name, &path)),
    }
}

/// Why the running kernel lacks it, from the table if it knows.
fn missing(snapshot: &Snapshot, name: &str, path: &str) -> DriftKind {
    let Some(knob) = Knob::named(name) else { return DriftKind::Unknown };
    let elsewhere = knob.rows().find(|form| snapshot.settings.contains_key(form.path()));
    let facts = Facts::of_host(snapshot);
    let by_version = || facts.version().and_then(|version| knob.at(version, facts.distribution())?.form());
    match elsewhere.or_else(by_version) {
        // This version should have it: the kernel was built without it.
        Some(form) if form.path() == path => DriftKind::Unknown,
        Some(form) => DriftKind::Moved(form.path()),
        None => DriftKind::Gone(successor(knob)),
    }
}

fn successor(knob: Knob) -> Option<Knob> {
    knob.rows().find_map(Form::successor)
}

/// TuneD (2.16 and later) looks up the path of its own options. It skips options without a path, with only a debug
/// message.
fn tuned_option(snapshot: &Snapshot, name: &str) -> Option<DriftKind> {
    let knob = Knob::named(name)?;
    let facts = Facts::of_host(snapshot);
    tuned_at(knob, facts.version()?, &facts)
}

fn tuned_at(knob: Knob, version: Version, facts: &Facts<'_>) -> Option<DriftKind> {
    match knob.at(version, facts.distribution())? {
        Presence::Gone(_) => Some(match knob.renamed_to() {
            Some(next) => DriftKind::Translated(next.name()),
            None => DriftKind::Gone(successor(knob)),
        }),
        _ => None,
    }
}

/// Whether the last line for a sysctl differs from the current value.
fn not_in_force(snapshot: &Snapshot, index: usize, setting: &Configured, live: &str) -> Option<DriftKind> {
    if setting.by != ConfiguredBy::Sysctl {
        return None;
    }
    let same =
        |other: &Configured| matches!(other.by, ConfiguredBy::Sysctl | ConfiguredBy::Tuned) && other.key == setting.key;
    let is_last = !snapshot.configured[index + 1..].iter().any(same);
    let words = |text: &str| text.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>();
    (is_last && words(live) != words(&setting.value)).then(|| DriftKind::NotInForce(live.trim().to_owned()))
}

fn after(snapshot: &Snapshot, setting: &Configured, name: &str, version: Version) -> Option<DriftKind> {
    let knob = Knob::named(name)?;
    let facts = Facts::of_host(snapshot);
    let Some(path) = path_of(setting, name) else { return tuned_at(knob, version, &facts) };
    let now = facts.version().and_then(|now| knob.at(now, facts.distribution())).and_then(Presence::form);
    match knob.at(version, facts.distribution())? {
        Presence::Gone(_) | Presence::NotYet(_) => Some(DriftKind::Gone(successor(knob))),
        Presence::There(form) if !form.path().contains("{N}") && form.path() != path => {
            Some(DriftKind::Moved(form.path()))
        }
        Presence::There(form)
            if now.is_some_and(|now| now.meaning() != form.meaning() && now.kind() == form.kind()) =>
        {
            Some(DriftKind::Redefined(form.meaning()))
        }
        _ => None,
    }
}
