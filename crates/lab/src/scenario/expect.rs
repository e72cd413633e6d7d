//! The findings that `explain` must report for a scenario.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use unstarve_diagnose::report::FindingId;

/// What `explain` must report with the fault; for the healthy twin it must report nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// With the fault, the top finding is one of these; empty: nothing starves, `explain` must stay quiet. Absent, and
    /// no `all` either: not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<Vec<FindingId>>,
    /// Even with the fault there must be no warning or critical finding, as with an empty `finding`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quiet: bool,
    /// The top finding's victim.
    #[serde(default)]
    pub victim: Victim,
    /// Each must be among the top finding's culprits.
    #[serde(default)]
    pub culprit: Names,
    /// Each must be among the payers.
    #[serde(default, skip_serializing_if = "Names::is_empty")]
    pub payer: Names,
    /// Each must be among the warnings and critical findings, in any order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub all: Vec<Expected>,
    /// Maximum findings of any severity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_findings: Option<usize>,
    /// The metrics that matter, the first one most: shown first, compared first.
    #[serde(default)]
    pub metrics: Vec<String>,
}

/// One of several expected findings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// Its id.
    pub finding: FindingId,
    /// Its victim.
    #[serde(default)]
    pub victim: Victim,
    /// Each must be among its culprits.
    #[serde(default, skip_serializing_if = "Names::is_empty")]
    pub culprit: Names,
    /// Each must be among its payers.
    #[serde(default, skip_serializing_if = "Names::is_empty")]
    pub payer: Names,
}

/// Patterns for a victim's `kind`, `comm` and `work`; a string alone is its `comm`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Victim(pub BTreeMap<String, String>);

/// The keys of a victim.
pub(super) const VICTIM_KEYS: [&str; 3] = ["kind", "comm", "work"];

/// Patterns for names; a single one needs no brackets in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(pub Vec<String>);

impl Names {
    /// Whether it has no names.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Expect {
    /// The ids that the top finding may have: `None` if not judged, empty if there must be none.
    pub fn top(&self) -> Option<&[FindingId]> {
        if self.quiet { Some(&[]) } else { self.finding.as_deref() }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    Nothing(()),
    One(String),
    Many(Vec<String>),
}

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Names, D::Error> {
        let wrong = |_| serde::de::Error::custom("expected a name, or a list of names");
        Ok(Names(match OneOrMany::deserialize(deserializer).map_err(wrong)? {
            OneOrMany::Nothing(()) => Vec::new(),
            OneOrMany::One(name) => vec![name],
            OneOrMany::Many(names) => names,
        }))
    }
}

/// A list, or a string for a single name, as files have it.
impl Serialize for Names {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [] => serializer.serialize_none(),
            [one] => serializer.serialize_str(one),
            many => many.serialize(serializer),
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum VictimText {
    Comm(String),
    Keys(BTreeMap<String, String>),
}

impl<'de> Deserialize<'de> for Victim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Victim, D::Error> {
        let wrong = |_| serde::de::Error::custom("expected a name, or a table of `kind`, `comm` and `work`");
        Ok(Victim(match VictimText::deserialize(deserializer).map_err(wrong)? {
            VictimText::Comm(comm) => BTreeMap::from([("comm".to_owned(), comm)]),
            VictimText::Keys(keys) => keys,
        }))
    }
}

/// `rt-starvation of apisrv by rtmon`.
impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.finding.as_str())?;
        let victim: Vec<&str> = self.victim.0.values().map(String::as_str).collect();
        for (word, names) in [(" of ", victim.join(" ")), (" by ", self.culprit.0.join(", "))] {
            if !names.is_empty() {
                write!(f, "{word}{names}")?;
            }
        }
        let payers = self.payer.0.join(", ");
        if payers.is_empty() { Ok(()) } else { write!(f, ", paid by {payers}") }
    }
}
