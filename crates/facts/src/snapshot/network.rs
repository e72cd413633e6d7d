//! Network interfaces in a snapshot.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A network interface, as far as it determines where packets are processed.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NetworkFacts {
    /// Its name.
    pub name: String,
    /// Whether packets are processed in threads (`napi/IF-N`) instead of softirqs; `None` before 5.12, which has no
    /// threaded NAPI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threaded: Option<bool>,
    /// Receive packet steering: queue → CPU mask as in sysfs; queues without a mask are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rps: BTreeMap<String, String>,
    /// Whether there is a device behind it; bridges, tunnels and loopback have none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hardware: bool,
}
