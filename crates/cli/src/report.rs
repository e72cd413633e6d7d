//! `unstarve report`: the explanation as one HTML file.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use unstarve_diagnose::Options;
use unstarve_diagnose::compare::{Comparison, Profile, Side, compare};
use unstarve_html::{Collector, Trace, comparison_html, html};
use unstarve_timeline::{Both, Selection};

use crate::evidence;
use crate::input::{Recording, is_same_file};
use crate::output;
use crate::predict::{IN_EXPLAIN, IN_PAGE, add_what_came, explain_and_predict, predict_for_page};
use crate::progress::Progress;
use crate::selection::{LowSelection, UnmetSelection};
use crate::target::Target;

/// Write the output of `explain`, and charts, as one HTML file that opens anywhere
///
/// Verdict and findings with their remedies, waits over time, the worst moments in detail, who waited for whom, what ran
/// where, and what the recording cannot say. The file needs no network and loads nothing.
#[derive(Args)]
#[command(after_help = "\
Examples:
  unstarve report trace.dat
  unstarve report perf.data -o starved.html
  ssh host cat trace.dat.zst | unstarve report - -o host.html

Exit code: 0 if the page was written, 2 if not.")]
pub struct LowArgs {
    /// Recordings of any format, or - for standard input
    #[arg(required = true, value_name = "TRACE")]
    files: Vec<PathBuf>,
    /// The file to write, or - for standard output
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    /// Leave out what remedies are predicted to do
    #[arg(long)]
    no_predictions: bool,
    /// What `fix --apply --verify --json` printed for this recording: what came is shown beside what was predicted; may be repeated
    #[arg(long, value_name = "FILE", conflicts_with = "no_predictions")]
    came: Vec<PathBuf>,
    #[command(flatten)]
    selection: LowSelection,
}

/// The checked arguments.
pub struct HiArgs {
    recordings: Vec<Recording>,
    output: PathBuf,
    /// Narrows verdict and findings; the charts show the whole recording.
    selection: Selection,
    predictions: Shown,
    /// What came of remedies that were tried.
    came: Vec<PathBuf>,
}

/// Whether the page says what remedies would do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Yes,
    No,
}

impl LowArgs {
    /// Checks the arguments before any work starts.
    pub fn raise(self) -> Result<HiArgs> {
        if self.output.is_dir() {
            bail!("{}: is a directory; expected the name of a file, for example report.html", self.output.display());
        }
        if self.files.iter().any(|file| is_same_file(file, &self.output)) {
            bail!("{}: is the input recording; give the page another name with -o", self.output.display());
        }
        if let [recordings @ .., page] = self.files.as_slice()
            && !recordings.is_empty()
            && is_name_of_a_page(page)
        {
            let named: Option<Vec<String>> =
                recordings.iter().map(|file| unstarve_change::quoted_file(file.to_str()?)).collect();
            let [command, page] =
                [named.map_or("FILE".to_owned(), |named| named.join(" ")), page.display().to_string()];
            let quoted = unstarve_change::quoted_file(&page).unwrap_or_else(|| "PAGE.html".to_owned());
            bail!(
                "there is no recording {page}; to write the page to that name: unstarve report {command} -o {quoted}"
            );
        }
        let recordings: Vec<Recording> = self.files.into_iter().map(Recording::new).collect::<Result<_>>()?;
        if !self.came.is_empty() && recordings.len() > 1 {
            bail!("--came is of one recording, and there are {}", recordings.len());
        }
        let predictions = if self.no_predictions { Shown::No } else { Shown::Yes };
        Ok(HiArgs { recordings, output: self.output, selection: self.selection.raise(), predictions, came: self.came })
    }
}

/// Whether this can only be meant as the page to write.
fn is_name_of_a_page(path: &Path) -> bool {
    let is_page = |end: &OsStr| end == "html" || end == "htm";
    path.extension().is_some_and(is_page) && !path.exists()
}

