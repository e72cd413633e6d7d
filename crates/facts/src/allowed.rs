//! What a host, and the rights of a process on it, allow: the rows of `unstarve doctor`.

use serde::Serialize;

/// One thing that a host allows fully, partly or not at all.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Allowed {
    /// `kernel`, `record`, ….
    pub id: &'static str,
    /// Whether it is available.
    pub state: Availability,
    /// What was found.
    pub found: String,
    /// What does not work without it.
    pub without: &'static str,
    /// How to get it; absent if nothing is missing or nothing can be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub get: Option<String>,
}

/// How much of something is available.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Availability {
    /// All of it.
    Full,
    /// Some of it.
    Part,
    /// None of it.
    None,
}

impl Availability {
    /// As printed: `yes`, `part`, `no`.
    pub fn word(self) -> &'static str {
        match self {
            Availability::Full => "yes",
            Availability::Part => "part",
            Availability::None => "no",
        }
    }
}

impl Allowed {
    /// Fully available.
    pub fn yes(id: &'static str, found: impl Into<String>) -> Allowed {
        Allowed { id, state: Availability::Full, found: found.into(), without: "", get: None }
    }

    /// Not available.
    pub fn no(id: &'static str, found: impl Into<String>, without: &'static str, get: Option<String>) -> Allowed {
        Allowed { id, state: Availability::None, found: found.into(), without, get }
    }

    /// Partly available.
    pub fn part(id: &'static str, found: impl Into<String>, without: &'static str, get: Option<String>) -> Allowed {
        Allowed { state: Availability::Part, ..Allowed::no(id, found, without, get) }
    }
}
