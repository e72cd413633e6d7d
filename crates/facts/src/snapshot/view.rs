//! The viewpoint of a snapshot.

use serde::{Deserialize, Serialize};

/// The viewpoint from which a host was read: a container or an unprivileged user does not see everything.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct View {
    /// Whether process ids are those of the host. `None` if `/proc/self/ns` does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_processes: Option<bool>,
    /// Whether cgroup paths are those of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_cgroups: Option<bool>,
    /// Whether the snapshot was taken as root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<bool>,
    /// Whether names were replaced by pseudonyms ([`crate::Snapshot::redacted`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
}
