//! Man pages of the commands, made by clap_mangen, with examples and exit codes from the help texts.

use anyhow::{Context, Result, anyhow};
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

/// The subcommand with this name (`watch episodes`).
pub fn find<'a>(program: &'a Command, words: &[String]) -> Result<&'a Command> {
    words.iter().try_fold(program, |command, word| {
        command
            .find_subcommand(word)
            .filter(|found| !found.is_hide_set())
            .ok_or_else(|| anyhow!("{word}: no command of {}", name(command)))
    })
}

/// Lists the pages: file, tab, command.
pub fn names(program: &Command) -> String {
    let mut lines = String::new();
    collect(program, &mut Vec::new(), &mut lines);
    lines
}

fn collect<'a>(command: &'a Command, words: &mut Vec<&'a str>, lines: &mut String) {
    lines.push_str(&format!("{}.1\t{}\n", name(command), words.join(" ")));
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        words.push(below.get_name());
        collect(below, words, lines);
        words.pop();
    }
}

fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

/// One page in roff. Text after the options has columns, which clap_mangen's sections would reflow.
pub fn page(command: &Command) -> Result<String> {
    let after = command.get_after_long_help().or_else(|| command.get_after_help()).map(ToString::to_string);
    let page = Man::new(command.clone()).manual("unstarve").source(concat!("unstarve ", env!("CARGO_PKG_VERSION")));
    let mut bytes = Vec::new();
    page.render_title(&mut bytes)?;
    page.render_name_section(&mut bytes)?;
    page.render_synopsis_section(&mut bytes)?;
    page.render_description_section(&mut bytes)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        page.render_options_section(&mut bytes)?;
    }
    if command.get_subcommands().any(|below| !below.is_hide_set()) {
        page.render_subcommands_section(&mut bytes)?;
    }
    if let Some(after) = after {
        sections(&after).to_writer(&mut bytes)?;
    }
    String::from_utf8(bytes).context("the man page is not text")
}

/// A line `Title:` begins a section, and so does `Title: text`, where the text is its first line.
fn sections(after: &str) -> Roff {
    let mut roff = Roff::new();
    let mut titled = false;
    for line in after.lines() {
        if let Some((title, rest)) = heading(line) {
            roff.control("SH", [title.to_uppercase().as_str()]);
            titled = true;
            if !rest.is_empty() {
                roff.text([roman(rest)]);
            }
            continue;
        }
        if !titled {
            roff.control("SH", ["NOTES"]);
            titled = true;
        }
        match line.strip_prefix("  ") {
            Some(example) => roff.control("nf", []).text([roman(example)]).control("fi", []),
            None if line.is_empty() => roff.control("PP", []),
            None => roff.text([roman(line)]),
        };
    }
    roff
}

fn heading(line: &str) -> Option<(&str, &str)> {
    let (title, rest) = line.split_once(':')?;
    let is_title = title.starts_with(|first: char| first.is_ascii_uppercase())
        && title.len() <= 24
        && title.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b' ')
        && (rest.is_empty() || rest.starts_with(' '));
    is_title.then(|| (title, rest.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_after_the_options_keeps_its_lines() {
        let text = sections("Examples:\n  a   b\n  c\n\nExit code: 0 if so,\n2 if not.").to_roff();
        assert_eq!(text, ".SH EXAMPLES\n.nf\na   b\n.fi\n.nf\nc\n.fi\n.PP\n.SH \"EXIT CODE\"\n0 if so,\n2 if not.\n");
        assert!(sections("Only text").to_roff().starts_with(".SH NOTES\nOnly text"), "no section");
    }
}
