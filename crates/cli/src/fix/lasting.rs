//! `unstarve fix --as systemd|sysctl|…`: the change as configuration files that outlast a reboot.

use std::process::ExitCode;

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;
use unstarve_change::{Form, Thread, Whose, durable};
use unstarve_diagnose::Explained;
use unstarve_diagnose::report::{Remedy, RemedyId};

use super::choose::Choice;
use super::{FIX_SCHEMA, LowArgs, NOT_DONE};
use crate::output::{self, Out};

#[derive(Serialize, JsonSchema)]
pub struct LastingForm<'a> {
    schema: &'static str,
    remedy: &'a RemedyId,
    form: &'static str,
    files: Vec<LastingFile<'a>>,
}

#[derive(Serialize, JsonSchema)]
struct LastingFile<'a> {
    /// Its path; absent for the kernel's command line.
    file: Option<&'a str>,
    text: &'a str,
    /// The command that puts it into force.
    activate: &'a str,
}

/// The other remedies of the finding that this form can keep.
fn others_that_last<'a>(explained: &'a Explained, chosen: &Choice<'_>, form: Form) -> Vec<&'a str> {
    let whose = |thread: &Thread| whose(explained, chosen.finding, thread);
    let finding = &explained.report.findings[chosen.finding];
    let lasts = |remedy: &&Remedy| durable(&remedy.changes, form, &whose).is_ok_and(|files| !files.is_empty());
    finding.remedies.iter().filter(lasts).map(|remedy| remedy.id.as_str()).collect()
}

/// Prints the files; writing them is left to the host's configuration management.
pub fn run(args: &LowArgs, explained: &Explained, chosen: &Choice<'_>, form: Form) -> Result<ExitCode> {
    let remedy = chosen.remedy(&explained.report);
    let whose = |thread: &Thread| whose(explained, chosen.finding, thread);
    let files = match durable(&remedy.changes, form, &whose) {
        Ok(files) if !files.is_empty() => files,
        Ok(_) => {
            output::remark(&format!(
                "nothing printed: {} changes nothing that a file could keep: {}",
                remedy.id, remedy.text
            ));
            return Ok(ExitCode::from(NOT_DONE));
        }
        Err(not) => {
            let instead: Vec<&str> = not.instead.iter().map(|form| form.word()).collect();
            let others = others_that_last(explained, chosen, form);
            let instead = match (instead.as_slice(), others.as_slice()) {
                ([], []) => "; no form can keep it".to_owned(),
                ([], others) => {
                    format!("; no form can keep it, but --as {} can keep --remedy {}", form.word(), others.join(" or "))
                }
                (forms, _) => format!("; --as {} can", forms.join(" or ")),
            };
            output::remark(&format!("nothing printed: {}{instead}", not.why));
            return Ok(ExitCode::from(NOT_DONE));
        }
    };
    if form == Form::Guard {
        for file in &files {
            crate::guard::warn_of_rules(file.file.as_deref().unwrap_or("policy"), &file.text);
        }
    }
    let text = if args.json {
        let files = files.iter().map(|file| LastingFile {
            file: file.file.as_deref(),
            text: &file.text,
            activate: &file.activate,
        });
        let (remedy, form) = (&remedy.id, form.word());
        output::sorted_json(&LastingForm { schema: FIX_SCHEMA, remedy, form, files: files.collect() })?
    } else {
        let each = files.iter().map(|file| {
            let place = file.file.as_deref().unwrap_or("the kernel's command line");
            format!("# {place}\n# then: {}\n{}", file.activate, file.text)
        });
        each.collect::<Vec<_>>().join("\n")
    };
    Out::new().text(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Whether this form can keep a remedy of the recording.
pub fn keeps(explained: &Explained, finding: usize, remedy: usize, form: Form) -> bool {
    let whose = |thread: &Thread| whose(explained, finding, thread);
    let changes = &explained.report.findings[finding].remedies[remedy].changes;
    durable(changes, form, &whose).is_ok_and(|files| !files.is_empty())
}

/// The thread's systemd unit, by its cgroup in the recording, and its workqueue, by the finding's victim.
pub fn whose(explained: &Explained, finding: usize, thread: &Thread) -> Whose {
    let victim = &explained.report.findings[finding].victim;
    let work = victim.work.as_ref().filter(|_| victim.tids.contains(&thread.tid.0));
    let task = explained.driven.snapshot.as_deref().and_then(|snapshot| snapshot.task(thread.tid));
    Whose {
        unit: task.and_then(|task| task.cgroup.as_deref()).and_then(unstarve_change::service_of).map(str::to_owned),
        kernel_thread: task.map(|task| task.kernel_thread),
        workqueue: work.and_then(|work| work.workqueue.clone()),
    }
}
