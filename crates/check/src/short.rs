//! Short commands for a fix, for people: `unstarve knobs set …` where that does it. Of threads there are none: the number of a thread
//! means nothing on another host or after it has ended, so only the full shell commands, which check that, are printed.

use unstarve_change::{Change, Target, Value, quoted};
use unstarve_facts::Knob;

use crate::hit::Fix;

/// More commands are not short.
const MAX_COMMANDS: usize = 3;

impl Fix {
    /// Short commands that do it; empty if there are none.
    pub fn short_commands(&self) -> Vec<String> {
        // A value that is kept over a reboot is written to a file, not to the kernel.
        if self.changes.iter().any(|change| change.was.is_some() && change.was.as_ref() == change.value()) {
            return Vec::new();
        }
        commands(&self.changes).filter(|all| all.len() <= MAX_COMMANDS).unwrap_or_default()
    }
}

fn commands(changes: &[Change]) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for change in changes {
        let value = change.value()?;
        match &change.target {
            Target::Feature { name } => {
                let word = value.as_content()?.as_str();
                let state = if word.starts_with("NO_") { "off" } else { "on" };
                all.push(format!("unstarve knobs set {name} {state}"));
            }
            Target::File { path } => all.push(of_file(path, value)?),
            _ => return None,
        }
    }
    all.dedup();
    Some(all)
}

fn of_file(path: &str, value: &Value) -> Option<String> {
    let content = quoted(value.as_content()?.as_str())?;
    if !Knob::has_path(path) {
        return Some(format!("echo {content} > {}", quoted(path)?));
    }
    let knob = Knob::named(path)?;
    // A setting of each CPU is named with its CPU.
    let is_per_cpu = knob.rows().any(|form| form.path().contains("{N}"));
    let name = if is_per_cpu { path.rsplit("/sched/").next()? } else { knob.name() };
    Some(format!("unstarve knobs set {name} {content}"))
}
