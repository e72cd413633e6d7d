//! Which host a file of a bundle is of: by the loggers' host names, and by the directories of sos, supportconfig, Harvester, Rancher
//! and must-gather.

use crate::fact::Facts;
use crate::join::Joined;
use crate::scan::{HostPart, Source};

/// A host with its facts.
pub struct Host {
    /// Its name, where a logger or a directory has it.
    pub name: Option<String>,
    /// All facts about it.
    pub facts: Facts,
    /// The texts that have them.
    pub sources: Vec<Source>,
}

/// A directory of a bundle that has the files of one host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostDirectory {
    /// The directory.
    path: String,
    /// The host.
    name: String,
}

// `sosreport-HOST-LABEL-CASE-2026-09-17-abcdefg`, `sosreport-HOST.123456-20260917101112`: sos/report/__init__.py.
pattern!(SOS = r"^sosreport-(?<host>[\w.-]+?)(?:[.-]\d{5,})?(?:-\d{4}-\d\d-\d\d-[a-z]{4,}.*|-\d{8,14}.*)$");
// `scc_HOST_260917_1011`, `nts_…` of SUSE's supportconfig.
pattern!(SUPPORTCONFIG = r"^(?:scc|nts)_(?<host>[\w.-]+)_\d{6}_\d{4}");
// `node-1.zip` in `nodes/` of Harvester's and Longhorn's bundles.
pattern!(PACKED = r"\.(?:zip|tar|tgz|tar\.\w+|txz)$");

impl HostDirectory {
    /// The directory of one host that a file is in: the innermost.
    pub fn of(file: &str) -> Option<HostDirectory> {
        let steps: Vec<&str> = file.split('/').collect();
        let of_step = |index: usize| {
            let step = *steps.get(index)?;
            let bare = PACKED.replace(step, "").into_owned();
            let named =
                SOS.captures(&bare).or_else(|| SUPPORTCONFIG.captures(&bare)).map(|found| found["host"].to_owned());
            let in_nodes = || (index > 0 && steps[index - 1] == "nodes" && !bare.is_empty()).then(|| bare.clone());
            Some(HostDirectory { path: steps[..=index].join("/"), name: named.or_else(in_nodes)? })
        };
        (0..steps.len().saturating_sub(1)).rev().find_map(of_step)
    }
}

/// The hosts of all texts.
#[derive(Default)]
pub struct Hosts {
    hosts: Vec<(Option<String>, Joined, Vec<Source>)>,
    /// Parts of texts about more hosts.
    left_out: u64,
}

/// Hosts of a bundle. Each new name is compared with all: a host may have its domain in one text and not in another.
const MAX_HOSTS: usize = 4096;

impl Hosts {
    /// Adds what a text says, by host. `keeps_all`: texts without any fact are listed, too.
    pub fn add(&mut self, directory: Option<&HostDirectory>, parts: Vec<HostPart>, keeps_all: bool) {
        let is_only = parts.len() == 1;
        for HostPart { host, facts, source } in parts {
            let by_directory = directory.map(|directory| directory.name.as_str());
            let is_its_own = |name: &str| is_only || host.as_deref().is_none_or(|host| is_same_host(host, name));
            let name = by_directory.filter(|name| is_its_own(name)).or(host.as_deref());
            let Some((_, joined, sources)) = self.place(name).and_then(|place| self.hosts.get_mut(place)) else {
                self.left_out += 1;
                continue;
            };
            if keeps_all || !source.kinds.is_empty() {
                sources.push(source);
            }
            joined.add(facts);
        }
    }

    /// Parts of texts that were left out because they are about more hosts than are kept.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    fn place(&mut self, name: Option<&str>) -> Option<usize> {
        let is_it = |known: &Option<String>| match (known.as_deref(), name) {
            (Some(known), Some(name)) => is_same_host(known, name),
            (known, name) => known == name,
        };
        let known = self.hosts.iter().position(|(known, ..)| is_it(known));
        if known.is_none() && self.hosts.len() < MAX_HOSTS {
            self.hosts.push((name.map(str::to_owned), Joined::default(), Vec::new()));
            return Some(self.hosts.len() - 1);
        }
        known
    }

    /// The hosts, those with a name first. Texts that name none are of the only host, if there is one.
    pub fn finish(mut self) -> Vec<Host> {
        self.hosts.sort_by_key(|(name, ..)| name.is_none());
        if let [(Some(_), one, sources), (None, ..)] = self.hosts.as_mut_slice() {
            let mut taken = std::mem::take(one);
            let mut listed = std::mem::take(sources);
            if let Some((_, unnamed, more)) = self.hosts.pop() {
                taken.add(unnamed.facts);
                listed.extend(more);
            }
            self.hosts[0].1 = taken;
            self.hosts[0].2 = listed;
        }
        let host = |(name, joined, sources): (Option<String>, Joined, Vec<Source>)| {
            let mut facts = joined.facts;
            facts.host = facts.host.take().or_else(|| name.clone());
            Host { name, facts, sources }
        };
        self.hosts
            .into_iter()
            .map(host)
            .filter(|host| !host.facts.is_empty() || host.facts.has_settings() || !host.sources.is_empty())
            .collect()
    }
}

/// Whether both are names of one host: one may have its domain.
fn is_same_host(one: &str, other: &str) -> bool {
    let is_short = |short: &str, long: &str| long.strip_prefix(short).is_some_and(|rest| rest.starts_with('.'));
    one == other || is_short(one, other) || is_short(other, one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_bundles_name_their_host() {
        let table = [
            ("sosreport-db-7-2026-09-17-kqwbxnm/var/log/messages", Some("db-7")),
            ("x.tar.xz/sosreport-db-7-03412345-2026-09-17-kqwbxnm/proc/cmdline", Some("db-7")),
            ("sosreport-db7.03412345-20260917101112/ps", Some("db7")),
            ("sosreport-db7-20260917101112.tar.xz/ps", Some("db7")),
            ("scc_sap1_260917_1011/messages.txt", Some("sap1")),
            ("supportbundle_x/nodes/node-2.zip/logs/kernel.log", Some("node-2")),
            ("must-gather/nodes/worker-0.example.com/dmesg", Some("worker-0.example.com")),
            ("must-gather/cluster-scoped-resources/core/nodes/worker-0.yaml", None),
            ("sosreport-a-2026-09-17-kqwbxnm/nodes/b/dmesg", Some("b")),
            ("var/log/messages", None),
            ("dmesg", None),
        ];
        for (file, host) in table {
            assert_eq!(HostDirectory::of(file).map(|found| found.name).as_deref(), host, "{file}");
        }
    }

    #[test]
    fn a_host_may_have_its_domain() {
        assert!(
            is_same_host("db", "db.example.com") && is_same_host("db.example.com", "db") && is_same_host("db", "db")
        );
        assert!(!is_same_host("db", "db2") && !is_same_host("db.east", "db.west"));
    }
}
