//! `unstarve fix --as shell`: the change as shell commands.

use std::process::ExitCode;

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;
use unstarve_diagnose::report::{Remedy, RemedyId};

use super::{FIX_SCHEMA, LowArgs, NOT_DONE};
use crate::output::{self, Out};

#[derive(Serialize, JsonSchema)]
pub struct ShellForm<'a> {
    schema: &'static str,
    remedy: &'a RemedyId,
    form: &'static str,
    /// The commands that apply it, as root on the recorded host.
    apply: &'a str,
    undo: &'a str,
}

/// Prints the commands; root runs them on the recorded host.
pub fn run(args: &LowArgs, remedy: &Remedy) -> Result<ExitCode> {
    if remedy.apply.is_empty() {
        output::remark(&format!("{} has no commands: {}", remedy.id, remedy.text));
        return Ok(ExitCode::from(NOT_DONE));
    }
    let text = if args.json {
        output::sorted_json(&ShellForm {
            schema: FIX_SCHEMA,
            remedy: &remedy.id,
            form: "shell",
            apply: &remedy.apply,
            undo: &remedy.undo,
        })?
    } else {
        format!("# {}, as root on the recorded host\n{}\n# undo\n{}\n", remedy.id, remedy.apply, remedy.undo)
    };
    Out::new().text(&text)?;
    Ok(ExitCode::SUCCESS)
}
