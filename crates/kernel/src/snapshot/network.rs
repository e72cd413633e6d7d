use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Gaps;
use crate::Root;

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

const DIRECTORY: &str = "/sys/class/net";

pub(super) fn read_all(root: &Root, missing: &mut Gaps) -> Vec<NetworkFacts> {
    let names = root.names(DIRECTORY).unwrap_or_else(|error| {
        missing.note(DIRECTORY, error);
        Vec::new()
    });
    // `bonding_masters` is a file beside the interfaces.
    let interfaces = names.into_iter().filter(|name| root.path(&format!("{DIRECTORY}/{name}")).is_dir());
    interfaces.map(|name| read_one(root, name)).collect()
}

fn read_one(root: &Root, name: String) -> NetworkFacts {
    let directory = format!("{DIRECTORY}/{name}");
    let threaded = root.text(&format!("{directory}/threaded")).ok();
    let queues = root.names(&format!("{directory}/queues")).unwrap_or_default();
    let steered = |queue: String| {
        let mask = root.text(&format!("{directory}/queues/{queue}/rps_cpus")).ok()?;
        mask.contains(|c: char| c != '0' && c != ',').then_some((queue, mask))
    };
    NetworkFacts {
        threaded: threaded.and_then(|text| text.trim().parse::<u32>().ok()).map(|number| number != 0),
        rps: queues.into_iter().filter_map(steered).collect(),
        hardware: root.path(&format!("{directory}/device")).exists(),
        name,
    }
}
