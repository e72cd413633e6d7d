//! `unstarve sql`: questions about tables, answered by DuckDB.
//!
//! | module | what it is |
//! |---|---|
//! | `place`, `bucket` | paths, globs and URLs → files, each of a table |
//! | `examined` | which of hosts' files are asked: those that `fleet compact` would merge |
//! | `views` | functions, and questions with a name (`views/*.sql`) |
//! | `prelude` | what DuckDB reads before a statement |
//! | `duckdb` | its program: where an answer goes, when it is stopped |
//! | `page` | some answers as one HTML file |

mod bucket;
mod duckdb;
#[cfg(feature = "columnar")]
mod examined;
mod page;
mod place;
mod prelude;
mod views;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use unstarve_files::target::{Readers, Target};
use unstarve_model::is_harmful;

use self::bucket::{Bucket, Clear};
use self::duckdb::{DuckDb, Form, Spill};
use self::page::{Link, Page, parse_moment};
use self::place::{Ask, Wanted};
use self::prelude::Limits;
use crate::output::{Out, silent_end};

/// Ask questions of the tables of one host or many, in SQL
///
/// PATHs are directories that `unstarve watch --tables` or `snapshot --tables` wrote, stores that `unstarve fleet compact` keeps, files of
/// `unstarve export`, any other Parquet files, globs (quoted, so that the shell leaves them alone), or s3://BUCKET/PREFIX with the usual AWS_…
/// variables. Files are only read. Without a statement there is DuckDB's prompt. The engine is DuckDB's program `duckdb`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  unstarve sql 'select * from top_culprits limit 10' /var/lib/unstarve/tables
  unstarve sql 'select host, sum(ns) from blame_rollup group by 1 order by 2 desc' s3://fleet/unstarve
  unstarve sql --format csv 'select * from waits' 'exports/*/waits.parquet' > waits.csv
  unstarve sql /var/lib/unstarve/tables          a prompt: `show tables;`, `describe waits;`, `.help`
  unstarve sql -f question.sql tables/
  unstarve sql --page fleet.html /srv/unstarve

Exit code: 0 if the question was answered, 2 if not.")]
pub struct SqlArgs {
    /// The statement, and where the tables are; a first argument that is a path or URL means: no statement
    #[arg(value_name = "STATEMENT|PATH", required = true)]
    words: Vec<String>,
    /// Read the statement from this file
    #[arg(short, long, value_name = "FILE", value_parser = read_file)]
    file: Option<String>,
    /// How rows are written [default: table on a terminal or a pipe; by the name of --output]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The file to write; it gets its name only when it is whole
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write a page of all hosts in place of an answer: who waits on which, before and after changes, the worst episodes; one HTML file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "format", "output"])]
    page: Option<PathBuf>,
    /// For --page: set what was before this time against what was after it (UTC: 2026-11-22T14:30:00)
    #[arg(long, value_name = "TIME", requires = "page", value_parser = parse_moment)]
    changed_at: Option<String>,
    /// For --page: where report pages of episodes are, as https://{host}:9846/episodes/{id}/report.html
    #[arg(long, value_name = "URL", requires = "page", value_parser = Link::parse)]
    link: Option<Link>,
    /// Stop a statement after this time: 500ms, 10s, 5m
    #[arg(long, value_name = "TIME", value_parser = crate::record::parse_time)]
    timeout: Option<Duration>,
    /// Leave out what hosts wrote and `unstarve fleet compact` has not merged yet
    #[arg(long)]
    merged: bool,
    /// Where a bucket is, if not at AWS: https://HOST:PORT [default: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL of the environment]
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Also speak http to that endpoint: somebody on the way reads the rows, and can answer others
    #[arg(long)]
    allow_http: bool,
    /// Memory for sorting, grouping and joining; what needs more goes to temporary files: 512M, 4G
    #[arg(long, value_name = "SIZE", value_parser = parse_memory, default_value = "1G")]
    memory: u64,
}

