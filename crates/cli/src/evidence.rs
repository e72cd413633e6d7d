//! Text that is no recording: kernel logs, lists of threads, dumps, output of tools, and bundles of these. Each is searched for what
//! proves that a thread is starved.

use std::fs::Metadata;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use unstarve_change::quoted_file;
use unstarve_check::{Audit, audit};
use unstarve_diagnose::report::{NextStep, OtherHost, Report, Severity, Verdict};
use unstarve_diagnose::{Driven, Explained};
use unstarve_evidence::{Gathered, Host, Limits, explain, gather, gather_input, snapshot};
use unstarve_facts::Snapshot;
use unstarve_html::{Collector, Trace};
use unstarve_model::{CpuId, CpuSet, Tid};
use unstarve_readers::Input;
use unstarve_timeline::{Selection, TaskPattern};

use crate::advice::for_a_second_file;

/// The settings of the host in a snapshot, a directory or an archive.
pub fn settings_of(path: &Path) -> Result<Snapshot> {
    let name = path.display();
    let gathered = gather(&[path.to_owned()], Limits::default())?;
    if let [found] = gathered.snapshots.as_slice() {
        return Ok((*found.snapshot).clone());
    }
    if !gathered.snapshots.is_empty() {
        let names: Vec<&str> = gathered.snapshots.iter().map(|found| found.name.as_str()).collect();
        bail!("{name} has several snapshots ({}); name one: unstarve check FILE", names.join(", "));
    }
    let found: Vec<(&Host, Snapshot)> =
        gathered.hosts.iter().filter_map(|host| Some((host, snapshot(&host.facts)?))).collect();
    match found.as_slice() {
        [(_, one)] => Ok(one.clone()),
        [] if !gathered.recordings.is_empty() => {
            let file = unstarve_change::quoted_file(&name.to_string()).unwrap_or_else(|| "FILE".to_owned());
            bail!("{name} is a recording, and check looks at settings: unstarve explain {file}")
        }
        [] => bail!(
            "{name} does not name its kernel; add `uname -a`, `sysctl -a` and `ps -eLo pid,tid,cls,rtprio,ni,psr,stat,pcpu,comm`, or \
             make a snapshot there: unstarve snapshot -o host.json"
        ),
        several => {
            let hosts: Vec<&str> = several.iter().filter_map(|(host, _)| host.name.as_deref()).collect();
            bail!("{name} is of several hosts ({}); name the directory of one", hosts.join(", "))
        }
    }
}

/// What files, directories and archives of one ticket prove together.
pub fn of_files(paths: &[PathBuf]) -> Result<Report> {
    let names: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
    let advice = |second: &str| for_a_second_file(&names[0], second).unwrap_or_default();
    for (path, name) in paths.iter().zip(&names) {
        match path.metadata() {
            Err(_) if paths.len() > 1 && path != &paths[0] => bail!("{name}: no such file; {}", advice(name)),
            Err(error) => return Err(error).with_context(|| format!("cannot read {name}")),
            Ok(found) if is_readable_at_once(&found) => {}
            Ok(_) => {
                bail!("{name}: is a pipe or a device; expected a file or a directory. Of a pipe: unstarve explain -")
            }
        }
    }
    let gathered = gather(paths, Limits::default())?;
    let is_recording = |name: &str| gathered.recordings.iter().any(|found| found.name == name && !found.has_evidence);
    if let Some(recording) = names.iter().find(|name| is_recording(name)) {
        match names.len() {
            1 => bail!("{recording}: is a recording and no text"),
            _ => bail!("{recording}: is a recording, and is explained by itself; {}", advice(&names[1])),
        }
    }
    let recording = gathered.recordings.first().map(|found| found.name.clone());
    of_hosts(gathered, &names.iter().map(|name| name.as_ref()).collect::<Vec<_>>()).ok_or_else(|| {
        let expected = match recording {
            Some(found) => {
                let file = Path::new(&found).exists().then(|| quoted_file(&found)).flatten();
                format!("a recording is explained by itself: unstarve explain {}", file.as_deref().unwrap_or("FILE"))
            }
            None => "expected a recording, or texts such as `dmesg` and `ps -eLo` print".to_owned(),
        };
        anyhow!("no text in {} says anything about threads and CPUs; {expected}", names.join(", "))
    })
}

