//! The configuration: one TOML file, in which each key has a default.

mod address;
mod error;
mod file;
mod labels;
mod metrics;
mod tables;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use unstarve_files::read_trusted;

pub use address::Address;
pub use error::ConfigError;
pub use file::{Config, Listen, Otlp, Recorder, RecorderMode, Sinks, Store, Syslog, Webhook};
pub use labels::{Labels, label_word};
pub use metrics::{Blame, Metrics, Preset, SeriesLimits};
pub use tables::Tables;

pub use crate::episode::settings::{Fraction, Length, RoleThresholds, Thresholds, parse_time};

/// The path unless another one is given.
pub const DEFAULT_PATH: &str = "/etc/unstarve/watch.toml";

/// Maximum size; a configuration has some hundred bytes.
const LARGEST: u64 = 1 << 20;

impl Config {
    /// Reads a file that only root and the caller can have written: it decides where root connects to and writes.
    ///
    /// # Errors
    /// If it cannot be read, is not trusted, or is invalid; says where.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let refused = |error| match path.is_dir() {
            true => ConfigError::Directory { path: path.to_owned() },
            false => ConfigError::of_trust(path, error),
        };
        let (_, bytes) = read_trusted(path, LARGEST).map_err(refused)?;
        let text = String::from_utf8(bytes)
            .map_err(|error| ConfigError::Unreadable { path: path.to_owned(), source: std::io::Error::other(error) })?;
        Config::parse(path, &text)
    }

    /// Reads the file, or returns the defaults if the default path does not exist.
    ///
    /// # Errors
    /// As [`Config::load`]; a file that was named must exist.
    pub fn find(path: Option<&Path>) -> Result<Config, ConfigError> {
        match path {
            Some(path) => Config::load(path),
            None => match Config::load(Path::new(DEFAULT_PATH)) {
                Err(error) if error.is_absent() => Ok(Config::default()),
                found => found,
            },
        }
    }

    /// The store named in a file that [`Config::find`] refuses for other contents. `None` if the file is not TOML, names no store, or is not
    /// trusted.
    pub fn store_named_in(path: Option<&Path>) -> Option<PathBuf> {
        let (_, bytes) = read_trusted(path.unwrap_or(Path::new(DEFAULT_PATH)), LARGEST).ok()?;
        let table: toml::Table = toml::from_str(std::str::from_utf8(&bytes).ok()?).ok()?;
        Some(PathBuf::from(table.get("store")?.get("directory")?.as_str()?)).filter(|store| store.is_absolute())
    }

    /// Whether [`Config::find`] finds no file and returns the defaults.
    pub fn has_none(path: Option<&Path>) -> bool {
        path.is_none() && !Path::new(DEFAULT_PATH).exists()
    }

    /// Parses a text; `path` stands for the file in messages.
    ///
    /// # Errors
    /// If it is invalid; says where, and what was expected.
    pub fn parse(path: &Path, text: &str) -> Result<Config, ConfigError> {
        let mut config: Config =
            toml::from_str(text).map_err(|error| ConfigError::at(path, text, error.span(), error.message()))?;
        config.move_old_labels();
        config.check().map_err(|(key, what)| ConfigError::at(path, text, key.place_in(text), &what))?;
        Ok(config)
    }

    /// Labels of `[tables.labels]` become labels of the whole watch; of a key in both places `[labels]` holds.
    fn move_old_labels(&mut self) {
        let old = self.tables.as_mut().map(|tables| std::mem::take(&mut tables.labels)).unwrap_or_default();
        self.has_old_labels = !old.is_empty();
        for (key, value) in old {
            self.labels.entry(key).or_insert(value);
        }
    }

    /// What still works and should be written otherwise, for people.
    pub fn remarks(&self) -> impl Iterator<Item = &'static str> {
        let old_labels =
            "[tables.labels] is the old place of [labels], and is still read: move it, labels are in all outputs now";
        self.has_old_labels.then_some(old_labels).into_iter()
    }

    /// Writes tables to this directory, if one is given; other settings of tables stay unchanged.
    pub fn write_tables_in(&mut self, directory: Option<&Path>) {
        if let Some(directory) = directory {
            self.tables.get_or_insert_default().directory = directory.to_owned();
        }
    }

    /// The configuration as TOML, including defaults.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }

    /// All effective settings as TOML: including defaults, the thresholds of each role, and what is off. Secrets are not shown.
    pub fn in_full(&self) -> String {
        let thresholds = self.thresholds.in_full();
        let full = Config { thresholds, metrics: self.metrics.in_full(), ..self.clone() }.without_secrets();
        let mut text = full.to_toml();
        let absent = [
            (
                self.recorder.buffer_mib.is_none(),
                "[recorder] buffer-mib: as much as fits in a 32nd of the memory, 16 at most",
            ),
            (self.listen.mode.is_none(), "[listen] mode: 0600, of a unix socket"),
            (self.otlp.is_none(), "[otlp]: off, no endpoint"),
            (self.webhook.is_none(), "[webhook]: off, no url"),
            (self.tables.is_none(), "[tables]: off"),
            (self.labels.is_empty(), "[labels]: none"),
        ];
        for (_, what) in absent.into_iter().filter(|(is_absent, _)| *is_absent) {
            text += &format!("# {what}\n");
        }
        self.remarks().for_each(|remark| text += &format!("# {remark}\n"));
        text
    }

    /// The JSON schema of the configuration file.
    pub fn schema() -> String {
        let schema = schemars::schema_for!(Config);
        serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
    }

    /// Checks conditions that involve several keys; returns the key at fault, and the reason.
    fn check(&self) -> Result<(), (Key<'_>, String)> {
        if self.version != 1 {
            return Err((Key::Named("version"), format!("version {} is not known; expected 1", self.version)));
        }
        if let Address::Tcp(address) = &self.listen.address
            && !address.ip().is_loopback()
            && !self.listen.allow_remote
        {
            let what = format!(
                "{address} can be reached from other machines, and the page shows names of processes to everybody who \
                 asks; expected a loopback address or unix:PATH, or `allow-remote = true` beside it"
            );
            return Err((Key::Named("address"), what));
        }
        if let Some((role, what)) = self.thresholds.unknown_role() {
            return Err((Key::Role(role), what));
        }
        let in_range = |section, name, value: Duration, least: Duration, most: Duration| {
            let what = || format!("{} is out of range; expected {} to {}", Length(value), Length(least), Length(most));
            if (least..=most).contains(&value) { Ok(()) } else { Err((Key::Of(section, name), what())) }
        };
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
        in_range("recorder", "keep", self.recorder.keep.0, second, Duration::from_secs(600))?;
        in_range("recorder", "after", self.recorder.after.0, Duration::ZERO, Duration::from_secs(60))?;
        in_range("store", "every", self.store.every.0, second, 24 * hour)?;
        in_range("thresholds", "calm", self.thresholds.calm.0, second, hour)?;
        if let Some(mib) = self.recorder.buffer_mib.filter(|mib| !(1..=1024).contains(mib)) {
            return Err((Key::Of("recorder", "buffer-mib"), format!("{mib} is out of range; expected 1 to 1024")));
        }
        if let Some((key, what)) = self.metrics.out_of_range() {
            return Err((Key::Of("metrics", key), what));
        }
        if let Some((key, what)) = labels::bad_label(&self.labels) {
            return Err((Key::Named(key), what));
        }
        is_absolute("store", &self.store.directory)?;
        if let Some(tables) = &self.tables {
            if tables.mib == 0 {
                return Err((Key::Of("tables", "mib"), "0 is out of range; expected 1 or more".to_owned()));
            }
            in_range("tables", "every", tables.every.0, 10 * second, hour)?;
            in_range("tables", "age", tables.age.0, hour, 366 * 24 * hour)?;
            is_absolute("tables", &tables.directory)?;
        }
        if let Some(otlp) = &self.otlp {
            in_range("otlp", "interval", otlp.interval.0, second, hour)?;
        }
        Ok(())
    }
}

