use std::collections::BTreeMap;
use std::io;

use super::Gaps;
use crate::Root;

/// Where the debugfs files of the scheduler are since 5.13 (commit 8a99b6833c88), and their features before.
const DEBUG: &str = "/sys/kernel/debug";
const SCHED_DEBUG: &str = "/sys/kernel/debug/sched";

/// Scheduler feature bits, from `sched/features` (5.13 and later) or `sched_features`.
pub(super) fn read_features(root: &Root, missing: &mut Gaps) -> Option<BTreeMap<String, bool>> {
    let text = root
        .text(&format!("{SCHED_DEBUG}/features"))
        .or_else(|error| root.text(&format!("{DEBUG}/sched_features")).map_err(|_| error));
    match text {
        Ok(text) => Some(text.split_ascii_whitespace().map(feature).collect()),
        Err(error) => {
            missing.note("scheduler features", why_no_debugfs(root, &error));
            None
        }
    }
}

/// `NO_` before a name means that it is off. (A feature could not itself begin with `NO_`.)
fn feature(word: &str) -> (String, bool) {
    match word.strip_prefix("NO_") {
        Some(name) => (name.to_owned(), false),
        None => (word.to_owned(), true),
    }
}

/// Says what a person can do, which the error number alone does not.
fn why_no_debugfs(root: &Root, error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::PermissionDenied {
        return crate::refusal(DEBUG, error);
    }
    match root.names(DEBUG) {
        Ok(names) if names.is_empty() => format!("debugfs is not mounted on {DEBUG}; mount it as root"),
        Ok(_) => format!("{error}: the kernel was built without CONFIG_SCHED_DEBUG"),
        Err(error) => format!("{DEBUG}: {error}"),
    }
}

/// Everything below these directories that is one short text file is a setting.
pub(super) fn read_all(root: &Root, missing: &mut Gaps) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    read_directory(root, "/proc/sys/kernel", is_scheduler_sysctl, &mut settings);
    if settings.is_empty() {
        missing.note("/proc/sys/kernel/sched_*", "none can be read");
    }
    read_directory(root, "/sys/module/workqueue/parameters", |_| true, &mut settings);
    let before = settings.len();
    // `debug` and `features` are no settings: a dump of megabytes, and what read_features reads.
    read_directory(root, SCHED_DEBUG, |name| !matches!(name, "debug" | "features"), &mut settings);
    if settings.len() == before {
        missing.note(format!("{SCHED_DEBUG}/*"), "see scheduler features");
    }
    // The servers have the same values on every CPU unless somebody changed one; they are read for each.
    for server in ["fair_server", "ext_server"] {
        let directory = format!("{SCHED_DEBUG}/{server}");
        for cpu in root.names(&directory).unwrap_or_default() {
            read_directory(root, &format!("{directory}/{cpu}"), |_| true, &mut settings);
        }
    }
    for single in ["/sys/devices/virtual/workqueue/cpumask", "/sys/kernel/realtime"] {
        insert(root, single, &mut settings);
    }
    settings
}

fn is_scheduler_sysctl(name: &str) -> bool {
    name.starts_with("sched_") || name.starts_with("numa_balancing") || name == "timer_migration"
}

fn read_directory(root: &Root, directory: &str, wanted: fn(&str) -> bool, settings: &mut BTreeMap<String, String>) {
    for name in root.names(directory).unwrap_or_default().iter().filter(|name| wanted(name)) {
        insert(root, &format!("{directory}/{name}"), settings);
    }
}

fn insert(root: &Root, path: &str, settings: &mut BTreeMap<String, String>) {
    // A directory or a write-only file is no setting: nothing is missing.
    if let Ok(text) = root.text(path) {
        settings.insert(path.to_owned(), text);
    }
}
