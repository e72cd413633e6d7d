//! Reads scheduling directives of systemd units.

use std::collections::BTreeMap;

use unstarve_facts::kept::{kept_settings, names_setting};
use unstarve_facts::{Configured, ConfiguredBy};

use super::Gaps;
use super::configured::numbered;
use crate::Root;

/// In order of precedence (systemd.unit(5)): a unit's main file hides those in later directories, and so does a drop-in
/// for drop-ins of the same name.
const UNIT_DIRECTORIES: [&str; 8] = [
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// Directives of systemd.exec(5), systemd.resource-control(5) and systemd-system.conf(5) that affect scheduling.
const SCHEDULING_DIRECTIVES: [&str; 14] = [
    "CPUSchedulingPolicy",
    "CPUSchedulingPriority",
    "CPUSchedulingResetOnFork",
    "CPUAffinity",
    "CPUWeight",
    "StartupCPUWeight",
    "CPUShares",
    "CPUQuota",
    "CPUQuotaPeriodSec",
    "AllowedCPUs",
    "Nice",
    "Slice",
    "LimitRTPRIO",
    "LimitRTTIME",
];

/// Hosts have some hundreds of units.
const MAX_FILES: usize = 20_000;

pub(super) fn read(root: &Root, missing: &mut Gaps) -> Vec<Configured> {
    let files = files(root);
    let mut found = Vec::new();
    if files.len() >= MAX_FILES {
        missing.note("systemd units", format!("there are more than {MAX_FILES} files"));
    }
    for ((unit, _), file) in files {
        // A masked unit is a link to /dev/null, an enabled one a link into /usr/lib. Both can be read.
        if let Ok(text) = root.text(&file) {
            found.extend(lines(&unit, &file, &text));
        }
    }
    found
}

/// (unit, name of the drop-in or empty) → file. A unit's drop-ins come after its main file.
fn files(root: &Root) -> BTreeMap<(String, String), String> {
    let mut files = BTreeMap::new();
    for name in ["/etc/systemd/system.conf", "/usr/lib/systemd/system.conf"] {
        if root.is_file(name) {
            files.entry(("system.conf".to_owned(), String::new())).or_insert_with(|| name.to_owned());
        }
    }
    for directory in UNIT_DIRECTORIES {
        for name in root.names(directory).unwrap_or_default() {
            if files.len() >= MAX_FILES {
                return files;
            }
            if is_unit(&name) {
                files.entry((name.clone(), String::new())).or_insert_with(|| format!("{directory}/{name}"));
            } else if let Some(unit) =
                name.strip_suffix(".d").filter(|unit| is_unit(unit) || is_unit(&format!("x.{unit}")))
            {
                let drop_ins = root.names(&format!("{directory}/{name}")).unwrap_or_default();
                for drop_in in drop_ins.into_iter().filter(|drop_in| drop_in.ends_with(".conf")) {
                    let path = format!("{directory}/{name}/{drop_in}");
                    files.entry((unit.to_owned(), drop_in)).or_insert(path);
                }
            }
        }
    }
    files
}

fn is_unit(name: &str) -> bool {
    [".service", ".slice", ".scope"].iter().any(|suffix| name.ends_with(suffix))
}

fn lines(unit: &str, file: &str, text: &str) -> Vec<Configured> {
    numbered(text)
        .filter_map(|(line, text)| {
            let (key, value) = text.split_once('=')?;
            let (key, value) = (key.trim(), value.trim());
            // A service may write a setting itself.
            let writes = key.starts_with("Exec") && names_setting(value);
            let value = if writes { kept_settings(value) } else { value.to_owned() };
            (writes || SCHEDULING_DIRECTIVES.contains(&key)).then(|| Configured {
                by: ConfiguredBy::Unit,
                file: file.to_owned(),
                line: Some(line),
                owner: Some(unit.to_owned()),
                key: key.to_owned(),
                value,
            })
        })
        .collect()
}
