//! The book shows what the program does: its examples are run, and its pages are made of what is measured and printed.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Fails with what the tool says.
fn run(name: &str, arguments: &[&str]) {
    let Some(python) = unstarve_testing::tool("python3") else { return };
    let done = Command::new(python).arg(root().join(name)).args(arguments).current_dir(root()).output();
    let done = done.expect("python3 can be started");
    let said = [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(done.status.success(), "{said}");
}

/// `UNSTARVE_WRITE=1 cargo test -p unstarve-cli --test integration book` writes the shown output again.
#[test]
fn every_example_of_the_book_does_what_the_page_says() {
    let write = std::env::var_os("UNSTARVE_WRITE").map(|_| "--write");
    let arguments: Vec<&str> = [Some(env!("CARGO_BIN_EXE_unstarve")), write].into_iter().flatten().collect();
    run("tools/book/examples.py", &arguments);
}

#[test]
fn todays_numbers_are_what_the_tables_say() {
    run("tools/numbers.py", if std::env::var_os("UNSTARVE_WRITE").is_some() { &[] } else { &["--check"] });
}

#[test]
fn every_link_of_the_book_leads_somewhere() {
    run("tools/book/preprocess.py", &["--check"]);
}

/// A command without a page, or a page without its options, is found by nobody.
#[test]
fn every_command_has_a_page() {
    let listed =
        Command::new(env!("CARGO_BIN_EXE_unstarve")).args(["generate", "pages"]).output().expect("it can be started");
    let listed = String::from_utf8(listed.stdout).expect("text");
    let commands: Vec<&str> =
        listed.lines().filter_map(|line| line.split('\t').nth(1)?.split_whitespace().next()).collect();
    assert!(commands.len() > 15, "{commands:?}");
    let contents = std::fs::read_to_string(root().join("docs/SUMMARY.md")).expect("the table of contents");
    for command in commands {
        let page = format!("use/{command}.md");
        assert!(contents.contains(&format!("]({page})")), "docs/SUMMARY.md has no {page}");
        let text = std::fs::read_to_string(root().join("docs").join(&page)).expect("the page");
        // The options of `sql` are those of another program.
        assert!(
            command == "sql" || text.contains(&format!("<!-- help: {command} -->")),
            "{page} does not show its options"
        );
    }
}
