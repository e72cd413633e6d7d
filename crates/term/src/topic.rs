//! The topics of `unstarve help`: findings, rules, remedies, settings, words.

use unstarve_check as check;
use unstarve_diagnose::proofs::{Proved, shipped};
use unstarve_diagnose::report::LEGEND;
use unstarve_diagnose::{FINDINGS, FindingKind, REMEDIES, RemedyKind};
use unstarve_sched::Rule;

use crate::Look;
use crate::ink::{FAINT, Ink, PLAIN, STRONG};
use crate::kernel_words::KERNEL_WORDS;
use crate::kinds::finding_kind;
use crate::word::{WORDS, Word};

/// A topic.
#[derive(Clone, Copy)]
pub enum Topic {
    /// A finding of `explain`.
    Finding(FindingKind),
    /// A rule: why an occupant had the CPU.
    Rule(Rule),
    /// A remedy of `explain`.
    Remedy(RemedyKind),
    /// A finding of `check`.
    Setting(check::Rule),
    /// Another word of the reports.
    Word(Word),
    /// A word of the kernel, or of a neighbouring tool.
    KernelWord(Word),
}

impl Topic {
    /// All topics, in the order of the documentation.
    pub fn all() -> impl Iterator<Item = Topic> {
        let findings = FINDINGS.into_iter().map(Topic::Finding);
        let remedies = REMEDIES.iter().copied().map(Topic::Remedy);
        findings
            .chain(LEGEND.into_iter().map(Topic::Rule))
            .chain(remedies)
            .chain(check::RULES.map(Topic::Setting))
            .chain(WORDS.iter().copied().map(Topic::Word))
            .chain(KERNEL_WORDS.iter().copied().map(Topic::KernelWord))
    }

    /// The topics with this name: `throttled` is a finding and a rule.
    pub fn named(name: &str) -> Vec<Topic> {
        Topic::all().filter(|topic| topic.id() == name).collect()
    }

    /// The topics that are asked for by this other name: `isolation` is `isolcpus`, `busy poll` is `busy-polling`.
    pub fn also_named(name: &str) -> Vec<Topic> {
        let asked = with_hyphens(name);
        let has = |names: &[&str]| names.iter().any(|other| with_hyphens(other) == asked);
        Topic::all().filter(|topic| with_hyphens(topic.id()) == asked || has(topic.other_names())).collect()
    }

    /// Names beside its id.
    pub fn other_names(self) -> &'static [&'static str] {
        match self {
            Topic::Word(word) | Topic::KernelWord(word) => word.also,
            _ => &[],
        }
    }

    /// The commands that its page says to type.
    pub fn commands(self) -> &'static [&'static str] {
        match self {
            Topic::Word(word) | Topic::KernelWord(word) => word.commands,
            _ => &[],
        }
    }

    /// The topics of the list with this name; `topics` is all of them.
    pub fn listed(list: &str) -> Vec<Topic> {
        let is_in = |topic: &Topic| match topic {
            Topic::Finding(_) => list == "findings",
            Topic::Rule(_) => list == "rules",
            Topic::Remedy(_) => list == "remedies",
            Topic::Word(_) | Topic::KernelWord(_) => list == "words",
            Topic::Setting(_) => false,
        };
        Topic::all().filter(|topic| list == "topics" || is_in(topic)).collect()
    }

    /// The name in reports and options.
    pub fn id(self) -> &'static str {
        match self {
            Topic::Finding(kind) => kind.id,
            Topic::Rule(rule) => rule.word(),
            Topic::Remedy(kind) => kind.id,
            Topic::Setting(rule) => rule.id,
            Topic::Word(word) | Topic::KernelWord(word) => word.id,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Topic::Finding(kind) => kind.title,
            Topic::Rule(rule) => rule.meaning(),
            Topic::Remedy(kind) => kind.title,
            Topic::Setting(rule) => rule.title,
            Topic::Word(word) | Topic::KernelWord(word) => word.title,
        }
    }

    fn heading(self) -> &'static str {
        match self {
            Topic::Finding(_) => "Findings of explain",
            Topic::Rule(_) => "Rules: why another had the CPU",
            Topic::Remedy(_) => "Remedies",
            Topic::Setting(_) => "Rules of check",
            Topic::Word(_) => "Other words",
            Topic::KernelWord(_) => "Words of the kernel",
        }
    }
}

/// Formats topics that share a name.
pub fn topic_page(topics: &[Topic], look: Look) -> String {
    let mut ink = Ink::new(look);
    for topic in topics {
        match topic {
            Topic::Finding(kind) => {
                ink.line(&[(FAINT, "A finding of explain:")]);
                finding_kind(&mut ink, kind);
            }
            Topic::Rule(rule) => {
                ink.line(&[(FAINT, "A rule, by which another had the CPU:")]);
                ink.line(&[(STRONG, rule.word())]);
                ink.paragraph("  ", PLAIN, &format!("{}.", capital(rule.meaning())));
                ink.blank();
            }
            Topic::Remedy(kind) => remedy(&mut ink, kind),
            Topic::Setting(rule) => {
                ink.line(&[(FAINT, "A rule of check:")]);
                crate::audit::rule_entry(&mut ink, rule);
            }
            Topic::Word(it) | Topic::KernelWord(it) => word(&mut ink, it),
        }
    }
    format!("{}\n", ink.finish().trim_end())
}

