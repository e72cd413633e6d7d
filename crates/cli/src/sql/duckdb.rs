//! Runs DuckDB's program: what it reads first, where its answer goes, when it is stopped.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::fs::{MemfdFlags, memfd_create};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use unstarve_files::program::{InheritedFile, keep};
use unstarve_files::{Directory, Program};
use unstarve_model::clean;

use super::bucket::Bucket;
use super::prelude::quoted;
use crate::output::OurLines;

const PROGRAM_NAME: &str = "duckdb";

const HOW_TO_INSTALL: &str = "it is the engine of `unstarve sql`, one file that needs nothing else: from https://duckdb.org, or by \
                      `pip install duckdb-cli` with its directory in the PATH, docs/sql.md (1.5 was tried). Other engines read the tables as well: docs/engines.md";

/// Signals that stop a question.
const STOP_SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];
/// How soon a signal or the end of the time is noticed.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long a stopped program waits for its reader to take what was written.
const MAX_WAIT_FOR_END: Duration = Duration::from_secs(2);
/// How much of DuckDB's error text is kept.
const MAX_ERROR_BYTES: u64 = 64 << 10;

/// Where it writes Parquet.
pub const PARQUET_OUTPUT: &str = "/dev/stdout";

/// The program.
pub struct DuckDb(Program);

/// How rows are written by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// With so many columns of characters; `None` is as wide as it gets.
    Table(Option<usize>),
    Csv,
    Json,
    Parquet,
}

/// Rows that a table for people has at most.
const MAX_TABLE_ROWS: usize = 10_000;

impl Form {
    fn arguments(self) -> Vec<String> {
        match self {
            Form::Table(columns) => {
                let width = columns.unwrap_or(1_000_000);
                vec!["-cmd".into(), format!(".maxrows {MAX_TABLE_ROWS}"), "-cmd".into(), format!(".maxwidth {width}")]
            }
            Form::Csv => ["-csv", "-nullvalue", ""].map(str::to_owned).to_vec(),
            Form::Json => vec!["-json".into()],
            Form::Parquet => Vec::new(),
        }
    }

    /// The statement that writes the rows of another one this way.
    fn statement(self, statement: &str) -> String {
        match self {
            Form::Parquet => {
                // What DuckDB takes for one statement may end with comments: the parenthesis has a line of its own.
                let bare = statement.trim();
                let bare = bare.rsplit_once(';').filter(|(_, rest)| is_comment(rest)).map_or(bare, |(bare, _)| bare);
                format!("copy (\n{bare}\n) to '{PARQUET_OUTPUT}' (format parquet, compression zstd)")
            }
            _ => statement.to_owned(),
        }
    }
}

fn is_comment(text: &str) -> bool {
    text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with("--"))
}

