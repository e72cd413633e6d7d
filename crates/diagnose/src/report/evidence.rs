//! What a report was concluded from, where that was no recording.

use serde::{Deserialize, Serialize};

use super::Verdict;

/// The texts of logs and tools, and what would say more.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Evidence {
    /// What was read.
    pub sources: Vec<EvidenceSource>,
    /// Commands that show what the texts do not, most useful first.
    pub next: Vec<NextStep>,
    /// Other hosts of the same texts, worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherHost>,
}

/// What the texts prove of another host.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct OtherHost {
    /// The host; empty where no text names it.
    pub host: String,
    /// The answer.
    pub verdict: Verdict,
}

/// A text that was read.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct EvidenceSource {
    /// The file.
    pub name: String,
    /// What was found in it: `kernel log`, `list of threads (ps)`.
    pub kinds: Vec<String>,
    /// Its lines.
    pub lines: u64,
}

/// A command that shows more.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct NextStep {
    /// What it is good for.
    pub why: String,
    /// The command.
    pub command: String,
}
