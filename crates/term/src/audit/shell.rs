//! The fixes of an audit as shell commands.

use std::collections::HashSet;

use unstarve_check::{Audit, Part};

use super::item::label;

/// Formats the fixes as a shell script: for each hit of today its first command, all others and the undo as comments.
pub fn audit_shell(audit: &Audit) -> String {
    let mut text = "# The fixes of `unstarve check`, for `sh -eu`. Read each before you run it.\n\
                    # Each command checks what it changes. Alternatives and undo commands are comments.\n"
        .to_owned();
    let mut printed = HashSet::new();
    for hit in &audit.hits {
        let fixes: Vec<_> = hit.fixes.iter().filter(|fix| !fix.apply.is_empty()).collect();
        if fixes.is_empty() {
            continue;
        }
        text += &format!("\n# {} {}: {}\n", label(hit.severity).to_uppercase(), hit.rule, hit.sentence);
        for (index, fix) in fixes.into_iter().enumerate() {
            let is_first = index == 0 && hit.part() == Part::Today && printed.insert(&fix.apply);
            text += &format!("# {}{}\n", if index == 0 { "" } else { "Or: " }, fix.text);
            text += &if is_first { format!("{}\n", fix.apply) } else { commented(&fix.apply) };
            text += &commented(&format!("undo: {}", fix.undo));
        }
    }
    text
}

fn commented(command: &str) -> String {
    command.lines().map(|line| format!("# {line}\n")).collect()
}
