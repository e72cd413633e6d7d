//! `unstarve explain`: findings, causes and remedies of a recording.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use unstarve_diagnose::report::{Report, Scope, Severity, verdict};
use unstarve_diagnose::{ExplainError, FINDINGS, Options, REMEDIES};
use unstarve_model::EventSource;
use unstarve_term::{Look, finding_page, first_screen, kinds_page, page_of};

use crate::evidence;
use crate::fail_on::FailOn;
use crate::grammar;
use crate::input::{self, Recording};
use crate::output::{self, Color, Out};
use crate::pager;
use crate::predict::{IN_EXPLAIN, explain_and_predict};
use crate::progress::Progress;
use crate::selection::{LowSelection, UnmetSelection};
use crate::suggested::{FINDING_IDS, find};

/// Show who is starved in a recording, by whom, by which rule, at what cost, and what to do
///
/// Reads trace.dat (trace-cmd, unstarve record), perf.data, Perfetto, the text of `perf script`, `trace-cmd report`, tracefs and
/// babeltrace2, and systrace HTML, also compressed (gzip, zstd, xz, bzip2) or in a tar or zip archive. A selection narrows
/// the report. The whole recording is analysed in any case, because the cause of a wait may lie before the selected part.
///
/// Also reads what a ticket contains: kernel logs, output of ps, top and latency tools, dumps of the scheduler, directories and
/// archives of them. Texts of one host are one answer.
#[derive(Args)]
#[command(after_help = "\
Examples:
  unstarve explain --example
  unstarve explain trace.dat
  unstarve explain dmesg.txt ps.txt
  unstarve explain --json --fail-on warning perf.data > report.json
  ssh host cat /var/tmp/trace.dat.zst | unstarve explain - --task nfsd --from +1s

Exit code: 0 nothing wrong, 1 a finding at or above --fail-on, 2 the recording could not be analysed.")]
pub struct LowArgs {
    /// A recording of any format, or - for standard input; or the texts of a ticket: kernel logs, output of ps, dumps
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Explain a recording that comes with the program: direct I/O whose kworker a real-time task starves
    #[arg(long, conflicts_with = "files")]
    example: bool,
    /// List all findings, with causes and required events, and all remedies
    #[arg(long, exclusive = true)]
    list: bool,
    /// Print all details: every finding, its evidence, its remedies with risks, the longest waits
    #[arg(long, conflicts_with = "json")]
    full: bool,
    /// Print all details of one finding: its number (1 is the worst), or its id
    #[arg(long, value_name = "N|ID", value_parser = FINDING_IDS, hide_possible_values = true, conflicts_with_all = ["json", "full"])]
    finding: Option<String>,
    /// Print the report as JSON (schema unstarve.explain/1)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    selection: LowSelection,
    /// Show only findings of at least this severity
    #[arg(long, value_enum, value_name = "SEVERITY", default_value = "info")]
    min_severity: LowSeverity,
    /// Exit with 1 if there is a finding of at least this severity
    #[arg(long, value_enum, value_name = "SEVERITY", default_value = "critical")]
    fail_on: FailOn,
}

#[derive(Clone, Copy, ValueEnum)]
enum LowSeverity {
    Info,
    Warning,
    Critical,
}

/// The checked arguments.
pub enum HiArgs {
    List(Look),
    Explain(Box<Explain>),
}

/// The recording and how to report it.
pub struct Explain {
    input: ToExplain,
    options: Options,
    /// Decides the exit code; findings that are not shown count too.
    fail_on: Option<Severity>,
    min_severity: Severity,
    form: Form,
}

/// What is explained.
enum ToExplain {
    Example,
    Recording(Recording),
    /// Texts of one ticket.
    Texts(Vec<PathBuf>),
}

impl ToExplain {
    fn of(files: Vec<PathBuf>) -> Result<ToExplain> {
        match <[PathBuf; 1]>::try_from(files) {
            Ok([directory]) if directory.is_dir() && unstarve_readers::foreign::directory(&directory).is_none() => {
                Ok(ToExplain::Texts(vec![directory]))
            }
            Ok([file]) => Ok(ToExplain::Recording(Recording::new(file)?)),
            Err(files) if files.is_empty() => Ok(ToExplain::Example),
            Err(files) => Ok(ToExplain::Texts(files)),
        }
    }

    /// The recording's file, if there is one that can be read again.
    fn file(&self) -> Option<&Path> {
        match self {
            ToExplain::Recording(recording) => recording.file(),
            ToExplain::Example | ToExplain::Texts(_) => None,
        }
    }
}

enum Form {
    Json,
    FirstScreen(Look),
    Full(Look),
    /// One finding in full, by number or id.
    Finding(String, Look),
}

impl LowArgs {
    /// Checks the arguments before any work starts.
    pub fn raise(self, color: Color) -> Result<HiArgs> {
        if self.list {
            return Ok(HiArgs::List(output::look(color)));
        }
        if self.files.is_empty() && !self.example {
            return Err(input::no_recording("explain"));
        }
        Ok(HiArgs::Explain(Box::new(Explain {
            input: ToExplain::of(self.files)?,
            options: Options { selection: self.selection.raise(), ..Options::default() },
            fail_on: self.fail_on.severity(),
            min_severity: match self.min_severity {
                LowSeverity::Info => Severity::Info,
                LowSeverity::Warning => Severity::Warning,
                LowSeverity::Critical => Severity::Critical,
            },
            form: match self.finding {
                Some(finding) => Form::Finding(finding, output::look(color)),
                None if self.json => Form::Json,
                None if self.full => Form::Full(output::look(color)),
                None => Form::FirstScreen(output::look(color)),
            },
        })))
    }
}