/// How rows are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Format {
    /// For people; the first 10,000 rows
    Table,
    /// RFC 4180, with a line of names
    Csv,
    /// An array of objects
    Json,
    /// A Parquet file
    Parquet,
}

/// Answers.
pub fn run(args: &SqlArgs) -> Result<ExitCode> {
    let duckdb = DuckDb::find()?;
    let (statement, places) = args.question()?;
    let ask = if args.merged { Ask::Merged } else { Ask::All };
    let clear = if args.allow_http { Clear::Allowed } else { Clear::Refused };
    let bucket = || Bucket::new(args.endpoint.as_deref(), clear, |name| std::env::var(name).ok());
    // A page and a prompt ask everything.
    let uses: Box<dyn Fn(&str) -> bool> = match statement.as_deref().filter(|_| args.page.is_none()) {
        Some(statement) => Box::new(prelude::uses_files(statement)),
        None => Box::new(|_| true),
    };
    let found = place::find(&places, Wanted { ask, uses: &*uses }, bucket, &duckdb)?;
    let spill = Spill::new()?;
    let writes = (args.format_of_rows()? == Format::Parquet).then_some(duckdb::PARQUET_OUTPUT);
    let limits = Limits { memory: args.memory, spill: spill.path(), writes };
    if let Some(file) = &args.page {
        let page = Page { file, places: &places, changed_at: args.changed_at.as_deref(), link: args.link.as_ref() };
        page::write(&page, |statement| duckdb.rows(&prelude::of(&found, &limits, statement), statement, args.timeout))?;
        return Ok(ExitCode::SUCCESS);
    }
    match &statement {
        Some(statement) => args.answer(&duckdb, &prelude::of(&found, &limits, statement), statement)?,
        None if !duckdb.prompt(&prelude::whole(&found, &limits))? => return Ok(ExitCode::from(crate::FAILED)),
        None => {}
    }
    Ok(ExitCode::SUCCESS)
}

impl SqlArgs {
    /// The statement, `None` where there is to be a prompt; and where the tables are.
    fn question(&self) -> Result<(Option<String>, Vec<String>)> {
        let first = self.words.first().filter(|first| is_statement(first));
        if let (Some(_), Some(statement)) = (&self.page, first) {
            bail!("{statement}: --page asks its own questions; expected a PATH or URL");
        }
        let (statement, places) = match (&self.file, first) {
            (Some(text), _) => (Some(text.clone()), &self.words[..]),
            (None, Some(first)) => (Some(first.clone()), &self.words[1..]),
            (None, None) => (None, &self.words[..]),
        };
        // DuckDB's program has commands that begin so, which run others.
        if let Some(command) = statement.as_deref().filter(|text| text.trim_start().starts_with('.')) {
            bail!("{command}: expected SQL; DuckDB's own commands are for the prompt");
        }
        Ok((statement, places.to_vec()))
    }

