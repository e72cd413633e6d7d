//! Scheduler feature bits, which share one file.

use super::Setting;

/// Paths of the features file: the second one up to 5.12.
pub const FILES: [&str; 2] = ["/sys/kernel/debug/sched/features", "/sys/kernel/debug/sched_features"];

pub(super) const FEATURES: Setting = Setting { paths: &FILES, ..Setting::PLAIN };

/// Whether a name, or a path however it is written, is that of the features file.
pub fn is_file(name: &str) -> bool {
    FILES.iter().any(|file| super::last_part(file) == super::last_part(name))
}

/// The state of a feature bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FeatureState {
    /// Set.
    On,
    /// Not set.
    Off,
}

impl FeatureState {
    /// The word in the features file: `WA_WEIGHT` or `NO_WA_WEIGHT`.
    pub fn word(self, name: &str) -> String {
        match self {
            FeatureState::On => name.to_owned(),
            FeatureState::Off => format!("NO_{name}"),
        }
    }
}

impl From<bool> for FeatureState {
    fn from(on: bool) -> FeatureState {
        if on { FeatureState::On } else { FeatureState::Off }
    }
}

/// The feature's name in a word of the file.
pub fn name_of(word: &str) -> &str {
    word.strip_prefix("NO_").unwrap_or(word)
}

/// A feature's word in the file's content.
pub fn word_in<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.split_ascii_whitespace().find(|word| name_of(word) == name)
}