fn remedy(ink: &mut Ink, kind: &RemedyKind) {
    ink.line(&[(FAINT, "A remedy:")]);
    ink.line(&[(STRONG, kind.id)]);
    ink.paragraph("  ", PLAIN, &format!("{}.", capital(kind.title)));
    if let Some(why) = kind.on_request {
        ink.paragraph("  ", PLAIN, &format!("Only on request (`unstarve fix --remedy {}`): {why}.", kind.id));
    }
    let rows: Vec<Proved> =
        shipped().iter().filter(|row| row.remedy == *kind).map(|row| Proved::of(row, None)).collect();
    for row in &rows {
        ink.paragraph("  lab: ", FAINT, &row.to_string());
    }
    if !rows.is_empty() {
        ink.paragraph("  ", FAINT, "How these lines are read: `unstarve help lab-line`.");
    }
    if rows.is_empty() {
        ink.paragraph("  ", FAINT, "Not proved in the lab so far.");
    }
    ink.blank();
}

fn word(ink: &mut Ink, word: &Word) {
    ink.line(&[(STRONG, word.id)]);
    ink.paragraph("  ", PLAIN, &format!("{}.", capital(word.title)));
    word.text.iter().for_each(|text| ink.paragraph("  ", PLAIN, text));
    word.commands.iter().for_each(|command| ink.paragraph("    ", STRONG, command));
    ink.blank();
}

/// Formats names, one a line.
pub fn topics_page(topics: &[Topic], look: Look) -> String {
    let mut ink = Ink::new(look);
    let width = topics.iter().map(|topic| topic.id().len()).max().unwrap_or_default();
    let mut heading = "";
    for topic in topics {
        if topic.heading() != heading {
            if !heading.is_empty() {
                ink.blank();
            }
            heading = topic.heading();
            ink.line(&[(STRONG, heading)]);
        }
        ink.paragraph(&format!("  {:width$}  ", topic.id()), PLAIN, topic.title());
    }
    format!("{}\n", ink.finish().trim_end())
}

/// In lower case, with `-` for a space or `_`.
fn with_hyphens(name: &str) -> String {
    name.to_lowercase().replace([' ', '_'], "-")
}

fn capital(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Charset, Colours};

    fn narrow() -> Look {
        Look::new(100, Charset::Utf8, Colours::Plain)
    }

    #[test]
    fn each_name_of_the_reports_has_a_page() {
        for topic in Topic::all() {
            let page = topic_page(&Topic::named(topic.id()), narrow());
            assert!(page.contains(topic.id()) && page.lines().count() >= 3, "{page}");
        }
    }

    #[test]
    fn a_word_of_the_kernel_is_answered_in_5_to_15_lines_with_what_to_type() {
        let look = Look::new(80, Charset::Utf8, Colours::Plain);
        for word in KERNEL_WORDS {
            let page = topic_page(&[Topic::KernelWord(*word)], look);
            let lines = page.trim_end().lines().count();
            assert!((5..=15).contains(&lines), "{lines} lines: {page}");
            assert!(!word.commands.is_empty(), "{page}");
            let words = |sentence: &str| sentence.split_whitespace().count();
            let long =
                word.text.iter().flat_map(|text| text.split(['.', ':', ';'])).find(|sentence| words(sentence) > 25);
            assert_eq!(long, None, "{}", word.id);
        }
        assert!(KERNEL_WORDS.is_sorted_by_key(|word| word.id));
    }

    #[test]
    fn a_name_leads_to_one_page() {
        let mut known = std::collections::BTreeMap::new();
        for word in WORDS.iter().chain(KERNEL_WORDS) {
            for name in word.also.iter().chain([&word.id]) {
                assert_eq!(known.insert(with_hyphens(name), word.id), None, "{name}");
            }
        }
        for (asked, id) in
            [("busy poll", "busy-polling"), ("Nohz Full", "nohz_full"), ("FIFO", "real-time"), ("cpu.max", "cpu.max")]
        {
            let found: Vec<&str> = Topic::also_named(asked).into_iter().map(Topic::id).collect();
            assert_eq!(found, [id], "{asked}");
        }
    }

    #[test]
    fn a_name_of_two_things_shows_both() {
        let page = topic_page(&Topic::named("throttled"), narrow());
        assert!(page.contains("A finding of explain") && page.contains("A rule, by which"), "{page}");
    }

    #[test]
    fn a_remedy_shows_what_was_proved_of_it() {
        let page = topic_page(&Topic::named("victim-above-intruder"), narrow());
        assert!(page.contains("lab: on 5.10 for a ksoftirqd: ping.max −97 %"), "{page}");
    }
}
