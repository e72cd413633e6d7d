//! What this machine is called: in every episode, and in all that outputs send.

use std::collections::BTreeMap;

use unstarve_host::Root;

use crate::agent::board::Board;
use crate::episode::Episode;

/// What names the host instead of its own name: in a pod that is the pod's, and the manifests set this to the node's.
const HOST_VARIABLE: &str = "UNSTARVE_HOST";

/// The names of this machine, in this boot.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Machine {
    /// What the environment calls it; else the present name of uname(2) holds, which is often set after the start.
    pub named: Option<String>,
    /// machine-id(5), hashed for unstarve ([`unstarve_host::machine_id`]); `None` if it cannot be read, as in most containers.
    pub machine_id: Option<String>,
    /// The boot.
    pub boot_id: Option<String>,
    /// `[labels]` of the configuration.
    pub labels: BTreeMap<String, String>,
}

impl Machine {
    /// This machine, with the labels of a configuration.
    pub fn here(labels: &BTreeMap<String, String>) -> Machine {
        let named = std::env::var_os(HOST_VARIABLE).filter(|name| !name.is_empty());
        let named = named.map(|name| unstarve_model::clean(&name.to_string_lossy()).into_owned());
        Machine {
            named,
            machine_id: unstarve_host::machine_id(&Root::host()),
            boot_id: boot_id(),
            labels: labels.clone(),
        }
    }

    /// The host's name.
    pub fn host(&self) -> String {
        self.named.clone().unwrap_or_else(|| text(rustix::system::uname().nodename()))
    }

    /// The only watch of this machine, as a UUID: of the machine, else of this boot.
    pub fn instance(&self) -> Option<String> {
        let of_machine = self.machine_id.as_deref().and_then(|id| {
            let parts = [id.get(..8)?, id.get(8..12)?, id.get(12..16)?, id.get(16..20)?, id.get(20..)?];
            Some(parts.join("-"))
        });
        of_machine.or_else(|| self.boot_id.clone())
    }
}

/// The episode with this machine's names, and the kernel and the boot that are running now.
pub(crate) fn on_this_machine(episode: Episode, board: &Board) -> Episode {
    let machine = &board.read().machine;
    Episode {
        host: Some(machine.host()),
        machine_id: machine.machine_id.clone(),
        labels: machine.labels.clone(),
        kernel: Some(kernel()),
        boot_id: boot_id(),
        ..episode
    }
}

/// The running kernel's release, as in `uname -r`.
pub(crate) fn kernel() -> String {
    text(rustix::system::uname().release())
}

/// The id of this boot; `None` if it cannot be read.
pub(crate) fn boot_id() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(boot.trim().to_owned()).filter(|boot| !boot.is_empty())
}

/// A string of uname(2), with control characters escaped.
pub(crate) fn text(word: &std::ffi::CStr) -> String {
    unstarve_model::clean(&word.to_string_lossy()).into_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn an_episode_says_where_it_began_from_its_first_word_on() {
        let board = Board::default();
        let labels = BTreeMap::from([("site".to_owned(), "fra1".to_owned())]);
        let machine = Machine { named: Some("web1".into()), machine_id: Some(ID.into()), boot_id: None, labels };
        board.write(|published| published.machine = Arc::new(machine));
        let word = on_this_machine(Episode::default(), &board).announced();
        let json = serde_json::to_value(&word).expect("JSON");
        assert_eq!(json["host"], "web1");
        assert_eq!(json["machine_id"], ID);
        assert_eq!(json["labels"]["site"], "fra1");
    }

    #[test]
    fn the_host_is_that_of_uname_unless_the_environment_names_it() {
        let uname = text(rustix::system::uname().nodename());
        for (named, host) in [(Some("node-7".to_owned()), "node-7"), (None, uname.as_str())] {
            assert_eq!(Machine { named, ..Machine::default() }.host(), host);
        }
    }

    #[test]
    fn an_instance_is_a_uuid_of_the_machine_or_else_of_the_boot() {
        let boot = Some("6a1f3a0e-9c51-4f0c-8a53-0b9a3a1b7c55".to_owned());
        let of = |machine_id: Option<&str>, boot_id: &Option<String>| {
            let machine_id = machine_id.map(str::to_owned);
            Machine { machine_id, boot_id: boot_id.clone(), ..Machine::default() }.instance()
        };
        assert_eq!(of(Some(ID), &boot).as_deref(), Some("01234567-89ab-cdef-0123-456789abcdef"));
        assert_eq!(of(None, &boot), boot);
        assert_eq!(of(None, &None), None);
    }
}
