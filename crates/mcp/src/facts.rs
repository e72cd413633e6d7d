//! What a program needs of an answer: ids, numbers and names, from what `--json` prints.

use serde_json::{Map, Value as Json, json};
use unstarve_model::clean;

/// Findings that are given to programs.
const MAX_FINDINGS: usize = 3;
/// Names of a finding's culprits, remedies.
const MAX_NAMES: usize = 4;
/// Characters of a name.
const MAX_NAME_CHARS: usize = 48;

/// Of `explain --json`.
pub fn of_report(report: &Json) -> Map<String, Json> {
    let findings = list(report, "findings");
    let shown: Vec<Json> =
        findings.iter().take(MAX_FINDINGS).enumerate().map(|(at, finding)| of_finding(at, finding)).collect();
    let mut facts = Map::new();
    if let Some(severity) = report.pointer("/verdict/severity") {
        facts.insert("severity".to_owned(), severity.clone());
    }
    facts.insert("findings".to_owned(), json!(shown));
    if findings.len() > MAX_FINDINGS {
        facts.insert("other_findings".to_owned(), json!(findings.len() - MAX_FINDINGS));
    }
    if let Some(lost) = report.pointer("/trace/lost").and_then(Json::as_u64).filter(|lost| *lost > 0) {
        facts.insert("lost_events".to_owned(), json!(lost));
    }
    facts
}

fn of_finding(at: usize, finding: &Json) -> Json {
    let names = |of: &str, field: &str| -> Vec<String> {
        list(finding, of).iter().filter_map(|thing| name(thing.get(field)?)).take(MAX_NAMES).collect()
    };
    json!({
        "number": at + 1,
        "id": finding.get("id"),
        "severity": finding.get("severity"),
        "confidence": finding.get("confidence"),
        "victim": finding.pointer("/victim/comm").and_then(name),
        "culprits": names("culprits", "comm"),
        "rule": finding.pointer("/culprits/0/rule"),
        "remedies": names("remedies", "id"),
    })
}

/// Of `fix --json`: the finding, the remedy, and why it cannot be done here.
pub fn of_plan(plan: &Json) -> Map<String, Json> {
    let mut facts = Map::new();
    let parts = [
        ("finding", "/finding/id"),
        ("finding_number", "/finding/number"),
        ("remedy", "/remedy/id"),
        ("remedy_number", "/remedy/number"),
    ];
    for (name, at) in parts {
        if let Some(value) = plan.pointer(at) {
            facts.insert(name.to_owned(), value.clone());
        }
    }
    let obstacles: Vec<String> = list(plan, "plan")
        .iter()
        .filter_map(|step| step.get("obstacle")?.as_str().map(short))
        .take(MAX_NAMES)
        .collect();
    if !obstacles.is_empty() {
        facts.insert("obstacles".to_owned(), json!(obstacles));
    }
    facts
}

/// Whether two reports of one recording mean the same trouble: its kind, victim and first culprit.
pub fn is_same(one: &Json, other: &Json) -> bool {
    let parts = ["/id", "/victim/comm", "/culprits/0/comm", "/culprits/0/rule"];
    parts.iter().all(|part| one.pointer(part) == other.pointer(part))
}

pub fn list<'a>(of: &'a Json, name: &str) -> &'a [Json] {
    of.get(name).and_then(Json::as_array).map_or(&[], Vec::as_slice)
}

/// A name that somebody else chose, escaped and short.
fn name(value: &Json) -> Option<String> {
    let text = clean(value.as_str()?).into_owned();
    Some(if text.chars().count() > MAX_NAME_CHARS {
        text.chars().take(MAX_NAME_CHARS).collect::<String>() + "..."
    } else {
        text
    })
}

fn short(text: &str) -> String {
    let text = clean(text);
    if text.chars().count() > 200 { text.chars().take(200).collect::<String>() + "..." } else { text.into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_short() {
        let long = "x".repeat(5000);
        let finding = json!({ "id": "f", "victim": { "comm": "a\u{1b}[2K\u{202e}b" }, "culprits": [{ "comm": long }] });
        let facts = of_report(&json!({ "findings": vec![finding; 40] }));
        let text = Json::Object(facts.clone()).to_string();
        assert!(text.len() < 2000 && !text.contains("\\u001b") && !text.contains('\u{202e}'), "{text}");
        assert_eq!(facts["other_findings"], 37);
        assert_eq!(of_report(&json!(7))["findings"], json!([]));
    }
}