    fn answer(&self, duckdb: &DuckDb, prelude: &str, statement: &str) -> Result<()> {
        let format = self.format_of_rows()?;
        let is_terminal = io::stdout().is_terminal();
        let Some(path) = &self.output else {
            if format == Format::Parquet && is_terminal {
                bail!("Parquet is no text for a terminal; add -o FILE.parquet");
            }
            let form = format.form(is_terminal);
            if is_terminal {
                return duckdb.answer(prelude, statement, form, self.timeout, &mut Harmless::to(Out::new()));
            }
            return duckdb.answer(prelude, statement, form, self.timeout, &mut Out::new());
        };
        let target = Target::open(path, Readers::Owner).with_context(|| format!("cannot write {}", path.display()))?;
        let form = format.form(false);
        match &target {
            Target::Stdout => duckdb.answer(prelude, statement, form, self.timeout, &mut Out::new())?,
            Target::Open { file, .. } => duckdb.answer(prelude, statement, form, self.timeout, &mut &*file)?,
            Target::File(part) => duckdb.answer(prelude, statement, form, self.timeout, &mut part.file())?,
        }
        Ok(target.deliver()?)
    }

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

impl Format {
    fn form(self, is_terminal: bool) -> Form {
        match self {
            Format::Table => {
                let columns = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
                Form::Table(columns.filter(|_| is_terminal))
            }
            Format::Csv => Form::Csv,
            Format::Json => Form::Json,
            Format::Parquet => Form::Parquet,
        }
    }
}

/// Whether an argument is SQL: it begins with a word of SQL, and there is no such file.
fn is_statement(text: &str) -> bool {
    // Those that change something are refused as statements, not taken for paths.
    const FIRST_WORDS: [&str; 17] = [
        "select",
        "with",
        "from",
        "explain",
        "show",
        "describe",
        "summarize",
        "values",
        "table",
        "(",
        "set",
        "create",
        "drop",
        "insert",
        "copy",
        "delete",
        "update",
    ];
    let bare = text.trim_start();
    let first: String = bare.chars().take_while(|c| c.is_ascii_alphabetic()).collect();
    let first = if first.is_empty() { bare.chars().take(1).collect() } else { first.to_ascii_lowercase() };
    let is_word = FIRST_WORDS.contains(&first.as_str()) || bare.starts_with("--");
    // A word of one's own is no path either, if it has neither a separator nor an ending.
    let is_sentence = text.trim().contains(char::is_whitespace) && !text.contains(['/', '\\']) && !text.contains("://");
    (is_word && text.contains(char::is_whitespace) || is_sentence) && !std::path::Path::new(text).exists()
}

/// DuckDB does little with less.
const MIN_MEMORY: u64 = 16 << 20;

fn parse_memory(text: &str) -> Result<u64, String> {
    let bytes = u64::from(crate::record::parse_kib(text)?) << 10;
    if bytes < MIN_MEMORY { Err("it must be 16M at least".to_owned()) } else { Ok(bytes) }
}

fn read_file(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))
}

/// Texts are hosts' own words: on a terminal none drives it.
struct Harmless<W> {
    out: W,
    /// The begin of a character.
    rest: Vec<u8>,
}

impl<W: Write> Harmless<W> {
    fn to(out: W) -> Harmless<W> {
        Harmless { out, rest: Vec::new() }
    }
}

impl<W: Write> Write for Harmless<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rest.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.rest) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.rest.len(),
        };
        let text = String::from_utf8_lossy(&self.rest[..whole]).into_owned();
        self.rest.drain(..whole);
        let mut harmless = String::with_capacity(text.len());
        for c in text.chars() {
            match c {
                '\n' => harmless.push(c),
                c if is_harmful(c) => harmless.extend(c.escape_unicode()),
                c => harmless.push(c),
            }
        }
        silent_end(self.out.write_all(harmless.as_bytes()))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_told_from_a_path() {
        for statement in [
            "select 1 from waits",
            " WITH a AS (select 1) select 1",
            "(select 1) union (select 2)",
            "-- x\nselect 1",
            "from waits limit 3",
            "selct 1",
        ] {
            assert!(is_statement(statement), "{statement}");
        }
        for path in ["/var/lib/unstarve/tables", "s3://bucket/a b", "select", "tables/*.parquet", "./with space"] {
            assert!(!is_statement(path), "{path}");
        }
    }

    #[test]
    fn no_text_drives_a_terminal() {
        let mut shown = Vec::new();
        let mut out = Harmless::to(&mut shown);
        for byte in "a\u{9b}2J\u{1b}é😀\n".as_bytes() {
            out.write_all(&[*byte]).expect("memory");
        }
        assert_eq!(String::from_utf8(shown).expect("UTF-8"), "a\\u{9b}2J\\u{1b}é😀\n");
    }
}
