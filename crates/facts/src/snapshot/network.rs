use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A network interface, as far as it decides where packet work is done.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NetworkFacts {
    /// Its name.
    pub name: String,
    /// Whether packets are handled in threads (`napi/IF-N`) and not in softirqs; `None` before 5.12, which cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threaded: Option<bool>,
    /// Receive packet steering: queue → CPU mask as sysfs prints it; queues without are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rps: BTreeMap<String, String>,
    /// Whether a device is behind it; bridges, tunnels and the loopback have none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hardware: bool,
}
