//! What a question is called with.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::answer::How;
use crate::bucket::{Http, Reach};
pub use crate::hours::Ask;
use crate::page::{Link, Page, parse_moment};

/// Ask questions of tables in SQL: one host's or ten thousand hosts', in files, globs, S3
///
/// PATHs are directories that `unstarve watch --tables` or `snapshot --tables` wrote, files of `unstarve export`, any other Parquet files, globs
/// (quoted, so that the shell leaves them alone), or s3://BUCKET/PREFIX with the usual AWS_… variables. Files are only read.
/// Without a statement there is a prompt.
#[derive(Parser)]
#[command(
    name = "unstarve sql",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  unstarve sql 'select * from top_culprits limit 10' /var/lib/unstarve/tables
  unstarve sql 'select host, sum(ns) from blame_rollup group by 1 order by 2 desc' s3://fleet/unstarve
  unstarve sql --format csv 'select * from waits' 'exports/*/waits.parquet' > waits.csv
  unstarve sql /var/lib/unstarve/tables          a prompt; \\d shows tables, \\? helps
  unstarve sql -f question.sql tables/
  unstarve sql --page fleet.html /srv/unstarve

Exit code: 0 if the question was answered, 2 if not."
)]
pub struct Args {
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
    changed_at: Option<i64>,
    /// For --page: where report pages of episodes are, as https://{host}:9846/episodes/{id}/report.html
    #[arg(long, value_name = "URL", requires = "page", value_parser = Link::parse)]
    link: Option<Link>,
    /// Stop a statement after this time: 500ms, 10s, 5m
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    timeout: Option<Duration>,
    /// Leave out what hosts wrote and `unstarve fleet compact` has not merged yet, and so not examined
    #[arg(long)]
    merged: bool,
    /// Where a bucket is, if not at AWS: https://HOST:PORT [default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or AWS_ENDPOINT of the environment]
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Also speak http to that endpoint: somebody on the way reads the rows, and can answer others
    #[arg(long)]
    allow_http: bool,
    /// Memory for sorting, grouping and joining; what needs more goes to temporary files where it can, else is an error: 512M, 4G
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "1G")]
    pub memory: usize,
}

/// How rows are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    /// For people; the first 10,000 rows
    Table,
    /// RFC 4180, with a line of names
    Csv,
    /// An array of objects
    Json,
    /// A Parquet file
    Parquet,
}

impl Args {
    /// The statement; `None` where there is to be a prompt.
    pub fn statement(&self) -> Option<String> {
        match (&self.file, self.words.first()) {
            (Some(text), _) => Some(text.clone()),
            (None, Some(first)) if is_statement(first) => Some(first.clone()),
            _ => None,
        }
    }

    /// Where the tables are.
    pub fn paths(&self) -> Vec<String> {
        let has_statement = self.file.is_none() && self.words.first().is_some_and(|first| is_statement(first));
        self.words.iter().skip(usize::from(has_statement)).cloned().collect()
    }

    /// The page that is wanted in place of an answer.
    ///
    /// # Errors
    /// If there is a statement, too.
    pub fn page(&self) -> anyhow::Result<Option<Page>> {
        let Some(file) = &self.page else { return Ok(None) };
        if let Some(statement) = self.statement() {
            anyhow::bail!("{statement}: --page asks its own questions; expected a PATH or URL");
        }
        let link = self.link.clone();
        Ok(Some(Page { file: file.clone(), places: self.paths(), changed_at: self.changed_at, link }))
    }

    /// How buckets are reached.
    pub fn reach(&self) -> Reach {
        let http = if self.allow_http { Http::Asked } else { Http::Unasked };
        Reach { endpoint: self.endpoint.clone(), http }
    }

    /// Which files are asked.
    pub fn ask(&self) -> Ask {
        if self.merged { Ask::Merged } else { Ask::All }
    }

    /// How to answer.
    pub fn how(&self) -> How {
        How { format: self.format, output: self.output.clone(), timeout: self.timeout }
    }
}

/// Whether an argument is SQL: it begins with a word of SQL, and there is no such file.
fn is_statement(text: &str) -> bool {
    // Those that change something are refused as statements, not taken for paths.
    const FIRST: [&str; 15] = [
        "select", "with", "explain", "show", "describe", "values", "table", "(", "set", "create", "drop", "insert",
        "copy", "delete", "update",
    ];
    let first: String = text.trim_start().chars().take_while(|c| c.is_ascii_alphabetic()).collect();
    let first = if first.is_empty() { text.trim_start().chars().take(1).collect() } else { first.to_ascii_lowercase() };
    let is_word = FIRST.contains(&first.as_str()) || text.trim_start().starts_with("--");
    is_word && text.contains(char::is_whitespace) && !std::path::Path::new(text).exists()
}

fn read_file(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))
}

/// A time with its unit.
///
/// # Errors
/// If it is none.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let expected = || format!("`{text}`: expected a time such as 500ms, 10s or 5m");
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).ok_or_else(expected)?);
    let number: u64 = number.parse().map_err(|_| expected())?;
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(expected()),
    };
    number.checked_mul(millis).map(Duration::from_millis).ok_or_else(expected)
}

/// A size with its unit.
///
/// # Errors
/// If it is none, or too small for memory.
pub fn parse_size(text: &str) -> Result<usize, String> {
    let expected = || format!("`{text}`: expected a size such as 512M or 4G, at least 16M");
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).ok_or_else(expected)?);
    let number: usize = number.parse().map_err(|_| expected())?;
    let shift = match unit.trim_end_matches("iB").trim_end_matches('B') {
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return Err(expected()),
    };
    let bytes = number.checked_mul(1 << shift).ok_or_else(expected)?;
    if bytes < 16 << 20 { Err(expected()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_told_from_a_path() {
        for statement in
            ["select 1 from waits", " WITH a AS (select 1) select 1", "(select 1) union (select 2)", "-- x\nselect 1"]
        {
            assert!(is_statement(statement), "{statement}");
        }
        for path in ["/var/lib/unstarve/tables", "s3://bucket/a b", "select", "tables/*.parquet", "./with space"] {
            assert!(!is_statement(path), "{path}");
        }
    }

    #[test]
    fn sizes_and_times_have_units() {
        assert_eq!((parse_size("512M"), parse_size("2GiB")), (Ok(512 << 20), Ok(2 << 30)));
        assert!(parse_size("5").is_err() && parse_size("1M").is_err() && parse_size("99999999999G").is_err());
        assert_eq!(parse_time("500ms"), Ok(Duration::from_millis(500)));
        assert!(parse_time("10").is_err() && parse_time("10d").is_err());
    }
}
