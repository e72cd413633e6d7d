//! The section `[metrics]`: what has a series of its own.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum pods and units with a name in each metric.
pub(super) const MOST_WORKLOADS: u32 = 100;
/// Maximum combinations of [`Blame::Worst`]; more than these are `all`.
pub(super) const MOST_BLAME: u32 = 100;

/// What has a series of its own in the metrics.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Metrics {
    /// What holds for the keys below that are not written.
    pub preset: Preset,
    /// Which combinations of victim, occupant and rule have a series: `"all"`, `"off"`, or how many, the worst. All others are summed up by
    /// rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blame: Option<Blame>,
    /// Whether waits have buckets by length, 13 series for each role. Without them there are their number and their sum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub histograms: Option<bool>,
    /// How many pods and units are named at a time in each metric that names them: the worst. All others are summed up.
    #[schemars(range(max = 100))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workloads: Option<u32>,
}

/// What holds for the keys of `[metrics]` that are not written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// All combinations, buckets, and 20 pods and units: for some hundred hosts.
    #[default]
    Full,
    /// The worst 10 combinations, no buckets, and 5 pods and units: for thousands of hosts.
    Thin,
}

/// Which combinations of victim, occupant and rule have a series.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blame {
    /// All, up to [`crate::agent::series::MAX_SERIES`].
    All,
    /// None: there is no such metric.
    Off,
    /// So many, the worst.
    Worst(u32),
}

/// What has a series of its own: a preset, with the keys that are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeriesLimits {
    /// Combinations of victim, occupant and rule.
    pub blame: Blame,
    /// Whether waits have buckets.
    pub histograms: bool,
    /// Pods and units with a name in each metric.
    pub workloads: u32,
}

impl Default for SeriesLimits {
    fn default() -> SeriesLimits {
        Metrics::default().limits()
    }
}

impl Metrics {
    /// What holds.
    pub fn limits(&self) -> SeriesLimits {
        let preset = match self.preset {
            Preset::Full => SeriesLimits { blame: Blame::All, histograms: true, workloads: 20 },
            Preset::Thin => SeriesLimits { blame: Blame::Worst(10), histograms: false, workloads: 5 },
        };
        SeriesLimits {
            blame: self.blame.unwrap_or(preset.blame),
            histograms: self.histograms.unwrap_or(preset.histograms),
            workloads: self.workloads.unwrap_or(preset.workloads),
        }
    }

    /// The same with every key.
    pub(super) fn in_full(&self) -> Metrics {
        let SeriesLimits { blame, histograms, workloads } = self.limits();
        Metrics { preset: self.preset, blame: Some(blame), histograms: Some(histograms), workloads: Some(workloads) }
    }

    /// The first key that is out of range, and why.
    pub(super) fn out_of_range(&self) -> Option<(&'static str, String)> {
        let limits = self.limits();
        let what = |value: u32, least: u32, most: u32| format!("{value} is out of range; expected {least} to {most}");
        match limits.blame {
            Blame::Worst(count) if !(1..=MOST_BLAME).contains(&count) => {
                return Some(("blame", what(count, 1, MOST_BLAME) + ", \"all\" or \"off\""));
            }
            _ => {}
        }
        (limits.workloads > MOST_WORKLOADS).then(|| ("workloads", what(limits.workloads, 0, MOST_WORKLOADS)))
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Count(u32),
    Word(String),
}

impl<'de> Deserialize<'de> for Blame {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Blame, D::Error> {
        let wrong = || D::Error::custom("expected \"all\", \"off\", or how many combinations, such as 10");
        match Written::deserialize(deserializer).map_err(|_| wrong())? {
            Written::Count(count) => Ok(Blame::Worst(count)),
            Written::Word(word) if word == "all" => Ok(Blame::All),
            Written::Word(word) if word == "off" => Ok(Blame::Off),
            Written::Word(_) => Err(wrong()),
        }
    }
}

impl Serialize for Blame {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Blame::All => serializer.serialize_str("all"),
            Blame::Off => serializer.serialize_str("off"),
            Blame::Worst(count) => serializer.serialize_u32(*count),
        }
    }
}

impl JsonSchema for Blame {
    fn schema_name() -> Cow<'static, str> {
        "Blame".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "enum": ["all", "off"] }, { "type": "integer", "minimum": 1, "maximum": MOST_BLAME }] })
    }
}
