//! What is worse or undecided as SARIF 2.1.0.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};
use unstarve_check::file_uri;
use unstarve_diagnose::FINDINGS;
use unstarve_diagnose::compare::gate::{Case, Gate, Judgement, Obstacle};
use unstarve_term::clean;

/// The rule of waits, and that of what keeps recordings from deciding.
const RULE_OF_WAITS: (&str, &str) =
    ("waits", "Threads of a role wait longer for a CPU than in the recordings of the base.");
const RULE_OF_UNDECIDED: (&str, &str) = ("undecided", "The recordings cannot show whether threads wait longer.");

/// One run; its rules are `compare/` and a finding's id, which is never reused.
pub fn write(gate: &Gate) -> Result<String> {
    let findings = FINDINGS.iter().map(|kind| (kind.id, format!("{}.", kind.title)));
    let own = [RULE_OF_WAITS, RULE_OF_UNDECIDED].map(|(id, title)| (id, title.to_owned()));
    let rules: Vec<(&str, String)> = own.into_iter().chain(findings).collect();
    let index: BTreeMap<&str, usize> = rules.iter().enumerate().map(|(index, (id, _))| (*id, index)).collect();
    let about = |(id, title): &(&str, String)| json!({ "id": rule_id(id), "shortDescription": { "text": title } });
    let file = gate.new.first().map_or("", String::as_str);
    let is_shown = |case: &&Case| matches!(case.verdict, Judgement::Worse | Judgement::Undecided);
    let cases = gate.cases.iter().filter(is_shown).map(|case| {
        let level = if case.verdict == Judgement::Worse { "error" } else { "warning" };
        let role = &case.role;
        // The same case of the next run is the same alert.
        let fingerprint = format!("{} of {} {}", case.rule, role.kind, clean(&role.name));
        result(&case.rule, &index, (level, &case.sentence), file, (&role.name, &fingerprint))
    });
    let obstacles = gate.obstacles.iter().map(|Obstacle { kind, text, advice }| {
        let text = format!("{text}. To decide: {advice}.");
        result(RULE_OF_UNDECIDED.0, &index, ("warning", &text), file, (kind.word(), kind.word()))
    });
    let results: Vec<Value> = cases.chain(obstacles).collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "unstarve",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.iter().map(about).collect::<Vec<Value>>(),
            } },
            "invocations": [{ "executionSuccessful": true }],
            "properties": { "verdict": gate.verdict.word() },
            "results": results,
        }],
    });
    Ok(serde_json::to_string_pretty(&log)? + "\n")
}

fn rule_id(id: &str) -> String {
    format!("compare/{id}")
}

fn result(
    rule: &str,
    index: &BTreeMap<&str, usize>,
    (level, text): (&str, &str),
    file: &str,
    (subject, fingerprint): (&str, &str),
) -> Value {
    let mut result = json!({
        "ruleId": rule_id(rule),
        "level": level,
        "message": { "text": message(text) },
        "locations": [{
            "physicalLocation": { "artifactLocation": { "uri": file_uri(file) } },
            "logicalLocations": [{ "name": clean(subject), "kind": "resource" }],
        }],
        "partialFingerprints": { "case/v1": fingerprint },
    });
    if let Some(index) = index.get(rule) {
        result["ruleIndex"] = json!(index);
    }
    result
}

/// Text of a message: square brackets would make a link of it (SARIF 2.1.0, 3.11.6).
fn message(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in clean(text).chars() {
        if matches!(c, '[' | ']' | '\\') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::tests::{HOSTILE_NAMES, gate_about};
    use super::*;

    fn results(gate: &Gate) -> Vec<Value> {
        let log: Value = serde_json::from_str(&write(gate).expect("written")).expect("JSON");
        log["runs"][0]["results"].as_array().expect("results").clone()
    }

    #[test]
    fn what_is_worse_or_undecided_is_there() {
        let results = results(&gate_about("app"));
        let levels: Vec<(&str, &str)> = results
            .iter()
            .map(|one| (one["ruleId"].as_str().expect("an id"), one["level"].as_str().expect("a level")))
            .collect();
        assert_eq!(
            levels,
            [
                ("compare/rt-starvation", "error"),
                ("compare/waits", "error"),
                ("compare/waits", "warning"),
                ("compare/undecided", "warning")
            ]
        );
        assert_eq!(results[0]["partialFingerprints"]["case/v1"], "rt-starvation of task app");
        assert_eq!(results[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], "b%20c.dat");
        assert!(results.iter().all(|one| one["ruleIndex"].is_u64()));
    }

    #[test]
    fn no_name_is_a_link() {
        for name in HOSTILE_NAMES {
            for one in results(&gate_about(name)) {
                let text = one["message"]["text"].as_str().expect("text");
                let plain = text.replace("\\\\", "").replace("\\[", "").replace("\\]", "");
                assert!(!plain.contains(['[', ']']), "{text}");
                assert!(!text.chars().any(char::is_control), "{text:?}");
            }
        }
    }
}
