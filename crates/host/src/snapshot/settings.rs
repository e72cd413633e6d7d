//! Reads scheduler settings and feature bits.

use std::collections::BTreeMap;
use std::io;

use unstarve_facts::EXT_SCHEDULER_FILES;
use unstarve_sched::setting::tunable::has_no_single_value;
use unstarve_sched::setting::{File, feature};

use super::Gaps;
use crate::Root;

/// The scheduler's debugfs directory since 5.13 (commit 8a99b6833c88). Before, the features are in the directory above.
const DEBUGFS_DIRECTORY: &str = "/sys/kernel/debug";
const SCHED_DEBUG: &str = "/sys/kernel/debug/sched";

/// Scheduler feature bits, from `sched/features` (5.13 and later) or `sched_features`.
pub(super) fn read_features(root: &Root, missing: &mut Gaps) -> Option<BTreeMap<String, bool>> {
    let [now, before] = feature::FILES;
    let text = root.text(now).or_else(|error| root.text(before).map_err(|_| error));
    match text {
        Ok(text) => Some(text.split_ascii_whitespace().map(name_and_state).collect()),
        Err(error) => {
            missing.note("scheduler features", why_no_debugfs(root, &error));
            None
        }
    }
}

/// A leading `NO_` means off. (No feature's own name begins with `NO_`.)
fn name_and_state(word: &str) -> (String, bool) {
    let name = feature::name_of(word);
    (name.to_owned(), name == word)
}

/// Adds what the user can do, which the error number does not say.
fn why_no_debugfs(root: &Root, error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::PermissionDenied {
        return crate::refusal(DEBUGFS_DIRECTORY, error);
    }
    match root.names(DEBUGFS_DIRECTORY) {
        Ok(names) if names.is_empty() => format!("debugfs is not mounted on {DEBUGFS_DIRECTORY}; mount it as root"),
        Ok(_) => format!("{error}: the kernel was built without CONFIG_SCHED_DEBUG"),
        Err(error) => format!("{DEBUGFS_DIRECTORY}: {error}"),
    }
}

/// Every short text file below these directories is a setting.
pub(super) fn read_all(root: &Root, missing: &mut Gaps) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    read_directory(root, "/proc/sys/kernel", is_scheduler_sysctl, &mut settings);
    if settings.is_empty() {
        missing.note("/proc/sys/kernel/sched_*", "none can be read");
    }
    read_directory(root, "/sys/module/workqueue/parameters", |_| true, &mut settings);
    let before = settings.len();
    // The features are read by read_features.
    read_directory(root, SCHED_DEBUG, |name| !has_no_single_value(name), &mut settings);
    if settings.len() == before {
        missing.note(format!("{SCHED_DEBUG}/*"), "see scheduler features");
    }
    // The servers have the same values on every CPU unless somebody changed one, so all are read.
    for server in ["fair_server", "ext_server"] {
        let directory = format!("{SCHED_DEBUG}/{server}");
        for cpu in root.names(&directory).unwrap_or_default() {
            read_directory(root, &format!("{directory}/{cpu}"), |_| true, &mut settings);
        }
    }
    for single in ["/sys/devices/virtual/workqueue/cpumask", "/sys/kernel/realtime"].iter().chain(&EXT_SCHEDULER_FILES)
    {
        insert(root, single, &mut settings);
    }
    settings
}

fn is_scheduler_sysctl(name: &str) -> bool {
    File::at(&format!("/proc/sys/kernel/{name}")).is_some()
}

fn read_directory(root: &Root, directory: &str, wanted: fn(&str) -> bool, settings: &mut BTreeMap<String, String>) {
    for name in root.names(directory).unwrap_or_default().iter().filter(|name| wanted(name)) {
        insert(root, &format!("{directory}/{name}"), settings);
    }
}

fn insert(root: &Root, path: &str, settings: &mut BTreeMap<String, String>) {
    // Directories and write-only files are not settings; nothing is missing.
    if let Ok(text) = root.text(path) {
        settings.insert(path.to_owned(), text);
    }
}
