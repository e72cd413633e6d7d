//! Writes a line per episode to the system's log: to the journal by its native protocol, which keeps fields; to syslog; or to standard error. Never
//! blocks.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use unstarve_diagnose::report::FindingId;
use unstarve_sched::Rule;

use super::{Delivery, Message, Output, OutputKind, Tried};
use crate::agent::config::{Syslog, label_word};
use crate::episode::{EndReason, Episode, Party, line_with_command};

const JOURNAL: &str = "/run/systemd/journal/socket";
const SYSLOG: &str = "/dev/log";

/// The id of messages about episodes, for `journalctl MESSAGE_ID=…`.
pub const MESSAGE_ID: &str = "6f0d2ad58bd24c1eb4a0c3c0a7f1d9e2";

/// syslog's priority `warning` and facility `daemon`.
const WARNING: u8 = 4;
const DAEMON: u8 = 3;

/// Entry in the list of outputs.
pub const KIND: OutputKind = OutputKind {
    name: "log",
    message: ["log message", "log messages"],
    delivery: Delivery::Immediate,
    takes: |message| matches!(message, Message::Episode(_) | Message::Warning(_)),
    open: |config| Some(Arc::new(Log::open(config.sinks.log))),
};

/// The destination of log lines.
#[derive(Debug)]
pub struct Log {
    to: To,
}

#[derive(Debug)]
enum To {
    Journal(UnixDatagram, PathBuf),
    Syslog(UnixDatagram, PathBuf),
    Stderr,
    Nowhere,
}

impl Log {
    /// Opens the configured log; `auto` chooses the best available.
    pub fn open(wanted: Syslog) -> Log {
        Log::at(wanted, Path::new(JOURNAL), Path::new(SYSLOG))
    }

    fn at(wanted: Syslog, journal: &Path, syslog: &Path) -> Log {
        let socket = || UnixDatagram::unbound().and_then(|socket| socket.set_nonblocking(true).map(|()| socket)).ok();
        let of = |kind: Syslog| match kind {
            Syslog::Journal => socket().map(|socket| To::Journal(socket, journal.to_owned())),
            Syslog::Syslog => socket().map(|socket| To::Syslog(socket, syslog.to_owned())),
            _ => None,
        };
        let to = match wanted {
            Syslog::Off => Some(To::Nowhere),
            Syslog::Stderr => Some(To::Stderr),
            Syslog::Auto if journal.exists() => of(Syslog::Journal),
            Syslog::Auto if syslog.exists() => of(Syslog::Syslog),
            Syslog::Auto => None,
            named => of(named),
        };
        Log { to: to.unwrap_or(To::Stderr) }
    }

    /// Writes a line; returns whether it was accepted.
    pub fn write(&self, episode: &Episode) -> bool {
        let text = line_with_command(episode);
        match &self.to {
            To::Nowhere => true,
            To::Stderr => writeln!(std::io::stderr(), "unstarve watch: {text}").is_ok(),
            To::Journal(socket, path) => socket.send_to(&journal(episode, &text), path).is_ok(),
            To::Syslog(socket, path) => socket.send_to(syslog(&text).as_bytes(), path).is_ok(),
        }
    }

    /// Writes a line that is not about an episode; returns whether it was accepted. Standard error has it already, and so has the journal if
    /// standard error is connected to it.
    pub fn warn(&self, text: &str) -> bool {
        match &self.to {
            To::Nowhere | To::Stderr => true,
            To::Journal(..) if is_journal(std::env::var_os("JOURNAL_STREAM"), std::io::stderr()) => true,
            To::Journal(socket, path) => {
                let mut message = JournalMessage::default();
                message.begin(text);
                socket.send_to(&message.0, path).is_ok()
            }
            To::Syslog(socket, path) => socket.send_to(syslog(text).as_bytes(), path).is_ok(),
        }
    }
}

impl Output for Log {
    fn deliver(&self, message: &Message, _: Duration) -> Tried {
        let is_taken = match message {
            Message::Episode(episode) => self.write(episode),
            Message::Warning(text) => self.warn(text),
            Message::Metrics(_) => true,
        };
        if is_taken { Tried::Done } else { Tried::Refused("not taken".to_owned()) }
    }
}

