//! Writes a page: wraps text, replaces characters outside the charset, adds colours.

use anstyle::{AnsiColor, Style};
use unstarve_diagnose::report::Severity;

use crate::text::{columns, fold};
use crate::{Charset, Colours, Look};

/// A page under construction.
pub(crate) struct Ink {
    pub(crate) look: Look,
    out: String,
    /// What is written takes so many rows: a terminal wraps what is wider.
    rows: usize,
}

pub(crate) const STRONG: Style = Style::new().bold();
pub(crate) const FAINT: Style = Style::new().dimmed();
pub(crate) const PLAIN: Style = Style::new();
pub(crate) const COMMAND: Style = AnsiColor::Green.on_default();
pub(crate) const CULPRIT: Style = AnsiColor::Red.on_default();

pub(crate) fn of_severity(severity: Severity) -> Style {
    match severity {
        Severity::Critical => AnsiColor::Red.on_default().bold(),
        Severity::Warning => AnsiColor::Yellow.on_default().bold(),
        Severity::Info => AnsiColor::Cyan.on_default().bold(),
    }
}

/// A space at which lines are not broken.
const NO_BREAK_SPACE: char = '\u{a0}';

/// Keeps a number and its unit on one line.
fn bind_units(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for (index, word) in text.split(' ').enumerate() {
        let unit = matches!(
            word.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '%'),
            "ns" | "µs" | "us" | "ms" | "s" | "%"
        );
        if index > 0 {
            out.push(if unit && out.ends_with(|c: char| c.is_ascii_digit()) { NO_BREAK_SPACE } else { ' ' });
        }
        out.push_str(word);
    }
    out
}

impl Ink {
    pub(crate) fn new(look: Look) -> Ink {
        Ink { look, out: String::new(), rows: 0 }
    }

    /// The rows that the page takes on its terminal so far.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn finish(self) -> String {
        self.out
    }

    pub(crate) fn blank(&mut self) {
        self.out.push('\n');
        self.rows += 1;
    }

    /// Writes a line of parts that fit, each in its style.
    pub(crate) fn line(&mut self, parts: &[(Style, &str)]) {
        let mut line = String::new();
        let last = parts.len().saturating_sub(1);
        let mut width = 0;
        for (index, (style, text)) in parts.iter().enumerate() {
            let folded = fold(text, self.look.charset());
            let text = if index == last { folded.trim_end() } else { &folded };
            width += columns(text);
            match self.look.colours() {
                Colours::Ansi if !text.trim().is_empty() && *style != PLAIN => {
                    line.push_str(&format!("{style}{text}{style:#}"));
                }
                _ => line.push_str(text),
            }
        }
        self.rows += width.div_ceil(self.look.width()).max(1);
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    /// Writes a paragraph: its first line begins with `first`, the others are indented to the same column.
    pub(crate) fn paragraph(&mut self, first: &str, style: Style, text: &str) {
        self.labelled((PLAIN, first), style, text);
    }

    /// Writes a paragraph whose first line begins with a label in a style of its own.
    pub(crate) fn labelled(&mut self, (label_style, first): (Style, &str), style: Style, text: &str) {
        let text = bind_units(&fold(text, self.look.charset()));
        let indent = columns(first);
        let width = self.look.width().saturating_sub(indent).max(20);
        let options = textwrap::Options::new(width).word_splitter(textwrap::WordSplitter::NoHyphenation);
        for (index, line) in textwrap::wrap(&text, options).iter().enumerate() {
            let margin = if index == 0 { first.to_owned() } else { " ".repeat(indent) };
            self.line(&[(label_style, &margin), (style, &line.replace(NO_BREAK_SPACE, " "))]);
        }
    }

    /// Writes a line without wrapping, because people copy it.
    pub(crate) fn command(&mut self, first: &str, text: &str) {
        for (index, line) in text.lines().enumerate() {
            let margin = if index == 0 { first.to_owned() } else { " ".repeat(columns(first)) };
            self.line(&[(PLAIN, &margin), (COMMAND, line)]);
        }
    }

    /// A bar of at most `width` columns for `share` (0 to 1), in eighths of a column if the charset has them.
    pub(crate) fn bar(&self, share: f64, width: usize) -> String {
        let share = share.clamp(0.0, 1.0);
        match self.look.charset() {
            Charset::Ascii => {
                let full = (share * width as f64).round() as usize;
                "#".repeat(if share > 0.0 { full.max(1) } else { 0 })
            }
            Charset::Utf8 => {
                const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
                let eighths = (share * width as f64 * 8.0).round() as usize;
                let eighths = if share > 0.0 { eighths.max(1) } else { 0 };
                format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8])
            }
        }
    }
}
