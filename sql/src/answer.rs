//! A statement becomes rows on standard output or in a file.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::csv;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::json::ArrayWriter;
use datafusion::arrow::util::pretty::pretty_format_batches_with_schema;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SQLOptions;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::prelude::SessionContext;
use futures::{FutureExt, StreamExt};
use unstarve_files::target::{Readers, Target};

use crate::args::Format;
use crate::screen::{self, Screen};

/// How to answer.
#[derive(Clone, Debug, Default)]
pub struct How {
    /// How rows are written.
    pub format: Option<Format>,
    /// Where; standard output if nowhere else.
    pub output: Option<PathBuf>,
    /// For how long at most.
    pub timeout: Option<Duration>,
}

/// Rows that a table for people has at most.
const SHOWN: usize = 10_000;

/// Answers a statement.
///
/// # Errors
/// If it is wrong, takes too long or too much memory, or if the rows cannot be written.
pub async fn answer(session: &SessionContext, statement: &str, how: &How) -> Result<()> {
    let format = how.format_of_rows()?;
    if format == Format::Parquet && how.output.is_none() && io::stdout().is_terminal() {
        bail!("Parquet is no text for a terminal; add -o FILE.parquet");
    }
    within(how.timeout, whole(write(session, statement, format, how.output.as_deref()))).await
}

/// Does something for as long as may be.
///
/// # Errors
/// Those of what is done; or that it took longer.
pub async fn within(time: Option<Duration>, answering: impl Future<Output = Result<()>>) -> Result<()> {
    match time {
        None => answering.await,
        Some(time) => match tokio::time::timeout(time, answering).await {
            Ok(done) => done,
            Err(_) => bail!("stopped after {time:?} (--timeout)"),
        },
    }
}

/// A decoder that panics over a damaged file ends the statement, not the program with its prompt.
///
/// # Errors
/// Those of what is done; or that it panicked.
pub async fn whole(answering: impl Future<Output = Result<()>>) -> Result<()> {
    match AssertUnwindSafe(answering).catch_unwind().await {
        Ok(done) => done,
        Err(_) => bail!("the engine failed; {DAMAGED}"),
    }
}

/// What to do about a file that cannot be read.
const DAMAGED: &str = "a file may be damaged: `unstarve fleet verify DIR` names it, `--merged` asks only what `unstarve fleet compact` has examined";

/// They become errors, which say what to do; where in the source they happened is nothing for a terminal.
pub fn keep_quiet_about_panics() {
    std::panic::set_hook(Box::new(|_| {}));
}

impl How {
    fn format_of_rows(&self) -> Result<Format> {
        let Some(output) = self.output.as_deref().filter(|_| self.format.is_none()) else {
            return Ok(self.format.unwrap_or(Format::Table));
        };
        Ok(match output.extension().and_then(|extension| extension.to_str()) {
            Some("csv") => Format::Csv,
            Some("json") => Format::Json,
            Some("parquet") => Format::Parquet,
            Some("txt") => Format::Table,
            _ => bail!(
                "{}: unknown format; add --format, or end the name with .csv, .json, .parquet or .txt",
                output.display()
            ),
        })
    }
}

async fn write(session: &SessionContext, statement: &str, format: Format, output: Option<&Path>) -> Result<()> {
    // Files are somebody's record: nothing here changes them.
    let options = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false);
    let frame = session.sql_with_options(statement, options).await.map_err(|error| said(session, error))?;
    let rows = frame.execute_stream().await.map_err(|error| said(session, error))?;
    match output {
        None => match rows_to(rows, format, Screen::of(&io::stdout()), BufWriter::new(io::stdout())).await {
            Err(error) if is_broken_pipe(&error) => Ok(()),
            done => done,
        },
        Some(path) => {
            let target = target(path)?;
            match &target {
                Target::Stdout => {
                    rows_to(rows, format, Screen::of(&io::stdout()), BufWriter::new(io::stdout())).await?;
                }
                Target::Open { file, .. } => {
                    rows_to(rows, format, Screen::of(file), BufWriter::new(file.try_clone()?)).await?;
                }
                Target::File(part) => {
                    rows_to(rows, format, Screen::Other, BufWriter::new(part.file().try_clone()?)).await?;
                }
            }
            Ok(target.deliver()?)
        }
    }
}

/// Where a result goes: a device or a FIFO is written to, and a file gets its name when it is whole.
fn target(path: &Path) -> Result<Target> {
    Target::open(path, Readers::Owner).with_context(|| format!("cannot write {}", path.display()))
}

/// Writes a whole file.
///
/// # Errors
/// If it cannot be written.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let target = target(path)?;
    let written = match &target {
        Target::Stdout => io::stdout().write_all(bytes),
        Target::Open { file, .. } => (&*file).write_all(bytes),
        Target::File(part) => part.file().write_all(bytes),
    };
    written.with_context(|| format!("cannot write {}", target.name()))?;
    Ok(target.deliver()?)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = |cause: &(dyn std::error::Error + 'static)| cause.downcast_ref::<io::Error>().map(io::Error::kind);
    error.chain().any(|cause| io(cause) == Some(io::ErrorKind::BrokenPipe) || cause.to_string().contains("Broken pipe"))
}

