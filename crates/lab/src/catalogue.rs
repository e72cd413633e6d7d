//! The scenarios that come with unstarve.

use std::path::Path;

use crate::scenario::{Scenario, ScenarioError};

macro_rules! shipped {
    ($($name:literal)*) => {
        /// Name and text of each.
        const SHIPPED: &[(&str, &str)] = &[$(($name, include_str!(concat!("../scenarios/", $name, ".toml")))),*];
    };
}

shipped! {
    "randio" "spike" "oplog-ext4" "oplog-xfs" "kubepods" "kubepods-unwritten" "nfsd" "knfsd" "granularity-compile"
    "granularity-stream" "reactor" "reactor-heavy" "reactor-fair" "writeback" "log-sync-rt" "encrypted" "nvme-tcp" "btrfs"
    "heavy-neighbour" "softirq-beside-nice" "service-limit" "nested-limit" "throttled-lock" "idle-lock" "rcu-behind-rt"
    "fair-server" "long-call" "lazy-preemption" "reweight-lag" "fair-server-cost" "irq-thread" "napi-thread" "isolated-idle"
}

/// The names of the shipped scenarios, in the order of the published cases.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// The text of a shipped scenario, for users who want to copy and edit it.
pub fn text(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(shipped, _)| *shipped == name).map(|(_, text)| *text)
}

/// Finds a shipped scenario by name, or reads a user's own by path (anything with a `/` or ending in `.toml`).
pub fn find(name: &str) -> Result<Scenario, ScenarioError> {
    if name.contains('/') || name.ends_with(".toml") {
        return Scenario::read(Path::new(name));
    }
    let text = text(name).ok_or_else(|| ScenarioError {
        file: name.to_owned(),
        line: None,
        message: format!(
            "no such scenario; there are {}, or give a .toml file",
            names().collect::<Vec<_>>().join(", ")
        ),
    })?;
    Scenario::parse(&format!("{name}.toml"), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_shipped_scenarios_are_sound_and_bear_their_files_names() {
        for name in names() {
            let scenario = find(name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(scenario.name, name);
            assert!((0.5..=3.0).contains(&scenario.seconds), "{name} lasts {} s", scenario.seconds);
            assert!(!scenario.expect.metrics.is_empty(), "{name} names no metric that matters");
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = find("nope").expect_err("no such scenario").to_string();
        assert!(error.contains("kubepods") && error.contains("nope"), "{error}");
    }
}
