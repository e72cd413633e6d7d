//! The prompt: statements that end with `;`, commands that begin with `\`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result};
use datafusion::prelude::SessionContext;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Editor, Helper};
use unstarve_files::Directory;

use crate::answer::{How, answer, names};
use crate::functions::FUNCTIONS;
use crate::program::{About, note};
use crate::views::VIEWS;

const HELP: &str = "\
\\d          tables and views          \\d NAME     columns of one
\\f          functions of unstarve     \\timing     say how long statements take, or no longer
\\? \\h       this list                 \\q          quit (or Ctrl-D)
A statement ends with `;` and may have several lines. `explain analyze …;` says where the time goes. Ctrl-C stops a statement.";

/// Words that statements are made of.
const WORDS: [&str; 40] = [
    "select", "from", "where", "group", "by", "order", "having", "limit", "offset", "distinct", "as", "and", "or",
    "not", "in", "is", "null", "like", "between", "case", "when", "then", "else", "end", "join", "left", "inner", "on",
    "using", "with", "union", "all", "desc", "asc", "count(", "sum(", "max(", "min(", "avg(", "explain",
];

/// Reads and answers until there is no more.
///
/// # Errors
/// If the terminal cannot be used.
pub async fn run(session: &SessionContext, how: &How) -> Result<()> {
    let mut editor: Editor<Words, FileHistory> = Editor::new().context("the terminal cannot be used")?;
    editor.set_helper(Some(Words::of(session).await));
    let history = history().and_then(|path| match kept(&path) {
        Ok(path) => Some(path),
        Err(why) => {
            note(About::Place, &format!("the history is neither read nor kept: {why:#}"));
            None
        }
    });
    if let Some(history) = &history {
        let _ = editor.load_history(history);
    }
    println!("unstarve sql {}: \\d shows tables and views, \\? helps", env!("CARGO_PKG_VERSION"));
    let mut timing = false;
    loop {
        let line = match editor.readline("unstarve> ") {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error.into()),
        };
        let text = line.trim();
        if text.is_empty() {
            continue;
        }
        let _ = editor.add_history_entry(text);
        if let Some(command) = text.strip_prefix('\\') {
            match command_of(command) {
                Command::Quit => break,
                Command::Timing => {
                    timing = !timing;
                    println!("timing is {}", if timing { "on" } else { "off" });
                }
                Command::Text(text) => print!("{text}"),
                Command::Statement(statement) => respond(session, &statement, how, timing).await,
            }
            continue;
        }
        respond(session, text.trim_end_matches(';'), how, timing).await;
    }
    if let Some(history) = &history {
        let _ = editor.save_history(history);
    }
    Ok(())
}

/// Answers, unless it is interrupted.
async fn respond(session: &SessionContext, statement: &str, how: &How, timing: bool) {
    let begun = Instant::now();
    let done = tokio::select! {
        done = answer(session, statement, how) => done,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("stopped")),
    };
    if let Err(error) = done {
        eprintln!("{}", unstarve_model::clean(&format!("{error:#}")).replace("\\n", "\n"));
    }
    if timing {
        println!("{:.3} s", begun.elapsed().as_secs_f64());
    }
}

#[derive(Debug, PartialEq)]
enum Command {
    Quit,
    Timing,
    Text(String),
    Statement(String),
}

fn command_of(text: &str) -> Command {
    let mut words = text.split_whitespace();
    match (words.next(), words.next()) {
        (Some("q" | "quit"), _) => Command::Quit,
        (Some("timing"), _) => Command::Timing,
        (Some("d"), None) => Command::Text(tables()),
        (Some("d"), Some(name)) => match unstarve_tables::named(name) {
            Some(schema) => Command::Text(columns(schema)),
            None => Command::Statement(format!("describe {name}")),
        },
        (Some("f" | "df"), _) => {
            Command::Text(FUNCTIONS.iter().map(|help| format!("{:<26} {}\n", help.call, help.meaning)).collect())
        }
        (Some("?" | "h" | "help"), _) => Command::Text(format!("{HELP}\n")),
        _ => Command::Text(format!("\\{text}: no such command\n{HELP}\n")),
    }
}

