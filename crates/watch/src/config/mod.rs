//! The configuration: one TOML file, each of whose keys has a default.

mod address;
mod error;
mod file;
mod length;

use std::path::{Path, PathBuf};
use std::time::Duration;

use unstarve_files::read_trusted;

pub use address::Address;
pub use error::ConfigError;
pub use file::{
    Config, Listen, Otlp, Recorder, RecorderMode, RoleThresholds, Sinks, Store, Syslog, Thresholds, Webhook,
};
pub use length::{Fraction, Length};

/// Where it is, if nothing else is asked for.
pub const DEFAULT_PATH: &str = "/etc/unstarve/watch.toml";

/// A configuration has some hundred bytes; one that is larger than this is something else.
const LARGEST: u64 = 1 << 20;

impl Config {
    /// Reads a file that nobody but root and the caller can have written: it says where root connects to and writes.
    ///
    /// # Errors
    /// If it cannot be read or trusted, or if something in it is wrong; says where.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let (_, bytes) = read_trusted(path, LARGEST).map_err(|error| ConfigError::of_trust(path, error))?;
        let text = String::from_utf8(bytes)
            .map_err(|error| ConfigError::Unreadable { path: path.to_owned(), source: std::io::Error::other(error) })?;
        Config::parse(path, &text)
    }

    /// The file's, or the default where there is none at the default place.
    ///
    /// # Errors
    /// As [`Config::load`]; a file that was named has to be there.
    pub fn find(path: Option<&Path>) -> Result<Config, ConfigError> {
        match path {
            Some(path) => Config::load(path),
            None => match Config::load(Path::new(DEFAULT_PATH)) {
                Err(error) if error.is_absent() => Ok(Config::default()),
                found => found,
            },
        }
    }

    /// Reads a text; `path` stands for the file in messages.
    ///
    /// # Errors
    /// If something in it is wrong; says where, and what was expected.
    pub fn parse(path: &Path, text: &str) -> Result<Config, ConfigError> {
        let config: Config =
            toml::from_str(text).map_err(|error| ConfigError::at(path, text, error.span(), error.message()))?;
        config.check().map_err(|(key, what)| ConfigError::at(path, text, place_of(text, key), &what))?;
        Ok(config)
    }

    /// The whole of it, with what was not written, as a file would say it.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }

    /// The JSON schema of such files.
    pub fn schema() -> String {
        let schema = schemars::schema_for!(Config);
        serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
    }

    /// What no single key shows: the key at fault, and what is wrong.
    fn check(&self) -> Result<(), (&'static str, String)> {
        if self.version != 1 {
            return Err(("version", format!("version {} is not known; expected 1", self.version)));
        }
        if let Address::Tcp(address) = &self.listen.address
            && !address.ip().is_loopback()
            && !self.listen.allow_remote
        {
            let what = format!(
                "{address} can be reached from other machines, and the page shows names of processes to everybody who \
                 asks; expected a loopback address or unix:PATH, or `allow-remote = true` beside it"
            );
            return Err(("address", what));
        }
        if let Some(role) = self.thresholds.unknown_role() {
            return Err(("role", format!("`{role}`: expected a name of at most 64 characters")));
        }
        let in_range = |name, value: Duration, least: Duration, most: Duration| {
            let what = || format!("{} is out of range; expected {} to {}", Length(value), Length(least), Length(most));
            if (least..=most).contains(&value) { Ok(()) } else { Err((name, what())) }
        };
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
        in_range("keep", self.recorder.keep.0, second, Duration::from_secs(600))?;
        in_range("after", self.recorder.after.0, Duration::ZERO, Duration::from_secs(60))?;
        in_range("every", self.store.every.0, second, 24 * hour)?;
        in_range("calm", self.thresholds.calm.0, second, hour)?;
        if let Some(otlp) = &self.otlp {
            in_range("interval", otlp.interval.0, second, hour)?;
        }
        Ok(())
    }
}

