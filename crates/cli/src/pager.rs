//! Shows long texts through a pager, if standard output is a terminal.

use std::io::{self, IsTerminal, Write};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use signal_hook::consts::SIGINT;
use unstarve_files::Program;

use crate::output::Out;

/// The environment variables that name a pager, the first that is set counts.
const PAGER_VARIABLES: [&str; 2] = ["UNSTARVE_PAGER", "PAGER"];
/// The pager where none is chosen.
const DEFAULT_PAGER: &str = "less";
/// Ends where the text fits the screen, shows colours, leaves the text there: as git has it, unless the user has said otherwise.
const LESS_OPTIONS: &str = "FRX";
/// What a pager may know of the environment.
const PASSED_ON: [&str; 6] = ["TERM", "LANG", "LC_ALL", "LC_CTYPE", "LINES", "COLUMNS"];

/// Prints a text; through the pager if it is longer than the terminal.
pub fn print(text: &str) -> Result<()> {
    let height = terminal_size::terminal_size_of(io::stdout()).map(|(_, height)| usize::from(height.0));
    let is_long = io::stdout().is_terminal() && height.is_some_and(|height| text.lines().count() >= height);
    if is_long && through_pager(text) { Ok(()) } else { Out::new().text(text) }
}

/// Whether a pager has shown the text.
fn through_pager(text: &str) -> bool {
    let chosen = PAGER_VARIABLES.iter().find_map(|name| std::env::var(name).ok());
    let chosen = chosen.as_deref().unwrap_or(DEFAULT_PAGER);
    let mut words = chosen.split_whitespace();
    let Some(name) = words.next().filter(|name| *name != "cat") else { return false };
    // Root runs only what no other user could have put there.
    let Ok(program) = Program::find(name) else { return false };
    let mut command = program.command();
    let options = std::env::var_os("LESS").unwrap_or_else(|| LESS_OPTIONS.into());
    command.args(words).env("LESS", options).stdin(Stdio::piped());
    for name in PASSED_ON {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    if rustix::process::geteuid().is_root() {
        // less then starts no shell, no editor, and opens no other files.
        command.env("LESSSECURE", "1");
    }
    // Ctrl-C belongs to the pager.
    let interrupted = signal_hook::flag::register(SIGINT, Arc::new(AtomicBool::new(false)));
    let Ok(mut child) = command.spawn() else { return false };
    if let Some(mut stdin) = child.stdin.take() {
        // The pager can be left before the end.
        let _ = stdin.write_all(text.as_bytes());
    }
    let status = child.wait();
    if let Ok(id) = interrupted {
        signal_hook::low_level::unregister(id);
    }
    // One that fails has shown nothing.
    status.is_ok_and(|status| status.success())
}
