//! One recording is explained alike, whatever it is written as: a binary file with times in nanoseconds, or text with
//! times in microseconds.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use unstarve_diagnose::report::{Finding, Report};
use unstarve_diagnose::{Options, explain};
use unstarve_model::{Batch, Context, Event, EventKind, EventSource, Issuer, Loss, SourceError, Time, TraceInfo};

/// A source with the times that text has by default.
struct InMicroseconds(Box<dyn EventSource>);

impl EventSource for InMicroseconds {
    fn info(&self) -> &TraceInfo {
        self.0.info()
    }

    fn read(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let more = self.0.read(batch)?;
        batch.events.iter_mut().for_each(|event| event.time = Time(event.time.0 / 1000 * 1000));
        Ok(more)
    }

    fn losses(&self) -> Vec<Loss> {
        self.0.losses()
    }
}

/// The events of a text, beside what the binary file says of the host: text has no room for a snapshot.
struct Described {
    text: Box<dyn EventSource>,
    about: TraceInfo,
}

impl EventSource for Described {
    fn info(&self) -> &TraceInfo {
        &self.about
    }

    fn read(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        self.text.read(batch)
    }

    fn losses(&self) -> Vec<Loss> {
        self.text.losses()
    }
}

/// Whether the events of a source without interrupts say in which context they were issued.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Contexts {
    Kept,
    Lost,
}

/// What `perf sched record` keeps of a recording; its text loses the contexts, too.
struct SchedulerOnly(Box<dyn EventSource>, Contexts);

impl EventSource for SchedulerOnly {
    fn info(&self) -> &TraceInfo {
        self.0.info()
    }

    fn read(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let more = self.0.read(batch)?;
        let of_interrupts = |event: &Event| {
            use EventKind::*;
            matches!(
                event.kind,
                IrqEntry { .. } | IrqExit { .. } | SoftirqEntry { .. } | SoftirqExit { .. } | SoftirqRaise { .. }
            )
        };
        batch.events.retain(|event| !of_interrupts(event));
        if self.1 == Contexts::Lost {
            batch
                .events
                .iter_mut()
                .for_each(|event| event.issuer = Issuer::new(event.issuer.current(), Context::Unknown));
        }
        Ok(more)
    }

    fn losses(&self) -> Vec<Loss> {
        self.0.losses()
    }
}

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")
}

/// All stored recordings whose names fit.
fn recordings(directory: &str, fits: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let files = std::fs::read_dir(testdata().join(directory)).expect("testdata is there");
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("it is readable").path()).collect();
    paths.retain(|path| fits(&path.to_string_lossy()));
    paths.sort();
    assert!(paths.len() > 1, "{directory}: {paths:?}");
    paths
}

fn open(path: &Path) -> Box<dyn EventSource> {
    unstarve_readers::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn explained(source: Box<dyn EventSource>) -> Report {
    explain(source, &Options::default(), |_| {}).expect("it can be explained")
}

/// A row below this part of the longest is not compared: what is left of it may be rounded away.
const COMPARED: f64 = 0.1;

/// What of two findings has to be the same.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compared {
    All,
    /// Without contexts, whoever woke another only once or twice is not found to be its waker: payers are a lower bound.
    AllButPayers,
}

/// What people act on. Rows that are next to nothing are left out, and order counts only in what comes first.
fn essence(finding: &Finding, compared: Compared) -> String {
    let rows = |rows: Vec<(&str, u64)>| {
        let most = rows.iter().map(|(_, ns)| *ns).max().unwrap_or(0) as f64;
        let long = rows.iter().filter(|(_, ns)| *ns as f64 >= COMPARED * most && *ns >= 100_000);
        let mut names: Vec<&str> = long.map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.join(" ")
    };
    let culprits = rows(finding.culprits.iter().map(|culprit| (culprit.comm.as_str(), culprit.ns)).collect());
    let payers = match compared {
        Compared::All => rows(finding.price.iter().map(|payer| (payer.comm.as_str(), payer.ns)).collect()),
        Compared::AllButPayers => "somebody".to_owned(),
    };
    format!("{:?} {} of {} by {culprits}; {payers} paid", finding.severity, finding.id, finding.victim.comm)
}

fn essences(report: &Report, compared: Compared) -> Vec<String> {
    let mut lines: Vec<String> = report.findings.iter().map(|finding| essence(finding, compared)).collect();
    lines.sort();
    lines
}

fn differences(name: &str, one: &Report, other: &Report, compared: Compared) -> Option<String> {
    let (one, other) = (essences(one, compared), essences(other, compared));
    let only = |these: &[String], those: &[String], sign: &str| {
        let alone = these.iter().filter(|line| !those.contains(line));
        alone.map(|line| format!("    {sign} {line}\n")).collect::<String>()
    };
    (one != other).then(|| format!("{name}\n{}{}", only(&one, &other, "-"), only(&other, &one, "+")))
}