/// What one file, directory or archive proves; nothing if no line of it is evidence.
pub fn of_file(path: &Path) -> Option<Report> {
    // A pipe that was read cannot be read again.
    if !path.metadata().is_ok_and(|found| is_readable_at_once(&found)) {
        return None;
    }
    of_hosts(gather(&[path.to_owned()], Limits::default()).ok()?, &[&path.to_string_lossy()])
}

/// What a text proves.
pub fn of_input(input: Input) -> Option<Report> {
    of_hosts(gather_input(input, Limits::default()), &[])
}

fn is_readable_at_once(found: &Metadata) -> bool {
    let kind = found.file_type();
    !(kind.is_fifo() || kind.is_socket() || kind.is_char_device() || kind.is_block_device())
}

/// The report on the host that is worst off, with the verdicts on the others.
fn of_hosts(gathered: Gathered, names: &[&str]) -> Option<Report> {
    let hosts = gathered.hosts.iter().filter(|host| host.sources.iter().any(|source| !source.kinds.is_empty()));
    let mut reports: Vec<Report> = hosts
        .map(|host| {
            let mut report = explain(&host.facts, &host.sources);
            report.trace.host = host.name.clone().or(report.trace.host);
            if let Some(snapshot) = snapshot(&host.facts) {
                add_check(&mut report, &audit(&snapshot), names);
            }
            report
        })
        .collect();
    reports.sort_by_key(|report| std::cmp::Reverse(report.verdict.severity));
    let mut reports = reports.into_iter();
    let mut worst = reports.next()?;
    worst.losses.extend(gathered.losses);
    let found = gathered.recordings.iter().take(MAX_LISTED);
    worst.losses.extend(found.map(|found| format!("{} is a recording, which is explained by itself", found.name)));
    if let Some(evidence) = &mut worst.evidence {
        let other = |report: Report| OtherHost { host: report.trace.host.unwrap_or_default(), verdict: report.verdict };
        evidence.others = reports.map(other).collect();
    }
    Some(worst)
}

/// Rules of check, by the finding whose victim they bear on.
const RULES_OF_FINDINGS: [(&str, &[&str]); 6] = [
    (
        "rt-starvation",
        &["rt-throttling-off", "rt-beside-completion-worker", "rt-on-interrupt-cpu", "rt-above-irq-thread"],
    ),
    ("throttled", &["throttled-cgroup"]),
    ("stuck-equal", &["heavy-cgroup", "busy-poller", "crowded-pool", "bpf-scheduler"]),
    ("long-wait", &["heavy-cgroup", "busy-poller", "crowded-pool", "bpf-scheduler", "rt-throttling-off"]),
    ("irq-interference", &["interrupt-on-pinned-cpu"]),
    ("cpu-stopped", &["stolen-time"]),
];

/// Adds what check finds in the settings that the texts have: to the worst finding, where it bears on it, and as a next step.
fn add_check(report: &mut Report, audit: &Audit, names: &[&str]) {
    let loud = || audit.hits.iter().filter(|hit| hit.severity > Severity::Info);
    if let Some(finding) = report.findings.first_mut().filter(|finding| finding.severity > Severity::Info) {
        let rules =
            RULES_OF_FINDINGS.iter().find(|(id, _)| finding.id.as_str() == *id).map_or(&[][..], |(_, rules)| rules);
        let bear = loud().filter(|hit| rules.contains(&hit.rule.as_str())).take(MAX_HITS);
        finding.evidence.extend(bear.map(|hit| format!("check ({}): {}", hit.rule, hit.sentence)));
    }
    let file = match names {
        [name] => quoted_file(name),
        _ => None,
    };
    if let (Some(evidence), Some(file), Some(_)) = (&mut report.evidence, file, loud().next()) {
        evidence.next.retain(|step| step.command != "sudo unstarve check");
        evidence.next.push(NextStep {
            why: "what the settings in these texts will starve".to_owned(),
            command: format!("unstarve check {file}"),
        });
    }
}

/// Hits of check that are quoted with a finding.
const MAX_HITS: usize = 3;

/// Recordings of a bundle that are named.
const MAX_LISTED: usize = 8;

/// Leaves the findings about the selected threads and CPUs.
pub fn select(report: &mut Report, selection: &Selection) -> Result<()> {
    if selection.from.is_some() || selection.to.is_some() {
        bail!("--from and --to need a recording; of logs and lists, --task and --cpu select findings");
    }
    if selection.tasks.is_empty() && selection.cpus.is_none() {
        return Ok(());
    }
    let is_task = |comm: &str, tids: &[u32]| {
        let tids = if tids.is_empty() { &[u32::MAX][..] } else { tids };
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
