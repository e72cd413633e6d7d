//! Formats an audit as SARIF 2.1.0, for code hosts and CI systems.

use serde_json::{Value, json};

use crate::audit::Audit;
use crate::hit::{FilePosition, Hit, Severity, When};
use crate::rule::RULES;

/// The audit as a SARIF log with one run. Leaves out hits that the upgrade ends: they are not results of the previewed
/// kernel.
pub fn sarif(audit: &Audit, version: &str) -> Value {
    let rules: Vec<Value> = RULES
        .iter()
        .map(|rule| {
            json!({
                "id": rule.id,
                "shortDescription": { "text": format!("{}.", rule.title) },
                "fullDescription": { "text": rule.about },
                "help": { "text": format!("Source: {}", rule.source) },
            })
        })
        .collect();
    let results: Vec<Value> = audit.hits.iter().filter(|hit| hit.holds != Some(When::Now)).map(result).collect();
    let notes: Vec<Value> = audit
        .missing
        .iter()
        .map(|missing| {
            json!({
                "level": "note",
                "message": { "text": format!("not seen: {}: {}", missing.what, missing.why) },
            })
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "unstarve", "version": version, "rules": rules } },
            "invocations": [{ "executionSuccessful": true, "toolExecutionNotifications": notes }],
            "results": results,
        }],
    })
}

fn result(hit: &Hit) -> Value {
    let index = RULES.iter().position(|rule| rule.id == hit.rule);
    let locations: Vec<Value> =
        if hit.places.is_empty() { vec![logical(&hit.subject)] } else { hit.places.iter().map(physical).collect() };
    let mut result = json!({
        "ruleId": hit.rule,
        "level": match hit.severity {
            Severity::Info => "note",
            Severity::Warning => "warning",
            Severity::Critical => "error",
        },
        "message": { "text": message(hit) },
        "locations": locations,
        // The same problem on the same host is the same result in every run.
        "partialFingerprints": { "subject/v1": format!("{}: {}", hit.rule, hit.subject) },
    });
    if let Some(index) = index {
        result["ruleIndex"] = json!(index);
    }
    result
}

fn message(hit: &Hit) -> String {
    let mut parts = vec![hit.sentence.clone()];
    parts.extend(hit.evidence.iter().filter(|line| !line.is_empty()).map(|line| format!("- {line}")));
    if !hit.consequence.is_empty() {
        parts.push(format!("What would happen: {}", hit.consequence));
    }
    for fix in &hit.fixes {
        parts.push(format!("Fix: {}", fix.text));
        if !fix.apply.is_empty() {
            parts.push(format!("  do:   {}", fix.apply));
        }
        if !fix.undo.is_empty() {
            parts.push(format!("  undo: {}", fix.undo));
        }
    }
    parts.join("\n")
}

fn logical(subject: &str) -> Value {
    json!({ "logicalLocations": [{ "name": subject, "kind": "resource" }] })
}

fn physical(place: &FilePosition) -> Value {
    let mut physical = json!({ "artifactLocation": { "uri": file_uri(&place.file) } });
    if let Some(line) = place.line.filter(|&line| line > 0) {
        physical["region"] = json!({ "startLine": line, "snippet": { "text": place.text } });
    }
    json!({ "physicalLocation": physical })
}

/// A path as a URI, percent-encoded: `file://` and one that is absolute; a relative one stays so.
pub fn file_uri(path: &str) -> String {
    let is_absolute = path.starts_with('/');
    let mut uri = String::from(if is_absolute { "file://" } else { "" });
    for byte in path.bytes() {
        // What comes before the first colon of a relative one would be a scheme.
        if byte.is_ascii_alphanumeric() || b"/._-~+@".contains(&byte) || byte == b':' && is_absolute {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_becomes_a_uri() {
        assert_eq!(file_uri("/etc/sysctl.d/90 my%x.conf"), "file:///etc/sysctl.d/90%20my%25x.conf");
        assert_eq!(file_uri("/a:b"), "file:///a:b");
        assert_eq!(file_uri("http:b c.dat"), "http%3Ab%20c.dat");
    }
}