fn name(path: &Path) -> String {
    path.file_name().expect("it has one").to_string_lossy().into_owned()
}

#[test]
fn times_in_microseconds_change_no_finding() {
    let is_recording = |path: &str| [".dat", ".dat.zst", ".data.zst", ".pftrace"].iter().any(|end| path.ends_with(end));
    let paths = [recordings("traces", is_recording), recordings("truth", is_recording)].concat();
    let differing: Vec<String> = paths
        .iter()
        .filter_map(|path| {
            let rounded = explained(Box::new(InMicroseconds(open(path))));
            differences(&name(path), &explained(open(path)), &rounded, Compared::All)
        })
        .collect();
    assert!(differing.is_empty(), "{} of {}:\n{}", differing.len(), paths.len(), differing.concat());
}

#[test]
fn contexts_that_text_lacks_change_no_finding() {
    let is_recording = |path: &str| path.ends_with(".dat") || path.ends_with(".dat.zst");
    let mut paths = [recordings("traces", is_recording), recordings("truth", is_recording)].concat();
    // Who sends through the loopback device wakes the receiver by a softirq, which only the contexts show: with them the two are
    // strangers, without them one wakes the other, and partners may take the CPU from each other.
    let sends =
        |path: &PathBuf| ["rps-flood.6.1.none", "granularity-stream-faulty"].iter().any(|one| name(path).contains(one));
    // A logger of nice 19 waits as was asked of it, unless somebody surely waits for it: only contexts prove that a program was woken
    // by another, and a guess raises no alarm.
    paths.retain(|path| !sends(path) && !name(path).contains("log-backpressure"));
    let differing: Vec<String> = paths
        .iter()
        .filter_map(|path| {
            let of = |contexts| explained(Box::new(SchedulerOnly(open(path), contexts)));
            differences(&name(path), &of(Contexts::Kept), &of(Contexts::Lost), Compared::AllButPayers)
        })
        .collect();
    assert!(differing.is_empty(), "{} of {}:\n{}", differing.len(), paths.len(), differing.concat());
}

/// Runs a converter with its output in a file; `None` where it is not installed.
fn converted(words: &[&str], directory: &Path) -> Option<PathBuf> {
    let program = unstarve_testing::tool(words[0])?;
    let path = directory.join("text");
    let output = File::create(&path).expect("a new file");
    let mut command = Command::new("timeout");
    command.args(["-k", "1", "120"]).arg(program).args(&words[1..]).stdin(Stdio::null());
    let status = command.stdout(output).stderr(Stdio::null()).status().expect("it runs");
    assert!(status.success(), "{words:?}: {status}");
    Some(path)
}

/// Explains each recording, and the text that a converter makes of it.
fn compare_with_text(paths: &[PathBuf], words: &[&str], compared: Compared) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut differing = Vec::new();
    for path in paths {
        let plain = directory.path().join("plain");
        let Some(unpacked) = unpacked(path, &plain) else { return };
        let file = unpacked.to_str().expect("a name in UTF-8");
        let Some(converted) = converted(&[words, &["-i", file]].concat(), directory.path()) else { return };
        let mut binary = open(path);
        let report = explained(open(path));
        while binary.read(&mut Batch::default()).expect("it was read before") {}
        let mut text = open(&converted);
        let first = text.read(&mut Batch::default()).expect("the text is read");
        assert!(first, "{}: no events", path.display());
        let about = TraceInfo { format: text.info().format.clone(), ..binary.info().clone() };
        let of_text = explained(Box::new(Described { text: open(&converted), about }));
        differing.extend(differences(&name(path), &report, &of_text, compared));
    }
    assert!(differing.is_empty(), "{} of {}:\n{}", differing.len(), paths.len(), differing.concat());
}

/// The recording as the converters read it.
fn unpacked(path: &Path, plain: &Path) -> Option<PathBuf> {
    if path.extension().is_none_or(|end| end != "zst") {
        return Some(path.to_owned());
    }
    let zstd = unstarve_testing::tool("zstd")?;
    let status = Command::new(zstd).args(["-q", "-d", "-f"]).arg(path).arg("-o").arg(plain).status().expect("it runs");
    assert!(status.success(), "{}: {status}", path.display());
    Some(plain.to_owned())
}

#[test]
fn the_text_of_trace_cmd_changes_no_finding() {
    let paths = recordings("traces", |path| path.ends_with(".dat") || path.ends_with("y.dat.zst"));
    compare_with_text(&paths, &["trace-cmd", "report"], Compared::AllButPayers);
    // With the context of each event.
    compare_with_text(&paths, &["trace-cmd", "report", "-l"], Compared::All);
}

#[test]
fn the_text_of_perf_script_changes_no_finding() {
    let paths = recordings("traces", |path| path.ends_with(".data.zst"));
    compare_with_text(&paths, &["perf", "script", "-F", "+cpu"], Compared::AllButPayers);
}
