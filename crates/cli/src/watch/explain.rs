//! Explains an episode's trace in a separate process, so that its memory is returned when it ends.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use unstarve_diagnose::{Options, explain_beside};
use unstarve_files::Directory;
use unstarve_html::{Collector, Trace, html};
use unstarve_watch::store::{PAGE, REPORT};
use unstarve_watch::trace_in;

use crate::report::GENERATOR;

/// Write the report and the page of an episode
#[derive(Args)]
pub struct ExplainArgs {
    /// The episode's directory in the store
    directory: PathBuf,
}

pub fn run(args: &ExplainArgs) -> Result<ExitCode> {
    // At a low priority behind the host's work, but not idle: the answer must come.
    let _ = rustix::process::setpriority_process(None, 10);
    let directory = Directory::open(&args.directory)?;
    let trace = trace_in(directory.path());
    let source = unstarve_readers::open(&trace).with_context(|| trace.display().to_string())?;
    let mut collector = Collector::default();
    let explained = explain_beside(source, &Options::default(), &mut collector, |_| {})?;
    let report = serde_json::to_vec_pretty(&explained.report)?;
    let name = args.directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let page = html(vec![Trace::new(name, explained, collector)], GENERATOR)?;
    let write = |name: &str, bytes: &[u8]| {
        directory
            .replace(OsStr::new(name), bytes, 0o600)
            .with_context(|| format!("{}/{name}", args.directory.display()))
    };
    write(PAGE, page.as_bytes())?;
    write(REPORT, &report)?;
    Ok(ExitCode::SUCCESS)
}
