//! The fix of a finding that every screen shows first, and the command that plans it.

use unstarve_change::Change;

use super::{Finding, Remedy, TraceSummary};

/// Whether a recording says on which boot of which host it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Boot {
    /// It does: `unstarve fix` checks it.
    Named,
    /// It does not: the user has to assert it.
    #[default]
    Unnamed,
}

/// The remedy that is shown as the fix.
#[derive(Clone, Copy, Debug)]
pub struct Fix<'a> {
    /// Its place among the finding's remedies, from 0.
    pub index: usize,
    /// The remedy.
    pub remedy: &'a Remedy,
}

impl Finding {
    /// The first remedy that `unstarve fix` can carry out, else the first; `None` if none is known.
    pub fn fix(&self) -> Option<Fix<'_>> {
        let all = || self.remedies.iter().enumerate();
        let chosen = all().find(|(_, remedy)| remedy.is_carried_out()).or_else(|| all().next());
        chosen.map(|(index, remedy)| Fix { index, remedy })
    }
}

impl Remedy {
    /// Whether `unstarve fix` can carry it out, and not only a person.
    pub fn is_carried_out(&self) -> bool {
        self.changes.iter().any(Change::is_for_a_program)
    }

    /// What it does, without why: its first clause.
    pub fn action(&self) -> &str {
        first_clause(&self.text)
    }

    /// What can go wrong, in its first clause.
    pub fn main_risk(&self) -> &str {
        first_clause(&self.risk)
    }

    /// The command that shows the plan. `file` is the recording's name, quoted for a shell.
    pub fn plan_command(&self, file: &str, boot: Boot) -> String {
        let this_boot = match boot {
            Boot::Named => "",
            Boot::Unnamed => " --this-boot",
        };
        format!("unstarve fix {file} --remedy {}{this_boot}", self.id)
    }
}

impl TraceSummary {
    /// Whether the recording says on which boot it was made: only a snapshot that names its host does.
    pub fn boot(&self) -> Boot {
        if self.snapshot && self.host.is_some() { Boot::Named } else { Boot::Unnamed }
    }
}

fn first_clause(text: &str) -> &str {
    let end = [": ", "; ", ". "].iter().filter_map(|mark| text.find(mark)).min().unwrap_or(text.len());
    text[..end].trim_end_matches('.')
}
