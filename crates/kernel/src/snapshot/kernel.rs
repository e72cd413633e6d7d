use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;

use serde::{Deserialize, Serialize};

use super::Gaps;
use crate::Root;

/// Which kernel runs, and how it was started.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct KernelInfo {
    /// `uname -r`: `6.1.0-32-cloud-amd64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// `uname -v`: `#1 SMP PREEMPT_DYNAMIC Debian 6.1.129-1 (2025-03-06)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// `uname -m`: `x86_64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// `/proc/version_signature`, which only Ubuntu has: the last word is the upstream version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Of the kernel command line, the parameters about scheduling: the rest may hold addresses and keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cmdline: Option<String>,
    /// `none`, `integrity` or `confidentiality`. `None` when securityfs does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lockdown: Option<String>,
}

/// Options of the kernel's build that decide how it schedules; anything else of the configuration is left out.
const CONFIG_PREFIXES: [&str; 12] = [
    "HZ",
    "PREEMPT",
    "SCHED_",
    "RT_GROUP_SCHED",
    "CFS_BANDWIDTH",
    "FAIR_GROUP_SCHED",
    "NO_HZ",
    "IRQ_FORCED",
    "RCU_NOCB",
    "UCLAMP",
    "NUMA_BALANCING",
    "WQ_",
];

/// Whether a snapshot keeps the option of this name, if it is set.
pub(super) fn is_scheduling_option(name: &str) -> bool {
    CONFIG_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

pub(super) fn read(root: &Root, missing: &mut Gaps) -> KernelInfo {
    let lockdown = missing.text(root, "/sys/kernel/security/lockdown").and_then(|text| chosen(&text));
    KernelInfo {
        release: missing.text(root, "/proc/sys/kernel/osrelease"),
        version: missing.text(root, "/proc/sys/kernel/version"),
        // The file exists since 6.1; before, the syscall knows it, which says nothing about another root.
        machine: root.text("/proc/sys/kernel/arch").ok().or_else(|| machine_of_this_host(root)),
        signature: root.text("/proc/version_signature").ok(),
        cmdline: missing.text(root, "/proc/cmdline").map(|line| super::configured::kept_of(&line)),
        lockdown,
    }
}

/// The host's name; none where nobody has given it one.
pub(super) fn host_name(root: &Root) -> Option<String> {
    root.text("/proc/sys/kernel/hostname").ok().filter(|name| !name.is_empty() && name != "(none)")
}

fn machine_of_this_host(root: &Root) -> Option<String> {
    let here = root.path("/proc") == std::path::Path::new("/proc");
    here.then(|| rustix::system::uname().machine().to_string_lossy().into_owned())
}

/// The choice in brackets: `none [integrity] confidentiality`.
fn chosen(text: &str) -> Option<String> {
    let (_, tail) = text.split_once('[')?;
    Some(tail.split_once(']')?.0.to_owned())
}

/// The configuration from `/proc/config.gz` (CONFIG_IKCONFIG_PROC) or from the file that distributions install.
pub(super) fn read_config(root: &Root, missing: &mut Gaps) -> Option<BTreeMap<String, String>> {
    if let Ok(file) = File::open(root.path("/proc/config.gz")) {
        let mut text = String::new();
        match flate2::read::GzDecoder::new(file).take(MAX_CONFIG).read_to_string(&mut text) {
            Ok(_) => return Some(scheduling_options(&text)),
            Err(error) => missing.note("/proc/config.gz", error),
        }
    }
    let release = root.text("/proc/sys/kernel/osrelease").ok()?;
    let paths = [format!("/boot/config-{release}"), format!("/lib/modules/{release}/config")];
    let text = paths.iter().find_map(|path| root.text(path).ok());
    if text.is_none() {
        missing
            .note("kernel configuration", format!("neither /proc/config.gz nor {} can be read", paths.join(" nor ")));
    }
    text.map(|text| scheduling_options(&text))
}

/// A configuration has about 300 KB.
const MAX_CONFIG: u64 = 8 << 20;

fn scheduling_options(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| line.strip_prefix("CONFIG_")?.split_once('='))
        .filter(|(name, _)| is_scheduling_option(name))
        .map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned()))
        .collect()
}
