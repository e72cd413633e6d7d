//! A comment for a merge request: the verdict, what changed, by what, and the next command.

use std::fmt::Write;

use anyhow::Result;
use unstarve_diagnose::compare::gate::{Case, Gate, Judgement};
use unstarve_model::{Nanos, counted};
use unstarve_term::clean;

use super::cut;

/// The first line, by which a job finds its own comment again.
const COMMENT_MARKER: &str = "<!-- unstarve compare -->";
/// Maximum cases in the table.
const MAX_CASES: usize = 12;
/// Maximum bytes of a sentence, and of a name in the table.
const MAX_SENTENCE_BYTES: usize = 600;
const MAX_NAME_BYTES: usize = 80;
/// Maximum obstacles listed.
const MAX_OBSTACLES: usize = 6;

/// What others have written is code: there is no markup, no link and no mention in it.
pub fn write(gate: &Gate) -> Result<String> {
    let mut out = format!("{COMMENT_MARKER}\n### unstarve: {}\n\n", gate.verdict.word());
    out.push_str(&block(&gate.sentence));
    let is_shown = |case: &&Case| case.verdict != Judgement::Same;
    let shown: Vec<&Case> = gate.cases.iter().filter(is_shown).collect();
    if !shown.is_empty() {
        out.push_str(
            "\n| verdict | what | waited in 1 s, base | new | factor | who had the CPU |\n|---|---|---|---|---|---|\n",
        );
    }
    for case in shown.iter().take(MAX_CASES) {
        let by: Vec<String> = case.by.iter().map(|name| span(name)).collect();
        let by = if by.is_empty() { "–".to_owned() } else { by.join(", ") };
        let (base, new, factor) = numbers(case);
        let verdict = case.verdict.word();
        writeln!(out, "| {verdict} | {} | {base} | {new} | {factor} | {by} |", span(&case.headline()))?;
    }
    let more = |count: usize, what: &str, are: &str| match count {
        0 => String::new(),
        count => format!("{} {are}. ", counted(count as u64, what)),
    };
    let same = gate.cases.len() - shown.len();
    let rest = [
        more(shown.len().saturating_sub(MAX_CASES), "more case", "not shown"),
        more(same, "case", "the same"),
        more(gate.too_small, "role", "too little to matter"),
    ];
    let recordings = format!("{} of the base.", counted(gate.base.len() as u64, "recording"));
    writeln!(out, "\n{}{recordings}", rest.concat())?;
    for obstacle in gate.obstacles.iter().take(MAX_OBSTACLES) {
        writeln!(out, "\n{}", block(&format!("{}. To decide: {}.", obstacle.text, obstacle.advice)).trim_end())?;
    }
    if let Some(advice) = &gate.advice {
        writeln!(out, "\n{advice}")?;
    }
    let file = gate.new.first().map_or("", String::as_str);
    writeln!(out, "\nNext: {}", span(&format!("unstarve explain {file}")))?;
    Ok(out)
}

fn numbers(case: &Case) -> (String, String, String) {
    let none = || "–".to_owned();
    let Some(waits) = &case.waits else {
        return (none(), case.severity.map_or_else(none, |severity| severity.word().to_owned()), none());
    };
    let mean = |rates: &[f64]| {
        let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
        Nanos(mean.max(0.0) as u64).to_string()
    };
    let factor =
        waits.factor.zip(waits.between).map(|(factor, (low, high))| format!("× {factor:.2} ({low:.2} to {high:.2})"));
    (mean(&waits.base_ns_per_s), mean(&waits.new_ns_per_s), factor.unwrap_or_else(none))
}

/// The longest run of backticks in a text.
fn backticks(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// A text on lines of its own, as a block of code.
fn block(text: &str) -> String {
    let text = clean(text);
    let text = cut(&text, MAX_SENTENCE_BYTES);
    let fence = "`".repeat(backticks(text).max(2) + 1);
    format!("{fence}text\n{text}\n{fence}\n")
}

/// A name in a line or a cell, as code. In a cell a bar needs a backslash, in code, too.
fn span(text: &str) -> String {
    let text = clean(text);
    let text = cut(&text, MAX_NAME_BYTES);
    let fence = "`".repeat(backticks(text) + 1);
    format!("{fence} {} {fence}", text.replace('\\', "/").replace('|', "\\|"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{HOSTILE_NAMES, gate_about};
    use super::*;

    #[test]
    fn a_comment_is_short_and_says_what_to_do() {
        insta::assert_snapshot!(write(&gate_about("app")).expect("written"));
    }

    #[test]
    fn what_others_have_written_is_code() {
        for name in HOSTILE_NAMES {
            let text = write(&gate_about(name)).expect("written");
            for line in text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| verdict |")) {
                let bars = line.replace("\\|", "").matches('|').count();
                assert_eq!(bars, 7, "{line}");
            }
            // Without blocks and spans, nothing of a name is left.
            let mut fence = String::new();
            let mut plain = String::new();
            for line in text.lines() {
                let marks: String = line.chars().take_while(|c| *c == '`').collect();
                if fence.is_empty() && marks.len() >= 3 && line.ends_with("text") {
                    fence = marks;
                } else if !fence.is_empty() {
                    if line == fence {
                        fence.clear();
                    }
                } else {
                    plain.push_str(line);
                    plain.push('\n');
                }
            }
            assert_eq!(fence, "", "a block does not end: {text}");
            assert!(!plain.lines().any(|line| line.starts_with('/') || line.starts_with("::")), "{plain}");
            let outside: String = outside_spans(&plain);
            for sign in ["@", "script", "evil", "e.vil", "**", "error", "#1"] {
                assert!(!outside.contains(sign), "{sign} in {outside}");
            }
            assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        }
    }

    /// A text without its spans of code: a run of backticks to the next run of the same length.
    fn outside_spans(text: &str) -> String {
        let mut outside = String::new();
        let mut rest = text;
        while let Some(start) = rest.find('`') {
            outside.push_str(&rest[..start]);
            let run = rest[start..].chars().take_while(|c| *c == '`').count();
            rest = &rest[start + run..];
            let mut at = 0;
            let end = loop {
                let Some(next) = rest[at..].find('`') else { break None };
                let length = rest[at + next..].chars().take_while(|c| *c == '`').count();
                if length == run {
                    break Some(at + next + length);
                }
                at += next + length;
            };
            rest = &rest[end.expect("a span that ends")..];
        }
        outside + rest
    }

    #[test]
    fn a_comment_fits() {
        let mut gate = gate_about("``````````````|");
        let cases = gate.cases.clone();
        gate.cases = cases.into_iter().cycle().take(10_000).collect();
        gate.new = vec!["x".repeat(4096)];
        gate.obstacles = gate.obstacles.iter().cloned().cycle().take(1000).collect();
        assert!(write(&gate).expect("written").len() < 20_000);
    }
}