pub fn run(args: HiArgs) -> Result<ExitCode> {
    let target = Target::open(&args.output)?;
    // Texts of one ticket are one answer.
    let whole = Selection::default();
    let is_text = |recording: &Recording| {
        let parts = PageParts { selection: &whole, predictions: Shown::No, came: &[] };
        read_recording(recording, String::new(), parts).is_err()
    };
    if args.recordings.len() > 1 && args.recordings.iter().all(is_text) {
        let files: Vec<PathBuf> =
            args.recordings.iter().filter_map(|recording| recording.file()).map(Path::to_owned).collect();
        let mut report = evidence::of_files(&files)?;
        evidence::select(&mut report, &args.selection)?;
        let name = args.recordings.iter().map(Recording::short_name).collect::<Vec<_>>().join(", ");
        write(target, &html(vec![evidence::page_trace(name, report)], GENERATOR)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let parts = PageParts { selection: &args.selection, predictions: args.predictions, came: &args.came };
    let mut traces = Vec::with_capacity(args.recordings.len());
    for recording in &args.recordings {
        let short = recording.short_name();
        let alike = args.recordings.iter().filter(|other| other.short_name() == short).count();
        let name = if alike > 1 { recording.name() } else { short };
        traces.push(read(recording, name, parts)?);
    }
    write(target, &html(traces, GENERATOR)?)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) const GENERATOR: &str = concat!("unstarve ", env!("CARGO_PKG_VERSION"));

/// Writes the page that compares two recordings; returns the comparison.
pub fn compared(a: &Recording, b: &Recording, selection: &Selection, output: &Path) -> Result<Comparison> {
    let target = Target::open(output)?;
    let (side_a, trace_a) = read_side(a, format!("A: {}", a.short_name()), selection)?;
    let (side_b, trace_b) = read_side(b, format!("B: {}", b.short_name()), selection)?;
    let comparison = compare(&side_a, &side_b);
    write(target, &comparison_html([trace_a, trace_b], &comparison, GENERATOR)?)?;
    Ok(comparison)
}

fn read_side(recording: &Recording, name: String, selection: &Selection) -> Result<(Side, Trace)> {
    let mut progress = Progress::new();
    let (mut profile, mut collector) = (Profile::of(selection.clone()), Collector::default());
    let mut unmet = UnmetSelection::of(selection);
    let options = Options { selection: selection.clone(), ..Options::default() };
    let source = recording.open()?;
    let tell = |events| progress.events(events);
    let mut sums = Both(&mut profile, &mut collector);
    let (explained, _) = explain_and_predict(source, &options, &mut Both(&mut sums, &mut unmet), IN_EXPLAIN, tell)
        .with_context(|| recording.name())?;
    unmet.report_unmet(selection, &recording.name())?;
    let side = Side { report: explained.report.clone(), profile };
    Ok((side, Trace::new(name, explained, collector)))
}

fn write(target: Target, page: &str) -> Result<()> {
    target.text(page)?;
    let wrote = target.is_file().then(|| format!("wrote {}", target.name()));
    target.deliver()?;
    if let Some(wrote) = wrote {
        output::remark(&wrote);
    }
    Ok(())
}

/// What of a recording is on the page.
#[derive(Clone, Copy)]
struct PageParts<'a> {
    selection: &'a Selection,
    predictions: Shown,
    came: &'a [PathBuf],
}

/// A recording, or else a text that is evidence.
fn read(recording: &Recording, name: String, parts: PageParts<'_>) -> Result<Trace> {
    let recorded = read_recording(recording, name.clone(), parts);
    let Err(error) = recorded else { return recorded };
    match recording.file().and_then(evidence::of_file) {
        Some(mut report) => {
            evidence::select(&mut report, parts.selection)?;
            Ok(evidence::page_trace(name, report))
        }
        None => Err(error),
    }
}

fn read_recording(recording: &Recording, name: String, parts: PageParts<'_>) -> Result<Trace> {
    let PageParts { selection, predictions, came } = parts;
    let mut progress = Progress::new();
    let mut collector = Collector::default();
    let source = recording.open()?;
    let tell = |events| progress.events(events);
    let options = Options { selection: selection.clone(), ..Options::default() };
    let mut unmet = UnmetSelection::of(selection);
    let mut sinks = Both(&mut collector, &mut unmet);
    let (mut explained, extracted) =
        explain_and_predict(source, &options, &mut sinks, IN_PAGE, tell).with_context(|| recording.name())?;
    let report = &mut explained.report;
    match (predictions, &extracted) {
        (Shown::Yes, Ok(extracted)) => predict_for_page(report, extracted, explained.driven.snapshot.as_deref()),
        (Shown::Yes, Err(_)) => {}
        (Shown::No, _) => {
            report.findings.iter_mut().flat_map(|of| &mut of.remedies).for_each(|remedy| remedy.predicted = None);
        }
    }
    came.iter().try_for_each(|file| add_what_came(report, file))?;
    unmet.report_unmet(selection, &recording.name())?;
    Ok(Trace::new(name, explained, collector))
}
