//! Reads the kernel's version, boot line and build configuration.

use std::collections::BTreeMap;
use std::io::Read;

use unstarve_facts::KernelInfo;
use unstarve_facts::kept::{boot_line, is_scheduling_option};

use super::Gaps;
use crate::Root;

pub(super) fn read(root: &Root, missing: &mut Gaps) -> KernelInfo {
    let lockdown = missing.text(root, "/sys/kernel/security/lockdown").and_then(|text| chosen(&text));
    KernelInfo {
        release: missing.text(root, "/proc/sys/kernel/osrelease"),
        version: missing.text(root, "/proc/sys/kernel/version"),
        // The file exists since 6.1. Before, only the system call knows, and only about this machine.
        machine: root.text("/proc/sys/kernel/arch").ok().or_else(|| machine_of_this_host(root)),
        signature: root.text("/proc/version_signature").ok(),
        cmdline: missing.text(root, "/proc/cmdline").map(|line| boot_line(&line)),
        lockdown,
    }
}

/// The host's name; `None` if it has none.
pub(super) fn host_name(root: &Root) -> Option<String> {
    root.text("/proc/sys/kernel/hostname").ok().filter(|name| !name.is_empty() && name != "(none)")
}

fn machine_of_this_host(root: &Root) -> Option<String> {
    root.is_host().then(|| rustix::system::uname().machine().to_string_lossy().into_owned())
}

/// The word in brackets: `none [integrity] confidentiality`.
fn chosen(text: &str) -> Option<String> {
    let (_, tail) = text.split_once('[')?;
    Some(tail.split_once(']')?.0.to_owned())
}

/// The build configuration, from `/proc/config.gz` (CONFIG_IKCONFIG_PROC) or from the file that distributions install.
pub(super) fn read_config(root: &Root, missing: &mut Gaps) -> Option<BTreeMap<String, String>> {
    if let Ok(file) = root.open("/proc/config.gz") {
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
