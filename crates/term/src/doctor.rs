//! The page of `unstarve doctor`.

use anstyle::{AnsiColor, Style};
use unstarve_facts::{Allowed, Availability};

use crate::Look;
use crate::ink::{FAINT, Ink, STRONG};
use crate::text::columns;

/// One line for each capability; for a missing one also its effect and how to get it.
pub fn doctor_page(allowed: &[Allowed], look: Look) -> String {
    let mut ink = Ink::new(look);
    let width = allowed.iter().map(|allowed| columns(allowed.id.word())).max().unwrap_or(0);
    for each in allowed {
        let first = format!("{:<width$}  {:<4}  ", each.id.word(), each.state.word());
        ink.paragraph(&first, style(each.state), &each.found);
        let margin = " ".repeat(columns(&first));
        if each.state != Availability::Full {
            ink.paragraph(&format!("{margin}without it: "), STRONG, each.without);
        }
        if let Some(get) = &each.get {
            ink.paragraph(&format!("{margin}to get it:  "), FAINT, get);
        }
    }
    format!("{}\n", ink.finish().trim_end())
}

fn style(state: Availability) -> Style {
    match state {
        Availability::Full => AnsiColor::Green.on_default(),
        Availability::Part => AnsiColor::Yellow.on_default(),
        Availability::None => AnsiColor::Red.on_default().bold(),
    }
}
