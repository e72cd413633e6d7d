//! docs/lab-scenarios.md names every field of a scenario, and its examples are scenarios.

use std::fs;

use unstarve_lab::scenario::Scenario;

const LOAD: &str = "[[load]]\nargv = [\"load\"]\n";

fn reference() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lab-scenarios.md");
    fs::read_to_string(path).expect("the reference")
}

/// What the reader says that it knows where an unknown name stands.
fn known_in(text: &str) -> Vec<String> {
    let message = Scenario::parse("x.toml", text).expect_err("an unknown name").to_string();
    let (_, names) = message.split_once("expected ").unwrap_or_else(|| panic!("{message}"));
    let names: Vec<String> = names.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let end = names.iter().position(|name| name.contains("unheard")).unwrap_or(names.len());
    names[..end].to_vec()
}

/// The part of the reference from a heading to the next, by the heading's beginning.
fn section(heading: &str) -> String {
    let reference = reference();
    let at = reference.find(heading).unwrap_or_else(|| panic!("no `{heading}`"));
    let rest = &reference[at + heading.len()..];
    rest[..rest.find("\n## ").unwrap_or(rest.len())].to_owned()
}

fn assert_named(heading: &str, names: &[String]) {
    let section = section(heading);
    assert!(!names.is_empty(), "nothing is known in `{heading}`");
    for name in names {
        assert!(section.contains(&format!("`{name}`")), "`{heading}` of docs/lab-scenarios.md does not name `{name}`");
    }
}

#[test]
fn every_field_is_in_the_reference() {
    let with = |text: &str| format!("{LOAD}{text}");
    assert_named("## The scenario", &known_in(&format!("unheard = 1\n{LOAD}")));
    assert_named("## Loads", &known_in(&with("unheard = 1\n")));
    assert_named("## Files", &known_in(&with("[[file]]\nunheard = 1\n")));
    assert_named("## Settings", &known_in(&with("[[knob]]\nunheard = 1\n")));
    assert_named("## Remedies", &known_in(&with("[[remedy]]\nunheard = 1\n")));
    assert_named("## What is to be found", &known_in(&with("[expect]\nunheard = 1\n")));
    assert_named("## What is to be found", &known_in(&with("[expect]\nall = [{ unheard = 1 }]\n")));
    let actions = known_in(&format!("setup = [{{ unheard = {{}} }}]\n{LOAD}"));
    assert_named("## Steps", &actions);
    assert!(actions.len() >= 8, "{actions:?}");
    for action in actions {
        assert_named("## Steps", &known_in(&format!("setup = [{{ {action} = {{ unheard = 1 }} }}]\n{LOAD}")));
    }
}

#[test]
fn its_examples_are_scenarios() {
    let reference = reference();
    let examples: Vec<&str> =
        reference.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(examples.len(), 2);
    for example in examples {
        Scenario::parse("example.toml", example).unwrap_or_else(|error| panic!("{error}\n{example}"));
    }
}