/// Where a key is written, if it is.
fn place_of(text: &str, key: &str) -> Option<std::ops::Range<usize>> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_start();
        let begin = at + line.len() - trimmed.len();
        let is_key = trimmed.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='));
        let is_table = trimmed.starts_with('[') && trimmed.contains(key);
        if is_key || is_table {
            return Some(begin..begin + key.len());
        }
        at += line.len();
    }
    None
}

/// Where a running watch has its socket and its lock: in memory, for root alone.
pub const STATE_DIRECTORY: &str = "/run/unstarve";

/// Where episodes are kept, if nothing else is asked for.
pub fn default_store() -> PathBuf {
    PathBuf::from("/var/lib/unstarve/watch")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(Path::new("watch.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_written_is_the_default() {
        assert_eq!(parse("version = 1\n"), Ok(Config::default()));
        assert_eq!(parse(""), Ok(Config::default()));
    }

    #[test]
    fn what_is_printed_reads_the_same() {
        let text = Config::default().to_toml();
        assert_eq!(parse(&text), Ok(Config::default()), "{text}");
    }

    #[test]
    fn everything_that_can_be_written_is_read() {
        let (on, off) =
            include_str!("../../../../examples/watch.toml").split_once("# Off without").expect("the example");
        let off: String =
            off.lines().skip(1).map(|line| format!("{}\n", line.trim_start_matches(['#', ' ']))).collect();
        let config = parse(&format!("{on}{off}")).expect("the example");
        assert!(config.otlp.is_some() && config.webhook.is_some());
        assert_ne!(config, Config::default());
        assert_eq!(parse(&config.to_toml()), Ok(config.clone()));
        let role = config.thresholds.of("ksoftirqd");
        assert_eq!(role.wait, Some(Length(Duration::from_millis(20))));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let cases = [
            ("version = 2", "watch.toml:1:1: version 2 is not known; expected 1"),
            ("verison = 1", "watch.toml:1:1: unknown field `verison`"),
            ("[recorder]\nkeep = \"10\"\n", "watch.toml:2:8: `10`: expected a time such as 250ms, 10s or 2m"),
            ("[recorder]\nkeep = \"11m\"\n", "watch.toml:2:1: 11m is out of range; expected 1s to 10m"),
            ("[listen]\naddress = \"0.0.0.0:9\"\n", "watch.toml:2:1: 0.0.0.0:9 can be reached from other machines"),
            (
                "[listen]\naddress = \"localhost\"\n",
                "watch.toml:2:11: `localhost`: expected an address such as 127.0.0.1:9846, unix:/PATH, or off",
            ),
            ("[thresholds]\nshare = 1.5\n", "watch.toml:2:9: 1.5: expected a part between 0 and 1"),
            (
                "[webhook]\nurl = \"ftp://x\"\n",
                "watch.toml:2:7: `ftp://x`: expected a URL that begins with http:// or https://",
            ),
            (
                "[recorder]\nmode = \"no\"\n",
                "watch.toml:2:8: unknown variant `no`, expected one of `always`, `armed`, `off`",
            ),
            ("a = [", "watch.toml:1:"),
        ];
        for (text, expected) in cases {
            let error = parse(text).expect_err(text);
            assert!(error.starts_with(expected), "{text}\n{error}\n{expected}");
        }
        assert!(parse("[listen]\naddress = \"0.0.0.0:9\"\nallow-remote = true\n").is_ok());
    }

    #[test]
    fn the_schema_names_every_key_of_the_example() {
        let schema = Config::schema();
        for line in include_str!("../../../../examples/watch.toml").lines() {
            if let Some((key, _)) = line.trim_start_matches("# ").split_once(" = ") {
                let key = key.rsplit('.').next().unwrap_or(key);
                assert!(schema.contains(&format!("\"{key}\"")), "{key}");
            }
        }
    }
}
