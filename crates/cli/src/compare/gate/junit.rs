//! The cases as JUnit XML, as Jenkins, GitLab and others read it.

use anyhow::Result;
use unstarve_diagnose::compare::gate::{Basis, Case, Gate, Judgement};
use unstarve_term::clean;

/// One test case.
struct TestCase {
    class: String,
    name: String,
    verdict: Judgement,
    text: String,
}

/// A test case for each role and finding; what is undecided is an error, which is no pass. An obstacle is an error unless the verdict is better or same.
pub fn write(gate: &Gate) -> Result<String> {
    let mut cases: Vec<TestCase> = gate.cases.iter().map(of_case).collect();
    let is_passed = matches!(gate.verdict, Judgement::Better | Judgement::Same);
    cases.extend(gate.obstacles.iter().map(|obstacle| TestCase {
        class: "unstarve.recordings".to_owned(),
        name: obstacle.kind.word().to_owned(),
        verdict: if is_passed { Judgement::Same } else { Judgement::Undecided },
        text: format!("{}. To decide: {}.", obstacle.text, obstacle.advice),
    }));
    if cases.is_empty() {
        cases.push(TestCase {
            class: "unstarve.waits".to_owned(),
            name: "waits of all tasks".to_owned(),
            verdict: gate.verdict,
            text: gate.sentence.clone(),
        });
    }
    let count = |verdict: Judgement| cases.iter().filter(|case| case.verdict == verdict).count();
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\"",
        cases.len(),
        count(Judgement::Worse),
        count(Judgement::Undecided)
    );
    let body: String = cases.iter().map(test_case).collect();
    Ok(format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites name=\"unstarve\" {counts}>\n\
         <testsuite name=\"unstarve compare\" {counts} skipped=\"0\" time=\"0\">\n\
         {body}</testsuite>\n</testsuites>\n"
    ))
}

fn of_case(case: &Case) -> TestCase {
    let class = match case.basis {
        Basis::Waits => "unstarve.waits",
        Basis::Finding => "unstarve.findings",
    };
    TestCase { class: class.to_owned(), name: case.headline(), verdict: case.verdict, text: case.sentence.clone() }
}

fn test_case(case: &TestCase) -> String {
    let TestCase { class, name, verdict, text } = case;
    let (name, text) = (xml(name), xml(text));
    let head = format!("<testcase classname=\"{class}\" name=\"{name}\" time=\"0\"");
    let element = match verdict {
        Judgement::Worse => "failure",
        Judgement::Undecided => "error",
        Judgement::Better | Judgement::Same => return format!("{head}/>\n"),
    };
    format!("{head}><{element} type=\"{}\" message=\"{text}\">{text}</{element}></testcase>\n", verdict.word())
}

/// Escaped for XML, in an attribute or an element. Characters that XML cannot have are escaped as on a terminal.
fn xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => escaped.extend(c.escape_default()),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::tests::{HOSTILE_NAMES, gate_about};
    use super::*;

    #[test]
    fn every_case_is_there_with_its_verdict() {
        let text = write(&gate_about("app")).expect("written");
        assert!(text.contains("tests=\"6\" failures=\"2\" errors=\"2\""), "{text}");
        assert!(text.contains("name=\"rt-starvation of app\" time=\"0\"><failure type=\"worse\""), "{text}");
        assert!(text.contains("name=\"wake-storm of app\" time=\"0\"/>"), "{text}");
        assert!(text.contains("classname=\"unstarve.recordings\" name=\"lost-events\" time=\"0\"><error"), "{text}");
    }

    #[test]
    fn what_passes_has_no_error() {
        let mut gate = gate_about("app");
        gate.verdict = Judgement::Same;
        gate.cases.clear();
        let text = write(&gate).expect("written");
        assert!(text.contains("tests=\"1\" failures=\"0\" errors=\"0\""), "{text}");
    }

    #[test]
    fn no_name_is_markup() {
        let marks = |text: &str| [text.matches('<').count(), text.matches('>').count(), text.matches('"').count()];
        let plain = marks(&write(&gate_about("app")).expect("written"));
        for name in HOSTILE_NAMES {
            let text = write(&gate_about(name)).expect("written");
            assert_eq!(marks(&text), plain, "{text}");
            let harmful = text.chars().find(|c| (c.is_control() && *c != '\n') || matches!(c, '\u{fffe}' | '\u{ffff}'));
            assert_eq!(harmful, None, "{text}");
        }
    }
}
