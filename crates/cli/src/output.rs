//! Standard output and error: colours, errors, and readers that close a pipe.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU8, Ordering};

use anstream::{AutoStream, ColorChoice};
use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use unstarve_lab::runner::RunError;
use unstarve_model::clean_bytes;
use unstarve_term::{Charset, Colours, Look, clean};

/// `--color`, as typed.
#[derive(Clone, Copy, Default, ValueEnum)]
pub enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

/// Width without a terminal.
const DEFAULT_COLUMNS: usize = 100;

/// The format of standard output: colours as requested, width of the terminal, characters of the locale.
pub fn look(color: Color) -> Look {
    let colours = match color {
        Color::Always => Colours::Ansi,
        Color::Never => Colours::Plain,
        Color::Auto if AutoStream::choice(&io::stdout()) == ColorChoice::Never => Colours::Plain,
        Color::Auto => Colours::Ansi,
    };
    let columns = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
    let asked = || std::env::var("COLUMNS").ok()?.parse().ok();
    Look::new(columns.or_else(asked).unwrap_or(DEFAULT_COLUMNS), charset(), colours)
}

/// By the locale variables in POSIX order. Without any, assume ASCII.
fn charset() -> Charset {
    let locale =
        ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| std::env::var(name).ok().filter(|v| !v.is_empty()));
    let locale = locale.unwrap_or_default().to_ascii_lowercase();
    if locale.contains("utf-8") || locale.contains("utf8") { Charset::Utf8 } else { Charset::Ascii }
}

/// JSON for machines with a line end, the fields in the order of their names.
pub fn sorted_json(value: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string_pretty(&serde_json::to_value(value)?)? + "\n")
}

/// Standard output. A closed pipe (`| head`) is not an error: the program ends at once and silently.
pub struct Out(io::BufWriter<io::Stdout>);

impl Out {
    pub fn new() -> Out {
        Out(io::BufWriter::with_capacity(1 << 16, io::stdout()))
    }

    /// Writes a whole text.
    pub fn text(mut self, text: &str) -> Result<()> {
        self.write_all(text.as_bytes()).and_then(|()| self.flush()).context("standard output")
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        silent_end(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        silent_end(self.0.flush())
    }
}

/// The exit code if the reader is gone: the command's own once it is known, before that 128 and SIGPIPE's number, as of
/// other tools.
static END: AtomicU8 = AtomicU8::new(128 + signal_hook::consts::SIGPIPE as u8);

/// Sets the exit code that the command will end with, even if its reader is gone.
pub fn will_end_with(code: u8) {
    END.store(code, Ordering::Relaxed);
}

/// Ends the program silently if the reader is gone.
pub fn silent_end<T>(result: io::Result<T>) -> io::Result<T> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            process::exit(i32::from(END.load(Ordering::Relaxed)))
        }
        other => other,
    }
}

/// Writes to standard output for `say!` (see main.rs).
pub fn print(text: fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    if let Err(error) = silent_end(out.write_fmt(text).and_then(|()| out.flush())) {
        complain(&anyhow::Error::from(error).context("standard output"));
        process::exit(i32::from(crate::FAILED));
    }
}

/// Writes to standard error for `note!`.
pub fn print_error(text: fmt::Arguments<'_>) {
    // Without a reader the exit code still reports the failure.
    let _ = io::stderr().lock().write_fmt(text);
}

/// Prints `unstarve: what: why`, each cause once, escaped for terminals.
pub fn complain(error: &anyhow::Error) {
    let text = Chain(error).to_string();
    // Without a reader the exit code still reports the failure.
    let _ = writeln!(io::stderr(), "unstarve: {text}");
    if is_about_the_host(error) {
        let _ = writeln!(io::stderr(), "unstarve: note: `unstarve doctor` shows what this host and your rights allow");
    }
}

/// Whether the host, or the rights of this process, do not permit the operation.
fn is_about_the_host(error: &anyhow::Error) -> bool {
    use unstarve_record::RecordError;
    let by_recorder = |error: &RecordError| {
        use RecordError::{LockedDown, NoSwitchEvent, NoTracefs, NotRoot, Tracefs};
        matches!(error, NotRoot | LockedDown | NoTracefs | NoSwitchEvent | Tracefs { .. })
    };
    let by_engine =
        |error: &unstarve_watch::EngineError| matches!(error, unstarve_watch::EngineError::Unavailable { .. });
    error
        .chain()
        .any(|cause| cause.downcast_ref().is_some_and(by_recorder) || cause.downcast_ref().is_some_and(by_engine))
}

