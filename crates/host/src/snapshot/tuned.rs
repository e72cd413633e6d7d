//! Reads the active TuneD profiles, as far as they contain known settings.

use unstarve_facts::kept::{is_scheduling_key, parameters};
use unstarve_facts::{Configured, ConfiguredBy};

use super::Gaps;
use super::configured::numbered;
use crate::Root;

/// Directories with profiles, the administrator's first (since TuneD 2.23 `profiles` in each).
const PROFILE_DIRECTORIES: [&str; 4] =
    ["/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned"];

/// Profiles include others; this ends cycles.
const MAX_INCLUDE_DEPTH: usize = 16;

pub(super) fn read(root: &Root, missing: &mut Gaps) -> Vec<Configured> {
    let Ok(active) = root.text("/etc/tuned/active_profile") else { return Vec::new() };
    let mut reader = Reader { root, missing, seen: Vec::new(), found: Vec::new() };
    for profile in active.split_ascii_whitespace() {
        reader.profile(profile, 0);
    }
    reader.found
}

struct Reader<'a> {
    root: &'a Root,
    missing: &'a mut Gaps,
    seen: Vec<String>,
    found: Vec<Configured>,
}

impl Reader<'_> {
    /// Reads a profile after the profiles it includes: the last value of a setting wins.
    fn profile(&mut self, name: &str, depth: usize) {
        let harmless = !name.is_empty() && !name.contains('/') && !name.starts_with('.');
        if !harmless || depth > MAX_INCLUDE_DEPTH || self.seen.iter().any(|seen| seen == name) {
            return;
        }
        self.seen.push(name.to_owned());
        let files = PROFILE_DIRECTORIES.map(|directory| format!("{directory}/{name}/tuned.conf"));
        let Some((file, text)) = files.into_iter().find_map(|file| self.root.text(&file).ok().map(|text| (file, text)))
        else {
            self.missing.note(format!("TuneD profile {name}"), "it is active, but its tuned.conf is nowhere");
            return;
        };
        for included in includes(&text) {
            self.profile(&included, depth + 1);
        }
        self.settings(&file, name, &text);
    }

    fn settings(&mut self, file: &str, profile: &str, text: &str) {
        let mut section = "";
        for (line, text) in numbered(text) {
            if let Some(name) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = name;
                continue;
            }
            let Some((key, value)) = text.split_once('=') else { continue };
            let (key, value) = (key.trim(), value.trim());
            let mut add = |key: &str, value: &str| {
                self.found.push(Configured {
                    by: ConfiguredBy::Tuned,
                    file: file.to_owned(),
                    line: Some(line),
                    owner: Some(profile.to_owned()),
                    key: key.to_owned(),
                    value: value.trim_matches('"').to_owned(),
                });
            };
            match section {
                "sysctl" if is_scheduling_key(&key.replace('/', ".")) => add(&key.replace('/', "."), value),
                "scheduler" if key.starts_with("sched_") || key.starts_with("group.") => add(key, value),
                "sysfs" if key.contains("/sched") || key.contains("/workqueue") => add(key, value),
                "bootloader" if key.starts_with("cmdline") => {
                    parameters(value.trim_matches('"').trim_start_matches('+'))
                        .for_each(|(name, value)| add(name, value));
                }
                _ => {}
            }
        }
    }
}

fn includes(text: &str) -> Vec<String> {
    let lines = numbered(text).filter_map(|(_, text)| text.strip_prefix("include")?.trim_start().strip_prefix('='));
    lines.flat_map(|names| names.split([',', ' '])).map(|name| name.trim().to_owned()).collect()
}
