//! The section `[tables]`: which Parquet files are written.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Length;

/// Sums of each interval as Parquet files, for questions about many hosts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Tables {
    /// Where they are written, below `v1/table=NAME/date=YYYY-MM-DD/hour=HH/`.
    pub directory: PathBuf,
    /// The length of an interval: a file for each table and interval.
    pub every: Length,
    /// Files are removed, the oldest first, when all of them are larger than this.
    #[schemars(range(min = 1))]
    pub mib: u64,
    /// Hours older than this are removed.
    pub age: Length,
    /// What this host is called by, beside its name: `site = "fra1"`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

impl Default for Tables {
    fn default() -> Tables {
        Tables {
            directory: PathBuf::from("/var/lib/unstarve/tables"),
            every: Length(Duration::from_secs(300)),
            mib: 256,
            age: Length(Duration::from_secs(14 * 86_400)),
            labels: BTreeMap::new(),
        }
    }
}

impl Tables {
    /// The first label that could be confused with others when labels are written side by side, and why.
    pub(super) fn bad_label(&self) -> Option<(&str, String)> {
        let is_name =
            |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
        let is_value = |text: &str| !text.contains([',', '=']) && !text.chars().any(char::is_control);
        let bad = self.labels.iter().find(|(key, value)| !is_name(key) || !is_value(value));
        bad.map(|(key, value)| {
            let expected = "expected a key of letters, digits and _-./ and a value without comma and =";
            (key.as_str(), format!("label `{key}` = `{value}`: {expected}"))
        })
    }
}