/// Whether a descriptor is the stream to the journal that systemd identifies by device and inode (systemd.exec(5)).
fn is_journal(named: Option<OsString>, descriptor: impl AsFd) -> bool {
    let (Some(named), Ok(stat)) = (named, rustix::fs::fstat(descriptor)) else { return false };
    named.to_str() == Some(&format!("{}:{}", stat.st_dev, stat.st_ino))
}

/// A message of the journal's native protocol (systemd, docs/JOURNAL_NATIVE_PROTOCOL.md), in the form for values that can contain a newline:
/// `NAME\n`, the length as a 64-bit little-endian integer, the value and a newline.
#[derive(Default)]
struct JournalMessage(Vec<u8>);

impl JournalMessage {
    fn begin(&mut self, text: &str) {
        self.field("MESSAGE", text);
        self.field("PRIORITY", &WARNING.to_string());
        self.field("SYSLOG_IDENTIFIER", "unstarve-watch");
    }

    fn field(&mut self, name: &str, value: &str) {
        let out = &mut self.0;
        out.extend_from_slice(name.as_bytes());
        out.push(b'\n');
        out.extend_from_slice(&(value.len() as u64).to_le_bytes());
        out.extend_from_slice(value.as_bytes());
        out.push(b'\n');
    }
}

fn journal(episode: &Episode, text: &str) -> Vec<u8> {
    let mut message = JournalMessage::default();
    message.begin(text);
    let mut field = |name: &str, value: &str| message.field(name, value);
    field("MESSAGE_ID", MESSAGE_ID);
    field("UNSTARVE_EPISODE", &episode.id);
    field("UNSTARVE_STAGE", episode.stage.word());
    let other = episode.other_finding.as_ref().map(|other| other.finding.as_str());
    for (name, value) in [
        ("UNSTARVE_FINDING", episode.finding.as_ref().map(FindingId::as_str)),
        ("UNSTARVE_OTHER_FINDING", other),
        ("UNSTARVE_RULE", episode.rule.map(Rule::word)),
        ("UNSTARVE_ENDED_BY", episode.ended_by.map(EndReason::word)),
        ("UNSTARVE_HOST", episode.host.as_deref()),
        ("UNSTARVE_MACHINE_ID", episode.machine_id.as_deref()),
    ] {
        if let Some(value) = value {
            field(name, value);
        }
    }
    for (key, value) in &episode.labels {
        field(&format!("UNSTARVE_LABEL_{}", label_word(key).to_ascii_uppercase()), value);
    }
    for (prefix, party) in [("VICTIM", &episode.victim), ("CULPRIT", &episode.culprit)] {
        for (name, value) in party.iter().flat_map(fields) {
            field(&format!("UNSTARVE_{prefix}_{name}"), &value);
        }
    }
    if let Some(tasks) = episode.victim_tasks {
        field("UNSTARVE_VICTIM_TASKS", &tasks.to_string());
    }
    for (name, ns) in [
        ("UNSTARVE_NS", episode.ns),
        ("UNSTARVE_DURATION_NS", episode.duration_ns),
        ("UNSTARVE_TOTAL_NS", episode.total_ns),
        ("UNSTARVE_WAITED_NS", episode.waited_ns),
    ] {
        if let Some(ns) = ns {
            field(name, &ns.to_string());
        }
    }
    message.0
}

fn fields(party: &Party) -> Vec<(&'static str, String)> {
    let text = [
        ("ROLE", party.role.as_ref()),
        ("COMM", Some(&party.comm).filter(|comm| !comm.is_empty())),
        ("CGROUP", party.cgroup.as_ref()),
        ("UNIT", party.place.unit.as_ref()),
        ("POD", party.place.pod.as_ref()),
        ("CONTAINER", party.place.container.as_ref()),
    ];
    let text = text.into_iter().filter_map(|(name, value)| Some((name, value?.clone())));
    let numbers = [("TID", party.tid), ("TGID", party.tgid)];
    text.chain(numbers.into_iter().filter_map(|(name, value)| Some((name, value?.to_string())))).collect()
}

