use serde::{Deserialize, Serialize};

/// From where a host was seen: what a container or an ordinary user cannot see is not on the list of what is there.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct View {
    /// Whether the process ids are those of the host. `None` if `/proc/self/ns` does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_processes: Option<bool>,
    /// Whether the cgroups are those of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_cgroups: Option<bool>,
    /// Whether it was taken as root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<bool>,
    /// Whether names were replaced by pseudonyms ([`crate::Snapshot::redacted`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
}