async fn rows_to(
    rows: SendableRecordBatchStream,
    format: Format,
    screen: Screen,
    mut out: impl Write + Send,
) -> Result<()> {
    let csv = csv::WriterBuilder::new().with_header(true);
    match (format, screen) {
        (Format::Table, _) => table(rows, &mut out).await?,
        (Format::Csv, Screen::Other) => each(rows, csv.build(&mut out)).await?,
        (Format::Csv, Screen::Terminal) => each(rows, Shown(csv.build(&mut out))).await?,
        (Format::Json, Screen::Other) => each(rows, ArrayWriter::new(&mut out)).await?,
        (Format::Json, Screen::Terminal) => each(rows, ArrayWriter::new(screen::Json::to(&mut out))).await?,
        (Format::Parquet, _) => {
            let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default()));
            let schema = rows.schema();
            each(rows, ArrowWriter::try_new(&mut out, schema, Some(properties.build()))?).await?;
        }
    }
    Ok(out.flush()?)
}

/// What takes batches.
trait Takes {
    fn take(&mut self, batch: &RecordBatch) -> Result<()>;
    fn end(self, schema: &SchemaRef) -> Result<()>;
}

impl<W: Write> Takes for csv::Writer<W> {
    fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        Ok(self.write(batch)?)
    }

    fn end(mut self, schema: &SchemaRef) -> Result<()> {
        // Without any row there are still names.
        Ok(self.write(&RecordBatch::new_empty(schema.clone()))?)
    }
}

/// The same for a terminal.
struct Shown<T>(T);

impl<T: Takes> Takes for Shown<T> {
    fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        self.0.take(&screen::texts(batch)?)
    }

    fn end(self, schema: &SchemaRef) -> Result<()> {
        let none = screen::texts(&RecordBatch::new_empty(schema.clone()))?;
        self.0.end(&none.schema())
    }
}

impl<W: Write> Takes for ArrayWriter<W> {
    fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        Ok(self.write(batch)?)
    }

    fn end(mut self, _: &SchemaRef) -> Result<()> {
        self.finish()?;
        Ok(writeln!(self.into_inner())?)
    }
}

impl<W: Write + Send> Takes for ArrowWriter<W> {
    fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        Ok(self.write(batch)?)
    }

    fn end(self, _: &SchemaRef) -> Result<()> {
        self.close()?;
        Ok(())
    }
}

async fn each(mut rows: SendableRecordBatchStream, mut out: impl Takes) -> Result<()> {
    let schema = rows.schema();
    while let Some(batch) = rows.next().await {
        out.take(&batch.map_err(said_of_rows)?)?;
    }
    out.end(&schema)
}

async fn table(mut rows: SendableRecordBatchStream, out: &mut impl Write) -> Result<()> {
    let schema = screen::cells(&RecordBatch::new_empty(rows.schema()))?.schema();
    let (mut batches, mut count, mut more) = (Vec::new(), 0, false);
    while let Some(batch) = rows.next().await {
        let batch = batch.map_err(said_of_rows)?;
        let kept = batch.num_rows().min(SHOWN - count);
        more |= kept < batch.num_rows();
        count += kept;
        batches.push(screen::cells(&batch.slice(0, kept))?);
        if more {
            break;
        }
    }
    writeln!(out, "{}", pretty_format_batches_with_schema(schema, &batches)?)?;
    writeln!(
        out,
        "{count} {}{}",
        if count == 1 { "row" } else { "rows" },
        if more { ", and more: --format csv has all" } else { "" }
    )?;
    Ok(())
}

/// An error in words: what DataFusion says, and for a table that is not there, which there are.
fn said(session: &SessionContext, error: DataFusionError) -> anyhow::Error {
    let text = error.strip_backtrace();
    if text.contains("not found") && text.contains("table") {
        return anyhow::anyhow!("{text}; tables: {}", names(session).join(", "));
    }
    said_of_rows(error)
}

/// The same of an error that came with rows.
pub fn said_of_rows(error: DataFusionError) -> anyhow::Error {
    let text = error.strip_backtrace();
    if text.contains("Resources exhausted") {
        anyhow::anyhow!("{text}; --memory SIZE allows more")
    } else if text.contains("Parquet error") || text.contains("panicked") {
        anyhow::anyhow!("{text}; {DAMAGED}")
    } else {
        anyhow::anyhow!(text)
    }
}

/// The names of all tables and views.
pub fn names(session: &SessionContext) -> Vec<String> {
    let schema = session.catalog("datafusion").and_then(|catalog| catalog.schema("public"));
    let mut names = schema.map(|schema| schema.table_names()).unwrap_or_default();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_that_says_what_to_do() {
        keep_quiet_about_panics();
        let error = whole(async { panic!("a decoder") }).await.expect_err("it panics");
        assert!(error.to_string().contains("fleet verify"), "{error}");
        let _ = std::panic::take_hook();
    }
}