/// RFC 3164 without a time, as `/dev/log` accepts it.
fn syslog(text: &str) -> String {
    format!("<{}>unstarve-watch[{}]: {text}", DAEMON * 8 + WARNING, std::process::id())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;
    use crate::episode::Place;

    fn episode() -> Episode {
        let place = Place { container: Some("4f4f4f4f4f4f".into()), ..Place::default() };
        Episode {
            id: "20261123-012345-678".into(),
            culprit: Some(Party { comm: "a\nPRIORITY=0".into(), tid: Some(7), place, ..Party::default() }),
            victim: Some(Party { comm: "kworker/0:1".into(), ..Party::default() }),
            ns: Some(5),
            host: Some("web1".into()),
            machine_id: Some("0123456789abcdef0123456789abcdef".into()),
            labels: [("topology.zone".to_owned(), "a".to_owned())].into(),
            ..Episode::default()
        }
    }

    /// Parses the fields of a datagram as the journal does.
    fn parse(mut bytes: &[u8]) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            let name = String::from_utf8(bytes[..end].to_vec()).expect("a name");
            let rest = &bytes[end + 1..];
            let length = u64::from_le_bytes(rest[..8].try_into().expect("eight bytes")) as usize;
            fields.push((name, String::from_utf8(rest[8..8 + length].to_vec()).expect("text")));
            assert_eq!(rest[8 + length], b'\n');
            bytes = &rest[9 + length..];
        }
        assert!(bytes.is_empty());
        fields
    }

    #[test]
    fn no_name_adds_a_field_to_the_journal() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("socket");
        let journal = UnixDatagram::bind(&path).expect("a socket");
        let log = Log::at(Syslog::Auto, &path, Path::new("/nowhere"));
        assert!(log.write(&episode()));
        let mut buffer = [0; 4096];
        let length = journal.recv(&mut buffer).expect("a datagram");
        let fields = parse(&buffer[..length]);
        let get = |name: &str| -> Vec<&str> {
            fields.iter().filter(|(field, _)| field == name).map(|(_, value)| value.as_str()).collect()
        };
        assert_eq!(get("PRIORITY"), ["4"]);
        assert_eq!(get("UNSTARVE_CULPRIT_COMM"), ["a\nPRIORITY=0"]);
        assert_eq!(get("UNSTARVE_CULPRIT_TID"), ["7"]);
        assert_eq!(get("UNSTARVE_EPISODE"), ["20261123-012345-678"]);
        assert_eq!(get("UNSTARVE_STAGE"), ["complete"]);
        assert_eq!(get("UNSTARVE_HOST"), ["web1"]);
        assert_eq!(get("UNSTARVE_MACHINE_ID"), ["0123456789abcdef0123456789abcdef"]);
        assert_eq!(get("UNSTARVE_LABEL_TOPOLOGY_ZONE"), ["a"]);
        assert_eq!(get("UNSTARVE_CULPRIT_CONTAINER"), ["4f4f4f4f4f4f"]);
        assert!(get("MESSAGE")[0].contains("a\\nPRIORITY=0[7]"));
    }

    #[test]
    fn a_warning_goes_to_the_journal_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("socket");
        let journal = UnixDatagram::bind(&path).expect("a socket");
        assert!(Log::at(Syslog::Auto, &path, Path::new("/nowhere")).warn("no\nPRIORITY=0"));
        let mut buffer = [0; 4096];
        let length = journal.recv(&mut buffer).expect("a datagram");
        assert_eq!(parse(&buffer[..length])[0], ("MESSAGE".to_owned(), "no\nPRIORITY=0".to_owned()));

        let stat = rustix::fs::fstat(&journal).expect("a socket");
        let named = |inode: u64| Some(OsString::from(format!("{}:{inode}", stat.st_dev)));
        assert!(is_journal(named(stat.st_ino), &journal));
        assert!(!is_journal(named(stat.st_ino + 1), &journal) && !is_journal(None, &journal));
    }

    #[test]
    fn syslog_gets_one_line_and_nobody_is_waited_for() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        let daemon = UnixDatagram::bind(&path).expect("a socket");
        let log = Log::at(Syslog::Auto, Path::new("/nowhere"), &path);
        assert!(log.write(&episode()));
        let mut buffer = [0; 4096];
        let length = daemon.recv(&mut buffer).expect("a datagram");
        let text = String::from_utf8_lossy(&buffer[..length]);
        assert!(text.starts_with("<28>unstarve-watch["), "{text}");
        assert!(!text.contains('\n'), "{text}");
        // Without a reader, the queue fills up at some point, which is reported.
        assert!((0..10_000).any(|_| !log.write(&episode())));
        drop(daemon);
        assert!(!log.write(&episode()));
    }
}
