//! Scheduler feature bits by kernel version.

use crate::{FEATURES, Row, Version};

/// Whether a kernel has a scheduler feature bit, and its default.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FeatureState {
    /// Exists, on by default.
    On,
    /// Exists, off by default.
    Off,
    /// Does not exist.
    Absent,
    /// Depends on the build; the text says on what.
    Depends(&'static str),
    /// Unknown for this kernel; the text says what would decide it.
    Unknown(&'static str),
}

impl FeatureState {
    /// `on`, `off`, `-`, `depends`, `?`.
    pub fn word(self) -> &'static str {
        match self {
            FeatureState::On => "on",
            FeatureState::Off => "off",
            FeatureState::Absent => "-",
            FeatureState::Depends(_) => "depends",
            FeatureState::Unknown(_) => "?",
        }
    }
}

/// One state in a row: `6.6:1` from that series on, `6.12.96:0` from that level of its series on, `5.12..5.15:0` from
/// some series after 5.12, and certainly from 5.15 on.
struct Entry {
    not_before: Option<Version>,
    from: Version,
    state: FeatureState,
}

impl Entry {
    fn read(text: &str) -> Option<Entry> {
        let (when, state) = text.rsplit_once(':')?;
        let (not_before, from) = match when.split_once("..") {
            Some((first, last)) => (Some(first.parse().ok()?), last),
            None => (None, when),
        };
        Some(Entry { not_before, from: from.parse().ok()?, state: state_of(state)? })
    }

    /// `from 6.12.96: off`.
    fn line(&self) -> String {
        match self.not_before {
            None => format!("from {}: {}", self.from, self.state.word()),
            Some(first) => format!("from {} at the latest, not before {first}: {}", self.from, self.state.word()),
        }
    }
}

fn state_of(sign: &str) -> Option<FeatureState> {
    Some(match sign {
        "1" => FeatureState::On,
        "0" => FeatureState::Off,
        "-" => FeatureState::Absent,
        "*" => FeatureState::Depends("the architecture: on with CONFIG_HRTIMER_REARM_DEFERRED, as on x86"),
        "?" => FeatureState::Unknown("the changelog of this kernel: its stable series may have changed it"),
        _ => return None,
    })
}

fn entries(row: Row) -> impl Iterator<Item = Entry> {
    row.get("states").unwrap_or_default().split(' ').filter_map(Entry::read)
}

/// A row's history, a line for each change.
pub(super) fn history(row: Row) -> Vec<String> {
    entries(row).map(|entry| entry.line()).collect()
}

/// The feature's state in a kernel: that of its series at release, then changed by stable levels.
pub fn feature_at(row: Row, version: Version) -> FeatureState {
    const BETWEEN: &str = "the source of this kernel: it changed between two kernels that were read";
    const LEVEL: &str = "the stable level of this kernel: it changed within the series";
    let mut state = FeatureState::Absent;
    for entry in entries(row).filter(|entry| entry.from.patch.is_none()) {
        if version.is_at_least(entry.from.major, entry.from.minor) {
            state = entry.state;
        } else if entry.not_before.is_some_and(|first| version.is_at_least(first.major, first.minor)) {
            state = FeatureState::Unknown(BETWEEN);
        }
    }
    for entry in entries(row) {
        let same_series = (entry.from.major, entry.from.minor) == (version.major, version.minor);
        let Some(first) = entry.from.patch.filter(|_| same_series) else { continue };
        match version.patch {
            Some(level) if level >= first => state = entry.state,
            Some(_) => {}
            None if entry.state != state => return FeatureState::Unknown(LEVEL),
            None => {}
        }
    }
    state
}

/// The feature names in a row: one, or a pair if it was renamed.
pub(super) fn name(row: Row) -> &'static str {
    row.name().split([' ', '(']).next().unwrap_or_default()
}

/// Rows whose source is good enough to be reported.
pub(super) fn rows() -> impl Iterator<Item = Row> {
    FEATURES.rows().filter(|row| row.is_stated())
}

/// Whether any kernel has a feature bit of this name (without `NO_`).
pub fn is_feature(bare: &str) -> bool {
    rows().any(|row| name(row) == bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(row: Row, text: &str) -> FeatureState {
        feature_at(row, text.parse().expect("a version"))
    }

    #[test]
    fn every_state_is_that_of_every_tree_that_was_read() {
        for row in FEATURES.rows() {
            let states = row.get("states").expect("states").split(' ');
            assert_eq!(states.count(), entries(row).count(), "{}: unreadable", row.name());
            let trees: Vec<(&str, &str)> =
                row.get("trees").expect("trees").split(' ').filter_map(|text| text.rsplit_once(':')).collect();
            assert_eq!(trees.len(), 20, "{}", row.name());
            for (tree, sign) in trees {
                assert_eq!(Some(at(row, tree)), state_of(sign), "{} in {tree}", row.name());
            }
        }
    }

    #[test]
    fn what_is_not_known_is_neither_off_nor_absent() {
        let mut table =
            String::from("feature              5.4     5.10    5.10.40 5.15    6.1     6.6     6.12    6.18.44 7.2\n");
        for name in [
            "GENTLE_FAIR_SLEEPERS",
            "ALT_PERIOD",
            "PLACE_LAG",
            "PREEMPT_SHORT",
            "RT_RUNTIME_SHARE",
            "RT_PUSH_IPI",
            "SIS_UTIL",
            "NEXT_BUDDY",
            "HRTICK",
            "NI_RANDOM",
            "UTIL_EST_FASTUP",
        ] {
            let row = FEATURES.row(name).expect("a row");
            let states = ["5.4", "5.10", "5.10.40", "5.15", "6.1", "6.6", "6.12", "6.18.44", "7.2"]
                .map(|text| at(row, text).word());
            table += &format!("{name:<21}{}\n", states.map(|word| format!("{word:<8}")).concat().trim_end());
        }
        insta::assert_snapshot!(table, @"
        feature              5.4     5.10    5.10.40 5.15    6.1     6.6     6.12    6.18.44 7.2
        GENTLE_FAIR_SLEEPERS on      on      on      on      on      -       -       -       -
        ALT_PERIOD           -       ?       on      on      on      -       -       -       -
        PLACE_LAG            -       -       -       -       -       on      on      on      on
        PREEMPT_SHORT        -       -       -       -       -       -       on      on      on
        RT_RUNTIME_SHARE     ?       off     off     off     off     off     off     off     off
        RT_PUSH_IPI          on      ?       on      ?       ?       ?       ?       off     off
        SIS_UTIL             -       -       -       ?       on      on      on      on      on
        NEXT_BUDDY           off     off     off     off     off     off     off     off     off
        HRTICK               off     off     off     off     off     off     off     off     depends
        NI_RANDOM            -       -       -       -       ?       ?       ?       on      on
        UTIL_EST_FASTUP      -       on      on      on      on      on      -       -       -
        ");
    }
}
