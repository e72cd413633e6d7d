//! What a ticket contains, read as evidence: kernel logs, dumps, lists of threads, output of other tools.
//!
//! Such a text has no events. Its lines are *facts*: a thread or a pool of workers did not get on ([`Stuck`]), a CPU ran a certain
//! thread at a certain moment ([`Ran`]), a thread has a certain policy ([`Seen`]). Facts of all files of one host are joined by CPU,
//! boot and time, and one table ([`conclude`]) decides what they prove. The answer is a [`Report`](unstarve_diagnose::report::Report),
//! as `explain` gives for a recording, with the lines quoted.
//!
//! | module | what it is |
//! |---|---|
//! | `gather`, `directory` | files, directories and archives of them |
//! | `encoding` | other encodings than UTF-8 |
//! | `host`, `join` | whose text it is; texts of one boot together |
//! | `fact` | the facts |
//! | `carrier` | programs that pass messages of others on: the journal as JSON, Kubernetes' events, Android's logcat |
//! | `line` | strips the columns that loggers, mailers and containers put before a message |
//! | `scan`, `reversed` | finds the lines that matter, in bounded memory |
//! | `message` | the kernel's messages, a pattern each |
//! | `kernel_log` | messages to facts: what belongs to one report of the kernel |
//! | `section` | tables in a text: `ps`, `top`, dumps of the scheduler |
//! | `settings` | settings of a bundle, as the snapshot that `check` judges |
//! | `case` | joins the facts |
//! | `conclude`, `words`, `next` | what they prove, in words, and what to record next |

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

/// A pattern, compiled once: `pattern!(NAME = "…")`.
macro_rules! pattern {
    ($name:ident = $pattern:literal) => {
        static $name: std::sync::LazyLock<regex::Regex> =
            std::sync::LazyLock::new(|| regex::Regex::new($pattern).expect("a valid pattern"));
    };
}

mod carrier;
mod case;
mod conclude;
mod directory;
mod encoding;
mod fact;
mod gather;
mod host;
mod jiffies;
mod join;
mod kernel_log;
mod line;
mod message;
mod next;
mod reversed;
mod scan;
mod section;
mod settings;
mod words;

pub use conclude::{KINDS, Kind};
pub use fact::Facts;
pub use gather::{FoundRecording, FoundSnapshot, GatherError, Gathered, Limits, gather, gather_input};
pub use host::Host;
pub use scan::{ScanError, Source, has_trigger, is_text_with_trigger, scan};
pub use settings::snapshot;

use unstarve_diagnose::report::{Finding, Report, Severity};
use unstarve_facts::{Bug, Holds};

/// What the facts of one host prove, as a report.
pub fn explain(facts: &Facts, sources: &[Source]) -> Report {
    let mut facts = facts.clone();
    case::add_listed_waits(&mut facts);
    let mut report = conclude::report(&case::Case::of(&facts), &facts, sources);
    known_bugs(&facts, &mut report);
    report
}

/// For waits behind a thread of equal or unknown policy: adds the known bugs of this kernel that look the same.
fn known_bugs(facts: &Facts, report: &mut Report) {
    let Some(snapshot) = settings::snapshot(facts) else { return };
    let kernel = unstarve_facts::Facts::of_host(&snapshot);
    let bugs: Vec<String> = Bug::that_look_like_an_equal()
        .filter(|bug| bug.affects(&kernel) == Holds::Yes)
        .map(|bug| format!("a known bug of this kernel looks like this ({}): {}", bug.report(), bug.says()))
        .collect();
    let is_like = |finding: &&mut Finding| matches!(finding.id.as_str(), "stuck-equal" | "long-wait");
    if let Some(finding) = report.findings.iter_mut().find(is_like).filter(|finding| finding.severity > Severity::Info)
    {
        finding.evidence.extend(bugs);
    }
}
