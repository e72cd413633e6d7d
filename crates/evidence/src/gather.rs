//! Gathers evidence from what a ticket has attached: files, directories and archives of them. Nothing is written to disk, no link is
//! followed, and files, depth, bytes and time are limited, because nobody knows who made a bundle.

use std::borrow::Cow;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;
use unstarve_facts::Snapshot;
use unstarve_model::counted;
use unstarve_readers::{Allowance, Depth, Input, LeftOut, Visitor, open_file, recording_format, visit};

use crate::directory::{self, Found};
use crate::encoding::{decoded_beginning, is_plain};
use crate::fact::Facts;
use crate::host::{Host, HostDirectory, Hosts};
use crate::scan::{HostPart, Source, has_trigger, scan_by_host};
use crate::settings::{add_file, path_on_host};

/// How much is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Files, in archives too.
    pub files: u64,
    /// Archives in archives.
    pub archives: usize,
    /// Bytes read and unpacked.
    pub bytes: u64,
    /// Time.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { files: 200_000, archives: 4, bytes: 64 << 30, time: Duration::from_secs(600) }
    }
}

impl Limits {
    fn depth(self) -> Depth {
        Depth {
            archives: self.archives,
            members: self.files.saturating_add(1),
            allowance: Allowance::new(self.bytes, self.time),
        }
    }
}

/// Why nothing could be gathered.
#[derive(Debug, Error)]
#[error("cannot read {name}: {source}")]
pub struct GatherError {
    /// The file or directory.
    pub name: String,
    /// The system's error.
    pub source: io::Error,
}

/// What was found.
#[derive(Default)]
pub struct Gathered {
    /// The facts, by host.
    pub hosts: Vec<Host>,
    /// Recordings, which have events instead of evidence.
    pub recordings: Vec<FoundRecording>,
    /// Snapshots of hosts' settings.
    pub snapshots: Vec<FoundSnapshot>,
    /// What could not be read, for people.
    pub losses: Vec<String>,
    /// Files looked at.
    pub files: u64,
}

/// A recording among the files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundRecording {
    /// Its name; that of an archive's member is below the archive's.
    pub name: String,
    /// Its format.
    pub format: &'static str,
    /// Whether its text has evidence beside the events.
    pub has_evidence: bool,
}

/// A snapshot of a host's settings among the files.
pub struct FoundSnapshot {
    /// Its name.
    pub name: String,
    /// The snapshot.
    pub snapshot: Box<Snapshot>,
}

/// Gathers what files, directories and archives say; `-` is standard input.
///
/// # Errors
/// If one of `paths` cannot be opened. What cannot be read within a directory or an archive is among the losses.
pub fn gather(paths: &[PathBuf], limits: Limits) -> Result<Gathered, GatherError> {
    let mut depth = limits.depth();
    let mut bundle = Bundle::new(depth.allowance.clone());
    for path in paths {
        if bundle.path(path, &mut depth)?.is_break() {
            bundle.losses.stopped = true;
            break;
        }
    }
    Ok(bundle.finish())
}

/// The same for a file or stream that is open.
pub fn gather_input(input: Input, limits: Limits) -> Gathered {
    let mut depth = limits.depth();
    let mut bundle = Bundle::new(depth.allowance.clone());
    bundle.losses.stopped = visit::visit(input, &mut depth, &mut bundle).is_break();
    bundle.finish()
}

/// What is being gathered.
struct Bundle {
    found: Gathered,
    hosts: Hosts,
    losses: Losses,
    allowance: Allowance,
    /// The place of the next text among all.
    next: u32,
    /// Whether the file was named by the user.
    is_named: bool,
}

impl Bundle {
    fn new(allowance: Allowance) -> Bundle {
        let (found, hosts, losses) = (Gathered::default(), Hosts::default(), Losses::default());
        Bundle { found, hosts, losses, allowance, next: 0, is_named: true }
    }