pub fn run(args: HiArgs) -> Result<ExitCode> {
    match args {
        HiArgs::List(look) => {
            Out::new().text(&kinds_page(&FINDINGS, REMEDIES, look))?;
            Ok(ExitCode::SUCCESS)
        }
        HiArgs::Explain(args) => explain(&args),
    }
}

fn explain(args: &Explain) -> Result<ExitCode> {
    let mut report = read(args)?;
    if report.evidence.is_some() {
        evidence::select(&mut report, &args.options.selection)?;
    }
    let failed = args.fail_on.is_some_and(|limit| report.findings.iter().any(|finding| finding.severity >= limit));
    output::will_end_with(u8::from(failed));
    report.findings.retain(|finding| finding.severity >= args.min_severity);
    let scope = args.options.scope();
    if report.evidence.is_none() {
        report.verdict = verdict(&report, scope);
    }
    let text = text(&report, scope, args)?;
    match args.form {
        Form::Full(_) | Form::Finding(..) => pager::print(&text)?,
        Form::Json | Form::FirstScreen(_) => Out::new().text(&text)?,
    }
    Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// The report of a recording; or of texts, where that is what was given.
fn read(args: &Explain) -> Result<Report> {
    match &args.input {
        ToExplain::Example => recorded(input::example()?, "the example", args),
        ToExplain::Texts(files) => evidence::of_files(files),
        ToExplain::Recording(recording) => {
            if let Some(stream) = recording.stream()? {
                if !unstarve_evidence::is_text_with_trigger(stream.prefix()) {
                    return recorded(unstarve_readers::open::open_input(stream)?, &recording.name(), args);
                }
                // Read twice: as a recording, and as evidence.
                let kept = stream.into_positioned().context("cannot keep standard input")?;
                let source = unstarve_readers::open::open_input(kept.again()?).map_err(anyhow::Error::from);
                let report = source.and_then(|source| recorded(source, &recording.name(), args));
                return if_little(report, || evidence::of_input(kept.again().ok()?));
            }
            let source = recording.open_or_say_why().map_err(anyhow::Error::from);
            let report = source.and_then(|source| recorded(source, &recording.name(), args));
            if_little(report, || evidence::of_file(recording.file()?))
        }
    }
}

/// The report of a recording; where that says little or nothing, what the messages and lists beside the events prove, if they do.
fn if_little(recorded: Result<Report>, evidence: impl FnOnce() -> Option<Report>) -> Result<Report> {
    let says_little = |report: &Report| report.trace.too_little.is_some() && report.verdict.severity.is_none();
    match recorded {
        Ok(report) if !says_little(&report) => Ok(report),
        Ok(report) => Ok(evidence().filter(|evidence| !evidence.findings.is_empty()).unwrap_or(report)),
        // What is a recording, and damaged, is not healthy because its notes prove nothing.
        Err(error) => evidence().filter(|evidence| has_no_events(&error) || !evidence.findings.is_empty()).ok_or(error),
    }
}

fn has_no_events(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| match cause.downcast_ref() {
        Some(ExplainError::Read(error)) => unstarve_readers::has_no_events(&**error),
        _ => unstarve_readers::has_no_events(cause),
    })
}

fn recorded(source: Box<dyn EventSource>, name: &str, args: &Explain) -> Result<Report> {
    let mut progress = Progress::new();
    let mut unmet = UnmetSelection::of(&args.options.selection);
    let tell = |events| progress.events(events);
    let (explained, _) =
        explain_and_predict(source, &args.options, &mut unmet, IN_EXPLAIN, tell).with_context(|| name.to_owned())?;
    drop(progress);
    unmet.report_unmet(&args.options.selection, name)?;
    Ok(explained.report)
}

fn text(report: &Report, scope: Scope, args: &Explain) -> Result<String> {
    // Standard input cannot be read again, the example is not a file, and a name that is not UTF-8 cannot be printed.
    let name = args.input.file().and_then(Path::to_str).unwrap_or("FILE");
    // `fix undo` undoes.
    let name = if grammar::is_verb_of_fix(name) { format!("./{name}") } else { name.to_owned() };
    let name = unstarve_change::quoted_file(&name);
    Ok(match &args.form {
        Form::Json => serde_json::to_string_pretty(report)? + "\n",
        Form::FirstScreen(look) => first_screen(report, scope, name.as_deref(), *look),
        Form::Full(look) => page_of(report, scope, name.as_deref(), *look),
        Form::Finding(chosen, look) => {
            let ids: Vec<&str> = report.findings.iter().map(|finding| finding.id.as_str()).collect();
            let index = find(chosen, &ids, "finding", "this recording")?;
            finding_page(report, scope, index, name.as_deref(), *look).unwrap_or_default()
        }
    })
}
