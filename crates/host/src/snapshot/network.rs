//! Reads network interfaces.

use unstarve_facts::NetworkFacts;

use super::Gaps;
use crate::Root;

const NET_DIRECTORY: &str = "/sys/class/net";

pub(super) fn read_all(root: &Root, missing: &mut Gaps) -> Vec<NetworkFacts> {
    let names = root.names(NET_DIRECTORY).unwrap_or_else(|error| {
        missing.note(NET_DIRECTORY, error);
        Vec::new()
    });
    // `bonding_masters` is a file in this directory.
    let interfaces = names.into_iter().filter(|name| root.is_dir(&format!("{NET_DIRECTORY}/{name}")));
    interfaces.map(|name| read_one(root, name)).collect()
}

fn read_one(root: &Root, name: String) -> NetworkFacts {
    let directory = format!("{NET_DIRECTORY}/{name}");
    let threaded = root.text(&format!("{directory}/threaded")).ok();
    let queues = root.names(&format!("{directory}/queues")).unwrap_or_default();
    let steered = |queue: String| {
        let mask = root.text(&format!("{directory}/queues/{queue}/rps_cpus")).ok()?;
        mask.contains(|c: char| c != '0' && c != ',').then_some((queue, mask))
    };
    NetworkFacts {
        threaded: threaded.and_then(|text| text.trim().parse::<u32>().ok()).map(|number| number != 0),
        rps: queues.into_iter().filter_map(steered).collect(),
        hardware: root.exists(&format!("{directory}/device")),
        name,
    }
}