    fn path(&mut self, path: &Path, depth: &mut Depth) -> Result<ControlFlow<()>, GatherError> {
        self.is_named = true;
        let (opened, name) = match path.to_str() {
            Some("-") => (Input::stdin(), "standard input".to_owned()),
            _ => {
                let name = path.display().to_string();
                let failed = |source| GatherError { name: name.clone(), source };
                let file = open_file(path).map_err(failed)?;
                if file.metadata().map_err(failed)?.is_dir() {
                    return Ok(self.directory(file.into(), &name, depth));
                }
                (Input::from_file(file, name.clone()), name)
            }
        };
        let input = opened.map_err(|source| GatherError { name, source })?;
        Ok(visit::visit(input, depth, self))
    }

    fn directory(&mut self, directory: OwnedFd, name: &str, depth: &mut Depth) -> ControlFlow<()> {
        self.is_named = false;
        directory::walk(directory, name, &mut |name, found| match found {
            Found::File(file) => {
                depth.members = depth.members.saturating_sub(1);
                match Input::from_file(file, name.to_owned()) {
                    _ if depth.members == 0 => {
                        self.losses.too_many += 1;
                        ControlFlow::Break(())
                    }
                    Ok(input) => visit::visit(input, depth, self),
                    Err(error) => {
                        self.losses.unread(name, &error.to_string());
                        ControlFlow::Continue(())
                    }
                }
            }
            other => {
                self.losses.found(name, &other);
                ControlFlow::Continue(())
            }
        })
    }

    fn finish(self) -> Gathered {
        let Bundle { mut found, hosts, losses, .. } = self;
        let left_out = hosts.left_out();
        found.hosts = hosts.finish();
        found.losses = losses.lines();
        if left_out > 0 {
            found.losses.push(format!("{} about more hosts left out; give fewer files", counted(left_out, "text")));
        }
        found
    }

    fn text(&mut self, input: Input) {
        let name = input.name().to_owned();
        if let Some(path) = path_on_host(&name) {
            let mut facts = Facts::default();
            add_file(path, input.prefix(), &mut facts);
            let source = Source { name: name.clone(), kinds: Vec::new(), lines: 0, too_long: 0, is_cut: false };
            self.hosts.add(HostDirectory::of(&name).as_ref(), vec![HostPart { host: None, facts, source }], false);
        }
        // A file of which all was seen, and no line matters.
        let is_all = input.prefix().len() < WHOLE_BYTES;
        if is_all && !self.is_named && !has_trigger(input.prefix()) {
            return;
        }
        let text = self.allowance.bound(input.into_stream());
        let (parts, error) = scan_by_host(text, &name, self.next);
        self.next += 1;
        if let Some(error) = error {
            self.losses.unread(&name, &format!("after line {}: {}", error.line, error.source));
        }
        self.hosts.add(HostDirectory::of(&name).as_ref(), parts, self.is_named);
    }

    fn snapshot(&mut self, input: Input) {
        let name = input.name().to_owned();
        let mut text = String::new();
        let read = input.into_stream().take(MAX_SNAPSHOT_BYTES).read_to_string(&mut text);
        match read
            .map_err(|error| error.to_string())
            .and_then(|_| Snapshot::from_json(&text).map_err(|error| error.to_string()))
        {
            Ok(snapshot) => self.found.snapshots.push(FoundSnapshot { name, snapshot: Box::new(snapshot) }),
            Err(error) => self.losses.unread(&name, &error),
        }
    }
}

/// Less than the beginning of a file that is looked at (32 KiB): then it is the whole file.
const WHOLE_BYTES: usize = 32 << 10;

/// A snapshot of a host with 50,000 threads has some 30 MB.
const MAX_SNAPSHOT_BYTES: u64 = 256 << 20;

/// Recordings and snapshots that are listed.
const MAX_LISTED: usize = 1000;

impl Visitor for Bundle {
    fn file(&mut self, input: Input) {
        self.found.files += 1;
        match Content::of(input.prefix()) {
            Content::Empty | Content::Binary => {}
            Content::Journal => self.losses.journal(input.name()),
            Content::Recording { format, has_evidence } => {
                if self.found.recordings.len() < MAX_LISTED {
                    let name = input.name().to_owned();
                    self.found.recordings.push(FoundRecording { name, format, has_evidence });
                }
                if has_evidence {
                    self.text(input);
                }
            }
            Content::Snapshot if self.found.snapshots.len() < MAX_LISTED => self.snapshot(input),
            Content::Snapshot => {}
            Content::Text => self.text(input),
        }
    }

