//! `unstarve fix --as shell`: the change as shell commands.

use std::process::ExitCode;

use anyhow::Result;
use unstarve_diagnose::report::Remedy;

use super::{LowArgs, NOT_DONE};
use crate::output::{self, Out};

/// Prints the commands; root runs them on the recorded host.
pub fn run(args: &LowArgs, remedy: &Remedy) -> Result<ExitCode> {
    if remedy.apply.is_empty() {
        output::remark(&format!("{} has no commands: {}", remedy.id, remedy.text));
        return Ok(ExitCode::from(NOT_DONE));
    }
    let text = if args.json {
        let page = serde_json::json!({
            "schema": "unstarve.fix/1", "remedy": remedy.id, "form": "shell", "apply": remedy.apply, "undo": remedy.undo,
        });
        serde_json::to_string_pretty(&page)? + "\n"
    } else {
        format!("# {}, as root on the recorded host\n{}\n# undo\n{}\n", remedy.id, remedy.apply, remedy.undo)
    };
    Out::new().text(&text)?;
    Ok(ExitCode::SUCCESS)
}
