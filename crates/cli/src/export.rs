//! `unstarve export`: waits and blame for Perfetto, Firefox Profiler, flame graphs and tables.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use unstarve_diagnose::report::in_words;
use unstarve_diagnose::{Options, explain_beside};
use unstarve_export::{Export, ExportError, Firefox, Folded, Perfetto, Table, Tables};
use unstarve_files::trust::make_for_results;
#[cfg(feature = "columnar")]
use unstarve_tables::{ArrowRows, ParquetRows};
use unstarve_tables::{CsvRows, Rows};
use unstarve_timeline::{Both, Selection};

use crate::input::{Recording, is_same_file};
use crate::output;
use crate::progress::Progress;
use crate::selection::{LowSelection, UnmetSelection};
use crate::target::{Target, Writer};

/// Write waits and blame for other programs: Perfetto, Firefox Profiler, flame graphs, CSV, Arrow, Parquet
///
/// One pass over the recording. The sums are those of `unstarve explain --json`, to the nanosecond; docs/export.md describes
/// the formats and their columns.
#[derive(Args)]
#[command(after_help = "\
Examples:
  unstarve export trace.dat -o trace.pftrace                open it at ui.perfetto.dev
  unstarve export trace.dat -o stacks.folded && inferno-flamegraph stacks.folded > blame.svg
  unstarve export trace.dat --format csv --table blame -o - | column -s, -t | less -S
  unstarve export trace.dat -o waits.parquet --task 'kworker/*'
  unstarve export trace.dat --format parquet -o tables/     waits, pieces, blame and findings, a file each

Exit code: 0 if the file was written, 2 if not.")]
pub struct LowArgs {
    /// A recording of any format, or - for standard input
    file: PathBuf,
    /// The format [default: from the output's name, else perfetto]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The file to write, or - for standard output; for tables also a directory [default: trace.pftrace, profile.json,
    /// stacks.folded, or the table's name, by the format]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Which table; all of them if the output is a directory
    #[arg(long, value_enum, value_name = "TABLE", default_value = "waits")]
    table: LowTable,
    /// What the column trace_id of tables says, for example an episode's id [default: made of host, boot and first wait]
    #[arg(long, value_name = "ID")]
    trace_id: Option<String>,
    #[command(flatten)]
    selection: LowSelection,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A trace for ui.perfetto.dev: who ran, who waited, why, for whom
    Perfetto,
    /// A profile for profiler.firefox.com: waits as markers and call tree
    Firefox,
    /// Stacks `victim;rule;culprit nanoseconds`, for flame graphs
    Folded,
    /// A table for spreadsheets
    Csv,
    /// A table as an Arrow IPC file (Feather)
    Arrow,
    /// A table as an Arrow IPC stream, for pipes
    ArrowStream,
    /// A table as a Parquet file
    Parquet,
}

#[derive(Clone, Copy, ValueEnum)]
enum LowTable {
    /// A row for each wait
    Waits,
    /// A row for each wait, occupant and rule
    Pieces,
    /// Sums by victim, occupant and rule
    Blame,
    /// What `unstarve explain` finds
    Findings,
}

/// The checked arguments.
pub struct HiArgs {
    recording: Recording,
    selection: Selection,
    trace_id: Option<String>,
    job: Job,
    /// What opens the result.
    opens_in: &'static str,
}

enum Job {
    Perfetto(PathBuf),
    Firefox(PathBuf),
    Folded(PathBuf),
    Tables(TableFormat, Vec<(Table, PathBuf)>),
}

#[derive(Clone, Copy)]
enum TableFormat {
    Csv,
    #[cfg(feature = "columnar")]
    Arrow,
    #[cfg(feature = "columnar")]
    ArrowStream,
    #[cfg(feature = "columnar")]
    Parquet,
}

impl LowArgs {
    /// Checks the arguments before any work starts.
    pub fn raise(self) -> Result<HiArgs> {
        let format = match (self.format, &self.output) {
            (Some(format), _) => format,
            (None, Some(output)) => by_name(output)?,
            (None, None) => Format::Perfetto,
        };
        let output = self.output.unwrap_or_else(|| format.default_output(self.table));
        if is_same_file(&output, &self.file) {
            bail!("{}: is the input recording; give the export another name with -o", output.display());
        }
        let job = match format {
            Format::Perfetto => Job::Perfetto(a_file(output)?),
            Format::Firefox => Job::Firefox(a_file(output)?),
            Format::Folded => Job::Folded(a_file(output)?),
            Format::Csv => Job::Tables(TableFormat::Csv, tables(output, "csv", self.table)),
            #[cfg(feature = "columnar")]
            Format::Arrow => Job::Tables(TableFormat::Arrow, tables(output, "arrow", self.table)),
            #[cfg(feature = "columnar")]
            Format::ArrowStream => Job::Tables(TableFormat::ArrowStream, tables(output, "arrows", self.table)),
            #[cfg(feature = "columnar")]
            Format::Parquet => Job::Tables(TableFormat::Parquet, tables(output, "parquet", self.table)),
            #[cfg(not(feature = "columnar"))]
            Format::Arrow | Format::ArrowStream | Format::Parquet => bail!(
                "this unstarve was built without Arrow and Parquet: build it with `make build` (cargo's feature columnar), \
                 or use --format csv"
            ),
        };
        Ok(HiArgs {
            recording: Recording::new(self.file)?,
            selection: self.selection.raise(),
            trace_id: self.trace_id,
            job,
            opens_in: format.opens_in(),
        })
    }
}