    fn left_out(&mut self, name: &str, why: LeftOut) {
        match why {
            LeftOut::Special => self.losses.special += 1,
            LeftOut::TooMany => self.losses.too_many += 1,
            LeftOut::TooDeep => self.losses.unread(name, "too many archives in archives"),
            LeftOut::Unsupported => {
                self.losses.unread(name, "it is encrypted, sparse, or packed with an unsupported method")
            }
            LeftOut::Damaged(error) => self.losses.unread(name, &error.to_string()),
            _ => self.losses.unread(name, "unsupported"),
        }
    }
}

/// What a file is, by its beginning.
#[derive(PartialEq, Eq, Debug)]
enum Content {
    Empty,
    Binary,
    /// A file of systemd's journal.
    Journal,
    Recording {
        format: &'static str,
        has_evidence: bool,
    },
    Snapshot,
    Text,
}

/// The head of a journal file (`HEADER_SIGNATURE` in systemd's journal-def.h).
const JOURNAL: &[u8] = b"LPKSHHRH";

impl Content {
    fn of(prefix: &[u8]) -> Content {
        if prefix.is_empty() {
            return Content::Empty;
        }
        if prefix.starts_with(JOURNAL) {
            return Content::Journal;
        }
        let beginning = String::from_utf8_lossy(&prefix[..prefix.len().min(512)]);
        if beginning.trim_start().starts_with('{') && beginning.contains("\"unstarve.snapshot/") {
            return Content::Snapshot;
        }
        let has_evidence = has_trigger(prefix);
        let decoded = if is_plain(prefix) { Cow::Borrowed(prefix) } else { Cow::Owned(decoded_beginning(prefix)) };
        let zeros = decoded.iter().filter(|byte| **byte == 0).count();
        if let Some(format) = recording_format(prefix) {
            return Content::Recording { format, has_evidence: has_evidence && zeros == 0 };
        }
        // A crash leaves blocks of zeros in a log.
        if zeros > decoded.len() / 4 && !has_evidence { Content::Binary } else { Content::Text }
    }
}

/// What could not be read, counted by kind.
#[derive(Default)]
struct Losses {
    special: u64,
    file_systems: u64,
    too_many: u64,
    stopped: bool,
    unread: u64,
    journals: Vec<String>,
    journals_more: u64,
    /// The first few.
    named: Vec<String>,
}

/// Losses that are named.
const MAX_NAMED: usize = 8;

impl Losses {
    fn unread(&mut self, name: &str, why: &str) {
        self.unread += 1;
        if self.named.len() < MAX_NAMED {
            self.named.push(format!("{}: {}", unstarve_model::clean(name), unstarve_model::clean(why)));
        }
    }

    fn journal(&mut self, name: &str) {
        if self.journals.len() < MAX_NAMED {
            self.journals.push(unstarve_model::clean(name).into_owned());
        } else {
            self.journals_more += 1;
        }
    }

    fn found(&mut self, name: &str, found: &Found) {
        match found {
            Found::Special => self.special += 1,
            Found::OtherFileSystem => self.file_systems += 1,
            Found::TooMany => self.too_many += 1,
            Found::Unreadable(error) => self.unread(name, &error.to_string()),
            Found::File(_) => {}
        }
    }

    fn lines(self) -> Vec<String> {
        let mut lines = self.named;
        if self.unread > lines.len() as u64 {
            lines.push(format!("{} more could not be read", counted(self.unread - lines.len() as u64, "file")));
        }
        for journal in &self.journals {
            lines.push(format!(
                "{journal}: a file of systemd's journal: print it with `journalctl -k -o short-monotonic --file FILE`"
            ));
        }
        if self.journals_more > 0 {
            lines.push(format!("{} more of systemd's journal", counted(self.journals_more, "file")));
        }
        if self.special > 0 {
            lines.push(format!("{} not followed: links, devices or FIFOs", counted(self.special, "special file")));
        }
        if self.file_systems > 0 {
            lines.push(format!("{} left out: on another file system", counted(self.file_systems, "mount point")));
        }
        if self.too_many > 0 || self.stopped {
            lines.push("not everything was looked at: too many files, too deep, too large, or too slow; name the files that matter".to_owned());
        }
        lines
    }
}
