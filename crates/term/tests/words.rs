//! The words of docs/glossary.md in what is printed: of every stored recording, and in the tables of words.

use std::collections::BTreeSet;

use unstarve_diagnose::report::{LEGEND, Scope};
use unstarve_diagnose::{FINDINGS, REMEDIES};
use unstarve_term::{Charset, Colours, Look, first_screen, page_of};

use crate::first_screen::recorded;

/// Words that the glossary replaces.
const BANNED: [&str; 16] = [
    "price",
    "prices",
    "owed",
    "occupant",
    "occupants",
    "intruder",
    "intruders",
    "made in part",
    "taken back",
    "told",
    "whom",
    "foe",
    "whoever",
    "nobody knows",
    "not shown to help",
    "anew",
];
/// Words of one sentence on the first screen.
const MAX_WORDS: usize = 25;

fn look() -> Look {
    Look::new(100, Charset::Utf8, Colours::Plain)
}

/// In one line, without commands and ids: an id is never changed.
fn prose(text: &str) -> String {
    let is_command = |line: &&str| {
        let line = line.trim_start();
        ["unstarve ", "do: ", "undo: ", "sudo "].iter().any(|start| line.starts_with(start))
    };
    let line =
        text.lines().filter(|line| !is_command(line)).flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ");
    REMEDIES.iter().fold(line, |line, kind| line.replace(kind.id, "ID"))
}

fn banned(text: &str) -> Vec<&'static str> {
    let lower = format!(" {} ", text.to_lowercase().replace(|c: char| !c.is_alphanumeric(), " "));
    BANNED.into_iter().filter(|word| lower.contains(&format!(" {word} "))).collect()
}

#[test]
fn banned_words_are_found() {
    assert_eq!(banned("The occupant's price; 3 were told. Prices: none."), ["price", "prices", "occupant", "told"]);
    assert_eq!(banned("foretold by an intruder-to-fair"), ["intruder"]);
    assert_eq!(prose("Fix it\n  unstarve fix x --remedy intruder-to-fair\nby intruder-to-fair"), "Fix it by ID");
}

#[test]
fn no_table_has_a_banned_word() {
    let findings = FINDINGS.iter().flat_map(|kind| [kind.title, kind.about].into_iter().chain(kind.snapshot));
    let remedies = REMEDIES.iter().flat_map(|kind| std::iter::once(kind.title).chain(kind.on_request));
    let rules = LEGEND.iter().map(|rule| rule.meaning());
    for text in findings.chain(remedies).chain(rules) {
        assert!(banned(text).is_empty(), "{:?}: {text}", banned(text));
    }
}

/// The sentences of a first screen: a label, an empty line or a chart's row ends one, too.
fn sentences(screen: &str) -> Vec<String> {
    const LABELS: [&str; 11] = [
        "Why ",
        "Others ",
        "Cost ",
        "When ",
        "Lost ",
        "Fix ",
        "Also ",
        "Not recorded:",
        "Who had ",
        "Kept waiting ",
        "Selected: ",
    ];
    let mut blocks: Vec<String> = vec![String::new()];
    for line in screen.lines() {
        let text = line.trim();
        let is_row = text.ends_with(" %") && text.contains("  ");
        let begins = LABELS.iter().any(|label| text.starts_with(label)) || text.starts_with("unstarve ") || is_row;
        let is_list = ["INFO", "WARNING", "CRITICAL"].iter().any(|word| text.starts_with(word));
        // `3  keep wl off CPU 1`
        let is_item = text.starts_with(|c: char| c.is_ascii_digit()) && text.get(1..3) == Some("  ");
        if text.is_empty() || begins || is_list || is_item {
            blocks.push(String::new());
        }
        if let Some(last) = blocks.last_mut() {
            last.push_str(text);
            last.push(' ');
        }
        if is_row {
            blocks.push(String::new());
        }
    }
    let split = |block: String| {
        block.split([';', '·']).flat_map(|part| part.split(". ")).map(str::to_owned).collect::<Vec<_>>()
    };
    blocks.into_iter().flat_map(split).collect()
}

/// A name with what it works on, and a number with its unit, count as one word.
fn words(sentence: &str) -> usize {
    let mut depth = 0;
    let mut count = 0;
    let mut after_number = false;
    for word in sentence.split_whitespace() {
        let is_unit =
            after_number && ["ns", "µs", "ms", "s", "%", "UTC"].contains(&word.trim_end_matches([',', ':', ')', '.']));
        let opens = word.matches(['(', '[']).count();
        let closes = word.matches([')', ']']).count();
        if depth == 0 && !is_unit && !word.starts_with('(') {
            count += 1;
        }
        depth = (depth + opens).saturating_sub(closes);
        after_number = word.starts_with(|c: char| c.is_ascii_digit() || c == '+');
    }
    count
}

#[test]
fn names_and_numbers_are_one_word() {
    assert_eq!(words("kworker/0:2 (dio_work on dio/sda) waited 177 ms, up to 90.0 ms at a time"), 9);
    assert_eq!(
        sentences("Why  a b\n  c d\nFix  e. f\n\nwl  10 %").iter().filter(|one| !one.trim().is_empty()).count(),
        4
    );
}

#[test]
fn every_recording_is_explained_in_the_words_of_the_glossary() {
    let (mut wrong, mut long) = (BTreeSet::new(), BTreeSet::new());
    for (name, report) in recorded() {
        let screen = first_screen(report, Scope::Whole, Some(name), look());
        let page = page_of(report, Scope::Whole, Some(name), look());
        for text in [&screen, &page] {
            wrong.extend(banned(&prose(text)).into_iter().map(|word| format!("{word}: {name}")));
        }
        long.extend(sentences(&screen).into_iter().filter(|one| words(one) > MAX_WORDS));
    }
    assert!(wrong.is_empty(), "{}", wrong.into_iter().collect::<Vec<_>>().join("\n"));
    assert!(long.is_empty(), "{}", long.into_iter().collect::<Vec<_>>().join("\n"));
}