/// A file's name in a message, escaped for terminals.
pub fn shown(path: &Path) -> String {
    clean_bytes(path.as_os_str().as_encoded_bytes())
}

/// A remark on standard error.
pub fn remark(text: &str) {
    let _ = writeln!(io::stderr(), "unstarve: note: {}", clean(text));
}

/// Blocks Ctrl-C and other signals from here on: the rest must complete, and takes some milliseconds.
pub fn hold_signals() -> io::Result<impl Sized> {
    unstarve_guard::run::on_signals(&[SIGTERM, SIGINT, SIGHUP])
}

/// Adds a hint to use root to errors about rights, unless the user is root.
pub fn hint_at_root(error: anyhow::Error) -> anyhow::Error {
    let is_denied = error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    });
    match is_denied && !rustix::process::geteuid().is_root() {
        true => with_hint(&error, "; run it as root"),
        false => error,
    }
}

/// Appends advice to an error.
pub fn with_hint(error: &anyhow::Error, hint: &str) -> anyhow::Error {
    anyhow::anyhow!("{}{hint}", Chain(error))
}

/// `1 task`, `2 tasks`.
pub fn counted(count: impl Into<u64>, what: &str) -> String {
    match count.into() {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

/// Formats an error and its causes. Leaves out a cause whose text ends the message before it.
///
/// Escaped: a file's name can neither control the terminal nor begin a line of its own.
struct Chain<'a>(&'a anyhow::Error);

/// A message of several lines that contains no text of others.
#[derive(Debug)]
pub struct OurLines(pub String);

impl fmt::Display for OurLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OurLines {}

/// Escapes it, line by line if the lines are ours.
fn harmless<'a>(cause: &(dyn std::error::Error + 'static), text: &'a str) -> Cow<'a, str> {
    use RunError::{Exited, Guest, NotWithKvm, Stalled, TooLong};
    if cause.is::<OurLines>() {
        return text.into();
    }
    match cause.downcast_ref::<RunError>() {
        // The last lines of the guest's console follow.
        Some(Guest { .. } | Exited { .. } | Stalled { .. } | TooLong { .. } | NotWithKvm(_)) => {
            text.lines().map(clean).collect::<Vec<_>>().join("\n").into()
        }
        _ => clean(text),
    }
}

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = String::new();
        for cause in self.0.chain() {
            let text = cause.to_string();
            if said.contains(&text) {
                continue;
            }
            if !said.is_empty() {
                write!(f, ": ")?;
            }
            f.write_str(&harmless(cause, &text))?;
            said = text;
        }
        Ok(())
    }
}

/// Whether progress may be shown on standard error.
pub fn can_draw() -> bool {
    io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let inner = anyhow!("permission denied");
        assert_eq!(
            Chain(&inner.context("cannot read x: permission denied")).to_string(),
            "cannot read x: permission denied"
        );
        let inner = anyhow!("offset 12: page header");
        assert_eq!(Chain(&inner.context("x.dat")).to_string(), "x.dat: offset 12: page header");
    }

    #[test]
    fn no_name_begins_a_line_of_its_own() {
        let name = "x\nunstarve: all is well\u{1b}[2K\r.dat";
        let shown = "x\\nunstarve: all is well\\u{1b}[2K\\r.dat";
        let error = anyhow!("cannot read {name}");
        assert_eq!(Chain(&error).to_string(), format!("cannot read {shown}"));
        let error = with_hint(&error.context(name), "; run it as root");
        assert_eq!(Chain(&error).to_string(), format!("{shown}: cannot read {shown}; run it as root"));
        // The last output of a guest has several lines.
        let console = "\n  one\n  t\u{7}wo".to_owned();
        let seconds = std::time::Duration::from_secs(9);
        let error = RunError::Stalled { stage: unstarve_lab::console::Stage::Boot, seconds, console };
        let text = Chain(&anyhow::Error::new(error).context(name)).to_string();
        assert!(text.starts_with(&format!("{shown}: ")) && text.ends_with("\n  one\n  t\\u{7}wo"), "{text}");
    }
}
