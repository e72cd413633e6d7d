//! Exit codes as decision 0624 has them, and what names of tasks can do to the files.

use serde_json::json;

use super::*;

const DECISION_0624: &str = include_str!("../../../../../docs/decisions/0624-a-gate-for-ci.md");

#[test]
fn exit_codes_are_those_of_the_table() {
    let lines = DECISION_0624.lines().skip_while(|line| !line.starts_with("| verdict | `--fail-on worse`"));
    let rows: Vec<Vec<&str>> = lines
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), Judgement::ALL.len());
    for (row, verdict) in rows.iter().zip(Judgement::ALL) {
        assert_eq!(row[0], verdict.word());
        assert_eq!(row[1], FailOnVerdict::Worse.exit_code(verdict).to_string());
        assert_eq!(row[2], FailOnVerdict::Never.exit_code(verdict).to_string());
    }
}

/// A gate with one case of each verdict, of a task with this name.
pub(super) fn gate_about(name: &str) -> Gate {
    let case = |verdict: &str, rule: &str, waits: bool| {
        let mut case = json!({
            "rule": rule, "basis": if waits { "waits" } else { "finding" }, "verdict": verdict,
            "role": { "kind": "task", "name": name }, "by": [name],
            "sentence": format!("{name} is starved by {name} (real-time)."),
        });
        if waits {
            case["waits"] = json!({
                "base_ns_per_s": [1e6], "new_ns_per_s": [5e8], "factor": 3.0, "between": [2.5, 4.0],
            });
        } else {
            case["severity"] = "critical".into();
        }
        case
    };
    serde_json::from_value(json!({
        "verdict": "worse", "sentence": format!("Worse. {name} waits."), "base": ["a.dat"], "new": ["b c.dat"],
        "margin": 2.0, "too_small": 1, "not_everywhere": 2, "advice": "To decide: record more.",
        "cases": [case("worse", "rt-starvation", false), case("worse", "waits", true), case("undecided", "waits", true),
                  case("better", "waits", true), case("same", "wake-storm", false)],
        "obstacles": [{ "kind": "lost-events", "text": format!("{name}: 3 events were lost"), "advice": "record more" }],
    }))
    .expect("a gate")
}

pub(super) const HOSTILE_NAMES: [&str; 12] = [
    "</failure><x>",
    "]]>&amp;\"'",
    "\u{1b}[31m\u{7}\u{0}\u{8}",
    "\u{202e}\u{2066}\u{feff}",
    "::error::x",
    "##[error]x",
    "@everyone #1",
    "``` <script>",
    "`|`` | **b**",
    "[x](//e.vil)",
    "\u{fffe}\u{ffff}",
    "a\n/close\n::x",
];

#[test]
fn no_name_is_a_command_of_a_ci_runner() {
    for name in HOSTILE_NAMES {
        let page = gate_page(&gate_about(name), unstarve_term::Extent::All, output::look(crate::output::Color::Never));
        let shown = without_workflow_commands(&page);
        let is_command = |line: &str| line.trim_start().starts_with("::") || line.contains("##[");
        assert!(!shown.lines().any(is_command), "{shown}");
    }
    assert_eq!(without_workflow_commands("a\n  ::error::x ##[y\n"), "a\n  \\::error::x #\\#[y\n");
    assert_eq!(without_workflow_commands("std::sync\n"), "std::sync\n");
}

#[test]
fn a_text_is_cut_between_characters() {
    assert_eq!((cut("aé", 2), cut("aé", 3), cut("aé", 9), cut("", 0)), ("a", "aé", "aé", ""));
}
