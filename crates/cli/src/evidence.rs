//! Text that is no recording: kernel logs, lists of threads, dumps. Each is searched for what proves that a thread is starved.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use unstarve_diagnose::report::{Report, Severity, Verdict};
use unstarve_diagnose::{Driven, Explained};
use unstarve_evidence::{Facts, Source, explain, has_trigger, scan};
use unstarve_html::{Collector, Trace};
use unstarve_model::{CpuId, CpuSet, Tid};
use unstarve_readers::Input;
use unstarve_timeline::{Selection, TaskPattern};

/// What files of one host prove together.
pub fn of_files(paths: &[PathBuf]) -> Result<Report> {
    let (mut facts, mut sources) = (Facts::default(), Vec::new());
    for path in paths {
        add(path, &mut facts, &mut sources)?;
    }
    Ok(explain(&facts, &sources))
}

/// What one file proves; nothing if it is no text, or if no line of it is evidence.
pub fn of_file(path: &Path) -> Option<Report> {
    let (mut facts, mut sources) = (Facts::default(), Vec::new());
    add(path, &mut facts, &mut sources).ok()?;
    (!facts.is_empty()).then(|| explain(&facts, &sources))
}

/// What a stream proves whose beginning shows evidence.
pub fn of_stream(input: Input) -> Result<Report> {
    let (mut facts, name) = (Facts::default(), input.name().to_owned());
    let source = scan(input.into_stream(), &name, 0, &mut facts)?;
    Ok(explain(&facts, &[source]))
}

/// Leaves the findings about the selected threads and CPUs.
pub fn select(report: &mut Report, selection: &Selection) -> Result<()> {
    if selection.from.is_some() || selection.to.is_some() {
        bail!("--from and --to need a recording; of logs and lists, --task and --cpu select findings");
    }
    let is_task = |comm: &str, tids: &[u32]| {
        let tids = if tids.is_empty() { &[0][..] } else { tids };
        let matches = |pattern: &TaskPattern| tids.iter().any(|tid| pattern.matches(&comm.into(), Tid(*tid)));
        selection.tasks.iter().any(matches)
    };
    report.findings.retain(|finding| {
        let on_cpu = |cpus: &CpuSet| finding.cpus.iter().any(|cpu| cpus.contains(CpuId(*cpu)));
        let of_task = || {
            is_task(&finding.victim.comm, &finding.victim.tids)
                || finding.culprits.iter().any(|culprit| is_task(&culprit.comm, &culprit.tids))
        };
        selection.cpus.as_ref().is_none_or(on_cpu) && (selection.tasks.is_empty() || of_task())
    });
    let worst = report.findings.first().filter(|worst| worst.severity > Severity::Info);
    if selection.tasks.is_empty() && selection.cpus.is_none() {
        return Ok(());
    }
    report.verdict = match worst {
        Some(worst) => Verdict { severity: Some(worst.severity), text: worst.sentence.clone() },
        None => {
            Verdict { severity: None, text: "Nothing in the text is about the selected threads and CPUs.".to_owned() }
        }
    };
    Ok(())
}

/// The page's data of a report without a recording: its charts are empty.
pub fn page_trace(name: String, report: Report) -> Trace {
    Trace::new(name, Explained { report, driven: Driven::nothing() }, Collector::default())
}

/// Whether the beginning of a stream shows evidence, and no events.
pub fn begins_like_evidence(prefix: &[u8]) -> bool {
    !prefix.contains(&0) && has_trigger(prefix)
}

fn add(path: &Path, facts: &mut Facts, sources: &mut Vec<Source>) -> Result<()> {
    let name = path.display().to_string();
    let mut file = File::open(path).with_context(|| format!("cannot read {name}"))?;
    let mut beginning = Vec::new();
    file.by_ref().take(BEGINNING).read_to_end(&mut beginning).with_context(|| format!("cannot read {name}"))?;
    if beginning.contains(&0) {
        bail!("{name}: is no text; several files are read together only if all are text (logs, lists of threads)");
    }
    let place = sources.len() as u32;
    sources.push(scan(beginning.chain(file), &short(path), place, facts)?);
    Ok(())
}

/// Enough to see that a file is no text.
const BEGINNING: u64 = 32 << 10;

/// The name to quote lines by: without directories.
fn short(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}
