//! `unstarve watch show`: one episode, and the report on its trace, or the trace itself.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use unstarve_diagnose::report::Scope;
use unstarve_diagnose::{Options, explain};
use unstarve_model::EventSource;
use unstarve_readers::{Input, OpenError, open_input};
use unstarve_term::page_of;
use unstarve_watch::episode::{Episode, began, is_id, line};
use unstarve_watch::store::{read_log, trace_directory};
use unstarve_watch::trace_in;

use super::episodes::when;
use super::{StoreArgs, print};
use crate::output::{self, Color};
use crate::target::Target;

/// Show an episode: how it began, and what explain says of its trace
#[derive(Args)]
#[command(
    after_help = "Its trace is a recording like any other: see also report, timeline and export with DIR/ID/trace.dat. From a pod:
  kubectl -n unstarve exec POD -- /usr/bin/unstarve watch show ID --trace - > trace.dat

Exit code: 0 if it was shown, 2 if there is none."
)]
pub struct ShowArgs {
    /// The episode's id, as `unstarve watch episodes` lists it
    #[arg(value_name = "ID")]
    id: String,
    /// Print the report as JSON (schema unstarve.explain/1)
    #[arg(long)]
    json: bool,
    /// Copy its trace here, or to standard output (-), instead of explaining it
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
}

/// Opens only regular files: another user's store may contain FIFOs and devices.
fn open_regular(path: &Path) -> Result<Box<dyn EventSource>, OpenError> {
    let name = path.display().to_string();
    let opened = unstarve_files::open_regular(path).and_then(|file| Input::from_file(file, name.clone()));
    open_input(opened.map_err(|source| OpenError::Io { name, source })?)
}

/// Copies a trace byte by byte: from a container without a shell, or out of a store that only root reads.
fn copy(trace: &Path, to: &Path) -> Result<ExitCode> {
    let name = || trace.display().to_string();
    let mut from = unstarve_files::open_regular(trace).with_context(name).map_err(output::hint_at_root)?;
    let target = Target::open(to)?;
    let mut writer = target.writer()?;
    io::copy(&mut from, &mut writer)
        .and_then(|_| writer.flush())
        .with_context(|| format!("cannot copy {} to {}", name(), target.name()))?;
    drop(writer);
    target.deliver()?;
    Ok(ExitCode::SUCCESS)
}

/// The last entry of an episode in the log. A partly copied store may lack it.
fn last_log_entry(store: &Path, id: &str) -> Option<Episode> {
    read_log(store).ok()?.episodes.into_iter().rev().find(|episode| episode.id == id)
}

/// How the episode began, and its headline: the trace may show nothing as bad as the counters did.
fn about(episode: &Episode) -> String {
    let mut text = format!("{}  {}\n", when(episode), line(episode));
    text += &began(episode).map_or_else(String::new, |began| format!("{began}\n"));
    text + "\nWhat explain says of its trace:\n\n"
}

pub fn run(args: &ShowArgs, color: Color) -> Result<ExitCode> {
    if !is_id(&args.id) {
        bail!("{}: expected an id such as 20261123-012345-678; `unstarve watch episodes` lists them", args.id);
    }
    let store = args.store.readable()?;
    let directory = trace_directory(&store, &args.id).map_err(|error| output::hint_at_root(error.into()))?;
    let Some(directory) = directory else {
        match last_log_entry(&store, &args.id) {
            Some(episode) if episode.trace_bytes.is_some() || episode.trace_of.is_some() => {
                bail!("the trace was removed to make room; what is still known: {}", line(&episode))
            }
            Some(episode) => bail!("no trace was kept; what is known: {}", line(&episode)),
            None => bail!(
                "{} knows no episode {}; `unstarve watch episodes` lists those that it knows",
                store.display(),
                args.id
            ),
        }
    };
    if directory.file_name() != Some(args.id.as_ref()) {
        output::remark(&format!("episode {} is in the trace of {}", args.id, directory.display()));
    }
    let trace = trace_in(&directory);
    if let Some(to) = &args.trace {
        return copy(&trace, to);
    }
    let source = open_regular(&trace).with_context(|| format!("episode {}", args.id));
    let report = explain(source.map_err(output::hint_at_root)?, &Options::default(), |_| {})?;
    print(&match args.json {
        true => serde_json::to_string_pretty(&report)? + "\n",
        false => {
            let file = unstarve_change::quoted_file(&trace.display().to_string());
            let page = page_of(&report, Scope::Whole, file.as_deref(), output::look(color));
            last_log_entry(&store, &args.id).map_or_else(String::new, |episode| about(&episode)) + &page
        }
    })
}
