//! What there is, is documented; what is documented, there is.

use std::collections::BTreeSet;

use serde_json::Value;
use unstarve_diagnose::{FINDINGS, FindingKind, REMEDIES, RemedyKind, report};
use unstarve_model::EventType;
use unstarve_sched::Rule;

fn path(name: &str) -> String {
    format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"))
}

fn text(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn every_kind_of_finding_has_an_id_of_its_own() {
    let ids: BTreeSet<&str> = FINDINGS.iter().map(|kind| kind.id).collect();
    assert_eq!(ids.len(), FINDINGS.len());
    for kind in &FINDINGS {
        assert!(kind.id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{}", kind.id);
        assert!(!kind.title.ends_with('.') && kind.about.ends_with('.'), "{}", kind.id);
        assert_eq!(FindingKind::of_id(kind.id).map(|found| found.title), Some(kind.title));
    }
}

/// docs/findings.md is made from the list: `UNSTARVE_WRITE=1 cargo test -p unstarve-diagnose --test integration kinds` writes it.
#[test]
fn the_page_of_findings_is_what_the_list_says() {
    let expected = FINDINGS.iter().fold(HEAD.to_owned(), |page, kind| page + &section(kind));
    if std::env::var_os("UNSTARVE_WRITE").is_some() {
        std::fs::write(path("docs/findings.md"), &expected).expect("docs/findings.md");
    }
    assert!(
        text("docs/findings.md") == expected,
        "docs/findings.md is not what the list makes; see this test's comment"
    );
}

/// The table of docs/verdict.md is the program's own; the page before it is written by hand.
#[test]
fn the_page_of_the_verdict_has_the_table_that_decides() {
    const MARK: &str = "do not edit below -->\n";
    let page = text("docs/verdict.md");
    let (head, _) = page.split_once(MARK).expect("the mark");
    let expected = format!("{head}{MARK}\n{}", unstarve_diagnose::verdict::markdown());
    if std::env::var_os("UNSTARVE_WRITE").is_some() {
        std::fs::write(path("docs/verdict.md"), &expected).expect("docs/verdict.md");
    }
    assert!(
        text("docs/verdict.md") == expected,
        "docs/verdict.md is not what the table makes; see this test's comment"
    );
}

const HEAD: &str = "\
# Findings

What `unstarve explain` can find; `unstarve explain --list` prints the same. Made from the program's own list
(`crates/diagnose/src/finding/`): do not edit. How bad a finding is: [verdict.md](verdict.md). Whom it blames: [blame.md](blame.md). What to do:
[remedies.md](remedies.md).
";

fn section(kind: &FindingKind) -> String {
    let events: Vec<String> = kind.needs.iter().map(|event| format!("`{}`", event.name())).collect();
    let snapshot = kind.snapshot.map(|taken| format!("* From the host snapshot: {taken}.\n")).unwrap_or_default();
    format!(
        "\n## `{}`\n\n{}.\n\n{}\n\n* Events beside `{}`: {}.\n{snapshot}",
        kind.id,
        capitalised(kind.title),
        kind.about,
        EventType::Switch.name(),
        events.join(", ")
    )
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

#[test]
fn truth_names_findings_that_exist() {
    let guests: Value = serde_json::from_str(&text("bench/truth/truth.json")).expect("bench/truth/truth.json");
    let traces: toml::Table = text("testdata/traces/TRUTH.toml").parse().expect("testdata/traces/TRUTH.toml");
    let traces = serde_json::to_value(traces).expect("JSON");
    let mut seen = 0;
    for (name, label) in [guests, traces].iter().flat_map(|labels| labels.as_object().expect("an object")) {
        let several = label["all"].as_array().into_iter().flatten().map(|one| &one["id"]);
        for id in label["top"].as_array().into_iter().flatten().chain(several) {
            assert!(id.as_str().is_some_and(|id| FindingKind::of_id(id).is_some()), "{name}: {id} is no finding");
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen} ids of findings");
}

#[test]
fn every_kind_of_remedy_has_an_id_of_its_own() {
    let ids: BTreeSet<&str> = REMEDIES.iter().map(|kind| kind.id).collect();
    assert_eq!(ids.len(), REMEDIES.len());
    for kind in REMEDIES {
        assert!(
            kind.id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'),
            "{kind:?}"
        );
        assert!(!kind.title.is_empty() && !kind.title.ends_with('.'), "{kind:?}");
        assert_eq!(RemedyKind::of_id(kind.id), Some(*kind));
    }
}

/// The first column of the table in docs/remedies.md names every kind, and nothing else.
#[test]
fn the_table_of_remedies_is_complete() {
    let text = text("docs/remedies.md");
    let cells = text.lines().filter(|line| line.starts_with("| `")).filter_map(|line| line.split('|').nth(1));
    let listed: BTreeSet<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert_eq!(listed, REMEDIES.iter().map(|kind| kind.id).collect());
}

#[test]
fn the_legend_has_every_rule_once() {
    let [mut legend, mut rules] = [report::LEGEND, Rule::ALL];
    legend.sort_unstable();
    rules.sort_unstable();
    assert_eq!(legend, rules);
}
