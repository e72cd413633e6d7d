//! What the guest says on its serial console, between whatever its kernel says there.

use std::collections::VecDeque;
use std::fmt;

use serde::{Deserialize, Serialize};

/// How far a guest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The kernel boots; nothing of ours has spoken yet.
    Boot,
    /// Kernel modules are loaded.
    Modules,
    /// The scenario's steps and knobs.
    Setup,
    /// The recording is set up.
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

/// One line of ours: `@unstarve {"stage":"setup"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The stage that begins, or in which it failed.
    pub stage: Stage,
    /// Why it failed; absent: it did not.
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

    /// The line. The line feed before it parts it from a kernel message that is being printed.
    pub fn to_line(&self) -> String {
        let json = serde_json::to_string(self).unwrap_or_default();
        format!("\n{STATUS_LINE_PREFIX}{json}\n")
    }

    /// Reads a line, if it is one of ours.
    pub fn parse(line: &str) -> Option<Message> {
        let (_, json) = line.split_once(STATUS_LINE_PREFIX)?;
        serde_json::from_str(json.trim()).ok()
    }
}

/// What has gone wrong in a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The guest's init gave up, and says why.
    Failed(String),
    /// The kernel panicked, with these words.
    Panic(String),
    /// The kernel killed something for want of memory.
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

/// Follows a console line by line.
#[derive(Clone, Debug)]
pub struct ConsoleFollower {
    /// The stage that was reached.
    pub stage: Stage,
    /// The guest kernel's release, once it is known.
    pub release: Option<String>,
    /// What went wrong first; an out-of-memory kill explains a failure that follows it.
    pub trouble: Option<Trouble>,
    last: VecDeque<String>,
}

/// How many lines of the console a failure quotes.
const QUOTED_LINES: usize = 12;

impl Default for ConsoleFollower {
    fn default() -> ConsoleFollower {
        ConsoleFollower { stage: Stage::Boot, release: None, trouble: None, last: VecDeque::new() }
    }
}

impl ConsoleFollower {
    /// Takes in the next line.
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
            // A panic that follows init's own failure (its end) or a kill is not the cause.
            self.trouble.get_or_insert(Trouble::Panic(words.to_owned()));
        } else if line.contains("Out of memory: Killed process") || line.contains("Out of memory and no killable") {
            let words = line.split_once("Killed process ").map_or(line, |(_, killed)| killed);
            self.trouble.get_or_insert(Trouble::OutOfMemory(words.to_owned()));
        }
    }

    /// Whether there is nothing more to wait for.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Done || matches!(self.trouble, Some(Trouble::Failed(_) | Trouble::Panic(_)))
    }

    /// The last lines of the console that are not our own, for a message.
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
