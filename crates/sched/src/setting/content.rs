use std::fmt;

use serde::{Deserialize, Serialize};

/// What the file of a setting holds or shall hold, as the kernel writes and reads it. What it means the setting alone says
/// ([`super::File`]): to take a change back, exactly what was there has to be written, also where no program knows the word.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Content(String);

/// No setting is longer.
const LONGEST_LINE: usize = 4096;

impl Content {
    /// A number, a list of CPUs, a word; without blanks around it.
    pub fn of(value: impl fmt::Display) -> Content {
        Content(value.to_string().trim().to_owned())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it can be written: one line, and not longer than a setting is.
    pub fn is_line(&self) -> bool {
        !self.0.is_empty() && self.0.len() <= LONGEST_LINE && !self.0.contains(char::is_control)
    }

    /// Whether both are the same state: files give back tabs and blanks as they like.
    pub fn same(&self, other: &Content) -> bool {
        self.0.split_whitespace().eq(other.0.split_whitespace())
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
