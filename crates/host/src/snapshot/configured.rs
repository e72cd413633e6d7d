//! Reads configured scheduling settings: sysctl files, TuneD, systemd units, the boot line.

use std::collections::BTreeMap;

use unstarve_facts::kept::{is_scheduling_key, parameters};
use unstarve_facts::{Configured, ConfiguredBy};

use super::{Gaps, tuned, units};
use crate::Root;

pub(super) fn read_all(root: &Root, cmdline: Option<&str>, missing: &mut Gaps) -> Vec<Configured> {
    let mut found = read_sysctl(root, missing);
    found.extend(tuned::read(root, missing));
    found.extend(units::read(root, missing));
    found.extend(read_boot(root, cmdline.unwrap_or_default()));
    found
}

/// In order of precedence: a file hides files of the same name in later directories (sysctl.d(5)).
const SYSCTL_DIRECTORIES: [&str; 5] =
    ["/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d"];

fn read_sysctl(root: &Root, missing: &mut Gaps) -> Vec<Configured> {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for directory in SYSCTL_DIRECTORIES {
        for name in root.names(directory).unwrap_or_default().into_iter().filter(|name| name.ends_with(".conf")) {
            files.entry(name).or_insert_with_key(|name| format!("{directory}/{name}"));
        }
    }
    // procps applies this file last. systemd reads it only through a link in sysctl.d, where it has been found already.
    const LAST: &str = "/etc/sysctl.conf";
    let is_known = |last| files.values().any(|path| root.identity(path) == Some(last));
    if root.identity(LAST).is_some_and(|last| !is_known(last)) {
        files.insert("\u{10ffff}".to_owned(), LAST.to_owned());
    }
    let mut found = Vec::new();
    for file in files.into_values() {
        match root.text(&file) {
            Ok(text) => found.extend(sysctl_lines(&file, &text)),
            Err(error) => missing.note(file, error),
        }
    }
    found
}

fn sysctl_lines(file: &str, text: &str) -> Vec<Configured> {
    numbered(text)
        .filter_map(|(line, text)| {
            let (key, value) = text.split_once('=')?;
            // A leading minus means that failure is not reported.
            let key = key.trim().trim_start_matches('-').replace('/', ".");
            is_scheduling_key(&key).then(|| Configured {
                by: ConfiguredBy::Sysctl,
                file: file.to_owned(),
                line: Some(line),
                owner: None,
                key,
                value: value.trim().to_owned(),
            })
        })
        .collect()
}

/// Lines that are not empty or comments, numbered from 1.
pub(super) fn numbered(text: &str) -> impl Iterator<Item = (u32, &str)> {
    let lines = text.lines().map(str::trim).zip(1..).map(|(text, line)| (line, text));
    lines.filter(|(_, text)| !text.is_empty() && !text.starts_with(['#', ';']))
}

/// Boot parameters in effect, then those in GRUB's configuration.
fn read_boot(root: &Root, cmdline: &str) -> Vec<Configured> {
    let mut found: Vec<Configured> =
        parameters(cmdline).map(|(key, value)| parameter("/proc/cmdline", None, key, value)).collect();
    let mut files = vec!["/etc/default/grub".to_owned()];
    let more = root.names("/etc/default/grub.d").unwrap_or_default();
    files.extend(more.iter().filter(|name| name.ends_with(".cfg")).map(|name| format!("/etc/default/grub.d/{name}")));
    for file in files {
        let Ok(text) = root.text(&file) else { continue };
        for (line, text) in numbered(&text) {
            let Some((key, value)) = text.split_once('=').filter(|(key, _)| key.contains("CMDLINE_LINUX")) else {
                continue;
            };
            let value = value.trim_matches(['"', '\'']).trim_start_matches(&format!("${key}"));
            found.extend(parameters(value).map(|(key, value)| parameter(&file, Some(line), key, value)));
        }
    }
    found
}

fn parameter(file: &str, line: Option<u32>, key: &str, value: &str) -> Configured {
    Configured {
        by: ConfiguredBy::Boot,
        file: file.to_owned(),
        line,
        owner: None,
        key: key.to_owned(),
        value: value.to_owned(),
    }
}