impl DuckDb {
    /// In the PATH.
    ///
    /// # Errors
    /// If there is none, or others could have written it.
    pub fn find() -> Result<DuckDb> {
        match Program::find(PROGRAM_NAME) {
            Ok(program) => Ok(DuckDb(program)),
            Err(error) if error.is_absent() => {
                let why = format!("{PROGRAM_NAME} is not installed: it is not in the PATH; {HOW_TO_INSTALL}");
                Err(OurLines(why).into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The files that a pattern matches.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub fn list(&self, pattern: &str, bucket: Option<&Bucket>) -> Result<Vec<String>> {
        let prelude = bucket.map(Bucket::statements).unwrap_or_default();
        let statement = format!("select file from glob({}) order by file", quoted(pattern));
        let rows = self.rows(&prelude, &statement, None).with_context(|| pattern.to_owned())?;
        Ok(rows.into_iter().filter_map(|row| Some(row.get("file")?.as_str()?.to_owned())).collect())
    }

    /// The rows of an answer.
    ///
    /// # Errors
    /// If there is none.
    pub fn rows(&self, prelude: &str, statement: &str, time: Option<Duration>) -> Result<Vec<Row>> {
        let mut bytes = Vec::new();
        self.answer(prelude, statement, Form::Json, time, &mut bytes)?;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Vec::new());
        }
        serde_json::from_slice(&bytes).context("DuckDB's answer is no JSON")
    }

    /// Writes the answer to a statement.
    ///
    /// # Errors
    /// If there is none, or it took longer than it may.
    pub fn answer(
        &self,
        prelude: &str,
        statement: &str,
        form: Form,
        time: Option<Duration>,
        out: &mut (dyn Write + Send),
    ) -> Result<()> {
        let mut command = self.command(prelude)?;
        command.args(form.arguments()).arg("-c").arg(form.statement(statement));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().with_context(|| format!("cannot run {}", self.0.path().display()))?;
        finish(child, time, out)
    }

    /// DuckDB's own prompt.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn prompt(&self, prelude: &str) -> Result<bool> {
        let mut command = self.command(prelude)?;
        // Ctrl-C stops a statement there, and not this process.
        signal_hook::flag::register(SIGINT, Arc::new(AtomicBool::new(false)))?;
        let status = command.args(["-cmd", ".prompt 'unstarve> '"]).status();
        Ok(status.with_context(|| format!("cannot run {}", self.0.path().display()))?.success())
    }

    fn command(&self, prelude: &str) -> Result<Command> {
        let mut file = File::from(memfd_create("unstarve-sql", MemfdFlags::CLOEXEC)?);
        file.write_all(prelude.as_bytes())?;
        file.seek(SeekFrom::Start(0))?;
        let file = InheritedFile::from(file);
        let mut command = self.0.command();
        // Where its extensions are.
        keep(&mut command, &["HOME"]);
        file.to(&mut command);
        let read = format!(".read {}", file.path().display());
        // What is defined says that it is, as rows of an answer.
        let quietly = [".output /dev/null", &read, ".output"];
        command.args(["-no-init", "-dark-mode", "-bail"]).args(quietly.iter().flat_map(|line| ["-cmd", line]));
        Ok(command)
    }
}

/// A row by the names of its columns.
pub type Row = serde_json::Map<String, serde_json::Value>;

/// Passes on what it writes until it ends, or has to.
fn finish(mut child: Child, time: Option<Duration>, out: &mut (dyn Write + Send)) -> Result<()> {
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in STOP_SIGNALS.into_iter().filter(|signal| !is_ignored(*signal)) {
        signal_hook::flag::register(signal, Arc::clone(&stopped))?;
    }
    let (rows, said) = (child.stdout.take(), child.stderr.take());
    let end = time.map(|time| Instant::now() + time);
    std::thread::scope(|scope| {
        let (done, written) = channel();
        scope.spawn(move || pass(rows, out, &done));
        let said = scope.spawn(move || text_of(said));
        let passed = loop {
            match written.recv_timeout(STOP_POLL_INTERVAL) {
                Ok(passed) => break passed,
                Err(RecvTimeoutError::Disconnected) => break Ok(()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let is_late = end.is_some_and(|end| Instant::now() >= end);
            if is_late || stopped.load(Ordering::Relaxed) {
                child.kill()?;
                child.wait()?;
                if matches!(written.recv_timeout(MAX_WAIT_FOR_END), Err(RecvTimeoutError::Timeout)) {
                    std::process::exit(i32::from(crate::FAILED));
                }
                match time.filter(|_| is_late) {
                    Some(time) => bail!("stopped after {time:?} (--timeout)"),
                    None => bail!("stopped"),
                }
            }
        };
        if passed.is_err() {
            child.kill()?;
        }
        let status = child.wait()?;
        passed.context("cannot write the answer")?;
        let said = said.join().unwrap_or_default();
        if status.success() { Ok(()) } else { Err(explained(&said)) }
    })
}

/// Signals that a program was started to ignore (`nohup`) stay ignored.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0);
    ignored >> (signal - 1) & 1 == 1
}

fn pass(rows: Option<impl Read>, out: &mut (dyn Write + Send), done: &Sender<io::Result<()>>) {
    let copied = rows.map_or(Ok(0), |mut rows| io::copy(&mut rows, out));
    // Nobody listens where it was stopped.
    let _ = done.send(copied.and_then(|_| out.flush()));
}

fn text_of(said: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut said) = said {
        let _ = said.by_ref().take(MAX_ERROR_BYTES).read_to_end(&mut bytes);
        // A pipe that nobody empties would hold it up.
        let _ = io::copy(&mut said, &mut io::sink());
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// DuckDB's words, and what to do.
fn explained(said: &str) -> anyhow::Error {
    const ADVICE_BY_WORDS: [(&str, &str); 5] = [
        ("Out of Memory", "--memory SIZE allows more"),
        ("unrecognized configuration parameter", "a newer DuckDB is needed; 1.5 was tried"),
        ("httpfs", "buckets need DuckDB's extension: duckdb -c 'install httpfs'"),
        ("read_parquet(", ADVICE_IF_DAMAGED),
        ("Parquet", ADVICE_IF_DAMAGED),
    ];
    // Its own guess is a table of the system.
    let lines = said.lines().filter(|line| !line.starts_with("Did you mean"));
    let words = lines.map(|line| clean(line).into_owned()).collect::<Vec<_>>().join("\n");
    let advice = ADVICE_BY_WORDS.iter().find(|(sign, _)| said.contains(sign)).map(|(_, advice)| (*advice).to_owned());
    let there_are = || format!("tables and views: {}", super::prelude::names().join(", "));
    let advice = if said.contains("Table with name") { Some(there_are()) } else { advice };
    let advice = advice.map(|advice| format!("\n{advice}")).unwrap_or_default();
    OurLines(words.trim().to_owned() + &advice).into()
}

/// What to do about a file that cannot be read.
const ADVICE_IF_DAMAGED: &str = "a file may be damaged: `unstarve fleet verify DIR` names it, and `--merged` asks only what \
                       `unstarve fleet compact` has examined";

/// A directory of its own for what does not fit into memory. Nobody else can lead DuckDB's temporary files elsewhere.
pub struct Spill(PathBuf);

impl Spill {
    /// # Errors
    /// If it cannot be made, or somebody else owns the directory for temporary files.
    pub fn new() -> Result<Spill> {
        let path = std::env::temp_dir().join(format!("unstarve-sql-{:016x}", random()?));
        Ok(Spill(Directory::make(&path)?.path().to_owned()))
    }

    pub fn path(&self) -> &std::path::Path {
        &self.0
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        // What DuckDB was killed over may be in it.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn random() -> Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}
