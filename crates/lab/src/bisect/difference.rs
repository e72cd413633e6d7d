//! Lists the differences between two sides as single changes.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use unstarve_facts::Snapshot;

use crate::run::Request;

/// The settings of a kernel: a knob's name as in `--set`, and its value.
pub type Settings = BTreeMap<String, String>;

/// One step from side A towards side B.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// The fault is present or absent.
    Fault {
        /// On side B.
        present: bool,
    },
    /// Another remedy or none.
    Remedy {
        /// On side B.
        id: Option<String>,
    },
    /// A knob gets another value.
    Knob {
        /// Its name.
        name: String,
        /// On A, where it is known.
        from: Option<String>,
        /// On B.
        to: String,
    },
    /// A knob that A sets keeps its default.
    Unset {
        /// Its name.
        name: String,
        /// What A sets.
        from: String,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Fault { present: true } => f.write_str("the scenario's fault"),
            Change::Fault { present: false } => f.write_str("without the scenario's fault"),
            Change::Remedy { id: Some(id) } => write!(f, "remedy {id}"),
            Change::Remedy { id: None } => f.write_str("without the remedy"),
            Change::Knob { name, from: Some(from), to } => write!(f, "{name}: {from} -> {to}"),
            Change::Knob { name, from: None, to } => write!(f, "{name}={to}"),
            Change::Unset { name, from } => write!(f, "{name}={from} -> left alone"),
        }
    }
}

/// What differs between two sides.
pub(super) struct Differences {
    /// The differences that can be set on A's kernel.
    pub(super) changes: Vec<Change>,
    /// The differences that cannot, in words.
    pub(super) out_of_reach: Vec<String>,
}

fn value<'a>(knobs: &'a [(String, String)], name: &str) -> Option<&'a String> {
    knobs.iter().find(|(known, _)| known == name).map(|(_, value)| value)
}

/// The differences between two requests.
pub(super) fn of_requests(from: &Request, to: &Request) -> Vec<Change> {
    let mut changes = Vec::new();
    if from.fault != to.fault {
        changes.push(Change::Fault { present: to.fault });
    }
    if from.remedy != to.remedy {
        changes.push(Change::Remedy { id: to.remedy.clone() });
    }
    for (name, wanted) in &to.knobs {
        let before = value(&from.knobs, name);
        if before != Some(wanted) {
            changes.push(Change::Knob { name: name.clone(), from: before.cloned(), to: wanted.clone() });
        }
    }
    let left_alone = from.knobs.iter().filter(|(name, _)| value(&to.knobs, name).is_none());
    changes.extend(left_alone.map(|(name, from)| Change::Unset { name: name.clone(), from: from.clone() }));
    changes
}

/// Adds the differences between two kernels' settings; a setting that only one kernel has is out of reach.
pub(super) fn of_kernels(mut changes: Vec<Change>, on_a: &Settings, on_b: &Settings) -> Differences {
    let asked: Vec<String> = changes
        .iter()
        .filter_map(|change| match change {
            Change::Knob { name, .. } | Change::Unset { name, .. } => Some(name.clone()),
            _ => None,
        })
        .collect();
    for (name, from) in on_a.iter().filter(|(name, _)| !asked.contains(name)) {
        if let Some(to) = on_b.get(name).filter(|to| *to != from) {
            changes.push(Change::Knob { name: name.clone(), from: Some(from.clone()), to: to.clone() });
        }
    }
    let only = |these: &Settings, those: &Settings, side: &str| {
        let names: Vec<&str> = these
            .keys()
            .filter(|name| !those.contains_key(*name))
            .map(|name| name.rsplit('.').next().unwrap_or(name))
            .collect();
        (!names.is_empty()).then(|| format!("only {side}'s kernel has {}", names.join(", ")))
    };
    let out_of_reach = only(on_a, on_b, "A").into_iter().chain(only(on_b, on_a, "B")).collect();
    Differences { changes, out_of_reach }
}

/// The request with the changes applied.
pub(super) fn apply<'c>(request: &Request, changes: impl Iterator<Item = &'c Change>) -> Request {
    let mut request = request.clone();
    for change in changes {
        match change {
            Change::Fault { present } => request.fault = *present,
            Change::Remedy { id } => request.remedy.clone_from(id),
            Change::Knob { name, to, .. } => {
                request.knobs.retain(|(known, _)| known != name);
                request.knobs.push((name.clone(), to.clone()));
            }
            Change::Unset { name, .. } => request.knobs.retain(|(known, _)| known != name),
        }
    }
    request
}

/// The knobs whose values a host snapshot contains: scheduler features, `sched_*` sysctls, debugfs `sched/`.
pub fn settings_of(snapshot: &Snapshot) -> Settings {
    let features = snapshot
        .features
        .iter()
        .flatten()
        .map(|(name, on)| (format!("sched_feature.{name}"), if *on { "on" } else { "off" }.to_owned()));
    let files = snapshot.settings.iter().filter_map(|(path, text)| Some((knob_of(path)?, chosen(text).to_owned())));
    features.chain(files).collect()
}

/// The knob's name of a setting's path.
fn knob_of(path: &str) -> Option<String> {
    if let Some(rest) = path.strip_prefix("/proc/sys/") {
        return Some(format!("sysctl.{}", rest.replace('/', ".")));
    }
    path.strip_prefix("/sys/kernel/debug/").map(|rest| format!("debugfs.{rest}"))
}

/// `none (voluntary) full` → `voluntary`: the selected choice of a file that lists its choices.
fn chosen(text: &str) -> &str {
    let chosen = text.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map(|(chosen, _)| chosen);
    chosen.unwrap_or_else(|| text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_tells_knobs_as_they_are_set() {
        let json = r#"{"schema":"unstarve.snapshot/1","kernel":{"release":"6.12.107"},
            "features":{"WA_IDLE":true,"NEXT_BUDDY":false},
            "settings":{"/proc/sys/kernel/sched_rr_timeslice_ms":"100\n","/sys/kernel/debug/sched/base_slice_ns":"700000",
            "/sys/kernel/debug/sched/preempt":"none (voluntary) full","/sys/module/workqueue/parameters/x":"1"}}"#;
        let settings = settings_of(&Snapshot::from_json(json).expect("a snapshot"));
        let shown: Vec<String> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        insta::assert_snapshot!(shown.join("\n"), @"
        debugfs.sched/base_slice_ns=700000
        debugfs.sched/preempt=voluntary
        sched_feature.NEXT_BUDDY=off
        sched_feature.WA_IDLE=on
        sysctl.kernel.sched_rr_timeslice_ms=100
        ");
    }
}