/// Tables and views, each with what it is.
fn tables() -> String {
    let tables = unstarve_tables::ALL.into_iter().map(|schema| (schema.name, schema.meaning));
    let views = VIEWS.iter().map(|view| (view.name, view.meaning));
    let line = |(name, meaning): (&str, &str)| format!("{name:<20} {meaning}\n");
    format!("{}\nviews:\n{}", tables.map(line).collect::<String>(), views.map(line).collect::<String>())
}

fn columns(schema: &unstarve_tables::Schema) -> String {
    let line = |column: &unstarve_tables::Column| {
        let unit = if column.unit.is_empty() { String::new() } else { format!(" ({})", column.unit) };
        format!("{:<22} {:<12} {}{unit}\n", column.name, column.kind.word(), column.meaning)
    };
    schema.columns.iter().map(line).collect()
}

/// Where the history of the prompt is kept.
fn history() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::home_dir().map(|home| home.join(".local/state"));
    Some(state.or_else(home)?.join("unstarve/sql_history"))
}

/// The same where nobody else can give it another name, or lead it elsewhere: root may ask with another user's HOME.
fn kept(path: &Path) -> Result<PathBuf> {
    const LARGEST: u64 = 16 << 20;
    let (directory, name) = (path.parent().context("no directory")?, path.file_name().context("no name")?);
    let directory = Directory::make(directory)?;
    directory.read(name, LARGEST)?;
    Ok(directory.path().join(name))
}

/// What Tab completes.
struct Words {
    words: Vec<String>,
}

impl Words {
    async fn of(session: &SessionContext) -> Words {
        let mut words: Vec<String> = WORDS.map(str::to_owned).into();
        words.extend(FUNCTIONS.iter().filter_map(|help| help.call.split_inclusive('(').next()).map(str::to_owned));
        for name in names(session) {
            if let Ok(table) = session.table(&name).await {
                words.extend(table.schema().fields().iter().map(|field| field.name().clone()));
            }
            words.push(name);
        }
        words.sort();
        words.dedup();
        Words { words }
    }

    fn complete(&self, line: &str, at: usize) -> (usize, Vec<String>) {
        let begin = line[..at]
            .rfind(|c: char| !c.is_alphanumeric() && c != '_')
            .map_or(0, |before| before + line[before..].chars().next().map_or(1, char::len_utf8));
        let start = line[begin..at].to_lowercase();
        let fits = |word: &&String| !start.is_empty() && word.starts_with(&start);
        (begin, self.words.iter().filter(fits).cloned().collect())
    }
}

impl Completer for Words {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(Words::complete(self, line, at))
    }
}

impl Validator for Words {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = context.input().trim();
        let is_whole = text.is_empty() || text.starts_with('\\') || text.ends_with(';');
        Ok(if is_whole { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Hinter for Words {
    type Hint = String;
}
impl Highlighter for Words {}
impl Helper for Words {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tab_completes_the_word_at_the_cursor() {
        let words = Words { words: vec!["blame_rollup".into(), "buckets".into(), "by".into()] };
        assert_eq!(words.complete("select * from bl", 16), (14, vec!["blame_rollup".to_owned()]));
        assert_eq!(words.complete("select é,b", 11).1.len(), 3);
        assert_eq!(words.complete("select ", 7).1, Vec::<String>::new());
    }

    #[test]
    fn commands_show_tables_columns_and_help() {
        let text = |command| match command_of(command) {
            Command::Text(text) => text,
            other => panic!("{other:?}"),
        };
        assert!(text("d").contains("wait_rollup") && text("d").contains("top_culprits"));
        assert!(text("d wait_rollup").contains("span_ns"));
        assert!(text("f").contains("hist_quantile") && text("?").contains("Ctrl-D"));
        assert!(text("x").contains("no such command"));
        assert_eq!(command_of("d other"), Command::Statement("describe other".to_owned()));
        assert_eq!((command_of("q"), command_of("timing")), (Command::Quit, Command::Timing));
    }
}
