//! The file as written: the shape that serde reads and that the JSON schema is made from.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use unstarve_model::clean;
use ureq::http::uri::Authority;
use ureq::http::{HeaderName, HeaderValue, Uri};

use super::{Address, Labels, Metrics, Tables, default_store};
use crate::agent::outputs::origin;
use crate::agent::store::Limits;
use crate::episode::settings::{Length, Thresholds};

/// Configuration of `unstarve watch`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schemars(title = "unstarve watch configuration")]
pub struct Config {
    /// The version of this format: 1.
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// What this host is called by, beside its name: `site = "fra1"`. They are in every episode and in all that outputs send.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: Labels,
    /// Whether labels were written in their old place, `[tables.labels]`.
    #[serde(skip)]
    pub has_old_labels: bool,
    /// What an episode is.
    pub thresholds: Thresholds,
    /// The last seconds.
    pub recorder: Recorder,
    /// Where episodes are kept, and how many.
    pub store: Store,
    /// Metrics and the page.
    pub listen: Listen,
    /// What has a series of its own in the metrics.
    pub metrics: Metrics,
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
    /// A culprit has at most one trace in this time, and a class of victims about one; other episodes have a line alone.
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
    #[serde(default, deserialize_with = "headers", skip_serializing_if = "BTreeMap::is_empty")]
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
    #[serde(default, deserialize_with = "headers", skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            version: 1,
            labels: Labels::new(),
            has_old_labels: false,
            thresholds: Thresholds::default(),
            recorder: Recorder::default(),
            store: Store::default(),
            listen: Listen::default(),
            metrics: Metrics::default(),
            sinks: Sinks::default(),
            otlp: None,
            webhook: None,
            tables: None,
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

impl Store {
    /// The limits of the store.
    pub(crate) fn limits(&self) -> Limits {
        Limits { bytes: self.mib.saturating_mul(1 << 20), episodes: self.episodes as usize }
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

/// What `--print-config` has instead of a secret.
const NOT_SHOWN: &str = "(not shown)";

/// Error messages do not repeat it: a URL can have a password or a token.
fn url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    if !text.starts_with("http://") && !text.starts_with("https://") {
        let scheme = text.split_once("://").map(|(scheme, _)| scheme);
        let scheme = scheme.filter(|scheme| scheme.chars().all(char::is_alphanumeric));
        let found = scheme.map_or_else(String::new, |scheme| format!("`{scheme}://`: "));
        return Err(D::Error::custom(format!("{found}expected a URL that begins with http:// or https://")));
    }
    if text.contains('#') {
        return Err(D::Error::custom("a URL with a `#` cannot be sent"));
    }
    match text.parse::<Uri>() {
        Ok(uri) if uri.authority().is_some_and(has_odd_port) => {
            Err(D::Error::custom("this URL has no port after its `:`"))
        }
        Ok(uri) if uri.host().is_some_and(|host| !host.is_empty()) => Ok(text),
        Ok(_) => Err(D::Error::custom("this URL names no host")),
        Err(error) => Err(D::Error::custom(format!("no request can be sent to this URL: {error}"))),
    }
}

/// Whether what follows the host's `:` is no number.
fn has_odd_port(authority: &Authority) -> bool {
    let after_user = authority.as_str().rsplit('@').next().unwrap_or_default();
    let after_host = after_user.rsplit(']').next().unwrap_or_default();
    after_host.split_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_err())
}

fn headers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let headers = BTreeMap::<String, String>::deserialize(deserializer)?;
    for (name, value) in &headers {
        if HeaderName::try_from(name).is_err() {
            // The value may have been written into the name.
            let name = name.split(':').next().unwrap_or_default();
            return Err(D::Error::custom(format!("`{}` is no name of a header", clean(name))));
        }
        if HeaderValue::try_from(value).is_err() {
            return Err(D::Error::custom(format!("the header {name} cannot be sent: control characters in its value")));
        }
        if value == NOT_SHOWN {
            return Err(D::Error::custom(format!("the header {name} was printed without its value: write that here")));
        }
    }
    Ok(headers)
}

fn hide_values(headers: &mut BTreeMap<String, String>) {
    headers.values_mut().for_each(|value| NOT_SHOWN.clone_into(value));
}

/// Whether the path of a URL can be a secret.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UrlPath {
    /// As of a webhook.
    Secret,
    Shown,
}

/// The URL without what can be secret. What stands there instead is no URL.
fn hide_secrets(url: &mut String, path: UrlPath) {
    let Ok(uri) = url.parse::<Uri>() else { return };
    // Also where a `/` in a password makes the rest of it a path.
    let has_user = url.contains('@');
    if has_user || uri.query().is_some() || path == UrlPath::Secret && !matches!(uri.path(), "" | "/") {
        *url = format!("{}/{NOT_SHOWN}", origin(&uri));
    }
}

impl Config {
    /// For printing: values of headers, and in URLs users, passwords, queries and the paths of webhooks are not shown.
    pub(super) fn without_secrets(mut self) -> Config {
        if let Some(otlp) = &mut self.otlp {
            hide_values(&mut otlp.headers);
            hide_secrets(&mut otlp.endpoint, UrlPath::Shown);
        }
        if let Some(webhook) = &mut self.webhook {
            hide_values(&mut webhook.headers);
            hide_secrets(&mut webhook.url, UrlPath::Secret);
        }
        self
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
