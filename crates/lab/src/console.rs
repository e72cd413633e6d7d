//! Messages of the guest's init on the serial console, among the kernel's own lines.

use std::collections::VecDeque;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The stage that a guest has reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The kernel boots; init has sent no message.
    #[default]
    Boot,
    /// Kernel modules are loaded.
    Modules,
    /// The scenario's steps and knobs are applied.
    Setup,
    /// The recorder starts.
    Record,
    /// The loads run.
    Load,
    /// Results are written out.
    Collect,
    /// All results are out.
    Done,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Boot => "boot",
            Stage::Modules => "modules",
            Stage::Setup => "setup",
            Stage::Record => "record",
            Stage::Load => "load",
            Stage::Collect => "collect",
            Stage::Done => "done",
        })
    }
}

/// One message: `@unstarve {"stage":"setup"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The stage that begins, or that failed.
    pub stage: Stage,
    /// The reason for the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// The guest kernel's release, with the first message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
}

const STATUS_LINE_PREFIX: &str = "@unstarve ";

impl Message {
    /// A stage begins.
    pub fn stage(stage: Stage) -> Message {
        Message { stage, failed: None, release: None }
    }

    /// Formats the line. The leading line feed separates it from a kernel message in progress.
    pub fn to_line(&self) -> String {
        let json = serde_json::to_string(self).unwrap_or_default();
        format!("\n{STATUS_LINE_PREFIX}{json}\n")
    }

    /// Parses a line; `None` if it is not one of ours.
    pub fn parse(line: &str) -> Option<Message> {
        let (_, json) = line.split_once(STATUS_LINE_PREFIX)?;
        serde_json::from_str(json.trim()).ok()
    }
}

/// A failure in a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The guest's init failed, with the reason.
    Failed(String),
    /// The kernel panicked, with its message.
    Panic(String),
    /// The kernel's OOM killer ended a process.
    OutOfMemory(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Failed(reason) => write!(f, "{reason}"),
            Trouble::Panic(words) => write!(f, "the guest's kernel panicked: {words}"),
            Trouble::OutOfMemory(words) => write!(f, "the guest ran out of memory ({words}); raise memory_mib"),
        }
    }
}

/// Follows the console line by line.
#[derive(Clone, Debug, Default)]
pub struct ConsoleFollower {
    /// The latest stage.
    pub stage: Stage,
    /// The guest kernel's release, once it is known.
    pub release: Option<String>,
    /// The first failure; an out-of-memory kill explains a failure after it.
    pub trouble: Option<Trouble>,
    last: VecDeque<String>,
}

/// How many lines of the console a failure quotes.
const QUOTED_LINES: usize = 12;

impl ConsoleFollower {
    /// Processes the next line.
    pub fn feed(&mut self, line: &str) {
        let line = line.trim_end();
        if let Some(message) = Message::parse(line) {
            self.stage = message.stage;
            self.release = message.release.or(self.release.take());
            if let Some(reason) = message.failed {
                self.trouble.get_or_insert(Trouble::Failed(reason));
            }
            return;
        }
        if line.is_empty() {
            return;
        }
        if self.last.len() == QUOTED_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line.chars().take(300).collect());
        if let Some((_, words)) = line.split_once("Kernel panic - not syncing: ") {
            // A panic after init's own failure (init's exit) or after a kill is not the cause.
            self.trouble.get_or_insert(Trouble::Panic(words.to_owned()));
        } else if line.contains("Out of memory: Killed process") || line.contains("Out of memory and no killable") {
            let words = line.split_once("Killed process ").map_or(line, |(_, killed)| killed);
            self.trouble.get_or_insert(Trouble::OutOfMemory(words.to_owned()));
        }
    }

    /// Whether the guest is done or has failed.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Done || matches!(self.trouble, Some(Trouble::Failed(_) | Trouble::Panic(_)))
    }

    /// The last console lines that are not messages of init, for an error message.
    pub fn last_lines(&self) -> String {
        self.last.iter().map(|line| format!("\n    | {line}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(lines: &[&str]) -> ConsoleFollower {
        let mut watch = ConsoleFollower::default();
        lines.iter().for_each(|line| watch.feed(line));
        watch
    }

    #[test]
    fn stages_are_followed_between_kernel_lines() {
        let watch = after(&[
            "[    0.0] Linux version 6.1",
            "@unstarve {\"stage\":\"modules\",\"release\":\"6.1.0-50\"}",
            "[ 1.0] half a line@unstarve {\"stage\":\"load\"}",
            "@unstarve {\"stage\":\"lo",
        ]);
        assert_eq!((watch.stage, watch.release.as_deref(), watch.is_over()), (Stage::Load, Some("6.1.0-50"), false));
    }

    #[test]
    fn the_first_trouble_is_the_cause() {
        let panic = "[ 2.0] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100";
        let failed = Message { failed: Some("no fio".into()), ..Message::stage(Stage::Setup) }.to_line();
        let killed = "[ 2.0] Out of memory: Killed process 70 (fio) total-vm:1kB";
        let trouble = |lines: &[&str]| after(lines).trouble.map(|trouble| trouble.to_string());
        assert_eq!(
            trouble(&[panic]).as_deref(),
            Some("the guest's kernel panicked: Attempted to kill init! exitcode=0x00000100")
        );
        assert_eq!(trouble(&[failed.trim(), panic]).as_deref(), Some("no fio"));
        assert_eq!(
            trouble(&[killed, failed.trim()]).as_deref(),
            Some("the guest ran out of memory (70 (fio) total-vm:1kB); raise memory_mib")
        );
        assert!(!after(&[killed]).is_over());
        assert!(after(&[panic]).last_lines().ends_with("exitcode=0x00000100"));
    }
}
