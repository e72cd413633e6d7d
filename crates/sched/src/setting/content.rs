//! The content of a setting's file.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The current or wanted content of a setting's file, as the kernel writes and reads it. Only the setting interprets it
/// ([`super::File`]): a revert must write exactly what was there, also a word that this program does not know.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Content(String);

/// No setting is longer.
const LONGEST_LINE: usize = 4096;

impl Content {
    /// A number, a list of CPUs or a word, without blanks around it.
    pub fn of(value: impl fmt::Display) -> Content {
        Content(value.to_string().trim().to_owned())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it can be written: one line, and no longer than any setting.
    pub fn is_line(&self) -> bool {
        !self.0.is_empty() && self.0.len() <= LONGEST_LINE && !self.0.contains(char::is_control)
    }

    /// Whether both mean the same state: files vary in tabs and blanks.
    pub fn same(&self, other: &Content) -> bool {
        self.0.split_whitespace().eq(other.0.split_whitespace())
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