impl Format {
    /// What opens a file of it, as an instruction.
    fn opens_in(self) -> &'static str {
        match self {
            Format::Perfetto => "open it at ui.perfetto.dev",
            Format::Firefox => "open it at profiler.firefox.com",
            Format::Folded => "draw it with inferno-flamegraph or flamegraph.pl, or open it at speedscope.app",
            Format::Csv => "open it in a spreadsheet; for pandas write Parquet",
            Format::Arrow | Format::ArrowStream | Format::Parquet => "open it in DuckDB, pandas or R",
        }
    }

    /// The file that is written without `-o`, in this directory.
    fn default_output(self, table: LowTable) -> PathBuf {
        let of_table = |extension: &str| format!("{}.{extension}", Table::from(table).schema().name);
        PathBuf::from(match self {
            Format::Perfetto => "trace.pftrace".to_owned(),
            Format::Firefox => "profile.json".to_owned(),
            Format::Folded => "stacks.folded".to_owned(),
            Format::Csv => of_table("csv"),
            Format::Arrow => of_table("arrow"),
            Format::ArrowStream => of_table("arrows"),
            Format::Parquet => of_table("parquet"),
        })
    }
}

impl From<LowTable> for Table {
    fn from(table: LowTable) -> Table {
        match table {
            LowTable::Waits => Table::Waits,
            LowTable::Pieces => Table::Pieces,
            LowTable::Blame => Table::Blame,
            LowTable::Findings => Table::Findings,
        }
    }
}

/// The format by the output's file name.
fn by_name(path: &Path) -> Result<Format> {
    Ok(match path.extension().and_then(|extension| extension.to_str()) {
        Some("pftrace" | "perfetto-trace") => Format::Perfetto,
        Some("json") => Format::Firefox,
        Some("folded") => Format::Folded,
        Some("csv") => Format::Csv,
        Some("arrow" | "feather") => Format::Arrow,
        Some("arrows") => Format::ArrowStream,
        Some("parquet") => Format::Parquet,
        _ => bail!(
            "{}: unknown output format; add --format, or end the name with .pftrace, .json (Firefox Profiler), .folded, \
             .csv, .arrow, .arrows or .parquet",
            path.display()
        ),
    })
}

fn a_file(path: PathBuf) -> Result<PathBuf> {
    if path.is_dir() {
        bail!("{}: is a directory; expected a file to write", path.display());
    }
    Ok(path)
}

/// The output file of each table.
fn tables(output: PathBuf, extension: &str, table: LowTable) -> Vec<(Table, PathBuf)> {
    if output.is_dir() || output.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Table::ALL.map(|table| (table, output.join(format!("{}.{extension}", table.schema().name)))).into();
    }
    vec![(table.into(), output)]
}

pub fn run(args: HiArgs) -> Result<ExitCode> {
    let selection = args.selection;
    let targets = match args.job {
        Job::Perfetto(path) => {
            let target = Target::open(&path)?;
            write(&args.recording, &selection, Perfetto::new(target.writer()?, selection.clone()))?;
            vec![target]
        }
        Job::Firefox(path) => {
            let target = Target::open(&path)?;
            write(&args.recording, &selection, Firefox::new(target.writer()?, selection.clone()))?;
            vec![target]
        }
        Job::Folded(path) => {
            let target = Target::open(&path)?;
            write(&args.recording, &selection, Folded::new(target.writer()?, selection.clone()))?;
            vec![target]
        }
        Job::Tables(format, places) => {
            if let [(_, path), _, ..] = &places[..]
                && let Some(directory) = path.parent()
            {
                make_for_results(directory)?;
            }
            let mut export = Tables::new(selection.clone()).called(args.trace_id);
            let mut targets = Vec::new();
            for (table, path) in places {
                let target = Target::open(&path)?;
                export.add(table, rows(format, table, target.writer()?).with_context(|| target.name())?);
                targets.push(target);
            }
            write(&args.recording, &selection, export)?;
            targets
        }
    };
    deliver(targets, args.opens_in)?;
    Ok(ExitCode::SUCCESS)
}

/// Gives the files their names, and says what opens them.
fn deliver(targets: Vec<Target>, opens_in: &str) -> Result<()> {
    let written: Vec<String> = targets.iter().filter(|target| target.is_file()).map(Target::name).collect();
    targets.into_iter().try_for_each(Target::deliver)?;
    if !written.is_empty() {
        output::remark(&format!("wrote {}: {opens_in}", written.join(", ")));
    }
    Ok(())
}

fn rows(format: TableFormat, table: Table, out: Writer) -> Result<Box<dyn Rows>, ExportError> {
    let schema = table.schema();
    Ok(match format {
        TableFormat::Csv => Box::new(CsvRows::new(out, schema)?),
        #[cfg(feature = "columnar")]
        TableFormat::Arrow => Box::new(ArrowRows::new(out, schema)?),
        #[cfg(feature = "columnar")]
        TableFormat::ArrowStream => Box::new(ArrowRows::stream(out, schema)?),
        #[cfg(feature = "columnar")]
        TableFormat::Parquet => Box::new(ParquetRows::new(out, schema)?),
    })
}

/// Sends the whole recording through the export.
fn write(recording: &Recording, selection: &Selection, mut export: impl Export) -> Result<()> {
    let source = recording.open()?;
    let mut progress = Progress::new();
    let options = Options { selection: selection.clone(), ..Options::default() };
    let mut unmet = UnmetSelection::of(selection);
    let mut beside = Both(&mut export, &mut unmet);
    let report = explain_beside(source, &options, &mut beside, |events| progress.events(events))
        .with_context(|| recording.name())?
        .report;
    drop(progress);
    unmet.report_unmet(selection, &recording.name())?;
    export.finish(&report).context("cannot write the export")?;
    for loss in in_words(&report.missing) {
        output::remark(&loss);
    }
    Ok(())
}
