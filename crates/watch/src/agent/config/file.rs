//! The file as written: the shape that serde reads and that the JSON schema is made from.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Address, Fraction, Length, Tables, default_store};

/// Configuration of `unstarve watch`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schemars(title = "unstarve watch configuration")]
pub struct Config {
    /// The version of this format: 1.
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// What an episode is.
    pub thresholds: Thresholds,
    /// The last seconds.
    pub recorder: Recorder,
    /// Where episodes are kept, and how many.
    pub store: Store,
    /// Metrics and the page.
    pub listen: Listen,
    /// Who gets a line for each episode.
    pub sinks: Sinks,
    /// Metrics pushed to an OpenTelemetry collector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otlp: Option<Otlp>,
    /// Episodes posted as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Webhook>,
    /// Sums of each interval as Parquet files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tables: Option<Tables>,
}

/// What an episode is. How bad it is decides one table (docs/verdict.md).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Thresholds {
    /// A single wait longer than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Length>,
    /// Within a second, all tasks of a role together wait for more than this part of it while others are preferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<Fraction>,
    /// A wait that has not ended and is longer than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest: Option<Length>,
    /// Within a second, waits longer than 24 ms take more than this part of it, while real-time tasks have the CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled: Option<Fraction>,
    /// A group that may have less than one CPU is stopped by its limit for more than this part of the time for which it would have run,
    /// had it been let.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Fraction>,
    /// A wait that has not ended, behind a task of the same weight that has had the CPU for longer than this without a break.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stuck: Option<Length>,
    /// A wait of a real-time task longer than this behind tasks of a lower class, which the kernel does not preempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_preempted: Option<Length>,
    /// A wait that has not ended and is longer than this, while its CPU is idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<Length>,
    /// Waits that the table of verdicts (docs/verdict.md) calls an alarm begin an episode, whatever the other thresholds, as far as counters know:
    /// programs behind real-time tasks, and many short waits. Not of roles for which `wait` or `oldest` is written, unless it is written for them.
    pub verdict: bool,
    /// An episode is over when nothing is above its threshold for so long.
    pub calm: Length,
    /// Other thresholds for some roles.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub role: BTreeMap<String, RoleThresholds>,
}

/// Thresholds of one role; what is not given is as for all.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct RoleThresholds {
    /// See the same key for all roles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Length>,
    /// See the same key for all roles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<Fraction>,
    /// See the same key for all roles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest: Option<Length>,
    /// See the same key for all roles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled: Option<Fraction>,
    /// See the same key for all roles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Fraction>,
    /// See the same key for all roles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stuck: Option<Length>,
    /// See the same key for all roles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_preempted: Option<Length>,
    /// See the same key for all roles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<Length>,
    /// See the same key for all roles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<bool>,
    /// Nothing that happens to it is an episode.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ignore: bool,
}

/// The flight recorder.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Recorder {
    /// When events are recorded.
    pub mode: RecorderMode,
    /// How much of the past a trace has.
    pub keep: Length,
    /// How long is recorded on after an episode has begun.
    pub after: Length,
    /// The kernel's memory for each CPU, in MiB; there are two such buffers. By default as much as fits in a 32nd of the memory, 16
    /// at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub buffer_mib: Option<u32>,
}

/// When events are recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RecorderMode {
    /// Always: what came before an episode is in its trace.
    #[default]
    Always,
    /// From half a threshold on, until it is calm.
    Armed,
    /// Never: episodes have no trace.
    Off,
}

/// Where episodes are kept.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Store {
    /// The directory.
    pub directory: PathBuf,
    /// The most that all episodes take, in MiB; the oldest go first.
    #[schemars(range(min = 1))]
    pub mib: u64,
    /// The most episodes.
    #[schemars(range(min = 1))]
    pub episodes: u32,
    /// At most one trace in this time; other episodes are counted.
    pub every: Length,
}

/// Metrics and the page.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Listen {
    /// `127.0.0.1:9846`, `unix:/PATH` or `off`.
    pub address: Address,
    /// Whether it may be an address that other machines reach. Anyone who reaches it can read names of processes.
    pub allow_remote: bool,
    /// The mode of a unix socket.
    #[schemars(with = "Option<String>")]
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "octal", serialize_with = "as_octal")]
    pub mode: Option<u32>,
}

/// Who gets a line for each episode.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Sinks {
    /// The system's log.
    pub log: Syslog,
}

/// The system's log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Syslog {
    /// The journal where there is one, else syslog, else standard error.
    #[default]
    Auto,
    /// systemd's journal.
    Journal,
    /// `/dev/log`.
    Syslog,
    /// Standard error.
    Stderr,
    /// None.
    Off,
}

/// Metrics pushed by OTLP over HTTP (protobuf).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Otlp {
    /// `http://127.0.0.1:4318/v1/metrics`.
    #[serde(deserialize_with = "url")]
    pub endpoint: String,
    /// How often.
    #[serde(default = "minute")]
    pub interval: Length,
    /// Further headers of each request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// Episodes posted as JSON.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Webhook {
    /// Where to.
    #[serde(deserialize_with = "url")]
    pub url: String,
    /// Further headers of each request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            version: 1,
            thresholds: Thresholds::default(),
            recorder: Recorder::default(),
            store: Store::default(),
            listen: Listen::default(),
            sinks: Sinks::default(),
            otlp: None,
            webhook: None,
            tables: None,
        }
    }
}

impl Default for Thresholds {
    /// Quiet on healthy machines. The kernel's own threads do little and are expected at once: what they wait for is felt by
    /// others. What users start is often meant to wait.
    fn default() -> Thresholds {
        Thresholds {
            wait: Some(millis(1000)),
            share: None,
            oldest: Some(millis(2000)),
            stalled: Some(Fraction(0.5)),
            stopped: Some(Fraction(0.65)),
            stuck: None,
            not_preempted: None,
            idle: Some(millis(48)),
            verdict: true,
            calm: Length(Duration::from_secs(5)),
            role: BTreeMap::new(),
        }
    }
}

impl Default for Recorder {
    fn default() -> Recorder {
        Recorder {
            mode: RecorderMode::Always,
            keep: Length(Duration::from_secs(10)),
            after: millis(500),
            buffer_mib: None,
        }
    }
}

impl Default for Store {
    fn default() -> Store {
        Store { directory: default_store(), mib: 1024, episodes: 200, every: minute() }
    }
}

impl Default for Listen {
    fn default() -> Listen {
        let address = Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 9846)));
        Listen { address, allow_remote: false, mode: None }
    }
}

fn millis(count: u64) -> Length {
    Length(Duration::from_millis(count))
}

fn minute() -> Length {
    Length(Duration::from_secs(60))
}

fn url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.starts_with("http://") || text.starts_with("https://") {
        true => Ok(text),
        false => Err(D::Error::custom(format!("`{text}`: expected a URL that begins with http:// or https://"))),
    }
}

fn octal<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let mode = u32::from_str_radix(&text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.map(Some).ok_or_else(|| D::Error::custom(format!("`{text}`: expected a file mode such as \"0660\"")))
}

fn as_octal<S: serde::Serializer>(mode: &Option<u32>, serializer: S) -> Result<S::Ok, S::Error> {
    match mode {
        Some(mode) => serializer.collect_str(&format_args!("{mode:04o}")),
        None => serializer.serialize_none(),
    }
}