/// A service has no useful working directory for relative paths.
fn is_absolute<'a>(section: &'a str, directory: &Path) -> Result<(), (Key<'a>, String)> {
    if directory.is_absolute() {
        return Ok(());
    }
    let what = format!("`{}` is relative; expected an absolute path such as /var/lib/unstarve", directory.display());
    Err((Key::Of(section, "directory"), what))
}

/// A key that is at fault.
#[derive(Clone, Copy, Debug)]
enum Key<'a> {
    /// A key at the top level.
    Named(&'a str),
    /// A key of a section.
    Of(&'a str, &'a str),
    /// The name of a role.
    Role(&'a str),
}

impl Key<'_> {
    /// The place where the key is written, if it is.
    fn place_in(self, text: &str) -> Option<Range<usize>> {
        let mut at = 0;
        let mut section = "";
        for line in text.split_inclusive('\n') {
            if let Some(header) = line.trim().strip_prefix('[').and_then(|line| line.split_once(']')) {
                section = header.0.trim();
            }
            let found = match self {
                Key::Named(key) => named_in(line, key),
                Key::Of(of, key) if section == of => named_in(line, key),
                Key::Of(of, key) if section.is_empty() => named_in(line, &format!("{of}.{key}")),
                Key::Of(..) => None,
                Key::Role(role) => role_in(line, role),
            };
            if let Some(found) = found {
                return Some(at + found.start..at + found.end);
            }
            at += line.len();
        }
        None
    }
}

fn named_in(line: &str, key: &str) -> Option<Range<usize>> {
    let trimmed = line.trim_start();
    let begin = line.len() - trimmed.len();
    let is_key = trimmed.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='));
    is_key.then_some(begin..begin + key.len())
}

/// Finds `[thresholds.role.NAME]`, `role.NAME.wait = …`, or `NAME = { … }` below `[thresholds.role]`; NAME may be quoted.
fn role_in(line: &str, role: &str) -> Option<Range<usize>> {
    let keys = match line.trim_start().strip_prefix('[') {
        Some(_) => line,
        None => line.split_once('=')?.0,
    };
    let is_end = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '-' && c != '_' && c != '/');
    let is_whole = |at: usize| is_end(keys[..at].chars().next_back()) && is_end(keys[at + role.len()..].chars().next());
    let at = keys.match_indices(role).map(|(at, _)| at).find(|at| is_whole(*at))?;
    Some(at..at + role.len())
}

/// The directory of a running watch's socket and lock: in memory, for root only.
pub const STATE_DIRECTORY: &str = "/run/unstarve";

/// The directory of episodes unless another one is configured.
pub fn default_store() -> PathBuf {
    PathBuf::from("/var/lib/unstarve/watch")
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
